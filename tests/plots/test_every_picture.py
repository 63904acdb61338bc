"""What holds for all public picture functions: where they draw, and what they return."""

import inspect
import itertools

import lessons
import matplotlib.pyplot as plt
import pytest
import torch
from labs import LABS
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.transforms import Affine2D
from widget_cases import make

from mha_course import plots
from mha_course.attention import MultiHeadAttention
from mha_course.example import SENTENCE
from mha_course.lessons.l05_weighted_sum.pictures import weighted_sum
from mha_course.lessons.l07_multi_head_attention.scene.static import attention_scene
from mha_course.lessons.l09_cross_attention.pictures import alignment
from mha_course.lessons.l10_positions.pictures import encoding_waves, rope_pairs
from mha_course.lessons.l11_kv_cache.pictures import decoding_step
from mha_course.lessons.l12_flash_attention.pictures import (
    memory_traffic,
    online_softmax,
    to_scale,
)
from mha_course.lessons.l13_encoder_block.pictures import block_readings, block_wirings, norm_groups
from mha_course.lessons.l14_vision.overlays import attention_overlay, image_grid, patches
from mha_course.lessons.l19_bug_hunt.pictures import runs, small_curves
from mha_course.masks import causal_mask
from mha_course.plots import figures
from mha_course.plots.inputs import numbered
from mha_course.positions import sinusoidal_encoding

WORDS = SENTENCE.split()
MATRICES = (
    plots.Matrix("q", 5, 6, ("T", "D")),
    plots.Matrix("kᵀ", 6, 7, ("D", "S")),
    plots.Matrix("scores", 5, 7, ("T", "S")),
)
ONE_PANEL = {
    "bars": lambda ax: plots.bars([1, 2], ["it", "cat"], ax=ax),
    "curves": lambda ax: plots.curves([1, 2], {"a": [1, 2]}, xlabel="x", ylabel="y", ax=ax),
    "heatmap": lambda ax: plots.heatmap(torch.eye(15), queries=WORDS, title="head 1", ax=ax),
    "pipeline": lambda ax: plots.pipeline(ax=ax),
    "product": lambda ax: plots.product(*MATRICES, ax=ax),
    "rope_pairs": lambda ax: rope_pairs(6, ax=ax),
    "to_scale": lambda ax: to_scale(2048, 128, 128, ax=ax),
}

HEADS = torch.rand(4, 15, 15, generator=torch.Generator().manual_seed(0)).softmax(-1)
X = torch.randn(1, 15, 48, generator=torch.Generator().manual_seed(0))
STAGES = {
    name: tensor[0].numpy()
    for name, tensor in vars(MultiHeadAttention(48, 4).requires_grad_(False).steps(X)).items()
}
SEVERAL = {
    "alignment": lambda: alignment(["the", "old", "fox"], ["foxu", "oldem"], (2, 1)),
    "attention_scene": lambda: attention_scene(STAGES, WORDS, head=1, follow=12),
    "attention_overlay": lambda: attention_overlay(
        X[0, :12].view(3, 12, 16).sigmoid(), {"a": torch.ones(12)}, (3, 4)
    ),
    "block_readings": lambda: block_readings([{"it": 0.07, "they": 0.5}] * 3),
    "block_wirings": block_wirings,
    "decoding_step": lambda: decoding_step(X[0, 14], X[0], X[0], HEADS[0, 0], WORDS),
    "encoding_waves": lambda: encoding_waves(sinusoidal_encoding(64, 24), (0, 4, 8, 16)),
    "head_grid": lambda: plots.head_grid(HEADS, queries=WORDS),
    "heatmap_row": lambda: plots.heatmap_row(
        {"computed": HEADS[0], "the same context": HEADS[1]}, WORDS
    ),
    "image_grid": lambda: image_grid({f"{n}: different": torch.rand(3, 20, 28) for n in range(8)}),
    "heatmap_tables": lambda: plots.heatmap_tables(
        {"trained": HEADS[:, :7, 7], "not": HEADS[:, :7, 8]}, WORDS[:4], WORDS[:7], group=4
    ),
    "line_panels": lambda: plots.line_panels(
        *[plots.Lines("gradient", "layers", [1, 2], {"a": [1, 2], "b": [2, 1]})] * 2
    ),
    "mask_grids": lambda: plots.mask_grids(
        *[plots.MaskGrid("causal (S, S)", causal_mask(7), WORDS[:7], WORDS[:7])] * 2, signs=["and"]
    ),
    "memory_traffic": memory_traffic,
    "norm_groups": lambda: norm_groups(
        {"dim=-1: layer norm": (2,), "dim=1": (1,), "dim=0": (0,)}, (2, 5, 8)
    ),
    "online_softmax": lambda: online_softmax(
        torch.tensor([0.5, 1.0, -0.4, 0.2, 1.8, 3.0, 0.7, -1.0, 2.2, 0.1, 2.6]), 4
    ),
    "patches": lambda: patches(torch.rand(3, 20, 28), 4),
    "runs": lambda: runs(
        {f"way {n}": {"right": [1, 1.1, n], "case 1": [2, None, None]} for n in range(1, 4)},
        "right",
    ),
    "small_curves": lambda: small_curves(
        {f"case {n}": [3, 2, n / 6] for n in range(6)}, [1, 2, 3], [3, 2, 1]
    ),
    "token_bars": lambda: plots.token_bars(
        {f"weights of head {n}": HEADS[n, 0] for n in range(3)}, WORDS, unit="weight"
    ),
    "weighted_sum": lambda: weighted_sum(HEADS[0, 0], X[0, :, :12], WORDS),
}


def returning(kind):
    """Name the public functions whose annotation says that they return this."""
    functions = {
        name: getattr(plots, name)
        for name in plots.__all__
        if inspect.isfunction(getattr(plots, name))
    }
    for module in lessons.modules_named("pictures", "overlays", "static"):
        functions |= {
            name: fn
            for name, fn in inspect.getmembers(module, inspect.isfunction)
            if fn.__module__ == module.__name__ and not name.startswith("_")
        }
    return {
        name
        for name, fn in functions.items()
        if inspect.signature(fn, eval_str=True).return_annotation is kind
    }


def test_examples_are_of_all_functions_that_draw_one_panel():
    assert set(ONE_PANEL) == returning(Axes)
    assert set(SEVERAL) == returning(Figure) - {"new_figure"}


@pytest.mark.parametrize("name", ONE_PANEL)
def test_a_panel_is_drawn_where_the_caller_wants_it(name):
    figure, (left, right) = plt.subplots(1, 2)
    assert ONE_PANEL[name](right) is right
    assert plt.get_fignums() == [figure.number]
    assert not left.has_data()
    assert plots.svg(figure).startswith(b"<svg")
    ax = ONE_PANEL[name](None)  # without a place a figure is made
    assert plt.get_fignums() == [ax.figure.number]


def written(figure, monkeypatch):
    """Draw a figure; return its texts, each with the outline of its letters."""
    drawn, draw = {}, Text.draw
    monkeypatch.setattr(
        Text, "draw", lambda text, *given: (drawn.update({id(text): text}), draw(text, *given))[1]
    )
    figure.canvas.draw()
    for text in drawn.values():
        if text.get_visible() and text.get_text().strip():
            box, angle = text.get_window_extent(), text.get_rotation()
            text.set_rotation(0)
            flat = text.get_window_extent()
            text.set_rotation(angle)
            # without the room above and below letters
            width, height = (0.96 * flat.width, 0.7 * flat.height)
            corners = [(-width, -height), (width, -height), (width, height), (-width, height)]
            turned = (
                Affine2D()
                .scale(0.5)
                .rotate_deg(angle)
                .translate((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2)
            )
            yield text, Path(turned.transform([*corners, corners[0]]))


@pytest.mark.parametrize("name", [*ONE_PANEL, *SEVERAL, *LABS])
def test_type_has_four_sizes_and_words_keep_apart(name, monkeypatch):
    if name in LABS:
        picture = make(name).picture()
    else:
        picture = ONE_PANEL[name](None) if name in ONE_PANEL else SEVERAL[name]()
    figure = picture.figure if isinstance(picture, Axes) else picture
    assert figure.get_figwidth() <= 11
    texts = list(written(figure, monkeypatch))
    sizes = {text.get_fontsize() for text, _ in texts}
    assert sizes <= {figures.SMALL, figures.TEXT, figures.TITLE, figures.LARGE}
    assert min(sizes) / 72 * 92 >= 11  # an inch on a page has 92 pixels
    for (one, place), (other, elsewhere) in itertools.combinations(texts, 2):
        assert not place.intersects_path(elsewhere), (one.get_text(), other.get_text())


def test_names_are_no_mathematics():
    words = ["$x^$", "a_$b$"]
    for picture in (
        weighted_sum(torch.ones(2), torch.eye(2), words),
        plots.heatmap_tables({"t": torch.eye(2)}, words, words),
        plots.head_grid(torch.eye(2)[None], queries=words),
        plots.heatmap(torch.eye(2), queries=words),
        plots.token_bars({"each": [1, 2]}, words),
    ):
        assert plots.svg(picture).startswith(b"<svg")  # drawing it is where mathtext would raise


def test_two_rows_of_heatmaps_name_every_word_and_share_a_scale():
    figure = plots.heatmap_row(
        {f"head {n}": HEADS[n] * (n + 1) for n in range(4)}, WORDS, mask={"head 0": causal_mask(15)}
    )
    *panels, scale = figure.axes
    for ax in panels:
        assert [name.get_text() for name in ax.get_xticklabels()] == numbered(WORDS)
        assert [name.get_text() for name in ax.get_yticklabels()] == numbered(WORDS)
    (limits,) = {ax.collections[0].get_clim() for ax in panels}
    assert limits == pytest.approx((0, float(HEADS[3].max() * 4)))
    assert [int(ax.collections[0].get_array().mask.sum()) for ax in panels] == [105, 0, 0, 0]
    assert scale.get_ylabel() == "weight"


def test_tables_have_all_their_numbers_and_the_names_of_their_rows_in_full():
    numbers = torch.tensor([[-0.004] + [0.5] * 8, [2.0] * 9])
    rows, columns = ["the same places, no repetition", "b"], [f"L0 H{n}" for n in range(9)]
    *axes, scale = plots.heatmap_tables(
        {"one": numbers, "other": -numbers}, rows, columns, group=4, unit="times"
    ).axes
    assert [text.get_text() for text in axes[0].texts] == ["0.00"] + ["0.50"] * 8 + ["2.00"] * 9
    for ax in axes:
        assert [name.get_text() for name in ax.get_yticklabels()] == rows
        assert [name.get_text() for name in ax.get_xticklabels()] == columns
        assert [line.get_xdata()[0] for line in ax.lines] == [4, 8]
        assert ax.collections[0].get_clim() == (-2, 2)
    assert scale.get_ylabel() == "times"
