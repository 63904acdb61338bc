"""Drawings of attention in blocks: one row's softmax, its memory traffic, and its sizes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from mha_course.colours import ACCENT, ACCENT_BEHIND, BAR, FADED, INK, PAPER, QUIET
from mha_course.lessons.l12_flash_attention.online_softmax import Running, running
from mha_course.plots.diagrams import arrow, box
from mha_course.plots.figures import SMALL, TEXT, TITLE, new_figure


def online_softmax(scores: Tensor, block_size: int) -> Figure:
    """Draw one row in blocks: scores and running maximum, and how each block updates the sum.

    Args: scores (S,) of one query; block_size is how many of them are loaded at a time.
    """
    figure = new_figure(11, 4.6)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(1, 1.1))
    steps = running(scores, block_size)
    _draw_maxima(top, scores, steps)
    _draw_sums(bottom, steps)
    for ax in (top, bottom):
        for step in steps[1:]:
            ax.axvline(step.first - 0.5, color=FADED, linestyle=":", linewidth=1.2)
        sns.despine(ax=ax, bottom=True)
    return figure


def _draw_maxima(ax: Axes, scores: Tensor, steps: Sequence[Running]) -> None:
    ax.bar(range(len(scores)), scores.tolist(), color=BAR, width=0.7)
    ax.axhline(0, color=INK, linewidth=0.8)
    beside: dict[str, Any] = {"xytext": (2, 5), "textcoords": "offset points"}
    for step in steps:
        start = step.first - 0.45
        ax.hlines(step.maximum, start, step.last + 0.45, color=ACCENT, linewidth=3)
        label = f"max {step.maximum:.1f}"
        ax.annotate(label, (start, step.maximum), color=INK, fontsize=TEXT, **beside)
    ax.set(xticks=[], xlim=(-0.6, len(scores) - 0.4))
    ax.set_ylim(min(0.0, float(scores.min())) - 0.2, max(0.0, float(scores.max())) * 1.3 + 0.1)
    title = "the scores of one row, in blocks, and the running maximum"
    ax.set_title(title, loc="left", fontsize=TEXT, color=INK)


def _draw_sums(ax: Axes, steps: Sequence[Running]) -> None:
    tallest = max(step.total for step in steps)
    style: dict[str, Any] = {"fontsize": TEXT, "color": INK, "linespacing": 1.6, "va": "center"}
    for number, step in enumerate(steps):
        left = step.first - 0.1
        shrunk = step.before * step.shrink
        ax.bar(left, shrunk, color=BAR, width=0.6)
        ax.bar(left, step.added, bottom=shrunk, color=ACCENT, width=0.6)
        words = f"the first block:\nsum {step.total:.2f}"
        if number > 0:
            change = f"exp({steps[number - 1].maximum:.1f} − {step.maximum:.1f})"
            product = f"{step.before:.2f} × {step.shrink:.2f} + {step.added:.2f}"
            words = f"shrink: {change} = {step.shrink:.2f}\n{product} = {step.total:.2f}"
        ax.text(left + 0.45, tallest * 0.6, words, **style)
    ax.set_ylim(0, tallest * 1.15)
    title = (
        "the running sum after each block: what is left of the old sum (blue) + the block's own "
        "exponentials (orange)"
    )
    ax.set_title(title, loc="left", fontsize=TEXT, color=INK)


def memory_traffic() -> Figure:
    """Draw the traffic between a GPU's slow and fast memory, unfused and fused."""
    figure = new_figure(11, 3.6)
    left, right = figure.subplots(1, 2)
    steps = ((0.6, "q, k"), (1.7, "scores"), (2.8, "weights"), (3.9, "context"))
    fused = ((1.15, "q, k, v"), (3.4, "context"))
    versions = (
        (left, "step by step: T × S numbers go out and come back, twice", steps,
            ("q kᵀ", "softmax", "weights · v")),
        (right, "fused: one block at a time; nothing of size T × S goes out", fused,
         ("q kᵀ, softmax, · v: block after block",)),
    )  # fmt: skip
    for ax, title, tensors, work in versions:
        ax.set_title(title, loc="left", fontsize=TEXT, color=INK)
        ax.add_patch(Rectangle((0, 1.5), 4.5, 1.1, facecolor=QUIET))
        ax.add_patch(Rectangle((0, 0), 4.5, 0.75, facecolor=ACCENT_BEHIND))
        ax.text(0.08, 2.55, "HBM: large, slow", fontsize=SMALL, color=INK, va="top")
        ax.text(0.08, 0.06, "SRAM: small, fast", fontsize=SMALL, color=INK, va="bottom")
        for ((start, _), (end, _)), words in zip(pairwise(tensors), work, strict=True):
            middle = (start + end) / 2
            ax.text(middle, 0.5, words, ha="center", va="center", fontsize=SMALL, color=INK)
            arrow(ax, (start, 1.62), (middle - 0.18, 0.72), width=1.3)
            arrow(ax, (middle + 0.18, 0.72), (end, 1.62), width=1.3)
        for x, name in tensors:
            color = ACCENT if name in ("scores", "weights") else PAPER
            box(ax, (x - 0.42, 1.66), 0.84, 0.5, name, color=color)
        ax.set(xlim=(-0.05, 4.55), ylim=(-0.1, 2.7))
        ax.axis("off")
    # between weights and context, at the height of their product
    box(left, (3.14, 2.23), 0.42, 0.32, "v", color=PAPER)
    arrow(left, (3.35, 2.2), (3.35, 0.66), width=1.3)
    return figure


def to_scale(tokens: int, width: int, block_size: int, *, ax: Axes | None = None) -> Axes:
    """Draw one head's matrices to scale, and one block of its scores and of its weights.

    Args: tokens is T = S, width is D, block_size is a block's number of queries and of keys.
    """
    ax = ax or new_figure(9, 2.5).subplots()
    gap = tokens / 4
    left = 0.0
    sizes = {"q": width, "k": width, "v": width, "scores": tokens, "weights": tokens}
    for name, columns in (sizes | {"context": width}).items():
        ax.add_patch(Rectangle((left, 0), columns, tokens, fc=QUIET, ec=BAR))
        if columns == tokens:
            ax.add_patch(Rectangle((left, 0), block_size, block_size, fc=ACCENT, ec=INK))
        middle = left + columns / 2
        ax.text(middle, -0.04 * tokens, name, ha="center", fontsize=TITLE, color=INK)
        size = f"{columns:,}"
        ax.text(middle, 1.03 * tokens, size, ha="center", va="top", fontsize=SMALL, color=INK)
        left += columns + gap
    ax.text(-0.04 * tokens, tokens / 2, f"{tokens:,} tokens", ha="right", fontsize=SMALL, color=INK)
    ax.set(xlim=(-3 * gap, left), ylim=(1.14 * tokens, -0.14 * tokens), aspect="equal")
    ax.axis("off")
    return ax
