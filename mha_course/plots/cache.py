"""Pictures of the KV cache: one decoding step, heads that share keys and values, and how large caches get."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from torch import Tensor

from mha_course.errors import ShapeError
from mha_course.experiments.model_sizes import Published, amount, length
from mha_course.plots.figures import ACCENT, BAR, INK, QUIET, new_figure
from mha_course.plots.inputs import as_array

KINDS = {"MHA": "multi-head", "GQA": "grouped-query", "MQA": "multi-query"}


def decoding_step(q: Tensor, k: Tensor, v: Tensor, weights: Tensor, names: Sequence[str]) -> Figure:
    """Draw what the newest token needs: one query, and the keys and values of all tokens, kept and new.

    Args: q (D,) of the newest token; k and v (S, D); weights (S,); names are the S tokens, the newest last.
    """
    tokens = len(names)
    figure = new_figure(10.5, 0.9 + 0.24 * tokens)
    axes = figure.subplots(1, 5, sharey=True, width_ratios=(2, 2, 1.6, 2, 2))
    query, context = (np.full(tuple(k.shape), np.nan) for _ in range(2))
    query[-1], context[-1] = as_array("decoding_step", q, ("D",)), as_array("decoding_step", weights @ v, ("D",))
    drawn = {"q: one row": query, "k: kept, and one new": k, "weights": None, "v: kept, and one new": v}
    for ax, (title, numbers) in zip(axes, {**drawn, "context: one row": context}.items(), strict=True):
        ax.set_title(title, fontsize=10, loc="left", color=INK)
        if numbers is None:
            ax.barh(range(tokens), as_array("decoding_step", weights, ("S",)), color=[BAR] * (tokens - 1) + [ACCENT])
            ax.set(xlim=(0, 1))
            sns.despine(ax=ax, left=True)
        else:
            _rows(ax, as_array("decoding_step", numbers, ("S", "D")))
        ax.tick_params(axis="y", length=0)
    axes[0].set_yticks(range(tokens), names, fontsize=9, parse_math=False)
    axes[0].set_ylim(tokens - 0.5, -0.5)
    return figure


def _rows(ax: Axes, numbers: Any) -> None:
    """Colour rows of numbers, frame the last, which is new, and leave rows that do not exist empty."""
    limit = float(np.nanmax(np.abs(numbers)))
    ax.imshow(numbers, cmap="vlag", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
    rows, columns = numbers.shape
    if np.isnan(numbers).any():
        ax.text((columns - 1) / 2, (rows - 2) / 2, "not needed", ha="center", va="center", color=INK, fontsize=10)
    look: dict[str, Any] = {"edgecolor": ACCENT, "linewidth": 3, "clip_on": False, "zorder": 5}
    ax.add_patch(Rectangle((-0.5, rows - 1.5), columns, 1, fill=False, **look))
    ax.set_xticks([])
    ax.spines[:].set(color=QUIET, zorder=1)


def kv_sharing(num_heads: int, groups: Sequence[int]) -> Figure:
    """Draw which key-value head each query head reads, for several numbers of key-value heads.

    Raises: ShapeError for a number that does not divide the heads.
    """
    figure = new_figure(10.5, 2.1)
    for ax, count in zip(figure.subplots(1, len(groups), squeeze=False).flat, groups, strict=True):
        if count < 1 or num_heads % count:
            rule, got = "key-value heads must divide the heads", f"{count} of {num_heads}"
            raise ShapeError("kv_sharing", rule, expected=f"{num_heads} % groups == 0", got=got)
        colors, each = sns.color_palette("colorblind", num_heads), num_heads // count
        for head in range(num_heads):
            group = head // each
            below = group * each + (each - 1) / 2
            ax.plot((head, below), (1, 0), color=colors[group], linewidth=2, zorder=1)
            _box(ax, head, 1, f"q{head}", colors[group])
            if head % each == 0:
                _box(ax, below, 0, f"kv{group}", colors[group])
        name = KINDS["MHA" if count == num_heads else "MQA" if count == 1 else "GQA"]
        ax.set_title(f"{name}: G = {count}", fontsize=10, loc="left", color=INK)
        ax.set(xlim=(-0.6, num_heads - 0.4), ylim=(-0.35, 1.35))
        ax.axis("off")
    return figure


def _box(ax: Axes, x: float, y: float, word: str, color: Any) -> None:
    """Draw one head."""
    look: dict[str, Any] = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": color, "linewidth": 2}
    ax.text(x, y, word, ha="center", va="center", fontsize=9, color=INK, bbox=look, zorder=2)


def cache_sizes(models: Sequence[Published], lengths: Sequence[int]) -> Axes:
    """Mark, for each model, the bytes of its cache at several lengths, and those of its weights.

    A length beyond the model's own is drawn hollow. All in float16, for one text.
    """
    ax = new_figure(10.5, 1.2 + 0.42 * len(models)).subplots()
    shades = sns.color_palette("cividis", len(lengths))
    for row, model in enumerate(models):
        sizes = [model.cache_bytes(tokens) for tokens in lengths]
        ax.plot((min(sizes), max(sizes)), (row, row), color=QUIET, linewidth=5, zorder=1, solid_capstyle="round")
        for tokens, size, shade in zip(lengths, sizes, shades, strict=True):
            face = shade if tokens <= model.context else "white"
            ax.scatter(size, row, s=90, color=face, edgecolor=shade, linewidth=2, zorder=2)
        ax.scatter(model.weight_bytes, row - 0.24, s=70, marker="D", color=ACCENT, edgecolor=INK, zorder=3)
    ax.set_xscale("log", base=2)
    ticks = [2.0**power for power in range(12, 42, 4)]
    ax.set_xticks(ticks, [amount(tick).replace(".00", "").replace(".0", "") for tick in ticks])
    ax.set_yticks(range(len(models)), [f"{model.name}, {model.kind}" for model in models])
    ax.tick_params(axis="y", length=0)
    ax.invert_yaxis()
    handles = [Patch(color=shade, label=f"cache at {length(n)}") for n, shade in zip(lengths, shades, strict=True)]
    handles.append(Patch(facecolor=ACCENT, edgecolor=INK, label="weights"))
    ax.legend(handles=handles, frameon=False, ncols=len(handles), loc="lower left", bbox_to_anchor=(0, 1))
    sns.despine(ax=ax, left=True)
    return ax
