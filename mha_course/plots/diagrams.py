"""Drawings that explain: the steps in a row, a matrix product to scale, a sum of values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from mha_course.errors import require
from mha_course.plots.drawing import arrow, box
from mha_course.plots.figures import (
    ACCENT,
    INK,
    LARGE,
    QUIET,
    SMALL,
    STREAMS,
    TEXT,
    TITLE,
    new_figure,
)
from mha_course.tracing.records import color as axis_color

STAGES = (
    ("projection", "x Wᵀ + b"),
    ("head splitting", "C = H × D"),
    ("scaling", "q kᵀ / √D"),
    ("softmax", "rows sum to 1"),
    ("weighted sum", "weights · v"),
    ("concatenation", "merge, then W_O"),
)


def pipeline(*lit: str, ax: Axes | None = None) -> Axes:
    """Draw the steps of multi-head attention; lit are those named as in STAGES.

    q and k meet in the scaling; v goes past it and past the softmax, to the weighted sum; a mask
    enters before the softmax.
    """
    names = [name for name, _ in STAGES]
    unknown = ", ".join(sorted(set(lit) - set(names)))
    require(not unknown, "pipeline", "lit must name steps", expected=", ".join(names), got=unknown)
    ax = ax or new_figure(11, 1.75).subplots()
    width, step, low, high = 1.7, 2.0, 0.36, 0.68  # of the boxes; the streams of v, and of q and k
    for number, (name, formula) in enumerate(STAGES):
        color, weight = (ACCENT, "bold") if name in lit else (QUIET, "normal")
        bottom = 0.5 if name in ("scaling", "softmax") else 0.2  # v goes past below
        box(ax, (number * step, bottom), width, 1.0 - bottom, color=color, rounding=0.06)
        middle = number * step + width / 2
        centre = (bottom + 1.0) / 2
        ax.text(
            middle,
            centre + 0.1,
            f"{number + 1} {name}",
            ha="center",
            va="center",
            size=TEXT,
            weight=weight,
            color=INK,
        )
        ax.text(middle, centre - 0.12, formula, ha="center", va="center", fontsize=SMALL, color=INK)
    starts = [number * step + width for number in range(len(STAGES))]
    for stream, height in (("q", 0.86), ("k", high), ("v", low)):
        style: dict[str, Any] = {"color": STREAMS[stream], "width": 2.0}
        arrow(ax, (starts[0], height), (step, height), **style)
        end = 2 if stream != "v" else 4
        arrow(ax, (starts[1], height), (end * step, height), **style)
        for start in starts[:2]:
            ax.text(
                start + 0.13,
                height + 0.04,
                stream,
                ha="center",
                va="bottom",
                fontsize=SMALL,
                color=INK,
            )
    for start in starts[2:5]:
        arrow(ax, (start, 0.76), (start + step - width, 0.76))
    door = starts[2] + (step - width) / 2
    ax.text(door, 1.16, "mask", ha="center", va="bottom", fontsize=SMALL, color=INK)
    arrow(ax, (door, 1.16), (door, 0.8), linestyle="--")
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
    """Draw left · right = result to scale; a row, a column and the number that they make
    are lit.
    """
    ax = ax or new_figure(9, 3).subplots()
    tallest = max(left.rows, right.rows)
    gap = max(3.0, 0.35 * max(left.columns, right.rows))
    x = 0.0
    for matrix, sign, (width, height) in (
        (left, "·", (left.columns, 1)), (right, "=", (1, right.rows)), (result, "", (1, 1)),
    ):  # fmt: skip
        bottom = (tallest - matrix.rows) / 2
        top = bottom + matrix.rows
        middle = x + matrix.columns / 2
        ax.add_patch(Rectangle((x, bottom), matrix.columns, matrix.rows, fc=QUIET, ec=INK))
        ax.add_patch(Rectangle((x, top - height), width, height, fc=ACCENT, ec=INK))
        ax.hlines(np.arange(bottom + 1, top), x, x + matrix.columns, color="white", linewidth=1)
        ax.vlines(x + np.arange(1, matrix.columns), bottom, top, color="white", linewidth=1)
        centred: dict[str, Any] = {"ha": "center", "va": "center", "color": INK}
        sides = (
            ((x, tallest / 2), (-15, 0), matrix.rows, 90),
            ((middle, top), (0, 15), matrix.columns, 0),
        )
        for letter, (place, beside, size, turn) in zip(matrix.letters, sides, strict=True):
            chip = {
                "boxstyle": "round,pad=0.25",
                "facecolor": axis_color(letter),
                "edgecolor": "none",
            }
            look = {
                "textcoords": "offset points",
                "fontsize": TEXT,
                "rotation": turn,
                "bbox": chip,
                **centred,
            }
            ax.annotate(f"{letter} = {size}", place, beside, **look)
        ax.text(middle, tallest / 2, matrix.name, fontsize=TITLE, fontweight="bold", **centred)
        ax.text(x + matrix.columns + gap / 3, tallest / 2, sign, fontsize=LARGE, **centred)
        x += matrix.columns + gap
    ax.set(xlim=(-3, x - gap + 1), ylim=(-1, tallest + 3), aspect="equal")
    ax.axis("off")
    return ax
