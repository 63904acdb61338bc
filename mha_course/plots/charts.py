"""Bars and lines, drawn in one style. Numbers may be tensors on any device, arrays or lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mha_course import plots


def token_bars(
    rows: Mapping[str, Any], names: Sequence[str], *,
    highlight: Sequence[str] = (), unit: str = "", shared: bool = False,
) -> Figure:  # fmt: skip
    """Draw numbers that belong to tokens as bars, one panel a title, each with its own scale or all with the same.

    Args: rows maps titles to S numbers; names are the S tokens, those in highlight are lit; unit stands below scales.
    Raises: ShapeError for a panel with another length than names.

    >>> len(token_bars({"before": [1, 2], "after": [0, 3]}, ["it", "cat"], highlight=["cat"]).axes)
    2
    """
    size = (min(3.6 * len(rows) + 1, 11), 0.9 + 0.24 * len(names))
    figure = plots.new_figure(*size)
    axes = figure.subplots(1, len(rows), sharex=shared, sharey=True, squeeze=False)
    colors = [plots.ACCENT if name in highlight else plots.BAR for name in names]
    for ax, (title, numbers) in zip(axes.flat, rows.items(), strict=True):
        values = plots.as_array("token_bars", numbers, ("S",))
        plots.as_names("token_bars", (len(values), 0), names, ())
        ax.barh(range(len(names)), values, color=colors)
        ax.axvline(0, color=plots.INK, linewidth=0.8)
        ax.set_title(title, loc="left", fontsize=10)
        ax.set_yticks(range(len(names)), names, fontsize=9, parse_math=False)
        ax.tick_params(axis="y", length=0)
        ax.margins(y=0.01)
        ax.set_xlabel(unit)
        sns.despine(ax=ax, left=True)
    axes[0, 0].invert_yaxis()
    return figure


def curves(
    x: Sequence[float], lines: Mapping[str, Sequence[float]], *, xlabel: str, ylabel: str, logarithmic: bool = True
) -> Axes:
    """Draw several lines over the same x, each with a marker of its own.

    >>> curves([1, 2], {"double": [2, 4]}, xlabel="n", ylabel="2n").get_xlabel()
    'n'
    """
    ax = plots.new_figure(7, 3.4).subplots()
    for (name, values), marker, color in zip(lines.items(), "osD^vP", sns.color_palette("colorblind"), strict=False):
        ax.plot(x, values, marker=marker, markersize=9, alpha=0.75, color=color, label=name)
    if logarithmic:
        ax.set_xscale("log", base=2)
        ax.set_yscale("log", base=2)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter("{x:g}")
    ax.set_xticks(list(x), [f"{value:g}" for value in x])
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.legend(frameon=False)
    sns.despine(ax=ax)
    return ax
