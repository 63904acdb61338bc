"""The pictures of lesson 9: words that belong together, and two sequences that meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from mha_course.colours import ACCENT, HATCH, INK, QUIET, axis_colour
from mha_course.plots.diagrams import Point, arrow
from mha_course.plots.figures import LARGE, SMALL, TEXT, TITLE, new_figure

WIDTH = 4  # numbers of a token that are drawn


def alignment(source: Sequence[str], target: Sequence[str], places: Sequence[int]) -> Figure:
    """Write source above target, and draw a line from each word of target to its place in source;
    the longest is highlighted.
    """
    figure = new_figure(9, 1.7)
    ax = figure.subplots()
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
    return figure


def cross_attention(queries: int, keys: int) -> Figure:
    """Draw cross-attention to scale, from x (T queries) to memory (S keys)."""
    figure = new_figure(11, 4.2)
    ax = figure.subplots()
    upper = keys + 4.6  # y of x and q, above memory, k and v
    middle = (4.6 + queries) / 2  # y of the weights and the context
    of_x: dict[str, Any] = {"axis": "T", "rows": queries, "color": axis_colour("T")}
    of_memory: dict[str, Any] = {"axis": "S", "rows": keys, "color": axis_colour("S")}
    _draw_matrix(ax, "x", (0, upper), **of_x)
    _draw_matrix(ax, "q", (10, upper), **of_x)
    _draw_matrix(ax, "memory", (0, 0), **of_memory)
    _draw_matrix(ax, "k", (10, 0), **of_memory)
    _draw_matrix(ax, "v", (15.5, 0), **of_memory)
    weights = of_x | {"columns": keys, "color": QUIET}
    _draw_matrix(ax, f"weights\nS = {keys}", (25.5, middle), **weights)
    _draw_matrix(ax, "context", (41, middle), **of_x)
    words: dict[str, Any] = {"ha": "center", "fontsize": TEXT, "color": INK}
    ax.text(25.5 + keys / 2, middle - 1.1, "softmax of q kᵀ / √D", **words)
    after_weights = 25.8 + keys
    for start, end, y, label in (
        (4.3, 8.4, upper + queries / 2, "$W_Q$"),
        (4.3, 8.4, keys / 2, "$W_K$, $W_V$"),
        (after_weights, 39.4, middle + queries / 2, "· v"),
    ):
        arrow(ax, (start, y), (end, y))
        ax.text((start + end) / 2, y + 0.35, label, va="bottom", **words)
    arrow(ax, (14.3, upper + queries / 2), (23.9, middle + 0.7 * queries))
    over_v = keys + 2.1
    ax.plot((12, 12, 19.8), (over_v - 0.5, over_v, over_v), color=INK, linewidth=1)
    arrow(ax, (19.8, over_v), (23.9, middle + 0.3 * queries))
    mixed = (after_weights + 39.4) / 2  # x at which v, led below everything, meets the weights
    ax.plot((17.5, 17.5, mixed), (-0.2, -1.2, -1.2), color=INK, linewidth=1)
    arrow(ax, (mixed, -1.2), (mixed, middle + queries / 2 - 0.2))
    ax.set(xlim=(-2, 46), ylim=(-1.5, upper + queries + 2), aspect="equal")
    ax.axis("off")
    return figure


def _draw_matrix(
    ax: Axes, name: str, corner: Point, *, axis: str, rows: int, color: str, columns: int = WIDTH
) -> None:
    """Draw the cells of a matrix from its lower left corner, with its name and row names."""
    x, y = corner
    numbers = np.zeros((rows, columns))
    edges = x + np.arange(columns + 1), y + np.arange(rows + 1)
    ax.pcolormesh(*edges, numbers, cmap=ListedColormap([color]), edgecolors="white", linewidth=0.8)
    title: dict[str, Any] = {"fontsize": TITLE, "fontweight": "bold", "color": INK}
    ax.text(x + columns / 2, y + rows + 0.4, name, ha="center", va="bottom", **title)
    beside: dict[str, Any] = {"rotation": 90, "fontsize": SMALL, "color": INK}
    ax.text(x - 0.3, y + rows / 2, f"{axis} = {rows}", ha="right", va="center", **beside)
