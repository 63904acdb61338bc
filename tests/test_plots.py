"""Pictures say what they were given, escape nothing wrongly, and refuse what does not fit."""

import base64

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.axes import Axes

from mha_course import charts, diagrams, plots
from mha_course.errors import ShapeError
from mha_course.masks import causal_mask

WORDS = ["the", "grey", "cat", "it", "<b>ate</b>"]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def cells(ax):
    return ax.collections[0].get_array()


@pytest.mark.parametrize(
    "make",
    [lambda t: t, lambda t: t[None, None], lambda t: t.half(), lambda t: t.bfloat16(), lambda t: t.numpy(),
     lambda t: t.tolist(), lambda t: t.requires_grad_()],
)  # fmt: skip
def test_heatmap_takes_numbers_in_any_form(make):
    weights = torch.rand(5, 7, generator=torch.Generator().manual_seed(0)).softmax(-1)
    ax = plots.heatmap(make(weights.clone()), title="one head")
    assert isinstance(ax, Axes)
    assert np.allclose(cells(ax).reshape(5, 7), weights, atol=2e-3)
    assert ax.get_title(loc="left") == "one head"


def test_names_stand_where_they_belong(device):
    weights = torch.rand(5, 5).to(device)
    ax = plots.heatmap(weights, queries=WORDS)
    assert [label.get_text() for label in ax.get_yticklabels()] == WORDS
    assert [label.get_text() for label in ax.get_xticklabels()] == WORDS
    ax = plots.heatmap(weights[:2], queries=WORDS[:2], keys=WORDS)
    assert [label.get_text() for label in ax.get_yticklabels()] == WORDS[:2]
    assert [label.get_text() for label in plots.heatmap(weights[:2]).get_xticklabels()] == list("01234")


def test_a_dollar_in_a_word_is_a_dollar():
    words = ["$x^$", "$5", "a_$b$"]
    ax = plots.heatmap(np.eye(3), queries=words)
    bars = charts.token_bars({"each": [1, 2, 3]}, words).axes[0]
    for axes in (ax, bars):
        assert [label.get_text() for label in axes.get_yticklabels()] == words
        assert plots.png(axes)  # drawing it is where mathtext would raise
    assert plots.strongest(np.eye(3), words) == "$x^$ → $x^$ 1.00, $5 → $5 1.00, a_$b$ → a_$b$ 1.00"


def test_hidden_cells_are_hatched_and_zero_is_not():
    weights = torch.zeros(5, 5)
    ax = plots.heatmap(weights, mask=causal_mask(5))
    hidden = np.ma.getmaskarray(cells(ax)).reshape(5, 5)
    assert np.array_equal(hidden, ~causal_mask(5).numpy())
    assert ax.patch.get_hatch()
    assert len(ax.texts) == 15  # numbers in the cells that are seen


def test_colours_have_a_sign_only_where_numbers_do():
    assert plots.heatmap([[0.1, 0.4]]).collections[0].get_clim() == (0, 0.4)
    assert plots.heatmap([[-0.1, 0.4]]).collections[0].get_clim() == (-0.4, 0.4)
    assert plots.heatmap([[0.0, 0.0]]).collections[0].get_clim() == (0, 1)


def test_numbers_are_written_up_to_eight_columns_or_when_wanted():
    assert len(plots.heatmap(np.ones((2, 8))).texts) == 16
    assert not plots.heatmap(np.ones((2, 9))).texts
    assert len(plots.heatmap(np.ones((2, 9)), annotate=True).texts) == 18


def test_it_draws_where_it_is_told():
    ax = plt.subplots()[1]
    assert plots.heatmap(np.ones((2, 2)), ax=ax) is ax


@pytest.mark.parametrize("heads", [1, 2, 4, 6, 12])
def test_head_grid_shows_every_head_on_one_scale(heads):
    weights = torch.rand(heads, 5, 7).softmax(-1)
    figure = plots.head_grid(weights[None], mask=torch.ones(5, 7, dtype=torch.bool))
    *panels, bar = figure.axes
    assert [ax.get_title(loc="left") for ax in panels] == [f"head {h}" for h in range(heads)]
    for ax, head in zip(panels, weights, strict=True):
        assert np.allclose(cells(ax).reshape(5, 7), head)
        assert ax.collections[0].get_clim() == (0, 1)
    assert bar.get_ylabel() == "weight"


@pytest.mark.parametrize(
    ("draw_it", "message"),
    [
        (lambda: plots.heatmap(np.ones((5, 5)), queries=WORDS[:4]),
         "heatmap: queries must name every row. expected 5 names, got 4 names"),
        (lambda: plots.heatmap(np.ones((5, 7)), keys=WORDS),
         "heatmap: keys must name every column. expected 7 names, got 5 names"),
        (lambda: plots.heatmap(np.ones((2, 4, 5, 5))),
         "heatmap: weights must have 2 axes. expected (T, S), none of them 0, got (2, 4, 5, 5)"),
        (lambda: plots.heatmap(np.ones((4, 5, 5))),
         "heatmap: weights must have 2 axes. expected (T, S), none of them 0, got (4, 5, 5), "
         "fix: weights[0], one sentence"),
        (lambda: plots.heatmap(np.ones((0, 0))),
         "heatmap: weights must have 2 axes. expected (T, S), none of them 0, got (0, 0)"),
        (lambda: plots.head_grid(np.ones((2, 4, 5, 5))),
         "head_grid: weights must have 3 axes. expected (H, T, S), none of them 0, got (2, 4, 5, 5), "
         "fix: weights[0], one sentence"),
        (lambda: plots.heatmap(np.ones((5, 5)), mask=np.ones((4, 4), dtype=bool)),
         "heatmap: mask must be bool, True = may attend. expected bool, broadcastable to (5, 5), got bool (4, 4)"),
        (lambda: plots.heatmap(np.ones((5, 5)), mask=torch.ones(5, 5)),
         "heatmap: mask must be bool, True = may attend. expected bool, broadcastable to (5, 5), got float32 (5, 5)"),
        (lambda: diagrams.pipeline("hope"),
         "pipeline: lit must name steps. expected projection, head splitting, scaling, softmax, weighted sum, "
         "concatenation, got hope"),
        (lambda: diagrams.product(*(diagrams.Block("x", 2, 3, ("S", "C")),) * 3),
         "product: the sizes must fit. expected (2, n) · (n, 3) = (2, 3), got (2, 3) (2, 3) (2, 3)"),
        (lambda: charts.token_bars({"one": [1, 2]}, WORDS),
         "token_bars: queries must name every row. expected 2 names, got 5 names"),
    ],
)  # fmt: skip
def test_what_does_not_fit_gets_one_message(draw_it, message):
    with pytest.raises(ShapeError) as caught:
        draw_it()
    assert str(caught.value) == message


def test_words_for_a_heatmap():
    assert plots.strongest([[0.9, 0.1], [0.3, 0.7]], ["it", "sat"]) == "it → it 0.90, sat → sat 0.70"
    assert plots.strongest([[0.2, 0.5, 0.3]], ["it"], ["a", "b", "c"]) == "it → b 0.50"


def test_bars_show_each_panel_and_light_the_chosen():
    figure = charts.token_bars({"before": torch.tensor([1.0, -2.0]), "after": [0, 3]}, ["it", "cat"], highlight=["cat"])
    widths = [[bar.get_width() for bar in ax.patches] for ax in figure.axes]
    assert widths == [[1, -2], [0, 3]]
    colours = {bar.get_facecolor() for bar in figure.axes[0].patches}
    assert len(colours) == 2


def test_steps_are_lit_by_name():
    colours = [patch.get_facecolor() for patch in diagrams.pipeline("scaling").patches]
    assert [colour == colours[2] for colour in colours] == [False, False, True, False, False, False]
    assert [patch.get_facecolor() for patch in diagrams.pipeline().patches] == [colours[2]] * 6


def test_showing_gives_alt_text_and_prints_it(monkeypatch, capsys):
    shown = []
    monkeypatch.setattr(plots, "display", lambda bundle, metadata, raw: shown.append((bundle, metadata)))
    text = "One sentence that says what the picture shows, long enough that it has to be broken into two lines."
    plots.show(plots.heatmap(np.ones((2, 2))), text)
    ((bundle, metadata),) = shown
    assert base64.b64decode(bundle["image/png"])[1:4] == b"PNG"
    assert bundle["text/plain"] == f"Picture: {text}"
    assert metadata["image/png"]["alt"] == text
    printed = capsys.readouterr().out
    assert " ".join(printed.split()) == text
    assert max(map(len, printed.splitlines())) <= plots.LINE
    assert not plt.get_fignums()


def test_a_mixture_is_drawn_among_its_points():
    points = torch.tensor([[1.0, 0.0], [2.0, 1.0], [0.0, 2.0]])
    ax = diagrams.plane(points, points.flip(0), "abc")
    assert {text.get_text() for text in ax.texts} >= {"a", "b", "c", "context of a"}
