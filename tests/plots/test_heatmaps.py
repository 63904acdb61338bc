"""Pictures say what they were given, escape nothing wrongly, and refuse what does not fit."""

import itertools

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.text import Text
from rewriting import refused

from mha_course import plots
from mha_course.masks import causal_mask
from mha_course.plots import figures, heatmaps

WORDS = ["the", "grey", "cat", "it", "<b>ate</b>"]


def cells(ax):
    return ax.collections[0].get_array()


def test_names_stand_where_they_belong(device):
    weights = torch.rand(5, 5).to(device)
    ax = plots.heatmap(weights, queries=WORDS)
    assert [label.get_text() for label in ax.get_yticklabels()] == WORDS
    assert [label.get_text() for label in ax.get_xticklabels()] == WORDS
    ax = plots.heatmap(weights[:2], queries=WORDS[:2], keys=WORDS)
    assert [label.get_text() for label in ax.get_yticklabels()] == WORDS[:2]
    ax = plots.heatmap(weights[:2], title="one head")
    assert [label.get_text() for label in ax.get_xticklabels()] == list("01234")
    assert ax.get_title(loc="left") == "one head"
    assert np.allclose(cells(ax).reshape(2, 5), weights[:2].cpu())
    assert ax.collections[0].get_clim() == pytest.approx((0, float(weights[:2].max())))


@pytest.mark.parametrize(
    ("columns", "annotate", "count"), [(8, None, 16), (9, None, 0), (9, True, 18)]
)
def test_numbers_are_written_up_to_eight_columns_or_when_wanted(columns, annotate, count):
    assert len(plots.heatmap(np.ones((2, columns)), annotate=annotate).texts) == count
    assert len(plots.heatmap(torch.zeros(5, 5), mask=causal_mask(5)).texts) == 15


@pytest.mark.parametrize("heads", [1, 4, 12])
def test_head_grid_shows_every_head_on_one_scale(heads):
    weights = torch.rand(heads, 5, 7).softmax(-1)
    *panels, bar = plots.head_grid(weights[None], mask=torch.ones(5, 7, dtype=torch.bool)).axes
    assert [ax.get_title(loc="left") for ax in panels] == [f"head {h}" for h in range(heads)]
    for ax, head in zip(panels, weights, strict=True):
        assert np.allclose(cells(ax).reshape(5, 7), head)
        assert ax.collections[0].get_clim() == (0, 1)
    assert bar.get_ylabel() == "weight"
    *_, bar = plots.head_grid([[[0.0] * 3], [[float("nan"), -0.5, 0.1]]]).axes
    assert bar.get_ylabel() == "value (× is not a finite number)"


def texts(figure):
    """Return each visible text of a figure that was laid out, with its position."""
    FigureCanvasAgg(figure).draw()
    found = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    axes = [axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis) if not axis.get_visible()]
    gone = {text for axis in axes for text in axis.findobj(Text)}
    return [(text, text.get_window_extent()) for text in found if text not in gone]


NAMES = ["it", "antidisestablishmentarianism", "MMMMMMMMMMMM", "grey"] * 256
PICTURES = {
    "heatmap": lambda n: plots.heatmap(np.eye(n), queries=NAMES[:n]).figure,
    "twelve heads": lambda n: plots.head_grid(np.stack([np.eye(n)] * 12), queries=NAMES[:n]),
    "a row": lambda n: plots.head_grid(np.ones((3, 1, n)), queries=["it"], keys=NAMES[:n]),
    "a column": lambda n: plots.head_grid(np.ones((3, n, 1)), queries=NAMES[:n], keys=["it"]),
}


def lines_apart(ax, axis):
    """Return how far apart the names along an axis are, in heights of their letters."""
    places = [(place, 0) if axis is ax.xaxis else (0, place) for place in axis.get_ticklocs()]
    across = 0 if axis is ax.xaxis else 1
    turned = np.sin(np.radians(heatmaps.SLANT)) if axis is ax.xaxis else 1
    steps = np.abs(np.diff(ax.transData.transform(places)[:, across])) * turned
    return steps / ax.figure.dpi * 72 / axis.get_ticklabels()[0].get_size()


@pytest.mark.parametrize(
    ("picture", "number"), [*itertools.product(PICTURES, [1, 15, 256]), ("heatmap", 1024)]
)
def test_names_are_legible_at_any_length(picture, number):
    figure = PICTURES[picture](number)
    found = texts(figure)
    named = [
        (ax, axis) for ax in figure.axes[:-1] for axis in (ax.xaxis, ax.yaxis) if axis.get_visible()
    ]
    for ax, axis in named:
        assert all(
            name.get_size() == figures.SMALL and len(name.get_text()) <= 14
            for name in axis.get_ticklabels()
        )
        assert min(lines_apart(ax, axis), default=2) >= 1.15
    assert max(len(axis.get_ticklabels()) for _, axis in named) > min(number - 1, 5)
    for _, box in found:
        assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 <= box.y1 <= figure.bbox.y1


def test_long_and_odd_names_are_shortened_and_shown_as_they_are():
    names = ["<script>", "antidisestablishmentarianism", "a\nb", "😀", "漢字", "\x07", "", "ok"]
    ax = plots.heatmap(np.eye(8), queries=names)
    shown = [label.get_text() for label in ax.get_yticklabels()]
    assert shown == ["<script>", "antidisestabl…", "a⏎b", "😀", "漢字", "�", "ok"]
    assert plots.svg(ax)  # letters that the font lacks give no warning


@pytest.mark.parametrize("title", ["w" * 500, "word " * 100])
@pytest.mark.parametrize("size", [2, 15])
def test_a_long_title_leaves_the_picture_its_space(title, size):
    """No UserWarning either: all warnings are errors here."""
    without, ax = plots.heatmap(np.eye(size)), plots.heatmap(np.eye(size), title=title)
    for one in (without, ax):
        one.figure.canvas.draw()
    assert ax.get_window_extent().width > 0.6 * without.get_window_extent().width


def test_what_is_punctuation_is_quoted_among_the_strongest():
    words = ["it", ",", "<mask>", "“", "c\u202e\nat"]
    shown = ["it", "“,”", "<mask>", "““”", "c�⏎at"]
    assert plots.strongest(np.eye(5), words) == ", ".join(f"{word} → {word} 1.00" for word in shown)
    assert plots.strongest([[0.2, 0.5, 0.3]], ["it"], ["$x^$", "$5", "a_$b$"]) == "it → $5 0.50"
    assert plots.strongest([[1.0]], ["שלום"]) == "\u2068שלום\u2069 → \u2068שלום\u2069 1.00"


def test_hidden_zero_and_no_number_look_different():
    weights = np.array([[0.0, 0.0, np.nan], [1.0, -np.inf, np.inf], [0.5, 0.5, 0.5]])
    mask = np.array([[True, False, True]] + [[True] * 3] * 2)
    ax = plots.heatmap(weights, mask=mask, annotate=False)
    ax.figure.canvas.draw()
    assert [text.get_text() for text in ax.texts] == ["NaN", "∞"]
    drawn, odd = (part.get_facecolor().reshape(3, 3, 4) for part in ax.collections[:4:3])
    assert drawn[..., 3].tolist() == [[1, 0, 0], [1, 0, 0], [1, 1, 1]]  # else the hatching is seen
    assert odd[..., 3].tolist() == [[0, 0, 1], [0, 0, 1], [0, 0, 0]]
    assert ax.patch.get_hatch()
    assert to_hex(drawn[0, 0]) == "#00224e"
    assert to_hex(odd[0, 2]) == to_hex(odd[1, 2]) == "#ffffff"


def test_a_grid_of_more_tokens_is_not_made_of_more_parts(draw):
    """Each part that matplotlib draws separately takes time: a patch for each cell took minutes."""

    def parts(tokens):
        weights = draw(12, tokens, tokens).softmax(-1)
        grid = plots.head_grid(weights, queries=["word"] * tokens, mask=causal_mask(tokens))
        return len(grid.findobj(lambda part: part.get_visible()))

    assert parts(512) < 2 * parts(16)


@pytest.mark.parametrize(
    ("draw_it", "message"),
    [
        (lambda: plots.heatmap(np.ones((5, 5)), queries=WORDS[:4]),
         "heatmap: queries must name every row. expected 5 names, got 4 names"),
        (lambda: plots.heatmap(np.ones((5, 7)), keys=WORDS),
         "heatmap: keys must name every column. expected 7 names, got 5 names"),
        (lambda: plots.heatmap(np.ones((0, 0))),
         "heatmap: weights must have 2 axes. expected (T, S), none of them 0, got (0, 0)"),
        (lambda: plots.head_grid(np.ones((2, 4, 5, 5))),
         "head_grid: weights must have 3 axes. expected (H, T, S), none of them 0, got (2, 4, 5, "
         "5), fix: weights[0]"),
        (lambda: plots.heatmap(np.ones((5, 5)), mask=np.ones((4, 4), dtype=bool)),
         "heatmap: mask must be bool, True = may attend. expected bool, broadcastable to (5, 5), "
         "got bool (4, 4)"),
        (lambda: plots.heatmap(np.ones((5, 5)), mask=torch.ones(5, 5)),
         "heatmap: mask must be bool, True = may attend. expected bool, broadcastable to (5, 5), "
         "got float32 (5, 5)"),
        (lambda: plots.token_bars({"one": [1, 2]}, WORDS),
         "bars: queries must name every row. expected 2 names, got 5 names"),
    ],
)  # fmt: skip
def test_what_does_not_fit_gets_one_message(draw_it, message):
    refused(draw_it, message)


def test_bars_show_each_panel_and_light_the_chosen():
    rows, words = {"before": torch.tensor([1.0, -2.0]), "after": [0, 3]}, ["it", "cat"]
    figure = plots.token_bars(rows, words, highlight=["cat"], unit="nats")
    assert [ax.get_xlabel() for ax in figure.axes] == ["nats", "nats"]
    assert len({ax.get_xlim() for ax in figure.axes}) == 2
    assert len({ax.get_xlim() for ax in plots.token_bars(rows, words, shared=True).axes}) == 1
    assert [[bar.get_width() for bar in ax.patches] for ax in figure.axes] == [[1, -2], [0, 3]]
    assert len({bar.get_facecolor() for bar in figure.axes[0].patches}) == 2
