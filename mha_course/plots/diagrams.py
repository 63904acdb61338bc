"""Drawings that explain: the steps in a row, a matrix product to scale, vectors in a plane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from torch import Tensor

from mha_course.attention import AttentionSteps
from mha_course.errors import ShapeError
from mha_course.plots.figures import ACCENT, BAR, INK, QUIET, new_figure

STAGES = (
    ("projection", "x Wᵀ + b", "q, k, v"),
    ("head splitting", "cut C into H × D", "(B, H, S, D)"),
    ("scaling", "q kᵀ / √D", "(B, H, T, S)"),
    ("softmax", "rows sum to 1", "(B, H, T, S)"),
    ("weighted sum", "weights · v", "(B, H, T, D)"),
    ("concatenation", "merge, then W_O", "(B, T, C)"),
)


def pipeline(*lit: str, ax: Axes | None = None) -> Axes:
    """Draw the steps of multi-head attention in a row, some of them lit, or all where none is named.

    Args: lit are names of steps: see STAGES. Raises: ShapeError for a name it does not have.
    """
    names = [name for name, _, _ in STAGES]
    chosen = set(lit or names)
    if chosen - set(names):
        got = ", ".join(sorted(chosen - set(names)))
        raise ShapeError("pipeline", "lit must name steps", expected=", ".join(names), got=got)
    ax = ax or new_figure(11, 1.25).subplots()
    for place, (name, formula, shape) in enumerate(STAGES):
        color, weight = (ACCENT, "bold") if name in chosen else (QUIET, "normal")
        ax.add_patch(
            FancyBboxPatch((place, 0), 0.82, 1, boxstyle="round,pad=0,rounding_size=0.08", fc=color, ec="none")
        )
        for height, text, size in ((0.74, f"{place + 1} {name}", 10), (0.43, formula, 9), (0.17, shape, 8.5)):
            ax.text(place + 0.41, height, text, ha="center", va="center", fontsize=size, fontweight=weight, color=INK)
        if place:
            ax.annotate("", (place - 0.01, 0.5), (place - 0.17, 0.5), arrowprops={"arrowstyle": "-|>", "color": INK})
    ax.set(xlim=(-0.05, len(STAGES) - 0.13), ylim=(-0.05, 1.05))
    ax.axis("off")
    return ax


class Matrix(NamedTuple):
    """A matrix in a drawing: its name, its sizes, and the letters of its axes."""

    name: str
    rows: int
    columns: int
    letters: tuple[str, str]


def product(left: Matrix, right: Matrix, result: Matrix, *, ax: Axes | None = None) -> Axes:
    """Draw left · right = result to scale; what is summed over is lit on both sides.

    Raises: ShapeError when the sizes do not fit.
    """
    if (left.columns, left.rows, right.columns) != (right.rows, result.rows, result.columns):
        expected = f"({left.rows}, n) · (n, {right.columns}) = ({left.rows}, {right.columns})"
        got = " ".join(f"({block.rows}, {block.columns})" for block in (left, right, result))
        raise ShapeError("product", "the sizes must fit", expected=expected, got=got)
    ax = ax or new_figure(9, 3).subplots()
    tallest, gap, x = max(left.rows, right.rows), max(3.0, 0.35 * max(left.columns, right.rows)), 0.0
    for block, sign in ((left, "·"), (right, "="), (result, "")):
        bottom = (tallest - block.rows) / 2
        ax.add_patch(Rectangle((x, bottom), block.columns, block.rows, fc=QUIET, ec=INK))
        if block is left:
            ax.add_patch(Rectangle((x, bottom + block.rows - 1), block.columns, 1, fc=ACCENT, ec=INK))
        elif block is right:
            ax.add_patch(Rectangle((x, bottom), 1, block.rows, fc=ACCENT, ec=INK))
        else:
            ax.add_patch(Rectangle((x, bottom + block.rows - 1), 1, 1, fc=ACCENT, ec=INK))
        middle, height = x + block.columns / 2, bottom + block.rows / 2
        ax.text(middle, bottom + block.rows + 0.6, f"{block.letters[1]} = {block.columns}", ha="center", color=INK)
        ax.text(x - 0.4, height, f"{block.letters[0]} = {block.rows}", ha="right", va="center", rotation=90, color=INK)
        ax.text(middle, height, block.name, ha="center", va="center", fontsize=13, fontweight="bold", color=INK)
        ax.text(x + block.columns + gap / 3, tallest / 2, sign, ha="center", va="center", fontsize=16, color=INK)
        x += block.columns + gap
    ax.set(xlim=(-3, x - gap + 1), ylim=(-1, tallest + 3), aspect="equal")
    ax.axis("off")
    return ax


def plane(points: Any, mixtures: Any, names: Sequence[str], *, ax: Axes | None = None) -> Axes:
    """Draw vectors in two dimensions as arrows, and mixtures of them as dots among them.

    Args: points and mixtures are (S, 2) tensors; names are S strings.
    """
    ax = ax or new_figure(4.2, 4.2).subplots()
    corners = [tuple(point) for point in points.tolist()]
    ax.fill(*zip(*corners, strict=True), color=QUIET, zorder=0)
    for name, (x, y), (mixed_x, mixed_y) in zip(names, corners, mixtures.tolist(), strict=True):
        ax.annotate("", (x, y), (0, 0), arrowprops={"arrowstyle": "-|>", "color": BAR, "linewidth": 2})
        ax.annotate(name, (x, y), xytext=(6, 6), textcoords="offset points", fontsize=12, color=INK)
        ax.scatter(mixed_x, mixed_y, color=ACCENT, edgecolor=INK, s=70, zorder=3)
        side, shift = ("right", -9) if mixed_x > 1 else ("left", 9)
        label: dict[str, Any] = {"xytext": (shift, -3), "textcoords": "offset points", "ha": side, "color": INK}
        ax.annotate(f"context of {name}", (mixed_x, mixed_y), **label)
    ax.set(xlim=(-0.3, 2.9), ylim=(-0.3, 2.4), aspect="equal")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def weighted_sum(weights: Tensor, v: Tensor, names: Sequence[str]) -> Figure:
    """Draw how one context comes about: the weights, all values, each value times its weight, and the sum.

    Args: weights (S,) of one query, v (S, D), names of the S tokens.
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
    axes[1, 0].axis("off")
    axes[1, 1].axis("off")
    figure.colorbar(image, ax=axes[:, 2], aspect=30)
    return figure


def whole_pass(x: Tensor, steps: AttentionSteps, names: Sequence[str], head: int) -> Figure:
    """Draw every tensor of one pass as it is: x (1, S, C), the stages of one head, and the output."""
    shown = {
        "x": x[0],
        "q": steps.q[0, head],
        "k": steps.k[0, head],
        "v": steps.v[0, head],
        "scaled_scores": steps.scaled_scores[0, head],
        "weights": steps.weights[0, head],
        "context": steps.context[0, head],
        "merged": steps.merged[0],
        "out": steps.out[0],
    }
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
