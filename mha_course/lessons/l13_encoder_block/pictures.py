"""Pictures of an encoder block and its wirings, and of what a norm is over.

A block is drawn in units of its own, 1,000 across; y goes down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from mha_course import plots
from mha_course.colours import ACCENT, INK, QUIET
from mha_course.plots.diagrams import box
from mha_course.plots.figures import SMALL, TEXT

WIDTH = 1000
RISE = 84  # from a stream up to its branches
SUMS = (435, 860)  # x
READ = (75, 500, 905)  # x where a stream is read
PARTS = ((280, 120, "attention"), (705, 120, "feed-forward"))  # x, width and name
NORMS = {True: (170, 595), False: (475, 885)}  # x: pre-norm's on the branches, post-norm's not


def block_wirings() -> Figure:
    """Draw both wirings: everything must pass what is on the thick line, the stream."""
    figure = plots.new_figure(WIDTH / 92, 360 / 92)
    ax = _canvas(figure, 360)
    _draw_block(ax, 145, pre_norm=True)
    _draw_block(ax, 330, pre_norm=False)
    ax.text(8, 18, "pre-norm: no norm on the stream", va="center", color=INK)
    ax.text(8, 203, "post-norm: both norms on the stream", va="center", color=INK)
    return figure


def block_readings(readings: Sequence[Mapping[str, float]]) -> Figure:
    """Draw a pre-norm block, and what is read at three places: names and shares from 0 to 1."""
    figure = plots.new_figure(WIDTH / 92, 234 / 92)
    ax = _canvas(figure, 234)
    stream = 110
    _draw_block(ax, stream, pre_norm=True)
    for x, shares in zip(READ, readings, strict=True):
        _draw_line(ax, [(x, stream), (x, stream + 28)])
        for n, (name, share) in enumerate(shares.items()):
            y = stream + 46 + 21 * n
            color = ACCENT if n == 0 else INK
            _draw_line(ax, [(x, y), (x + 50 * share, y)], width=11, color=color)
            ax.text(x - 8, y, name, ha="right", va="center", color=INK)
            ax.text(x + 56, y, f"{share:.2f}", va="center", color=INK)
    return figure


def _canvas(figure: Figure, height: int) -> Axes:
    ax = figure.subplots()
    ax.set(xlim=(0, WIDTH), ylim=(height, 0))
    ax.axis("off")
    return ax


def _draw_block(ax: Axes, y: int, *, pre_norm: bool) -> None:
    branch = y - RISE
    _draw_line(ax, [(40, y), (960, y)], width=9, color=ACCENT)
    starts = (125, 550)
    for number, (x, width, name) in enumerate(PARTS):
        start = starts[number]
        end = SUMS[number]
        _draw_line(ax, [(start, y), (start, branch), (end, branch), (end, y)])
        _draw_box(ax, (x, branch), width, 44, name)
        _draw_box(ax, (end - 13, y), 26, 26, "+")
        norm_y, height = (branch, 44) if pre_norm else (y, 36)
        _draw_box(ax, (NORMS[pre_norm][number], norm_y), 64, height, f"norm{number + 1}")
    ax.text(28, y, "x", ha="right", va="center", color=INK)
    ax.text(968, y, "out", va="center", color=INK)


def _draw_line(
    ax: Axes, points: Sequence[tuple[float, float]], width: float = 2, color: str = INK
) -> None:
    look: dict[str, Any] = {"linewidth": 0.75 * width, "solid_capstyle": "butt", "zorder": 1}
    ax.plot(*zip(*points, strict=True), color=color, **look)


def _draw_box(ax: Axes, left: tuple[int, int], width: int, height: int, name: str) -> None:
    """Draw a box from the middle of its left edge, over the lines."""
    x, y = left
    corner = (x, y - height / 2)
    box(ax, corner, width, height, name, color="white", edge=INK, rounding=13, zorder=2)


def norm_groups(ways: Mapping[str, Sequence[int]], shape: tuple[int, int, int]) -> Figure:
    """Draw which numbers of x (B, S, C) share their mean with one of them, for each way to choose
    axes.

    Args: ways maps a title to the axes that the mean is taken over, such as (2,); shape is B, S, C.
    """
    (batch, tokens, width) = shape
    chosen = (0, 1, 2)
    look: dict[str, Any] = {"fontsize": SMALL, "color": INK}
    figure = plots.new_figure(2.7 * len(ways), 0.3 + 0.24 * batch * (tokens + 1.6))
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
            ax.text(0, top - 0.25, f"sentence {b}", **look)
            side = {"rotation": 90, "ha": "right", "va": "center"}
            ax.text(-0.2, top + tokens / 2, "words", **side, **look)
        bottom = batch * (tokens + 1.6) - 1.6
        ax.text(width / 2, bottom + 0.2, "channels", ha="center", va="top", **look)
        axes = ", ".join("BSC"[dim] for dim in sorted(over))
        ax.set_title(f"{title}\nover {axes}", loc="left", fontsize=TEXT)
        ax.set(xlim=(-0.9, width), ylim=(bottom + 1, -1.2), aspect="equal")
        ax.axis("off")
    return figure
