"""The picture of lesson 11: one decoding step with a KV cache."""

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


def decoding_step(q: Tensor, k: Tensor, v: Tensor, weights: Tensor, names: Sequence[str]) -> Figure:
    """Draw what the newest token needs: one query, and all tokens' keys and values, cached and new.

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
    row = as_array("decoding_step", weights, ("S",))
    axes[2].barh(range(tokens), row, color=[BAR] * (tokens - 1) + [ACCENT])
    axes[2].set_title("weights", fontsize=TEXT, loc="left", color=INK)
    axes[2].set_xlim(0, 1)
    sns.despine(ax=axes[2], left=True)
    for ax in axes:
        ax.tick_params(axis="y", length=0)
    axes[0].set_yticks(range(tokens), numbered(names), fontsize=SMALL, parse_math=False)
    axes[0].set_ylim(tokens - 0.5, -0.5)
    return figure


def _draw_rows(ax: Axes, numbers: NDArray[np.float64]) -> None:
    """Colour rows of numbers, frame the new one at the end, and leave missing rows empty."""
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
