"""Pictures of attention. What is drawn takes tensors on any device, arrays or lists."""

from mha_course.plots.figures import (
    ACCENT,
    BAR,
    HATCH,
    INK,
    LINE,
    QUIET,
    display_width,
    new_figure,
    png,
    show,
    unregistered,
)
from mha_course.plots.heatmaps import head_grid, heatmap, strongest
from mha_course.plots.inputs import as_array, as_hidden, as_names, as_numbers

__all__ = [
    "ACCENT",
    "BAR",
    "HATCH",
    "INK",
    "LINE",
    "QUIET",
    "as_array",
    "as_hidden",
    "as_names",
    "as_numbers",
    "display_width",
    "head_grid",
    "heatmap",
    "new_figure",
    "png",
    "show",
    "strongest",
    "unregistered",
]
