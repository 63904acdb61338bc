"""The pictures of lesson 19: training losses and those of several runs, next to right ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

import seaborn as sns
from matplotlib.figure import Figure

from mha_course.colours import ACCENT, BAR, INK, QUIET
from mha_course.lessons.l19_bug_hunt.costs import Record
from mha_course.plots.figures import SMALL, TEXT, new_figure, show
from mha_course.plots.inputs import as_array


def small_curves(
    panels: Mapping[str, Sequence[float]], x: Sequence[float], reference: Sequence[float]
) -> Figure:
    """Draw a line (N,) in each small panel, and the same reference in all of them.

    Args: x (N,) and the reference (N,) are for all panels, which share their scales, at most four
        in a row.
    """
    columns = min(len(panels), 4)
    rows = -(-len(panels) // columns)
    figure = new_figure(max(2.6 * columns, 4.2), 2.0 * rows + 0.7)
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for ax, (title, values) in zip(axes.flat, panels.items(), strict=False):
        numbers = as_array("small_curves", values, ("N",))
        ax.plot(x, numbers, color=ACCENT, linewidth=3, label="the case")
        # The reference is on top, since they often coincide.
        ax.plot(x, reference, color=INK, linewidth=1, linestyle="--", label="right")
        ax.set_title(title, loc="left", fontsize=TEXT)
        ax.set_ylim(bottom=0)
        sns.despine(ax=ax)
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    figure.supxlabel("step", fontsize=TEXT)
    figure.supylabel("nats per word", fontsize=TEXT)
    lines, names = axes.flat[0].get_legend_handles_labels()
    if len(panels) == 1:
        axes.flat[0].legend(lines, names, loc="upper right", frameon=False)
    else:
        figure.legend(lines, names, loc="outside upper right", ncols=2, frameon=False)
    return figure


def runs(panels: Mapping[str, Mapping[str, Sequence[float | None]]], best: str) -> Figure:
    """Draw several runs' losses as dots, a row for each name, with a band behind them for the best
    one's range.

    Args: panels have runs of the same names, None for missing numbers.
    """
    figure = new_figure(9.6, 4.6)
    axes = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
    for ax, (title, rows) in zip(axes, panels.items(), strict=True):
        band = [value for value in rows[best] if value is not None]
        ax.axvspan(min(band), max(band), color=QUIET)
        for place, (name, values) in enumerate(rows.items()):
            numbers = [value for value in values if value is not None]
            color = ACCENT if name == best else BAR
            ax.plot(numbers, [place] * len(numbers), "o", color=color, markersize=5, alpha=0.8)
            if len(numbers) < len(values):
                ax.text(max(band) + 0.3, place, "no number", va="center", fontsize=SMALL)
        ax.set_title(title, loc="left", fontsize=TEXT)
        ax.set_yticks(range(len(rows)), list(rows))
        sns.despine(ax=ax)
    axes[0].set_xlim(0, axes[0].get_xlim()[1])  # last, since the panels share it
    axes[0].invert_yaxis()
    figure.supxlabel("nats per word", fontsize=TEXT)
    return figure


def show_costs(records: Mapping[str, Record]) -> None:
    """Show each case's losses, run by run, in three ways of using it; "right" is one of the cases.

    Cases more than 5 % above the right run with the same seed, in all runs, are named.
    """
    uses = {"at_once": "read at once", "in_use": "word by word", "loaded": "with right parameters"}
    panels = {
        title: {name: getattr(record, use) for name, record in records.items()}
        for use, title in uses.items()
    }
    base = [loss for loss in records["right"].at_once if loss is not None]

    def above(use: str) -> str:
        losses_of = {name: getattr(record, use) for name, record in records.items()}
        return ", ".join(
            name
            for name, losses in losses_of.items()
            if all((a or inf) > 1.05 * b for a, b in zip(losses, base, strict=True))
        )

    silent = " and ".join(name for name, record in records.items() if None in record.in_use)
    show(
        runs(panels, "right"),
        f"Loss on held-out sentences: a dot for each run, and a band for the right one, from "
        f"{min(base):.2f} to {max(base):.2f}. More than a twentieth above it in all three runs: "
        f"word by word {above('in_use')}, of which {silent} give no number; with the right "
        f"parameters {above('loaded')}.",
    )
