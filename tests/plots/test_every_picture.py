"""What holds for all public picture functions: where they draw, and what they return."""

import inspect

import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mha_course import plots
from mha_course.experiments import model_sizes

ONE_PANEL = {
    "bars": lambda ax: plots.bars([1, 2], ["it", "cat"], ax=ax),
    "cache_sizes": lambda ax: plots.cache_sizes(model_sizes.MODELS[:1], [1024], ax=ax),
    "cross_attention": lambda ax: plots.cross_attention(2, 3, ax=ax),
    "curves": lambda ax: plots.curves([1, 2], {"a": [1, 2]}, xlabel="x", ylabel="y", ax=ax),
    "heatmap": lambda ax: plots.heatmap(torch.eye(2), ax=ax),
    "learning_curves": lambda ax: plots.learning_curves({"a": [1.0] * 20}, ax=ax),
    "pipeline": lambda ax: plots.pipeline(ax=ax),
    "plane": lambda ax: plots.plane(torch.eye(2), torch.full((2, 2), 0.5), "ab", ax=ax),
    "product": lambda ax: plots.product(*(plots.Matrix("x", 3, 3, ("T", "S")),) * 3, ax=ax),
    "r2_by_head_width": lambda ax: plots.r2_by_head_width({1: [1.0], 2: [0.9]}, 32, ax=ax),
    "recomputation": lambda ax: plots.recomputation(ax=ax),
    "rope_pairs": lambda ax: plots.rope_pairs(4, ax=ax),
    "tiles": lambda ax: plots.tiles(4, 4, 2, ax=ax),
}


def returning(kind):
    """Name the public functions whose annotation says that they return this."""
    functions = {name: getattr(plots, name) for name in plots.__all__ if inspect.isfunction(getattr(plots, name))}
    return {name for name, fn in functions.items() if inspect.signature(fn, eval_str=True).return_annotation is kind}


def test_examples_are_of_all_functions_that_draw_one_panel():
    assert set(ONE_PANEL) == returning(Axes)
    assert len(returning(Figure) - {"new_figure"}) > 10


@pytest.mark.parametrize("name", ONE_PANEL)
def test_a_panel_is_drawn_where_the_caller_wants_it(name):
    figure, (left, right) = plt.subplots(1, 2)
    assert ONE_PANEL[name](right) is right
    assert plt.get_fignums() == [figure.number]
    assert not left.has_data()
    assert plots.png(figure).startswith(b"\x89PNG")
    ax = ONE_PANEL[name](None)  # without a place a figure is made
    assert plt.get_fignums() == [ax.figure.number]


def test_names_are_no_mathematics():
    words = ["$x^$", "a_$b$"]
    for picture in (
        plots.plane(torch.eye(2), torch.full((2, 2), 0.5), words),
        plots.number_tables({"t": torch.eye(2)}, words, words),
        plots.head_rows({"layer 0": torch.eye(2)[None]}, words),
    ):
        assert plots.png(picture).startswith(b"\x89PNG")  # drawing it is where mathtext would raise


def test_the_frame_of_a_plane_grows_with_its_arrows():
    for length in (0.01, 1.0, 300.0):
        points = torch.tensor([[1.0, 0.0], [0.0, -1.0]]) * length
        ax = plots.plane(points, points.flip(0) / 2, ["a", "b"])
        (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
        assert left < 0 < length < right < 2 * length
        assert -2 * length < bottom < -length < 0 <= top
