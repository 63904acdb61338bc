"""Drawings of softmax and attention in blocks: one row on its way, the tiles in order, what is kept and what is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from torch import Tensor

from mha_course import flash
from mha_course.experiments.online_softmax import Running, running
from mha_course.plots.figures import ACCENT, BAR, HATCH, INK, QUIET, new_figure

SOFT = "#fde9bd"  # the accent, for what lies behind


def online_softmax(scores: Tensor, block_size: int) -> Figure:
    """Draw one row (S,) in blocks: its scores with the running maximum, and under each block how the sum goes on."""
    figure = new_figure(11, 4.6)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(1, 1.1))
    steps = running(scores, block_size)
    highest, tallest = max(0.0, float(scores.max())), max(step.total for step in steps)
    top.bar(range(len(scores)), scores.tolist(), color=BAR, width=0.7)
    top.axhline(0, color=INK, linewidth=0.8)
    for before, step in zip((None, *steps), steps, strict=False):
        _maximum(top, step)
        _growth(bottom, before, step, tallest * 0.6)
    top.set(xticks=[], xlim=(-0.6, len(scores) - 0.4))
    top.set_ylim(min(0.0, float(scores.min())) - 0.2, highest * 1.3 + 0.1)
    bottom.set_ylim(0, tallest * 1.15)
    sums = (
        "the running sum after each block: what is left of the old sum (blue) + the block's own exponentials (orange)"
    )
    for ax, title in ((top, "the scores of one row, in blocks, and the running maximum"), (bottom, sums)):
        ax.set_title(title, loc="left", fontsize=10.5, color=INK)
        for step in steps[1:]:
            ax.axvline(step.first - 0.5, color="#9aa1ad", linestyle=":", linewidth=1.2)
        sns.despine(ax=ax, bottom=True)
    return figure


def _maximum(ax: Axes, step: Running) -> None:
    """Draw the running maximum over a block."""
    left, right = step.first - 0.45, step.last + 0.45
    ax.hlines(step.maximum, left, right, color=ACCENT, linewidth=3)
    look: dict[str, Any] = {"xytext": (2, 5), "textcoords": "offset points", "color": INK, "fontsize": 10}
    ax.annotate(f"max {step.maximum:.1f}", (left, step.maximum), **look)


def _growth(ax: Axes, before: Running | None, step: Running, height: float) -> None:
    """Draw a running sum of what is left and what is new, and write at this height how it came about."""
    left, kept = step.first - 0.1, step.before * step.shrink
    ax.bar(left, kept, color=BAR, width=0.6)
    ax.bar(left, step.added, bottom=kept, color=ACCENT, width=0.6)
    words: dict[str, Any] = {"fontsize": 10.5, "color": INK, "linespacing": 1.6, "va": "center"}
    ax.text(left + 0.45, height, _sum(step, before), **words)


def _sum(step: Running, before: Running | None) -> str:
    """Write how a running sum came about."""
    if before is None:
        return f"the first block:\nsum {step.total:.2f}"
    factor = f"shrink: exp({before.maximum:.1f} − {step.maximum:.1f}) = {step.shrink:.2f}"
    return f"{factor}\n{step.before:.2f} × {step.shrink:.2f} + {step.added:.2f} = {step.total:.2f}"


def tiles(queries: int, keys: int, block_size: int | tuple[int, int], *, causal: bool = False, now: int | None = None,
          ax: Axes | None = None) -> Axes:  # fmt: skip
    """Draw the scores (T, S) cut into tiles, numbered as they are visited; skipped ones are hatched.

    Args: now is the tile that is held, from 0: it is lit, earlier ones are only remembered.
    """
    ax = ax or new_figure(4.6, 4.9).subplots()
    skipped: dict[str, Any] = {**HATCH, "edgecolor": "#c3c8d0"}
    ax.add_patch(Rectangle((0, 0), keys, queries, **skipped))
    for number, (rows, columns) in enumerate(flash.blocks(queries, keys, block_size, causal=causal)):
        color = SOFT if now is None or number < now else ACCENT if number == now else "white"
        width, height = columns.stop - columns.start, rows.stop - rows.start
        corner = (columns.start, rows.start)
        ax.add_patch(Rectangle(corner, width, height, facecolor=color, edgecolor=INK, linewidth=1))
        place = (corner[0] + 0.15 * width, corner[1] + 0.8 * height)  # below the diagonal
        ax.text(*place, str(number + 1), ha="left", va="center", color=INK, fontsize=11)
    if causal:  # the last key that each query may see, aligned at the bottom right as flash does
        steps = [(t + keys - queries + 1, y) for t in range(queries) for y in (t, t + 1)]
        ax.plot(*zip(*steps, strict=True), color=INK, linewidth=2)
    ax.set(xlim=(0, keys), ylim=(queries, 0), xticks=[], yticks=[], aspect="equal", xlabel="keys", ylabel="queries")
    return ax


def _boxes(ax: Axes, boxes: Sequence[tuple[float, float, float, float, str, str]]) -> None:
    """Draw boxes (x, y, width, height, text, colour); one without a colour is dashed: it does not last."""
    for x, y, width, height, text, color in boxes:
        look: dict[str, Any] = {"fc": color, "ec": "none"} if color else {"fc": "white", "ec": INK, "linestyle": "--"}
        shape = "round,pad=0,rounding_size=0.06"
        ax.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=shape, **look))
        ax.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=10, color=INK)


def _arrows(ax: Axes, arrows: Sequence[tuple[tuple[float, float], tuple[float, float]]]) -> None:
    """Draw arrows from a point to a point."""
    for start, end in arrows:
        ax.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": INK, "linewidth": 1.3})


def recomputation() -> Axes:
    """Draw what the forward pass keeps, and how the backward pass makes each block of weights again from it."""
    ax = new_figure(11, 3.5).subplots()
    block = "one block of scores,\nand exponentials"
    _boxes(ax, [
        (0.0, 2.0, 1.5, 0.8, "q, k, v", ACCENT), (2.3, 2.0, 2.0, 0.8, block, ""),
        (5.1, 2.0, 1.5, 0.8, "context", ACCENT), (7.0, 2.0, 2.1, 0.8, "log-sum-exp:\n1 number a query", ACCENT),
        (2.3, 0.0, 2.0, 0.8, "the same block,\ncomputed again", ""),
        (5.1, 0.0, 1.5, 0.8, "gradients\nof q, k, v", QUIET), (7.0, 0.0, 2.1, 0.8, "gradient\nof the context", QUIET),
    ])  # fmt: skip
    _arrows(ax, [
        ((1.52, 2.4), (2.28, 2.4)), ((4.32, 2.4), (5.08, 2.4)), ((0.75, 1.95), (2.28, 0.55)),
        ((7.7, 1.95), (4.33, 0.65)), ((4.32, 0.4), (5.08, 0.4)), ((5.85, 1.95), (5.85, 0.85)),
        ((6.98, 0.4), (6.63, 0.4)),
    ])  # fmt: skip
    curved = {"arrowstyle": "-|>", "color": INK, "linewidth": 1.3, "connectionstyle": "arc3,rad=-0.12"}
    ax.annotate("", (8.05, 2.85), (3.3, 2.85), arrowprops=curved)
    for height, text in ((2.95, "forward"), (0.95, "backward")):
        ax.text(0.0, height, text, fontsize=11, fontweight="bold", color=INK, va="bottom")
    ax.text(9.3, 2.4, "orange: kept\ndashed: thrown away\nbefore the next block", fontsize=9.5, color=INK, va="center")
    ax.set(xlim=(-0.05, 11.4), ylim=(-0.1, 3.4))
    ax.axis("off")
    return ax


def memory_traffic() -> Figure:
    """Draw what goes between a GPU's large, slow memory and its small, fast one: step by step, and fused."""
    figure = new_figure(11, 3.6)
    ways = {
        "step by step: T × S numbers go out and come back, twice": [
            (0.6, "q, k, v"), (1.7, "scores"), (2.8, "weights"), (3.9, "context"),
        ],
        "fused: one block at a time; nothing of size T × S goes out": [(1.15, "q, k, v"), (3.4, "context")],
    }  # fmt: skip
    for ax, (title, stops) in zip(figure.subplots(1, 2), ways.items(), strict=True):
        ax.add_patch(Rectangle((0, 1.5), 4.5, 1.1, facecolor=QUIET))
        ax.add_patch(Rectangle((0, 0), 4.5, 0.75, facecolor=SOFT))
        ax.text(0.08, 2.55, "HBM: large, slow", fontsize=9.5, color=INK, va="top")
        ax.text(0.08, 0.06, "SRAM: small, fast", fontsize=9.5, color=INK, va="bottom")
        works = ["q kᵀ", "softmax", "weights · v"] if len(stops) == 4 else ["q kᵀ, softmax, · v: block after block"]
        for (x, _), (after, _), work in zip(stops, stops[1:], works, strict=False):
            middle = (x + after) / 2
            ax.text(middle, 0.5, work, ha="center", va="center", fontsize=9.5, color=INK)
            _arrows(ax, [((x, 1.62), (middle - 0.18, 0.72)), ((middle + 0.18, 0.72), (after, 1.62))])
        large = {"scores", "weights"}
        _boxes(ax, [(x - 0.42, 1.66, 0.84, 0.5, name, ACCENT if name in large else "#ffffff") for x, name in stops])
        ax.set_title(title, loc="left", fontsize=10, color=INK)
        ax.set(xlim=(-0.05, 4.55), ylim=(-0.1, 2.7))
        ax.axis("off")
    return figure
