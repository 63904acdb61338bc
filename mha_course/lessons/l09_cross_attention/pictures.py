"""The pictures of lesson 9: words that belong together, and two sequences that meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from mha_course.plots.diagrams import Point, arrow
from mha_course.plots.figures import (
    ACCENT,
    HATCH,
    INK,
    LARGE,
    QUIET,
    SMALL,
    TEXT,
    TITLE,
    new_figure,
)
from mha_course.tracing.records import color as axis_color


class _Cells(NamedTuple):
    """A matrix drawn to scale: its name, its lower left corner, its sizes and its colour."""

    name: str
    x: float
    y: float
    columns: int
    rows: int
    color: str

    def entry(self, share: float = 0.5) -> Point:
        """Where an arrow comes in on the left, at this share of the height."""
        return self.x - 1.6, self.y + self.rows * share

    @property
    def exit(self) -> Point:
        return self.x + self.columns + 0.3, self.y + self.rows / 2


def alignment(
    source: Sequence[str], target: Sequence[str], places: Sequence[int], *, ax: Axes | None = None
) -> Axes:
    """Write source above target, and draw a line from each word of target to its place in source;
    the longest is highlighted.
    """
    ax = ax or new_figure(9, 1.7).subplots()
    step = (len(source) - 1) / (len(target) - 1)
    shifts = [abs(place - step * t) for t, place in enumerate(places)]
    look: dict[str, Any] = {"va": "center", "color": INK, "parse_math": False}
    words = look | {"ha": "center", "fontsize": LARGE}
    for s, word in enumerate(source):
        ax.text(s, 1, word, **words)
    for t, (word, place) in enumerate(zip(target, places, strict=True)):
        longest = shifts[t] == max(shifts)
        color, width = (ACCENT, 4) if longest else (HATCH["edgecolor"], 1.6)
        ax.plot((step * t, place), (0.16, 0.86), color=color, linewidth=width)
        ax.text(step * t, 0, word, **words)
    for y, name in ((1, "English"), (0, "Endish")):
        ax.text(-0.8, y, name, ha="right", fontsize=TEXT, **look)
    ax.set(xlim=(-1.5, len(source) - 0.4), ylim=(-0.15, 1.15))
    ax.axis("off")
    return ax


def cross_attention(queries: int, keys: int, *, ax: Axes | None = None) -> Axes:
    """Draw cross-attention to scale, from x (T queries) to memory (S keys)."""
    ax = ax or new_figure(11, 4.2).subplots()
    width = 4  # numbers of a token that are drawn
    upper, middle = keys + 4.6, (4.6 + queries) / 2
    x = _Cells("x", 0, upper, width, queries, axis_color("T"))
    memory = _Cells("memory", 0, 0, width, keys, axis_color("S"))
    q = _Cells("q", 10, upper, width, queries, axis_color("T"))
    k = _Cells("k", 10, 0, width, keys, axis_color("S"))
    v = _Cells("v", 10 + width + 1.5, 0, width, keys, axis_color("S"))
    weights = _Cells("weights", 25.5, middle, keys, queries, QUIET)
    context = _Cells("context", 41, middle, width, queries, axis_color("T"))
    for cells in (x, memory, q, k, v, weights, context):
        rows = "T" if cells.rows == queries else "S"
        _draw_cells(ax, cells, rows, "S" if cells is weights else "")
    _draw_arrow(ax, x, q, "$W_Q$")
    _draw_arrow(ax, memory, k, "$W_K$, $W_V$")
    _draw_arrow(ax, weights, context, "· v")
    arrow(ax, q.exit, weights.entry(0.7))
    _draw_path_of_k(ax, k, v, weights)
    _draw_path_of_v(ax, v, weights, context)
    formula, place = "softmax of q kᵀ / √D", (weights.x + keys / 2, middle - 1.1)
    ax.text(*place, formula, ha="center", fontsize=TEXT, color=INK)
    ax.set(xlim=(-2, context.x + width + 1), ylim=(-1.5, upper + queries + 2), aspect="equal")
    ax.axis("off")
    return ax


def _draw_arrow(ax: Axes, start: _Cells, end: _Cells, label: str) -> None:
    arrow(ax, start.exit, end.entry())
    between = (start.exit[0] + end.entry()[0]) / 2
    look: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": TEXT, "color": INK}
    ax.text(between, start.exit[1] + 0.35, label, **look)


def _draw_path_of_k(ax: Axes, k: _Cells, v: _Cells, weights: _Cells) -> None:
    """Lead k over v, to where it meets q."""
    start = k.x + k.columns / 2
    corner = v.x + v.columns + 0.3
    above = k.rows + 2.1
    ax.plot((start, start, corner), (above - 0.5, above, above), color=INK, linewidth=1)
    arrow(ax, (corner, above), weights.entry(0.3))


def _draw_path_of_v(ax: Axes, v: _Cells, weights: _Cells, context: _Cells) -> None:
    """Lead v below everything, to where it is mixed."""
    start = v.x + v.columns / 2
    end = (weights.x + weights.columns + context.x - 1.3) / 2
    below = -1.2
    ax.plot((start, start, end), (-0.2, below, below), color=INK, linewidth=1)
    arrow(ax, (end, below), (end, weights.y + weights.rows / 2 - 0.2))


def _draw_cells(ax: Axes, cells: _Cells, rows: str, columns: str) -> None:
    """Draw a matrix, its name above and its sizes, with these letters, beside it."""
    for row, column in np.ndindex(cells.rows, cells.columns):
        corner = cells.x + column, cells.y + row
        ax.add_patch(
            Rectangle(corner, 1, 1, facecolor=cells.color, edgecolor="white", linewidth=0.8)
        )
    centre = cells.x + cells.columns / 2
    top = cells.y + cells.rows
    middle = cells.y + cells.rows / 2
    above = f"{cells.name}\n{columns} = {cells.columns}" if columns else cells.name
    ax.text(
        centre,
        top + 0.4,
        above,
        ha="center",
        va="bottom",
        fontsize=TITLE,
        fontweight="bold",
        color=INK,
    )
    beside = f"{rows} = {cells.rows}"
    ax.text(
        cells.x - 0.3,
        middle,
        beside,
        ha="right",
        va="center",
        rotation=90,
        fontsize=SMALL,
        color=INK,
    )
