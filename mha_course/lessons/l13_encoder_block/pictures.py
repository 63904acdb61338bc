"""A picture of what a norm is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from mha_course.plots.figures import ACCENT, INK, QUIET, SMALL, TEXT, new_figure


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
