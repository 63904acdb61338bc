"""Drawings that explain: the steps in a row, a matrix product to scale, vectors in a plane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from mha_course.attention import AttentionSteps
from mha_course.errors import require
from mha_course.plots.drawing import arrow, box
from mha_course.plots.figures import ACCENT, BAR, INK, QUIET, STREAMS, new_figure
from mha_course.plots.inputs import as_array

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

    q and k meet in the scaling; v goes past it and past the softmax, to the weighted sum; a mask enters before the
    softmax.
    """
    names = [name for name, _ in STAGES]
    unknown = ", ".join(sorted(set(lit) - set(names)))
    require(not unknown, "pipeline", "lit must name steps", expected=", ".join(names), got=unknown)
    ax = ax or new_figure(11, 1.75).subplots()
    width, step, low, high = 1.5, 1.95, 0.36, 0.68  # of the boxes; the streams of v, and of q and k
    for number, (name, formula) in enumerate(STAGES):
        color, weight = (ACCENT, "bold") if name in lit else (QUIET, "normal")
        bottom = 0.5 if name in ("scaling", "softmax") else 0.2  # v goes past below
        box(ax, (number * step, bottom), width, 1.0 - bottom, color=color, rounding=0.06)
        middle, centre = number * step + width / 2, (bottom + 1.0) / 2
        ax.text(
            middle, centre + 0.1, f"{number + 1} {name}", ha="center", va="center", size=9.5, weight=weight, color=INK
        )
        ax.text(middle, centre - 0.12, formula, ha="center", va="center", fontsize=9, color=INK)
    starts = [number * step + width for number in range(len(STAGES))]
    for stream, height in (("q", 0.86), ("k", high), ("v", low)):
        style: dict[str, Any] = {"color": STREAMS[stream], "width": 2.0}
        arrow(ax, (starts[0], height), (step, height), **style)
        end = 2 if stream != "v" else 4
        arrow(ax, (starts[1], height), (end * step, height), **style)
        for start in starts[:2]:
            ax.text(start + 0.16, height + 0.02, stream, ha="center", va="bottom", fontsize=9, color=INK)
    for start in starts[2:5]:
        arrow(ax, (start, 0.76), (start + step - width, 0.76))
    door = starts[2] + (step - width) / 2
    ax.text(door, 1.16, "mask", ha="center", va="bottom", fontsize=9, color=INK)
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
    """Draw left · right = result to scale; a row, a column and the number that they make are lit."""
    fits = (left.columns, left.rows, right.columns) == (right.rows, result.rows, result.columns)
    expected = f"({left.rows}, n) · (n, {right.columns}) = ({left.rows}, {right.columns})"
    got = " ".join(f"({matrix.rows}, {matrix.columns})" for matrix in (left, right, result))
    require(fits, "product", "the sizes must fit", expected=expected, got=got)
    ax = ax or new_figure(9, 3).subplots()
    tallest, gap, x = max(left.rows, right.rows), max(3.0, 0.35 * max(left.columns, right.rows)), 0.0
    for matrix, sign, (width, height) in (
        (left, "·", (left.columns, 1)), (right, "=", (1, right.rows)), (result, "", (1, 1)),
    ):  # fmt: skip
        bottom = (tallest - matrix.rows) / 2
        top, middle = bottom + matrix.rows, x + matrix.columns / 2
        ax.add_patch(Rectangle((x, bottom), matrix.columns, matrix.rows, fc=QUIET, ec=INK))
        ax.add_patch(Rectangle((x, top - height), width, height, fc=ACCENT, ec=INK))
        ax.hlines(np.arange(bottom + 1, top), x, x + matrix.columns, color="white", linewidth=1)
        ax.vlines(x + np.arange(1, matrix.columns), bottom, top, color="white", linewidth=1)
        side: dict[str, Any] = {"ha": "right", "va": "center", "rotation": 90, "color": INK}
        ax.text(x - 0.4, tallest / 2, f"{matrix.letters[0]} = {matrix.rows}", **side)
        ax.text(middle, top + 0.6, f"{matrix.letters[1]} = {matrix.columns}", ha="center", color=INK)
        ax.text(middle, tallest / 2, matrix.name, ha="center", va="center", fontsize=13, fontweight="bold", color=INK)
        ax.text(x + matrix.columns + gap / 3, tallest / 2, sign, ha="center", va="center", fontsize=16, color=INK)
        x += matrix.columns + gap
    ax.set(xlim=(-3, x - gap + 1), ylim=(-1, tallest + 3), aspect="equal")
    ax.axis("off")
    return ax


def plane(
    points: Any, contexts: Any, names: Sequence[str], *,
    labels: Sequence[str] | None = None, corners: Any = None, reach: float | None = None, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw values in two dimensions as arrows, and contexts, mixtures of them, as dots inside their outline.

    Args: points (S, 2) are the tips of arrows with these names, contexts (T, 2) have labels, by default "context of"
        each name; corners (N, 2) are those of the shaded area in which contexts lie, by default the points; reach is
        how far the picture goes to all sides of 0, by default it fits the points.
    """
    tips, dots = as_array("plane", points, ("S", "2")), as_array("plane", contexts, ("T", "2"))
    ax = ax or new_figure(4.2, 4.2).subplots()
    ax.fill(*(tips if corners is None else as_array("plane", corners, ("N", "2"))).T, color=QUIET, zorder=0)
    longest = np.abs(tips).max()
    label: dict[str, Any] = {"textcoords": "offset points", "color": INK, "parse_math": False}
    for name, tip in zip(names, tips, strict=True):
        arrow(ax, (0, 0), tip, color=BAR, width=2)
        ax.annotate(name, tip, (6, 6), fontsize=12, **label)
    for text, dot in zip(labels or [f"context of {name}" for name in names], dots, strict=True):
        ax.scatter(dot[0], dot[1], color=ACCENT, edgecolor=INK, s=70, zorder=3)
        side, shift = ("right", -9) if dot[0] > longest / 2 else ("left", 9)
        ax.annotate(text, dot, (shift, -3), ha=side, **label)
    (left, bottom), (right, top) = np.minimum(tips.min(0), 0), tips.max(0)
    ax.set(xlim=(left - 0.15 * longest, right + 0.45 * longest), ylim=(bottom - 0.15 * longest, top + 0.2 * longest))
    if reach is not None:
        ax.set(xlim=(-reach, reach), ylim=(-reach, reach))
    ax.set_aspect("equal")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def weighted_sum(weights: Tensor, v: Tensor, names: Sequence[str]) -> Figure:
    """Draw how one context comes about: the weights, all values, each value times its weight, and the sum.

    Args: weights (S,) of one query, v (S, D), and the names of the S tokens.
    """
    figure = new_figure(10.5, 5.2)
    axes = figure.subplots(2, 3, width_ratios=(1, 2, 2), height_ratios=(len(names), 1))
    share, values, parts = axes[0]
    limit = float(v.abs().max())
    look = {"cmap": "vlag", "vmin": -limit, "vmax": limit, "aspect": "auto"}
    share.barh(range(len(names)), weights.tolist(), color=ACCENT)
    share.set(ylim=(len(names) - 0.5, -0.5), xlim=(0, 1))
    share.set_yticks(range(len(names)), names, fontsize=9, parse_math=False)
    sns.despine(ax=share)
    values.imshow(v.detach().numpy(), **look)
    image = parts.imshow((weights[:, None] * v).detach().numpy(), **look)
    axes[1, 2].imshow((weights @ v)[None].detach().numpy(), **look)
    titles = ("weights", "values v", "weight × value", "", "", "their sum: the context")
    for ax, title in zip(axes.flat, titles, strict=True):
        ax.set_title(title, fontsize=10, loc="left", color=INK)
        if ax is not share:
            ax.set(xticks=[], yticks=[])
    for ax in axes[1, :2]:
        ax.axis("off")
    figure.colorbar(image, ax=axes[:, 2], aspect=30)
    return figure


def whole_pass(x: Tensor, steps: AttentionSteps, names: Sequence[str], head: int) -> Figure:
    """Draw every tensor of one pass as it is: x, the stages of one head, and the output.

    Args: x (1, S, C), steps that the module made of it, the names of the S tokens, and the head whose stages are drawn.
    """
    of_head = {name: getattr(steps, name)[0, head] for name in ("q", "k", "v", "scaled_scores", "weights", "context")}
    shown = {"x": x[0], **of_head, "merged": steps.merged[0], "out": steps.out[0]}
    figure = new_figure(13, 5.2)
    rows: Any = [
        ["x", "q", "scaled_scores", "weights", "context", "merged", "out"],
        [".", "k", ".", "v", ".", ".", "."],
    ]
    axes = figure.subplot_mosaic(rows, width_ratios=(1.3, 0.7, 1, 1, 0.7, 1.3, 1.3))
    for name, tensor in shown.items():
        numbers, ax = tensor.detach().cpu().numpy(), axes[name]
        limit = float(abs(numbers).max())
        low, colors = (0.0, "cividis") if name == "weights" else (-limit, "vlag")
        ax.imshow(numbers, cmap=colors, vmin=low, vmax=limit, aspect="auto", interpolation="nearest")
        ax.set_title(f"{name}\n{len(numbers)} × {numbers.shape[1]}", fontsize=9.5, loc="left", color=INK)
        ax.set(xticks=[], yticks=[])
        if name in ("x", "k"):
            ax.set_yticks(range(len(names)), names, fontsize=7, parse_math=False)
    return figure
