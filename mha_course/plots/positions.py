"""Drawings of two sequences that meet, and of places written as waves and as turns."""

from __future__ import annotations

from typing import Any, NamedTuple

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from mha_course.plots.figures import ACCENT, BAR, INK, QUIET, new_figure


class _Box(NamedTuple):
    """A matrix to scale: its name, its lower left corner, its columns and rows, and its colour."""

    name: str
    x: float
    y: float
    columns: int
    rows: int
    color: str


def cross_attention(queries: int, keys: int, *, width: int = 4, ax: Axes | None = None) -> Axes:
    """Draw cross-attention to scale: x asks with ``queries`` tokens, memory answers with ``keys`` tokens.

    >>> cross_attention(5, 7).texts[0].get_text()
    'x: asks'
    """
    ax = ax or new_figure(11, 4.2).subplots()
    upper, middle = keys + 3.6, (keys + 3.6 + queries - keys) / 2
    x, memory = _Box("x: asks", 0, upper, width, queries, ACCENT), _Box("memory: answers", 0, 0, width, keys, BAR)
    q = _Box("q", 10, upper, width, queries, ACCENT)
    v, k = _Box("v", 10, 0, width, keys, BAR), _Box("k", 10 + width + 1.5, 0, width, keys, BAR)
    weights = _Box("weights", 25.5, middle, keys, queries, QUIET)
    context = _Box("context", 41, middle, width, queries, ACCENT)
    for box in (x, memory, q, k, v, weights, context):
        _draw(ax, box, "T" if box.rows == queries else "S", "S" if box is weights else "")
    for start, end, label in ((x, q, "$W_Q$"), (memory, v, "$W_V$, $W_K$"), (weights, context, "· v")):
        height = start.y + start.rows / 2
        _arrow(ax, (start.x + start.columns + 0.3, height), (end.x - 1.6, height), label)
    for start, part in ((q, 0.7), (k, 0.3)):
        right = start.x + start.columns + 0.3
        _arrow(ax, (right, start.y + start.rows / 2), (weights.x - 1.6, middle + queries * part), "")
    meet, low = (weights.x + keys + context.x - 1.3) / 2, -1.2  # v goes beneath all, to where it is mixed
    ax.plot((v.x + width / 2, v.x + width / 2, meet), (-0.2, low, low), color=INK, linewidth=1)
    _arrow(ax, (meet, low), (meet, middle + queries / 2 - 0.2), "")
    ax.text(weights.x + keys / 2, middle - 1.1, "softmax of q kᵀ / √D", ha="center", fontsize=10, color=INK)
    ax.set(xlim=(-2, context.x + width + 1), ylim=(-1.5, upper + queries + 2), aspect="equal")
    ax.axis("off")
    return ax


def _draw(ax: Axes, box: _Box, rows: str, columns: str) -> None:
    """Draw the cells of a matrix, its name above and its sizes beside it."""
    for row in range(box.rows):
        for column in range(box.columns):
            look: dict[str, Any] = {"facecolor": box.color, "edgecolor": "white", "linewidth": 0.8}
            ax.add_patch(Rectangle((box.x + column, box.y + row), 1, 1, **look))
    centre, top = box.x + box.columns / 2, box.y + box.rows
    above = f"{box.name}\n{columns} = {box.columns}" if columns else box.name
    ax.text(centre, top + 0.4, above, ha="center", va="bottom", fontsize=11, fontweight="bold", color=INK)
    side: dict[str, Any] = {"ha": "right", "va": "center", "rotation": 90, "fontsize": 9, "color": INK}
    ax.text(box.x - 0.3, box.y + box.rows / 2, f"{rows} = {box.rows}", **side)


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], label: str) -> None:
    """Draw an arrow with a word above it."""
    ax.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": INK})
    ax.text((start[0] + end[0]) / 2, start[1] + 0.35, label, ha="center", va="bottom", fontsize=10, color=INK)


def encoding_waves(encoding: Tensor, channels: tuple[int, ...]) -> Figure:
    """Draw an encoding (S, C): all of it in colours, and some of its channels as waves over the places."""
    figure = new_figure(11, 4)
    whole, lines = figure.subplots(1, 2, width_ratios=(1, 1.2))
    image = whole.imshow(encoding.numpy().T, cmap="vlag", vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
    whole.set(xlabel="place s", ylabel="channel", title="all channels")
    figure.colorbar(image, ax=whole)
    for channel, color, style in zip(channels, sns.color_palette("colorblind"), ("-", "--", "-.", ":"), strict=False):
        lines.plot(encoding[:, channel].numpy(), color=color, linestyle=style, linewidth=2, label=f"channel {channel}")
    lines.set(xlabel="place s", ylim=(-1.1, 1.1), title="some of them as waves")
    lines.legend(frameon=False, ncols=len(channels), loc="upper center", bbox_to_anchor=(0.5, -0.16))
    sns.despine(ax=lines)
    return figure


def rope_pairs(width: int, *, ax: Axes | None = None) -> Axes:
    """Draw which of the channels of a head make a pair, in both layouts of RoPE.

    >>> len(rope_pairs(6).patches)
    12
    """
    ax = ax or new_figure(8.5, 2.2).subplots()
    colors = sns.color_palette("colorblind", width // 2)
    half_split, interleaved = [n % (width // 2) for n in range(width)], [n // 2 for n in range(width)]
    for title, left, pair in (("half-split", 0, half_split), ("interleaved", width + 3, interleaved)):
        for n in range(width):
            ax.add_patch(
                Rectangle((left + n, 0), 1, 1, facecolor=(*colors[pair[n]], 0.5), edgecolor="white", linewidth=2)
            )
            ax.text(left + n + 0.5, 0.5, str(n), ha="center", va="center", fontsize=11, color=INK, fontweight="bold")
        for number in range(width // 2):
            first, second = (left + n + 0.5 for n in range(width) if pair[n] == number)
            bend = {"arrowstyle": "-", "color": colors[number], "connectionstyle": "arc3,rad=-0.45", "linewidth": 2}
            ax.annotate("", (second, 1.05), (first, 1.05), arrowprops=bend)
        ax.text(left + width / 2, -0.5, title, ha="center", va="top", fontsize=11, color=INK)
    ax.set(xlim=(-0.3, 2 * width + 3.3), ylim=(-1.2, 2.1), aspect="equal")
    ax.axis("off")
    return ax
