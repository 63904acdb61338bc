"""Pictures of masks show each cell once, and leaks with a sign."""

import pytest
import torch
from matplotlib.colors import to_hex

from mha_course import masks, plots
from mha_course.errors import ShapeError


def test_a_picture_shows_each_cell_once():
    mask = masks.causal_mask_for_cache(3, 5)
    (ax,) = plots.mask_grids(plots.MaskGrid("new", mask, ["a", "b", "c"], list("vwxyz"))).axes
    drawn = ax.collections[0].get_array()
    assert (~drawn.mask).reshape(3, 5).tolist() == mask.tolist()
    assert drawn.min() == 1
    assert ax.patch.get_hatch()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b", "c"]
    assert [label.get_text() for label in ax.get_xticklabels()] == list("vwxyz")
    assert ax.get_title(loc="left") == "new"


def test_leaks_have_a_colour_and_a_sign():
    one_too_far = plots.MaskGrid("one too far", torch.ones(4, 4).tril(1))
    (ax,) = plots.mask_grids(one_too_far, expected=masks.causal_mask(4)).axes
    leaks = [patch for patch in ax.patches if to_hex(patch.get_facecolor()) == plots.ACCENT]
    assert [patch.get_xy() for patch in leaks] == [(1, 0), (2, 1), (3, 2)]
    assert [text.get_text() for text in ax.texts].count("!") == 3


@pytest.mark.parametrize(
    ("shape", "names", "expected", "message"),
    [
        ((2, 4, 4), (), None, "the mask “m”: weights must have 2 axes. expected (T, S), none of"),
        ((2, 4), ["a"], None, "queries must name every row. expected 2 names, got 1 names"),
        ((2, 4), (), masks.causal_mask(4), "the mask “m”: mask must be bool, True = may attend"),
    ],
)
def test_what_does_not_fit_is_said(shape, names, expected, message):
    with pytest.raises(ShapeError) as caught:
        plots.mask_grids(plots.MaskGrid("m", torch.ones(shape), names), expected=expected)
    assert message in str(caught.value)
