"""Drawings of positions, as waves and as rotated pairs."""

from __future__ import annotations

from typing import Any

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from mha_course.colours import INK
from mha_course.plots.diagrams import CENTRED, arrow
from mha_course.plots.figures import TEXT, TITLE, new_figure, signed_colormap


def encoding_waves(encoding: Tensor, channels: tuple[int, ...]) -> Figure:
    """Draw a position encoding (S, C) in colours, and up to four of its channels as waves."""
    figure = new_figure(11, 4)
    grid, lines = figure.subplots(1, 2, width_ratios=(1, 1.2))
    positions, width = map(range, encoding.shape)
    colors: dict[str, Any] = {"cmap": signed_colormap(), "vmin": -1, "vmax": 1}
    image = grid.pcolormesh(positions, width, encoding.numpy().T, **colors)
    grid.set(xlabel="position s", ylabel="channel", ylim=(len(width) - 0.5, -0.5))
    grid.set_title("all channels", loc="left", fontsize=TEXT, color=INK)
    figure.colorbar(image, ax=grid)
    for channel, shade, dashes in zip(
        channels, sns.color_palette("colorblind"), ("-", "--", "-.", ":"), strict=False
    ):
        style = {"color": shade, "linestyle": dashes, "label": f"channel {channel}"}
        lines.plot(encoding[:, channel].numpy(), linewidth=2, **style)
    lines.set(xlabel="position s", ylim=(-1.1, 1.1))
    lines.set_title("some of them as waves", loc="left", fontsize=TEXT, color=INK)
    lines.legend(
        frameon=False, ncols=len(channels), loc="upper center", bbox_to_anchor=(0.5, -0.16)
    )
    sns.despine(ax=lines)
    return figure


def rope_pairs(width: int, *, ax: Axes | None = None) -> Axes:
    """Draw which channels of a head of width D form pairs in both layouts of RoPE."""
    ax = ax or new_figure(8.5, 2.2).subplots()
    colors = sns.color_palette("colorblind", width // 2)
    half_split = [n % (width // 2) for n in range(width)]
    interleaved = [n // 2 for n in range(width)]
    layouts = (("half-split", 0, half_split), ("interleaved", width + 3, interleaved))
    for title, left, pair in layouts:
        for n in range(width):
            light = (*colors[pair[n]], 0.5)
            ax.add_patch(Rectangle((left + n, 0), 1, 1, fc=light, ec="white", linewidth=2))
            ax.text(left + n + 0.5, 0.5, str(n), fontsize=TITLE, fontweight="bold", **CENTRED)
        for number in range(width // 2):
            first, second = (left + n + 0.5 for n in range(width) if pair[n] == number)
            bow: dict[str, Any] = {"color": colors[number], "bend": -0.45, "arrowstyle": "-"}
            arrow(ax, (first, 1.05), (second, 1.05), width=2, **bow)
        ax.text(left + width / 2, -0.5, title, ha="center", va="top", fontsize=TITLE, color=INK)
    ax.set(xlim=(-0.3, 2 * width + 3.3), ylim=(-1.2, 2.1), aspect="equal")
    ax.axis("off")
    return ax
