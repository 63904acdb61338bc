"""Tables of numbers share one scale."""

import pytest
import torch

from mha_course import plots


@pytest.mark.parametrize(("columns", "shape"), [(3, (1, 2)), (8, (2, 1))])
def test_tables_have_one_scale(columns, shape):
    panels = {"small": torch.full((2, columns), 0.1), "large": torch.full((2, columns), 0.9)}
    figure = plots.number_tables(panels, ["a", "b"], [f"c{n}" for n in range(columns)], group=4)
    first, second, _bar = figure.axes
    grid = first.get_subplotspec().get_gridspec()
    assert (grid.nrows, grid.ncols) == shape
    assert (
        first.collections[0].get_clim()
        == second.collections[0].get_clim()
        == pytest.approx((0, 0.9))
    )
    assert [text.get_text() for text in second.texts] == ["0.90"] * 2 * columns
    assert first.get_title("left") == "small"
