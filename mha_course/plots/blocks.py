"""Pictures of an encoder block: its two wirings, what a norm is over, and what is measured by layer and by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from mha_course.errors import ShapeError
from mha_course.plots.figures import ACCENT, INK, QUIET, new_figure

Box = tuple[str, float, float]  # its words, its left edge and its width
_AXES = ("B", "S", "C")


def block_wirings() -> Figure:
    """Draw both wirings of a block. The stream is a thick line; what stands on it, all must pass.

    >>> [ax.get_title("left").split(":")[0] for ax in block_wirings().axes]
    ['pre-norm', 'post-norm']
    """
    figure = new_figure(11, 4.6)
    upper, lower = figure.subplots(2, 1)
    first, second = [("norm1", 1.3, 1.0), ("attention", 2.6, 1.4)], [("norm2", 5.8, 1.0), ("feed-forward", 7.1, 1.6)]
    _wire(upper, "pre-norm: nothing stands on the stream", [(first, 4.5), (second, 9.2)], [])
    first, second = [("attention", 1.6, 1.4)], [("feed-forward", 6.1, 1.6)]
    on_stream = [("norm1", 4.0, 1.0), ("norm2", 8.7, 1.0)]
    _wire(lower, "post-norm: both norms stand on it", [(first, 3.5), (second, 8.2)], on_stream)
    return figure


def _wire(ax: Axes, title: str, branches: Sequence[tuple[list[Box], float]], on_stream: Sequence[Box]) -> None:
    """Draw one stream, its branches with the place where each is added, and the boxes that stand on the stream."""
    arrow: dict[str, Any] = {"arrowstyle": "-|>", "color": INK, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", (10.5, 1), (0, 1), arrowprops={**arrow, "color": ACCENT, "linewidth": 5})
    for x, name in ((-0.25, "x"), (10.75, "out")):
        ax.text(x, 1, name, ha="center", va="center", fontsize=12, fontweight="bold", color=INK)
    for boxes, end in branches:
        start = boxes[0][1] - 0.6
        ax.plot((start, start, end, end), (1, 0, 0, 0.8), color=INK, linewidth=1.3, zorder=1)
        ax.annotate("", (end, 0.86), (end, 0.6), arrowprops=arrow)
        ax.text(end, 1, "+", ha="center", va="center", fontsize=15, fontweight="bold", color=INK, zorder=4)
        ax.scatter(end, 1, s=420, color="white", edgecolor=INK, linewidth=1.5, zorder=3)
        for box in boxes:
            _box(ax, box, 0)
    for box in on_stream:
        _box(ax, box, 1)
    ax.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK)
    ax.set(xlim=(-0.6, 11.1), ylim=(-0.5, 1.5))
    ax.axis("off")


def _box(ax: Axes, box: Box, height: float) -> None:
    """Draw one part; norms have another colour than what mixes and thinks."""
    name, left, width = box
    color = QUIET if name.startswith("norm") else "#c9d6ea"
    look: dict[str, Any] = {"boxstyle": "round,pad=0,rounding_size=0.1", "facecolor": color, "edgecolor": INK}
    ax.add_patch(FancyBboxPatch((left, height - 0.3), width, 0.6, zorder=3, **look))
    ax.text(left + width / 2, height, name, ha="center", va="center", fontsize=11, color=INK, zorder=4)


def norm_groups(ways: Mapping[str, Sequence[int]], shape: tuple[int, int, int]) -> Figure:
    """Draw which numbers of x (B, S, C) share their mean with one of them, for each way to choose axes.

    Args: ways maps a title to the axes that the mean is taken over, such as (2,); shape is B, S, C.
    Raises: ShapeError for an axis that x does not have.

    >>> len(norm_groups({"dim=-1": (-1,), "dim=0": (0,)}, (2, 5, 6)).axes)
    2
    """
    (batch, tokens, width), chosen = shape, (0, 1, 2)
    figure = new_figure(2.7 * len(ways), 0.3 + 0.24 * batch * (tokens + 1.6))
    for ax, (title, dims) in zip(figure.subplots(1, len(ways), squeeze=False)[0], ways.items(), strict=True):
        if any(not -3 <= dim < 3 for dim in dims):
            raise ShapeError("norm_groups", "x has three axes", expected="-3 to 2", got=str(tuple(dims)))
        over = {dim % 3 for dim in dims}
        for b, s, c in np.ndindex(shape):
            shares = all(axis in over or (b, s, c)[axis] == chosen[axis] for axis in range(3))
            color = INK if (b, s, c) == chosen else ACCENT if shares else QUIET
            look: dict[str, Any] = {"facecolor": color, "edgecolor": "white", "linewidth": 1}
            ax.add_patch(Rectangle((c, b * (tokens + 1.6) + s), 1, 1, **look))
        for b in range(batch):
            top = b * (tokens + 1.6)
            ax.text(0, top - 0.25, f"sentence {b}", fontsize=9, color=INK)
            ax.text(-0.2, top + tokens / 2, "words", fontsize=9, color=INK, rotation=90, ha="right", va="center")
        bottom = batch * (tokens + 1.6) - 1.6
        ax.text(width / 2, bottom + 0.2, "channels", fontsize=9, color=INK, ha="center", va="top")
        ax.set_title(f"{title}\nover {', '.join(_AXES[dim] for dim in sorted(over))}", loc="left", fontsize=10)
        ax.set(xlim=(-0.9, width), ylim=(bottom + 1, -1.2), aspect="equal")
        ax.axis("off")
    return figure
