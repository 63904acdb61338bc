"""Bars and lines. Numbers may be tensors on any device, arrays or lists."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mha_course.colours import ACCENT, BAR, INK
from mha_course.plots.figures import SMALL, TEXT, new_figure
from mha_course.plots.inputs import as_array, as_names, numbered


def bars(
    values: Any, names: Sequence[str], *, highlight: Collection[str] = (), unit: str = "",
    ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw a horizontal bar for each name, the first at the top.

    Args: values (S,); names are S words, and bars for those in highlight have the accent colour;
        unit labels the scale.
    Raises: ShapeError unless there is one name for each value.
    """
    numbers = as_array("bars", values, ("S",))
    labels = numbered(as_names("bars", "queries", "row", names, len(numbers)))
    ax = ax or new_figure(4.6, 0.9 + 0.24 * len(names)).subplots()
    colors = [ACCENT if name in highlight else BAR for name in names]
    ax.barh(range(len(names)), numbers, color=colors)
    for place in np.flatnonzero(np.isnan(numbers)):  # it has no bar
        style: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": SMALL}
        ax.annotate("NaN", (0, place), (3, 0), **style)
    ax.axvline(0, color=INK, linewidth=0.8)
    ax.set_yticks(range(len(names)), labels, fontsize=SMALL, parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.margins(y=0.01)
    ax.yaxis.set_inverted(True)
    ax.set_xlabel(unit)
    sns.despine(ax=ax, left=True)
    return ax


def token_bars(
    rows: Mapping[str, Any], names: Sequence[str], *,
    highlight: Collection[str] = (), unit: str = "", shared: bool = False, width: float = 3.6,
) -> Figure:  # fmt: skip
    """Draw one number per token as bars, in one panel for each row.

    Args: rows maps a panel's title to its numbers (S,); shared gives all panels the same scale;
        width is that of a panel, in inches; other arguments and errors are as for bars.
    """
    figure = new_figure(min(width * len(rows) + 1, 11), 0.9 + 0.24 * len(names))
    axes = figure.subplots(1, len(rows), sharex=shared, sharey=True, squeeze=False)[0]
    for ax, (title, values) in zip(axes, rows.items(), strict=True):
        bars(values, names, highlight=highlight, unit=unit, ax=ax)
        ax.set_title(title, loc="left", fontsize=TEXT)
    return figure


def _line_style(number: int) -> dict[str, Any]:
    return {"color": sns.color_palette("colorblind")[number], "marker": "osD^vP"[number]}


def curves(
    x: Sequence[float], lines: Mapping[str, Sequence[float]], *,
    xlabel: str, ylabel: str, logarithmic: bool = True, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw lines over the same x, each with its own, ever smaller markers.

    Args: x (N,), each a tick; lines maps up to six names to N numbers; logarithmic makes both
        scales logarithmic, to base 2.
    """
    ax = ax or new_figure(7, 3.4).subplots()
    for number, (name, values) in enumerate(lines.items()):
        size = 4 + 3 * (len(lines) - number)
        ax.plot(x, values, markersize=size, label=name, **_line_style(number))
    if logarithmic:
        ax.set_xscale("log", base=2)
        ax.set_yscale("log", base=2)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter("{x:g}")
    ax.set_xticks(list(x), [f"{value:g}" for value in x])
    ax.set(xlabel=xlabel, ylabel=ylabel)
    if len(lines) > 1:
        ax.legend(frameon=False)
    sns.despine(ax=ax)
    return ax


class Lines(NamedTuple):
    """One panel: its title, x with a label, and up to six lines by name, which may end early."""

    title: str
    xlabel: str
    x: Sequence[float]
    lines: Mapping[str, Sequence[float]]
    log_x: bool = False
    log_y: bool = False


def line_panels(*panels: Lines) -> Figure:
    """Draw panels side by side, with one legend and one style for each name.

    A linear y starts at 0, or lower. Each line in a panel has smaller markers than the one before,
    or none for more than 40 x, and all but the first are dashed, so that none hides another.
    """
    figure = new_figure(5.4 * len(panels), 3.7)
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    drawn: dict[str, Any] = {}
    for ax, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for number, (name, values) in enumerate(panel.lines.items()):
            nth = names.index(name)
            style = _line_style(nth) | {"linestyle": "--" if nth else "-"}
            few = len(panel.x) <= 40
            style["markersize"] = 6 + 1.3 * (len(panel.lines) - 1 - number) if few else 0
            numbers = as_array("line_panels", values, ("N",))
            x = panel.x[: len(numbers)]
            (drawn[name],) = ax.plot(x, numbers, alpha=0.85, linewidth=2, **style)
        if panel.log_x:
            ax.set_xscale("log", base=2)
            ax.set_xticks(list(panel.x), [f"{value:g}" for value in panel.x])
        if panel.log_y:
            ax.set_yscale("log")
        else:
            ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]))
        ax.set_title(panel.title, loc="left", fontsize=TEXT, fontweight="bold")
        ax.set_xlabel(panel.xlabel)
        sns.despine(ax=ax)
    position: dict[str, Any] = {"loc": "outside lower center", "ncols": len(names)}
    figure.legend(drawn.values(), list(drawn), frameon=False, **position)
    return figure
