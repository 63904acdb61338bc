"""One rule for the colours of a matrix: the same numbers always get the same limits."""

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

from mha_course import plots
from mha_course.plots.scales import BOOL, WEIGHTS, palettes, scale_of
from mha_course.widgets import HeadExplorer
from mha_course.widgets.labs import static
from mha_course.widgets.labs.panels import matrix

NAMES = ["it", "sat"]
CASES = {
    "weights": ([[0.25, 0.75], [0.0, 1.0]], ("weights", 0, 1)),
    "weights that are small": ([[0.01, 0.02], [0.0, 0.03]], ("weights", 0, 1)),
    "half precision": ([[1.015625, 0.0], [0.5, 0.5]], ("weights", 0, 1)),
    "a little more is no weight": ([[1.03125, 0.0], [0.5, 0.5]], ("plain", 0, 1.03125)),
    "plain": ([[0.0, 0.5], [2.0, 3.0]], ("plain", 0, 3)),
    "signed": ([[-0.5, 0.25], [0.0, 0.125]], ("signed", -0.5, 0.5)),
    "odd": ([[float("nan"), float("inf")], [0.5, 0.5]], ("weights", 0, 1)),
}


def limits(ax):
    return ax.collections[0].get_clim()


@pytest.mark.parametrize(("given", "expected"), CASES.values(), ids=CASES)
def test_every_picture_of_the_same_numbers_has_the_same_limits(given, expected):
    numbers = torch.tensor([given, given]).half()
    kind, *ends = expected
    assert scale_of(numbers.numpy()) == expected
    explorer = HeadExplorer(numbers, queries=NAMES)
    sent = explorer.state["scale"]
    assert (sent["kind"], sent["low"], sent["high"]) == expected
    picture = explorer.picture()
    assert (type(picture).__name__ == "Figure") == (kind == "weights")  # all heads, or only one
    assert limits(picture.axes[0] if kind == "weights" else picture) == tuple(ends)
    assert limits(plots.head_grid(numbers).axes[0]) == tuple(ends)
    panel = matrix("the numbers", NAMES, NAMES, numbers[0])
    if kind != "odd" and np.isfinite(given).all():
        assert panel["scale"] == sent
    (ax,) = static.figure("?", [panel]).axes
    assert limits(ax) == (panel["scale"]["low"], panel["scale"]["high"]) == tuple(ends)
    if kind != "weights":  # alone, weights reach to the largest
        assert limits(plots.heatmap(numbers[0])) == tuple(ends)


def test_what_is_hidden_has_no_say():
    numbers = [[0.5, -9.0], [0.25, 7.0]]
    mask = torch.tensor([[True, False], [True, False]])
    assert scale_of(numbers, ~mask.numpy()) == WEIGHTS
    assert HeadExplorer(numbers, mask=mask).state["scale"] == WEIGHTS.message()
    assert matrix("", NAMES, NAMES, numbers, hidden=(~mask).tolist())["scale"] == WEIGHTS.message()
    assert scale_of([[-1e-9, 0.5]]) == WEIGHTS  # what rounding took below 0


def test_a_mask_is_white_where_hidden_and_full_where_open():
    ax = plots.heatmap([[1.0, 0.0]], scale=BOOL)
    ax.figure.canvas.draw()
    assert [to_hex(color) for color in ax.collections[0].get_facecolor()] == [plots.BAR, "#ffffff"]
    assert palettes()["bool"][3] == 0  # in a browser, the page's own paper
