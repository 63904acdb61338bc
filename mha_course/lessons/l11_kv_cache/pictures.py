"""Pictures of the KV cache: one decoding step, and heads that share keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray
from torch import Tensor

from mha_course.colours import ACCENT, BAR, INK, QUIET
from mha_course.plots.diagrams import CENTRED
from mha_course.plots.figures import SMALL, TEXT, new_figure, signed_colormap
from mha_course.plots.inputs import as_array, numbered

KINDS = {"MHA": "multi-head", "GQA": "grouped-query", "MQA": "multi-query"}


def decoding_step(q: Tensor, k: Tensor, v: Tensor, weights: Tensor, names: Sequence[str]) -> Figure:
    """Draw what the newest token needs: one query, and the keys and values of all tokens, kept and
    new.

    Args: q (D,) and weights (S,) of the newest token, k and v (S, D) of all; names are the S
        tokens, the newest last.
    """
    tokens = len(names)
    figure = new_figure(10.5, 0.7 + 0.19 * tokens)
    axes = figure.subplots(1, 5, sharey=True, width_ratios=(2, 2, 1.6, 2, 2))
    query = np.full(tuple(k.shape), np.nan)  # (S, D): one row is there
    context = np.full(tuple(v.shape), np.nan)  # (S, D): one row is there
    query[-1] = as_array("decoding_step", q, ("D",))
    context[-1] = as_array("decoding_step", weights @ v, ("D",))
    matrices = {
        "q: one row": query,
        "k: kept, and one new": k,
        "v: kept, and one new": v,
        "context: one row": context,
    }
    for ax, (title, numbers) in zip(axes[[0, 1, 3, 4]], matrices.items(), strict=True):
        ax.set_title(title, fontsize=TEXT, loc="left", color=INK)
        _draw_rows(ax, as_array("decoding_step", numbers, ("S", "D")))
    shares = as_array("decoding_step", weights, ("S",))
    axes[2].barh(range(tokens), shares, color=[BAR] * (tokens - 1) + [ACCENT])
    axes[2].set_title("weights", fontsize=TEXT, loc="left", color=INK)
    axes[2].set_xlim(0, 1)
    sns.despine(ax=axes[2], left=True)
    for ax in axes:
        ax.tick_params(axis="y", length=0)
    axes[0].set_yticks(range(tokens), numbered(names), fontsize=SMALL, parse_math=False)
    axes[0].set_ylim(tokens - 0.5, -0.5)
    return figure


def _draw_rows(ax: Axes, numbers: NDArray[np.float64]) -> None:
    """Colour rows of numbers, frame the last, which is new, and leave missing rows empty."""
    limit = float(np.nanmax(np.abs(numbers)))
    rows, columns = numbers.shape
    colors: dict[str, Any] = {"cmap": signed_colormap(), "vmin": -limit, "vmax": limit}
    ax.pcolormesh(range(columns), range(rows), numbers, **colors)
    if np.isnan(numbers).any():
        ax.text((columns - 1) / 2, (rows - 2) / 2, "not needed", fontsize=TEXT, **CENTRED)
    frame: dict[str, Any] = {"fill": False, "edgecolor": ACCENT, "linewidth": 3, "zorder": 5}
    ax.add_patch(Rectangle((-0.5, rows - 1.5), columns, 1, clip_on=False, **frame))
    ax.set_xticks([])
    ax.spines[:].set(color=QUIET, zorder=1)


def kv_sharing(num_heads: int, groups: Sequence[int]) -> Figure:
    """Draw which key-value head each query head reads, for several numbers of key-value heads.

    Args: num_heads is H, the query heads; groups are numbers of key-value heads, each of which
        divides H.
    """
    figure = new_figure(10.5, 2.1)
    colors = sns.color_palette("colorblind", num_heads)
    for ax, count in zip(figure.subplots(1, len(groups), squeeze=False)[0], groups, strict=True):
        each = num_heads // count
        below = [group * each + (each - 1) / 2 for group in range(count)]
        for head in range(num_heads):
            group = head // each
            ax.plot((head, below[group]), (1, 0), color=colors[group], linewidth=2, zorder=1)
        heads = [(float(head), 1.0, f"q{head}", head // each) for head in range(num_heads)]
        heads += [(below[group], 0.0, f"kv{group}", group) for group in range(count)]
        for x, y, name, group in heads:
            frame = {"boxstyle": "round,pad=0.35", "facecolor": "white", "linewidth": 2}
            frame["edgecolor"] = colors[group]
            ax.text(x, y, name, fontsize=SMALL, bbox=frame, zorder=2, **CENTRED)
        kind = KINDS["MHA" if count == num_heads else "MQA" if count == 1 else "GQA"]
        ax.set_title(f"{kind}: G = {count}", fontsize=TEXT, loc="left", color=INK)
        ax.set(xlim=(-0.6, num_heads - 0.4), ylim=(-0.35, 1.35))
        ax.axis("off")
    return figure
