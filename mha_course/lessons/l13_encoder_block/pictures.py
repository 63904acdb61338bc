"""Pictures of an encoder block: its two wirings, and what a norm is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from mha_course.plots.diagrams import arrow, box
from mha_course.plots.figures import ACCENT, INK, LARGE, QUIET, SMALL, TEXT, TITLE, new_figure

Part = tuple[str, float, float]  # its name, its left edge and its width


def block_wirings() -> Figure:
    """Draw both wirings of a block.

    The stream is a thick line; what stands on it, all must pass.
    """
    figure = new_figure(11, 4.6)
    upper, lower = figure.subplots(2, 1)
    _draw_stream(upper, "pre-norm: nothing stands on the stream", [])
    _draw_branch(upper, [("norm1", 1.3, 1.0), ("attention", 2.6, 1.4)], 4.5)
    _draw_branch(upper, [("norm2", 5.8, 1.0), ("feed-forward", 7.1, 1.6)], 9.2)
    _draw_stream(
        lower, "post-norm: both norms stand on it", [("norm1", 4.0, 1.0), ("norm2", 8.7, 1.0)]
    )
    _draw_branch(lower, [("attention", 1.6, 1.4)], 3.5)
    _draw_branch(lower, [("feed-forward", 6.1, 1.6)], 8.2)
    return figure


def _draw_stream(ax: Axes, title: str, parts: Sequence[Part]) -> None:
    """Draw the stream from x to out, and the parts that stand on it."""
    ax.set_title(title, loc="left", fontsize=TITLE, fontweight="bold", color=INK)
    arrow(ax, (0, 1), (10.5, 1), color=ACCENT, width=5, shrinkA=0, shrinkB=0)
    for x, name in ((-0.25, "x"), (10.75, "out")):
        ax.text(x, 1, name, ha="center", va="center", fontsize=TITLE, fontweight="bold", color=INK)
    _draw_parts(ax, parts, 1)
    ax.set(xlim=(-0.6, 11.1), ylim=(-0.5, 1.5))
    ax.axis("off")


def _draw_branch(ax: Axes, parts: Sequence[Part], end: float) -> None:
    """Draw the parts that a copy of the stream goes through, and where their result is added."""
    start = parts[0][1] - 0.6
    ax.plot((start, start, end, end), (1, 0, 0, 0.8), color=INK, linewidth=1.3, zorder=1)
    arrow(ax, (end, 0.6), (end, 0.86), shrinkA=0, shrinkB=0)
    ax.text(
        end,
        1,
        "+",
        ha="center",
        va="center",
        fontsize=LARGE,
        fontweight="bold",
        color=INK,
        zorder=4,
    )
    ax.scatter(end, 1, s=420, color="white", edgecolor=INK, linewidth=1.5, zorder=3)
    _draw_parts(ax, parts, 0)


def _draw_parts(ax: Axes, parts: Sequence[Part], height: float) -> None:
    for name, left, width in parts:
        color = QUIET if name.startswith("norm") else "#c9d6ea"
        box(
            ax,
            (left, height - 0.3),
            width,
            0.6,
            name,
            color=color,
            edge=INK,
            fontsize=TITLE,
            rounding=0.1,
            zorder=3,
        )


def norm_groups(ways: Mapping[str, Sequence[int]], shape: tuple[int, int, int]) -> Figure:
    """Draw which numbers of x (B, S, C) share their mean with one of them, for each way to choose
    axes.

    Args: ways maps a title to the axes that the mean is taken over, such as (2,); shape is B, S, C.
    """
    (batch, tokens, width) = shape
    chosen = (0, 1, 2)
    figure = new_figure(2.7 * len(ways), 0.3 + 0.24 * batch * (tokens + 1.6))
    for ax, (title, dims) in zip(
        figure.subplots(1, len(ways), squeeze=False)[0], ways.items(), strict=True
    ):
        over = {dim % 3 for dim in dims}
        for b, s, c in np.ndindex(shape):
            shares = all(axis in over or (b, s, c)[axis] == chosen[axis] for axis in range(3))
            color = INK if (b, s, c) == chosen else ACCENT if shares else QUIET
            corner = (c, b * (tokens + 1.6) + s)
            ax.add_patch(Rectangle(corner, 1, 1, facecolor=color, edgecolor="white", linewidth=1))
        for b in range(batch):
            top = b * (tokens + 1.6)
            ax.text(0, top - 0.25, f"sentence {b}", fontsize=SMALL, color=INK)
            ax.text(
                -0.2,
                top + tokens / 2,
                "words",
                fontsize=SMALL,
                color=INK,
                rotation=90,
                ha="right",
                va="center",
            )
        bottom = batch * (tokens + 1.6) - 1.6
        ax.text(
            width / 2, bottom + 0.2, "channels", fontsize=SMALL, color=INK, ha="center", va="top"
        )
        ax.set_title(
            f"{title}\nover {', '.join('BSC'[dim] for dim in sorted(over))}",
            loc="left",
            fontsize=TEXT,
        )
        ax.set(xlim=(-0.9, width), ylim=(bottom + 1, -1.2), aspect="equal")
        ax.axis("off")
    return figure
