"""Pictures of attention, each made by one function: ``from mha_course import plots``,
``plots.heatmap(weights)``.

Inputs are tensors on any device, arrays or lists. A function that draws one panel takes ``ax`` and
returns its Axes, one that draws several returns their Figure; ``show`` displays either with a
caption.
"""

from mha_course.colours import ACCENT, BAR, INK, QUIET
from mha_course.plots.arcs import frame_row, sentence_arcs
from mha_course.plots.charts import Lines, bars, curves, line_panels, token_bars
from mha_course.plots.diagrams import Matrix, pipeline, product
from mha_course.plots.figures import (
    Listing,
    fold_out,
    listings,
    new_figure,
    show,
    svg,
    unregistered,
)
from mha_course.plots.heatmaps import head_grid, heatmap, heatmap_row, heatmap_tables, strongest
from mha_course.plots.masks import MaskGrid, mask_grids
from mha_course.plots.tables import results

__all__ = [
    "ACCENT", "BAR", "INK", "QUIET", "Lines", "Listing", "MaskGrid", "Matrix", "bars", "curves",
    "fold_out", "frame_row", "head_grid", "heatmap", "heatmap_row", "heatmap_tables",
    "line_panels", "listings", "mask_grids", "new_figure", "pipeline",
    "product", "results", "sentence_arcs", "show", "strongest", "svg", "token_bars",
    "unregistered",
]  # fmt: skip
