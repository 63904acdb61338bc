"""Pictures of masks: which token may attend to which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from mha_course.colours import ACCENT, INK, ON_COLOR
from mha_course.plots.figures import TEXT, TITLE, new_figure
from mha_course.plots.heatmaps import heatmap
from mha_course.plots.inputs import as_array, as_hidden
from mha_course.plots.scales import BOOL

CELL = 0.3  # inches


class MaskGrid(NamedTuple):
    """One mask (T, S), perhaps with axes of size 1 in front, and names of rows and columns."""

    title: str
    mask: Tensor
    queries: Sequence[str] = ()
    keys: Sequence[str] = ()


def mask_grids(
    *grids: MaskGrid, signs: Sequence[str] = (), expected: Tensor | None = None
) -> Figure:
    """Draw masks side by side: filled where a query may attend to a key, hatched where not.

    Args: signs go between the masks, such as "and", "="; expected (T, S), bool, is what all masks
        should be: a wrongly visible cell gets another colour and an exclamation mark.
    Raises: ShapeError if a mask is not one matrix, or if names or expected do not fit.
    """
    places = [f"mask_grids, the mask “{grid.title}”" for grid in grids]
    pairs = zip(places, grids, strict=True)
    opened = [as_array(place, grid.mask, ("T", "S")) != 0 for place, grid in pairs]
    margins = [max(_longest(grid.queries), 2) * 0.09 + 0.45 for grid in grids]  # inches
    columns = [matrix.shape[1] for matrix in opened]
    longest_key = max(_longest(grid.keys) for grid in grids)
    height = max(map(len, opened)) * CELL + longest_key * 0.07 + 0.7
    figure = new_figure(sum(columns) * CELL + sum(margins), height)
    axes = figure.subplots(1, len(grids), width_ratios=columns, squeeze=False)[0]
    for ax, place, grid, matrix in zip(axes, places, grids, opened, strict=True):
        queries = grid.queries or [""] * len(matrix)
        keys = grid.keys or [""] * matrix.shape[1]
        style: dict[str, Any] = {"scale": BOOL, "annotate": False, "bar": False, "ax": ax}
        heatmap(matrix, queries=queries, keys=keys, mask=matrix, **style)
        ax.set(xlabel="", ylabel="", anchor="NW")
        ax.set_title(grid.title, loc="left", fontsize=TEXT, color=INK)
        for t, s in np.argwhere(matrix & as_hidden(place, expected, matrix.shape)):
            ax.add_patch(Rectangle((s, t), 1, 1, facecolor=ACCENT, edgecolor="white"))
            ax.text(s + 0.5, t + 0.5, "!", ha="center", va="center", weight="bold", color=ON_COLOR)
    style = {"ha": "right", "va": "center", "color": INK, "fontweight": "bold"}
    for n, sign in enumerate(signs):
        left = -0.6 - 0.27 * _longest(grids[n + 1].queries)  # cells, clear of the row names
        middle = min(len(opened[n]), len(opened[n + 1])) / 2
        axes[n + 1].text(left, middle, sign, fontsize=TITLE, **style)
    return figure


def _longest(names: Sequence[str]) -> int:
    return max(map(len, names), default=0)
