"""Pictures of an encoder block and its wirings, and of the axes of norms.

Blocks are drawn in page pixels; y goes down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from mha_course import plots
from mha_course.colours import ACCENT, INK, PAPER, QUIET
from mha_course.plots.diagrams import box
from mha_course.plots.figures import SMALL, TEXT, figure_of

HEIGHT = 500
ASIDE = 88  # from a stream to its branches
PARTS = ("attention", "feed-forward")
STARTS = (84, 272)  # y where branches begin
SUMS = (215, 407)  # y where they end
READ = (60, 242, 438)  # y where a stream is read


def block_wirings() -> Figure:
    """Draw both wirings; the thick line is the stream."""
    ax = _canvas(360)
    _draw_block(ax, 36, pre_norm=True)
    _draw_block(ax, 212, pre_norm=False)
    ax.text(4, -16, "pre-norm: none\non the stream", va="center", color=INK)
    ax.text(180, -16, "post-norm: both\non the stream", va="center", color=INK)
    return figure_of(ax)


def block_readings(readings: Sequence[Mapping[str, float]]) -> Figure:
    """Draw a pre-norm block, and what is read at three points: names and fractions from 0 to 1."""
    ax = _canvas(312)
    stream = 165
    _draw_block(ax, stream, pre_norm=True)
    for y, reading in zip(READ, readings, strict=True):
        _draw_line(ax, [(stream, y), (stream - 24, y)])
        for n, (name, value) in enumerate(reading.items()):
            at = y + 21 * (n - (len(reading) - 1) / 2)
            color = ACCENT if n == 0 else INK
            _draw_line(ax, [(46, at), (46 + 50 * value, at)], width=11, color=color)
            ax.text(40, at, name, ha="right", va="center", color=INK)
            ax.text(102, at, f"{value:.2f}", va="center", color=INK)
    return figure_of(ax)


def _canvas(width: int) -> Axes:
    """Make a figure narrow enough for a phone."""
    ax = plots.new_figure(width / 92, (HEIGHT + 40) / 92).subplots()
    ax.set(xlim=(0, width), ylim=(HEIGHT, -40))
    ax.axis("off")
    return ax


def _draw_block(ax: Axes, x: int, *, pre_norm: bool) -> None:
    branch = x + ASIDE
    _draw_line(ax, [(x, 26), (x, 474)], width=9, color=ACCENT)
    for number, (name, start, end) in enumerate(zip(PARTS, STARTS, SUMS, strict=True), start=1):
        _draw_line(ax, [(x, start), (branch, start), (branch, end), (x, end)])
        _draw_box(ax, (branch, start + 86), 104, 40, name)
        _draw_box(ax, (x, end), 26, 26, "+")
        norm = (branch, start + 34) if pre_norm else (x, end + 32)
        _draw_box(ax, norm, 64, 34, f"norm{number}")
    ax.text(x, 14, "x", ha="center", va="center", color=INK)
    ax.text(x, 488, "out", ha="center", va="center", color=INK)


def _draw_line(
    ax: Axes, points: Sequence[tuple[float, float]], width: float = 2, color: str = INK
) -> None:
    style: dict[str, Any] = {"linewidth": 0.75 * width, "solid_capstyle": "butt", "zorder": 1}
    ax.plot(*zip(*points, strict=True), color=color, **style)


def _draw_box(ax: Axes, middle: tuple[int, int], width: int, height: int, name: str) -> None:
    """Draw a box over the lines."""
    x, y = middle
    corner = (x - width / 2, y - height / 2)
    box(ax, corner, width, height, name, color=PAPER, edge=INK, rounding=13, zorder=2)


def norm_groups(groups: Mapping[str, Sequence[int]], shape: tuple[int, int, int]) -> Figure:
    """Draw which numbers of x (B, S, C) share a mean with a given one, for each choice of axes.

    Args: groups maps a title to the axes of the mean, such as (2,); shape is B, S, C.
    """
    (batch, tokens, width) = shape
    chosen = (0, 1, 2)
    style: dict[str, Any] = {"fontsize": SMALL, "color": INK}
    figure = plots.new_figure(2.7 * len(groups), 0.3 + 0.24 * batch * (tokens + 1.6))
    for ax, (title, dims) in zip(
        figure.subplots(1, len(groups), squeeze=False)[0], groups.items(), strict=True
    ):
        over = {dim % 3 for dim in dims}
        for b, s, c in np.ndindex(shape):
            in_group = all(axis in over or (b, s, c)[axis] == chosen[axis] for axis in range(3))
            color = INK if (b, s, c) == chosen else ACCENT if in_group else QUIET
            corner = (c, b * (tokens + 1.6) + s)
            ax.add_patch(Rectangle(corner, 1, 1, facecolor=color, edgecolor="white", linewidth=1))
        for b in range(batch):
            top = b * (tokens + 1.6)
            ax.text(0, top - 0.25, f"sentence {b}", **style)
            side = {"rotation": 90, "ha": "right", "va": "center"}
            ax.text(-0.2, top + tokens / 2, "words", **side, **style)
        bottom = batch * (tokens + 1.6) - 1.6
        ax.text(width / 2, bottom + 0.2, "channels", ha="center", va="top", **style)
        axes = ", ".join("BSC"[dim] for dim in sorted(over))
        ax.set_title(f"{title}\nover {axes}", loc="left", fontsize=TEXT)
        ax.set(xlim=(-0.9, width), ylim=(bottom + 1, -1.2), aspect="equal")
        ax.axis("off")
    return figure
