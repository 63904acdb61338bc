"""Pictures of masks show each cell once, and leaks with a sign."""

import pytest
import torch
from matplotlib.colors import to_hex

from mha_course import masks, plots
from mha_course.errors import ShapeError


def cells(ax):
    """Return what a picture shows, row by row: the colours, and a dot for a hatched cell."""
    found = {}
    for patch in ax.patches:
        s, t = patch.get_xy()
        found[t, s] = "." if patch.get_hatch() else to_hex(patch.get_facecolor())
    rows, columns = round(ax.get_ylim()[0]), round(ax.get_xlim()[1])
    return [[found[t, s] for s in range(columns)] for t in range(rows)]


def test_a_picture_shows_each_cell_once():
    mask = masks.causal_mask_for_cache(3, 5)
    (ax,) = plots.mask_grids(plots.MaskGrid("new", mask, ["a", "b", "c"], list("vwxyz"))).axes
    assert [[color != "." for color in row] for row in cells(ax)] == mask.tolist()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b", "c"]
    assert [label.get_text() for label in ax.get_xticklabels()] == list("vwxyz")
    assert ax.get_title(loc="left") == "new"


def test_leaks_have_a_colour_and_a_sign():
    one_too_far = plots.MaskGrid("one too far", torch.ones(4, 4).tril(1))
    (ax,) = plots.mask_grids(one_too_far, expected=masks.causal_mask(4)).axes
    assert sum(row.count(plots.ACCENT) for row in cells(ax)) == 3
    assert [text.get_text() for text in ax.texts].count("!") == 3


@pytest.mark.parametrize(
    ("shape", "names", "expected", "message"),
    [
        ((2, 4, 4), (), None, "the mask “m” must have 2 axes. expected (T, S), got (2, 4, 4)"),
        ((2, 4), ["a"], None, "the mask “m” has the wrong T. expected (T=1, S), got (T=2, S=4)"),
        ((2, 4), (), torch.ones(4, 4), "the wrong T. expected (T=4, S=4), got (T=2, S=4)"),
    ],
)
def test_what_does_not_fit_is_said(shape, names, expected, message):
    with pytest.raises(ShapeError) as caught:
        plots.mask_grids(plots.MaskGrid("m", torch.ones(shape), names), expected=expected)
    assert message in str(caught.value)
