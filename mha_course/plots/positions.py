"""Drawings of two sequences that meet, and of places written as waves and as turns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from mha_course.plots.drawing import Point, arrow
from mha_course.plots.figures import INK, QUIET, SMALL, TEXT, TITLE, new_figure
from mha_course.tracing.records import color as axis_color


class _Cells(NamedTuple):
    """A matrix to scale, a square for each number: its name, its lower left corner, its sizes, and its colour."""

    name: str
    x: float
    y: float
    columns: int
    rows: int
    color: str

    def entry(self, share: float = 0.5) -> Point:
        """Where an arrow comes to it, on the left, so far up; it leaves on the right, in the middle."""
        return self.x - 1.6, self.y + self.rows * share

    @property
    def exit(self) -> Point:
        return self.x + self.columns + 0.3, self.y + self.rows / 2


def cross_attention(queries: int, keys: int, *, ax: Axes | None = None) -> Axes:
    """Draw cross-attention to scale: x asks with one sequence (queries: T tokens), memory answers (keys: S tokens)."""
    ax = ax or new_figure(11, 4.2).subplots()
    width = 4  # numbers of a token that are drawn
    upper, middle = keys + 4.6, (4.6 + queries) / 2
    x = _Cells("x: asks", 0, upper, width, queries, axis_color("T"))
    memory = _Cells("memory: answers", 0, 0, width, keys, axis_color("S"))
    q = _Cells("q", 10, upper, width, queries, axis_color("T"))
    k = _Cells("k", 10, 0, width, keys, axis_color("S"))
    v = _Cells("v", 10 + width + 1.5, 0, width, keys, axis_color("S"))
    weights = _Cells("weights", 25.5, middle, keys, queries, QUIET)
    context = _Cells("context", 41, middle, width, queries, axis_color("T"))
    for cells in (x, memory, q, k, v, weights, context):
        _draw_cells(ax, cells, "T" if cells.rows == queries else "S", "S" if cells is weights else "")
    for start, end, label in ((x, q, "$W_Q$"), (memory, k, "$W_K$, $W_V$"), (weights, context, "· v")):
        arrow(ax, start.exit, end.entry())
        between = (start.exit[0] + end.entry()[0]) / 2
        ax.text(between, start.exit[1] + 0.35, label, ha="center", va="bottom", fontsize=TEXT, color=INK)
    arrow(ax, q.exit, weights.entry(0.7))
    above, turn = keys + 2.1, v.x + width + 0.3  # k goes over v, to where it meets q
    ax.plot((k.x + width / 2, k.x + width / 2, turn), (above - 0.5, above, above), color=INK, linewidth=1)
    arrow(ax, (turn, above), weights.entry(0.3))
    meet, low = (weights.x + keys + context.x - 1.3) / 2, -1.2  # v goes below all, to where it is mixed
    ax.plot((v.x + width / 2, v.x + width / 2, meet), (-0.2, low, low), color=INK, linewidth=1)
    arrow(ax, (meet, low), (meet, middle + queries / 2 - 0.2))
    ax.text(weights.x + keys / 2, middle - 1.1, "softmax of q kᵀ / √D", ha="center", fontsize=TEXT, color=INK)
    ax.set(xlim=(-2, context.x + width + 1), ylim=(-1.5, upper + queries + 2), aspect="equal")
    ax.axis("off")
    return ax


def _draw_cells(ax: Axes, cells: _Cells, rows: str, columns: str) -> None:
    """Draw a matrix, its name above and its sizes, with these letters, beside it."""
    for row, column in np.ndindex(cells.rows, cells.columns):
        corner = cells.x + column, cells.y + row
        ax.add_patch(Rectangle(corner, 1, 1, facecolor=cells.color, edgecolor="white", linewidth=0.8))
    centre, top, middle = cells.x + cells.columns / 2, cells.y + cells.rows, cells.y + cells.rows / 2
    above = f"{cells.name}\n{columns} = {cells.columns}" if columns else cells.name
    ax.text(centre, top + 0.4, above, ha="center", va="bottom", fontsize=TITLE, fontweight="bold", color=INK)
    beside = f"{rows} = {cells.rows}"
    ax.text(cells.x - 0.3, middle, beside, ha="right", va="center", rotation=90, fontsize=SMALL, color=INK)


def encoding_waves(encoding: Tensor, channels: tuple[int, ...]) -> Figure:
    """Draw an encoding of places (S, C): all of it in colours, and up to four of its channels as waves."""
    figure = new_figure(11, 4)
    whole, lines = figure.subplots(1, 2, width_ratios=(1, 1.2))
    image = whole.imshow(encoding.numpy().T, cmap="vlag", vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
    whole.set(xlabel="place s", ylabel="channel")
    whole.set_title("all channels", loc="left", fontsize=TEXT, color=INK)
    figure.colorbar(image, ax=whole)
    for channel, shade, style in zip(channels, sns.color_palette("colorblind"), ("-", "--", "-.", ":"), strict=False):
        lines.plot(encoding[:, channel].numpy(), color=shade, linestyle=style, linewidth=2, label=f"channel {channel}")
    lines.set(xlabel="place s", ylim=(-1.1, 1.1))
    lines.set_title("some of them as waves", loc="left", fontsize=TEXT, color=INK)
    lines.legend(frameon=False, ncols=len(channels), loc="upper center", bbox_to_anchor=(0.5, -0.16))
    sns.despine(ax=lines)
    return figure


def rope_pairs(width: int, *, ax: Axes | None = None) -> Axes:
    """Draw which of the channels of a head, width is D, make a pair in both layouts of RoPE."""
    ax = ax or new_figure(8.5, 2.2).subplots()
    colors = sns.color_palette("colorblind", width // 2)
    half_split, interleaved = [n % (width // 2) for n in range(width)], [n // 2 for n in range(width)]
    for title, left, pair in (("half-split", 0, half_split), ("interleaved", width + 3, interleaved)):
        for n in range(width):
            light = (*colors[pair[n]], 0.5)
            ax.add_patch(Rectangle((left + n, 0), 1, 1, facecolor=light, edgecolor="white", linewidth=2))
            ax.text(left + n + 0.5, 0.5, str(n), ha="center", va="center", fontsize=TITLE, color=INK, fontweight="bold")
        for number in range(width // 2):
            first, second = (left + n + 0.5 for n in range(width) if pair[n] == number)
            arrow(ax, (first, 1.05), (second, 1.05), color=colors[number], width=2, bend=-0.45, arrowstyle="-")
        ax.text(left + width / 2, -0.5, title, ha="center", va="top", fontsize=TITLE, color=INK)
    ax.set(xlim=(-0.3, 2 * width + 3.3), ylim=(-1.2, 2.1), aspect="equal")
    ax.axis("off")
    return ax
