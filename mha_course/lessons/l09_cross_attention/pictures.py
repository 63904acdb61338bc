"""The picture of lesson 9: which words of two sentences belong together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from mha_course.colours import ACCENT, HATCH, INK
from mha_course.plots.figures import LARGE, TEXT, new_figure


def alignment(source: Sequence[str], target: Sequence[str], places: Sequence[int]) -> Figure:
    """Write source above target, and draw a line from each target word to its source position;
    highlight the longest.
    """
    figure = new_figure(9, 1.7)
    ax = figure.subplots()
    step = (len(source) - 1) / (len(target) - 1)
    shifts = [abs(place - step * t) for t, place in enumerate(places)]
    style: dict[str, Any] = {"va": "center", "color": INK, "parse_math": False}
    words = style | {"ha": "center", "fontsize": LARGE}
    for s, word in enumerate(source):
        ax.text(s, 1, word, **words)
    for t, (word, place) in enumerate(zip(target, places, strict=True)):
        longest = shifts[t] == max(shifts)
        color, width = (ACCENT, 4) if longest else (HATCH["edgecolor"], 1.6)
        ax.plot((step * t, place), (0.16, 0.86), color=color, linewidth=width)
        ax.text(step * t, 0, word, **words)
    for y, name in ((1, "English"), (0, "Endish")):
        ax.text(-0.8, y, name, ha="right", fontsize=TEXT, **style)
    ax.set(xlim=(-1.5, len(source) - 0.4), ylim=(-0.15, 1.15))
    ax.axis("off")
    return figure
