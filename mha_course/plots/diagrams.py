"""Diagrams: the steps as boxes and arrows, a matrix product to scale."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle

from mha_course.colours import ACCENT, INK, ON_COLOR, PAPER, QUIET, STREAMS, axis_colour
from mha_course.plots.figures import LARGE, SMALL, TEXT, TITLE, new_figure

Point = tuple[float, float]
STAGES = (
    ("projection", "x Wᵀ + b"),
    ("head splitting", "C = H × D"),
    ("scaling", "q kᵀ / √D"),
    ("softmax", "rows sum to 1"),
    ("weighted sum", "weights · v"),
    ("concatenation", "merge, then $W_O$"),
)
BOX = 1.7  # width of a step
STEP = 2.0  # from step to step
CENTRED: dict[str, Any] = {"ha": "center", "va": "center", "color": INK}


def box(
    ax: Axes, corner: Point, width: float, height: float, text: str = "", *,
    color: str | None, edge: str = "none", rounding: float = 0.06, fontsize: float = TEXT,
    zorder: float = 1,
) -> None:  # fmt: skip
    """Draw a rounded box from its lower left corner, with a text in the middle.

    Without a colour it is white with a dashed edge, for something temporary.
    """
    style: dict[str, Any] = {"fc": color, "ec": edge}
    if not color:
        style = {"fc": "white", "ec": INK, "linestyle": "--"}
    shape = f"round,pad=0,rounding_size={rounding}"
    ax.add_patch(FancyBboxPatch(corner, width, height, boxstyle=shape, zorder=zorder, **style))
    x = corner[0] + width / 2
    y = corner[1] + height / 2
    # White and grey turn dark on a dark page, and what is written there has to turn with them.
    ink = INK if color in (None, QUIET, PAPER) else ON_COLOR
    words: dict[str, Any] = {"fontsize": fontsize, "color": ink, "zorder": zorder + 2}
    ax.text(x, y, text, ha="center", va="center", **words)


def arrow(
    ax: Axes, start: Point, end: Point, *,
    color: Any = INK, width: float = 1.0, bend: float = 0.0, **style: Any,
) -> None:  # fmt: skip
    """Draw an arrow of a width in points, bent to the left by this fraction of its length.

    Args: style is further ``arrowprops`` of matplotlib.
    """
    line = {"color": color, "linewidth": width, "connectionstyle": f"arc3,rad={bend}"}
    ax.annotate("", end, start, arrowprops={"arrowstyle": "-|>", **line, **style})


def pipeline(*, ax: Axes | None = None) -> Axes:
    """Draw the steps of multi-head attention.

    q and k meet in the scaling; v goes past it and past the softmax, to the weighted sum; a mask
    enters before the softmax.
    """
    ax = ax or new_figure(11, 1.75).subplots()
    for number, (name, formula) in enumerate(STAGES):
        bottom = 0.5 if name in ("scaling", "softmax") else 0.2  # v passes below
        box(ax, (number * STEP, bottom), BOX, 1.0 - bottom, color=QUIET)
        x = number * STEP + BOX / 2
        y = (bottom + 1.0) / 2
        ax.text(x, y + 0.1, f"{number + 1} {name}", fontsize=TEXT, **CENTRED)
        ax.text(x, y - 0.12, formula, fontsize=SMALL, **CENTRED)
    starts = [number * STEP + BOX for number in range(len(STAGES))]  # of arrows
    for stream, height, target in (("q", 0.86, 2), ("k", 0.68, 2), ("v", 0.36, 4)):
        style: dict[str, Any] = {"color": STREAMS[stream], "width": 2.0}
        arrow(ax, (starts[0], height), (STEP, height), **style)
        arrow(ax, (starts[1], height), (target * STEP, height), **style)
        for start in starts[:2]:
            label = CENTRED | {"va": "bottom", "fontsize": SMALL}
            ax.text(start + 0.13, height + 0.04, stream, **label)
    for start in starts[2:5]:
        arrow(ax, (start, 0.76), (start + STEP - BOX, 0.76))
    mask = starts[2] + (STEP - BOX) / 2
    ax.text(mask, 1.16, "mask", ha="center", va="bottom", fontsize=SMALL, color=INK)
    arrow(ax, (mask, 1.16), (mask, 0.8), linestyle="--")
    arrow(ax, (-0.42, 0.6), (0, 0.6))
    ax.text(-0.46, 0.6, "x", ha="right", va="center", fontweight="bold", color=INK)
    arrow(ax, (starts[5], 0.6), (starts[5] + 0.42, 0.6))
    ax.text(starts[5] + 0.46, 0.6, "out", va="center", fontweight="bold", color=INK)
    ax.set(xlim=(-0.65, starts[5] + 0.85), ylim=(0.1, 1.32))
    ax.axis("off")
    return ax


class Matrix(NamedTuple):
    """A matrix in a drawing: its name, its sizes, and the letters of its axes."""

    name: str
    rows: int
    columns: int
    letters: tuple[str, str]


def product(left: Matrix, right: Matrix, result: Matrix, *, ax: Axes | None = None) -> Axes:
    """Draw left · right = result to scale, highlighting a row, a column and their product."""
    ax = ax or new_figure(9, 3).subplots()
    tallest = max(left.rows, right.rows)
    gap = max(3.0, 0.35 * max(left.columns, right.rows))
    x = 0.0
    for matrix, sign, (width, height) in (
        (left, "·", (left.columns, 1)), (right, "=", (1, right.rows)), (result, "", (1, 1)),
    ):  # fmt: skip
        _draw_matrix(ax, matrix, x, tallest / 2, width, height)
        end = x + matrix.columns
        ax.text(end + gap / 3, tallest / 2, sign, fontsize=LARGE, **CENTRED)
        x = end + gap
    ax.set(xlim=(-3, x - gap + 1), ylim=(-1, tallest + 3), aspect="equal")
    ax.axis("off")
    return ax


def _draw_matrix(
    ax: Axes, matrix: Matrix, x: float, middle: float, width: int, height: int
) -> None:
    """Draw a matrix to the right of x, highlighting cells in its upper left corner."""
    end = x + matrix.columns
    centre = x + matrix.columns / 2
    bottom = middle - matrix.rows / 2
    top = bottom + matrix.rows
    ax.add_patch(Rectangle((x, bottom), matrix.columns, matrix.rows, fc=QUIET, ec=INK))
    ax.add_patch(Rectangle((x, top - height), width, height, fc=ACCENT, ec=INK))
    ax.hlines(np.arange(bottom + 1, top), x, end, color="white", linewidth=1)
    ax.vlines(x + np.arange(1, matrix.columns), bottom, top, color="white", linewidth=1)
    row_axis, column_axis = matrix.letters
    for letter, size, place, offset, rotation in (
        (row_axis, matrix.rows, (x, middle), (-15, 0), 90),
        (column_axis, matrix.columns, (centre, top), (0, 15), 0),
    ):
        style = {"fontsize": TEXT, "rotation": rotation, **CENTRED, "color": ON_COLOR}
        style["bbox"] = {"boxstyle": "round,pad=0.25", "fc": axis_colour(letter), "ec": "none"}
        ax.annotate(f"{letter} = {size}", place, offset, textcoords="offset points", **style)
    ax.text(centre, middle, matrix.name, fontsize=TITLE, fontweight="bold", **CENTRED)
