"""The picture of lesson 19: losses in training, each beside that of the right attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import seaborn as sns
from matplotlib.figure import Figure

from mha_course.plots.figures import ACCENT, INK, TEXT, new_figure
from mha_course.plots.inputs import as_array


def small_curves(
    panels: Mapping[str, Sequence[float]], x: Sequence[float], reference: Sequence[float]
) -> Figure:
    """Draw a line (N,) in each small panel, and in all of them the same reference beside it.

    Args: x (N,) and the reference (N,) serve all panels, which share their scales; at most four
        stand in a row.
    """
    columns = min(len(panels), 4)
    rows = -(-len(panels) // columns)
    figure = new_figure(max(2.6 * columns, 6), 2.0 * rows + 0.7)
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for ax, (title, values) in zip(axes.flat, panels.items(), strict=False):
        numbers = as_array("small_curves", values, ("N",))
        ax.plot(x, numbers, color=ACCENT, linewidth=3, label="the case")
        # The reference is on top: they often coincide.
        ax.plot(x, reference, color=INK, linewidth=1, linestyle="--", label="right")
        ax.set_title(title, loc="left", fontsize=TEXT)
        ax.set_ylim(bottom=0)
        sns.despine(ax=ax)
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    figure.supxlabel("step", fontsize=TEXT)
    figure.supylabel("nats a word", fontsize=TEXT)
    lines, names = axes.flat[0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside upper right", ncols=2, frameon=False)
    return figure
