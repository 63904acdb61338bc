"""A sentence on one line, with arcs from one word to the words it attends to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, PathPatch, Rectangle
from matplotlib.path import Path

from mha_course.colours import ACCENT, INK
from mha_course.markup import shorten
from mha_course.plots.figures import LARGE, SMALL, TEXT

LEAST = 0.05  # smaller weights get no arc and no number
THICKEST = 14.0  # points of an arc with weight 1
WORD, NUMBER, FLOOR, TOP = 0.17, 0.03, 0.3, 0.97  # heights, as fractions of the picture
GAP = 0.6  # of a letter's height, between words


def sentence_arcs(
    ax: Axes,
    words: tuple[Sequence[str], Sequence[str]],
    weights: Any,
    row: int,
    *,
    colour: str,
    title: str = "",
) -> None:
    """Write queries and keys, each on one line (or one line for both if they are equal), and draw
    an arc from a row's query to each key, as wide as its weight.

    Args: weights are the row's, (S,).
    """
    queries, keys = words
    row_of_weights = np.nan_to_num(np.asarray(weights, float))
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.axis("off")
    ax.set_title(title, loc="left", fontsize=TEXT, fontweight="bold", y=0.9)
    two = list(queries) != list(keys)
    tinted = {j: float(weight) for j, weight in enumerate(row_of_weights) if weight >= LEAST}
    middles = _write(ax, keys, WORD, colour, tinted, None if two else row)
    above = _write(ax, queries, TOP - 0.12, colour, {}, row) if two else middles
    for j, weight in sorted(tinted.items(), key=lambda item: item[1]):
        path = _between(above[row], middles[j]) if two else _above(above[row], middles[j])
        style: dict[str, Any] = {"alpha": 0.3 + 0.6 * min(weight, 1.0), "capstyle": "round"}
        ax.add_patch(
            PathPatch(path, fill=False, edgecolor=colour, lw=max(1.0, THICKEST * weight), **style)
        )
        number: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SMALL, "color": INK}
        ax.text(middles[j], NUMBER, f"{weight:.2f}", **number)


def frame_row(ax: Axes, row: int) -> None:
    """Frame one row of a heatmap."""
    left, right = ax.get_xlim()
    frame = Rectangle((left, row), right - left, 1, fill=False, edgecolor=ACCENT, lw=1.6)
    ax.add_patch(frame).set_clip_on(False)


def _write(
    ax: Axes, words: Sequence[str], y: float, colour: str, tinted: dict[int, float], row: int | None
) -> list[float]:
    """Write words on one line, as large as fits, and return their centres."""
    size = LARGE
    texts = [
        ax.text(0, y, shorten(word, 16), fontsize=size, va="center", ha="center", parse_math=False)
        for word in words
    ]
    wide = ax.get_window_extent().width
    widths = np.array([text.get_window_extent().width for text in texts]) / wide
    gap = GAP * size * ax.figure.dpi / 72 / wide
    needed = widths.sum() + gap * len(words)
    scale = min(1.0, 1 / needed)
    widths, gap = widths * scale, gap * scale
    start = (1 - needed * scale) / 2
    middles = start + np.cumsum(widths + gap) - (widths + gap) / 2
    height = 1.5 * size * scale * ax.figure.dpi / 72 / ax.get_window_extent().height
    for j, (text, x, width) in enumerate(zip(texts, middles, widths, strict=True)):
        text.set(x=x, fontsize=size * scale, color="white" if j == row else INK)
        if j != row and j not in tinted:
            continue
        box = FancyBboxPatch(
            (x - width / 2 - gap / 4, y - height / 2), width + gap / 2, height,
            boxstyle="round,pad=0,rounding_size=0.004", linewidth=0, facecolor=colour,
            alpha=1.0 if j == row else 0.4 * min(tinted[j], 1.0), zorder=0,
        )  # fmt: skip
        ax.add_patch(box)
    return [float(x) for x in middles]


def _above(start: float, end: float) -> Path:
    """Return an arc above the line, or a loop above one word."""
    across = abs(end - start)
    if across < 1e-6:
        peak = FLOOR + 0.3
        points = [(start - 0.004, FLOOR), (start - 0.025, peak), (start + 0.025, peak)]
        return _curve([*points, (start + 0.004, FLOOR)])
    peak = FLOOR + min(TOP - FLOOR - 0.06, 0.12 + across) / 0.75
    lean = 0.12 * (end - start)
    return _curve([(start, FLOOR), (start + lean, peak), (end - lean, peak), (end, FLOOR)])


def _between(start: float, end: float) -> Path:
    high = TOP - 0.22
    middle = (FLOOR + high) / 2
    return _curve([(start, high), (start, middle), (end, middle), (end, FLOOR)])


def _curve(points: list[tuple[float, float]]) -> Path:
    return Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
