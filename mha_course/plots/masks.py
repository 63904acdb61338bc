"""Pictures of masks: who may attend to whom, and who does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from mha_course.colours import ACCENT, BAR, HATCH, INK, ON_COLOR
from mha_course.errors import require_shape
from mha_course.plots.figures import SMALL, TEXT, TITLE, new_figure
from mha_course.plots.scales import SLANT

CELL = 0.3  # inches


class MaskGrid(NamedTuple):
    """One mask (T, S), with axes of size 1 in front if any, and names of rows and columns."""

    title: str
    mask: Tensor
    queries: Sequence[str] = ()
    keys: Sequence[str] = ()


def mask_grids(
    *grids: MaskGrid, signs: Sequence[str] = (), expected: Tensor | None = None
) -> Figure:
    """Draw masks side by side: full where a query may attend to a key, hatched where not.

    Args: signs go between the masks, such as "and", "="; expected (T, S) is what all masks
        should be: a cell that is open but should not be has another colour and an exclamation mark.
    Raises: ShapeError where a mask is not one matrix, or names or what is expected do not fit.
    """
    matrices = [_matrix(grid, expected) for grid in grids]
    margins = [max(_longest(grid.queries), 2) * 0.09 + 0.45 for grid in grids]  # inches
    columns = [matrix.size(1) for matrix in matrices]
    longest_key = max(_longest(grid.keys) for grid in grids)
    height = max(map(len, matrices)) * CELL + longest_key * 0.07 + 0.7
    figure = new_figure(sum(columns) * CELL + sum(margins), height)
    axes = figure.subplots(1, len(grids), width_ratios=columns, squeeze=False)[0]
    for ax, grid, matrix in zip(axes, grids, matrices, strict=True):
        _draw_cells(ax, matrix, expected)
        _write_names(ax, grid)
    style: dict[str, Any] = {"ha": "right", "va": "center", "color": INK, "fontweight": "bold"}
    for n, sign in enumerate(signs):
        left = -0.6 - 0.27 * _longest(grids[n + 1].queries)  # cells, free of the names of the rows
        middle = min(len(matrices[n]), len(matrices[n + 1])) / 2
        axes[n + 1].text(left, middle, sign, fontsize=TITLE, **style)
    return figure


def _longest(names: Sequence[str]) -> int:
    return max(map(len, names), default=0)


def _matrix(grid: MaskGrid, expected: Tensor | None) -> Tensor:
    """Return the mask as (T, S), checked against its names and what is expected."""
    matrix = grid.mask.detach().cpu()
    while matrix.dim() > 2 and matrix.size(0) == 1:
        matrix = matrix[0]
    name = f"the mask “{grid.title}”"
    rows, columns = (None, None) if expected is None else expected.shape
    sizes = {"T": len(grid.queries) or rows, "S": len(grid.keys) or columns}
    require_shape("mask_grids", name, matrix, sizes)
    return matrix.bool()


def _draw_cells(ax: Axes, matrix: Tensor, expected: Tensor | None) -> None:
    rows, columns = matrix.shape
    leaks = matrix & ~(matrix if expected is None else expected.cpu().bool())
    for t, s in np.ndindex(rows, columns):
        cell = Rectangle((s, t), 1, 1, facecolor=ACCENT if leaks[t, s] else BAR, edgecolor="white")
        if not matrix[t, s]:
            cell.set(**HATCH, linewidth=0.6)
        ax.add_patch(cell)
        if leaks[t, s]:
            ax.text(s + 0.5, t + 0.5, "!", ha="center", va="center", weight="bold", color=ON_COLOR)
    ax.set(xlim=(0, columns), ylim=(rows, 0), aspect="equal", anchor="NW")
    ax.spines[:].set_visible(False)


def _write_names(ax: Axes, grid: MaskGrid) -> None:
    ax.xaxis.tick_top()
    xs = np.arange(len(grid.keys)) + 0.5
    ys = np.arange(len(grid.queries)) + 0.5
    style: dict[str, Any] = {"fontsize": SMALL, "parse_math": False}
    ax.set_xticks(xs, grid.keys, rotation=SLANT, ha="left", rotation_mode="anchor", **style)
    ax.set_yticks(ys, grid.queries, **style)
    ax.tick_params(length=0, pad=2)
    ax.set_title(grid.title, loc="left", fontsize=TEXT, color=INK)
