"""Pictures of a language model: how its loss falls, beside lines that it can be measured by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes

from mha_course import plots
from mha_course.errors import ShapeError


def learning(runs: Mapping[str, Sequence[float]], lines: Mapping[str, float], *, window: int = 20) -> Axes:
    """Draw the loss of one run or more, each step the mean of the last steps up to a window, and level lines by name.

    Raises: ShapeError for a run with fewer losses than the window.

    >>> learning({"a run": [3.0] * 20}, {"limit": 1.0}).get_xlabel()
    'step'
    """
    ax = plots.new_figure(9.5, 4.2).subplots()
    longest = max(map(len, runs.values()))
    for (name, losses), color, style in zip(runs.items(), (plots.INK, plots.ACCENT, plots.BAR), "-:-", strict=False):
        numbers = plots.as_array("learning", losses, ("N",))
        if len(numbers) < window:
            rule, got = "a run must be as long as the window", f"{len(numbers)} losses of “{name}”"
            raise ShapeError("learning", rule, expected=f"{window} or more", got=got)
        means = np.convolve(numbers, np.ones(window) / window, mode="valid")
        steps = np.arange(window, len(numbers) + 1)
        ax.plot(steps, means, color=color, linestyle=style, linewidth=2.4, label=name)
    for name, value in lines.items():
        ax.axhline(value, color=plots.BAR, linewidth=1.2, linestyle="--", zorder=0)
        ax.annotate(f"  {name} {value:.2f}", (longest, value), va="center", annotation_clip=False, fontsize=9)
    ax.set(xlabel="step", ylabel="nats a word", xlim=(0, longest), ylim=(0, None))
    ax.legend(frameon=False, loc="upper right", bbox_to_anchor=(1, 0.9))
    sns.despine(ax=ax)
    return ax
