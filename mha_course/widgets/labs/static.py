"""A lab's static picture: its panels in rows, drawn by ``plots``."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from mha_course import plots
from mha_course.colours import DARK_ON_CELL, EDGE, NOTE, PAPER
from mha_course.markup import shorten
from mha_course.plots.figures import SMALL, TEXT, TITLE
from mha_course.plots.scales import Scale
from mha_course.widgets.labs.panels import Panel

WIDTH = 11.0  # inches
LETTER = 0.08  # largest width of a letter in a table, in inches
LINES: dict[str, dict[str, Any]] = {
    "main": {"color": plots.BAR, "alpha": 1},
    "faint": {"color": plots.INK, "alpha": 0.45},
}
CENTRED: dict[str, Any] = {"ha": "center", "va": "center"}
DOT: dict[str, Any] = {"markeredgecolor": plots.INK, "markersize": 8, "zorder": 3}
# relative widths of kinds; a table has its own width
SHARES = {"bars": 1.0, "matrix": 1.5, "lines": 1.3, "arrows": 1.0, "shares": 1.7, "table": 0.0}


def figure(question: str, panels: Sequence[Panel]) -> Figure:
    """Draw panels in rows: the big ones side by side, then the small ones."""
    small = [panel for panel in panels if panel.get("size") == "small"]
    big = [panel for panel in panels if panel not in small]
    across = min(max(len(small), 4), 8)
    batches = [small[start : start + across] for start in range(0, len(small), across)]
    rows = [row for row in (big, *batches) if row]
    heights = [max(map(_height, row)) for row in rows]
    height = 0.4 + sum(heights)
    drawing = plots.new_figure(WIDTH, height)
    drawing.suptitle(question, x=0.01, ha="left", fontsize=TITLE, fontweight="bold")
    if not rows:  # the lab's first drawing failed
        return drawing
    bands = drawing.subfigures(len(rows), 1, squeeze=False, height_ratios=heights)[:, 0]
    for band, row in zip(bands, rows, strict=True):
        widths = _inches(row)
        if row in batches:
            widths += [widths[0]] * (across - len(row))
        axes = band.subplots(1, len(widths), squeeze=False, width_ratios=widths)[0]
        for ax, panel, inches in zip(axes, row, widths, strict=False):
            KINDS[panel["kind"]](ax, panel)
            title = textwrap.fill(panel["title"], round((inches - 0.5) / 0.07))
            size = SMALL if panel.get("group") else TEXT
            ax.set_title(title, loc="left", fontsize=size, parse_math=False)
        for ax in axes[len(row) :]:
            ax.remove()
    return drawing


def _inches(row: Sequence[Panel]) -> list[float]:
    """Return the width of each panel in a row: what it needs, or its share of the rest."""
    needs = [_ends(panel)[-1] if panel["kind"] == "table" else 0.0 for panel in row]
    weights = [SHARES[panel["kind"]] for panel in row]
    remaining = WIDTH - sum(needs)
    total = sum(weights) or 1.0
    return [need or remaining * weight / total for need, weight in zip(needs, weights, strict=True)]


def _height(panel: Panel) -> float:
    if panel.get("size") == "small":
        return 2.0
    if panel["kind"] == "matrix":
        return 1.9 + 0.25 * len(panel["rows"])  # column names and title are above
    lines = len(panel["rows"]) if panel["kind"] == "table" else max(9, len(panel.get("names", ())))
    return 1.2 + 0.24 * lines


def _bars(ax: Axes, panel: Panel) -> None:
    values = np.nan_to_num(np.array(panel["values"], float))
    plots.bars(values, [shorten(name, 12) for name in panel["names"]], unit=panel["note"], ax=ax)
    for n in panel["highlighted"]:  # by position, since a word may occur twice
        ax.patches[n].set_color(plots.ACCENT)
    for n, value in enumerate(panel["values"]):
        text = "NaN" if value is None else f"{value:.2f}"
        beside: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": SMALL}
        ax.annotate(text, (max(0.0, values[n]), n), (3, 0), **beside)
    ax.set_xlim(panel["low"], panel["high"] + 0.18 * (panel["high"] - panel["low"]))


def _matrix(ax: Axes, panel: Panel) -> None:
    scale = Scale(*(panel["scale"][key] for key in Scale._fields))
    mask = None if panel["hidden"] is None else ~np.array(panel["hidden"], bool)
    names = {"queries": panel["rows"], "keys": panel["columns"]}
    style: dict[str, Any] = {"annotate": False, "bar": False, "leaks": True}
    values = np.array(panel["values"], float)
    plots.heatmap(values, **names, mask=mask, scale=scale, **style, ax=ax)
    ax.set_xlabel(ax.get_xlabel().removeprefix("key").strip())
    if panel["size"] != "big":
        ax.set(xticks=[], yticks=[], ylabel="")
    if "on" in panel:
        ax.xaxis.set_label_position("bottom")
        empty = "□" if mask is None else "▨"
        ax.set_xlabel(f"■ {panel['on']}   {empty} {panel['off']}", fontsize=SMALL)


def _lines(ax: Axes, panel: Panel) -> None:
    names = [f"{x:g}" for x in panel["x"]]
    places = range(len(panel["x"]))
    at = panel["at"]
    values: dict[str, Any] = {
        line["name"]: np.array(line["values"], float) for line in panel["lines"]
    }
    plots.curves(places, values, xlabel=panel["xlabel"], ylabel="", logarithmic=False, ax=ax)
    for line, artist in zip(panel["lines"], ax.lines, strict=True):
        artist.set(markevery=[at], markersize=6, **LINES[line["style"]])
    ax.axvline(at, color=plots.ACCENT, linewidth=2, zorder=0)
    every = math.ceil(len(names) / 8)
    ax.set_xticks(places[::every], names[::every], fontsize=SMALL)
    if panel["doublings"]:
        ax.set_yscale("log", base=2)
    elif panel["low"] < 0:
        ax.axhline(0, color=plots.INK, linewidth=0.8)
    ax.set_ylim(panel["low"], panel["high"])
    ax.legend(frameon=False, fontsize=SMALL)  # redrawn, since a legend keeps the lines' old style


def _arrows(ax: Axes, panel: Panel) -> None:
    """Draw arrows from 0, hollow for queries, the hull of their tips, and dots."""
    drawn = panel["arrows"]
    reach = panel["reach"]
    limit = math.floor(reach)
    tips = [arrow["at"] for arrow in drawn]
    if panel["hull"]:
        ax.fill(*zip(*tips[: panel["hull"]], strict=True), color=plots.QUIET, zorder=0)
    for path in panel["paths"]:
        ax.plot(*zip(*path, strict=True), ":", color=plots.INK, linewidth=1.2)
    for arrow in drawn:
        x, y = arrow["at"]
        width = arrow["thick"] / 4
        style = {
            "arrowstyle": f"simple,head_width={0.4 + 0.3 * width},tail_width={0.2 * width}",
            "edgecolor": arrow["color"],
            "facecolor": PAPER if arrow["style"] == "queries" else arrow["color"],
        }
        ax.annotate("", (x, y), (0, 0), arrowprops={**style, "shrinkA": 0, "shrinkB": 0})
        factor = 1 + 0.065 * reach / max(math.hypot(x, y), 0.065 * reach)
        name = f"${arrow['name']}_{{{arrow['of']}}}$" if arrow["of"] else arrow["name"]
        ax.annotate(name, (factor * x, factor * y), fontsize=TITLE, color=plots.INK, **CENTRED)
    for dot in panel["dots"]:
        if dot["tie"] is not None:
            tie = zip(tips[dot["tie"]], dot["at"], strict=True)
            ax.plot(*tie, ":", color=dot["color"], linewidth=1.6)
        ax.plot(*dot["at"], "o", color=dot["color"], **DOT)
    small = panel.get("size") == "small"
    ends = (-reach, reach)
    places = [] if small else range(-limit, limit + 1)
    ax.set(xlim=ends, ylim=ends, aspect="equal", anchor="W", xticks=places, yticks=places)
    if small:
        ax.add_patch(Circle((0, 0), reach, fill=False, edgecolor=plots.QUIET, clip_on=False))
    ax.grid(color=plots.QUIET, linewidth=0.8)
    ax.tick_params(length=0, labelsize=SMALL)
    ax.spines[:].set_visible(False)
    ax.set_xlabel(panel["note"], fontsize=SMALL, loc="left")


def _shares(ax: Axes, panel: Panel) -> None:
    rows, columns = panel["rows"], panel["columns"]
    numbers = len(rows[0]["numbers"])
    style: dict[str, Any] = {"fontsize": SMALL, "ha": "left"}
    for n, row in enumerate(rows):
        start = 0.0
        for segment in row["parts"]:
            ax.barh(
                n, segment["value"], 0.62, left=start, color=segment["color"], edgecolor="white"
            )
            if segment["value"] > 0.08 + 0.018 * len(segment["name"]):
                words = f"{segment['name']} {segment['value']:.2f}"
                inside: dict[str, Any] = {"va": "center", "clip_on": True, "parse_math": False}
                # What is left over turns dark on a dark page; other parts keep their colours.
                inside["color"] = plots.INK if segment["color"] == EDGE else DARK_ON_CELL
                ax.text(start + 0.01, n, words, **inside, **style)
            start += segment["value"]
        if row["mark"] is not None:
            ax.barh(n + 0.4, row["mark"], 0.1, color=row["parts"][0]["color"])
        for column, number in enumerate(row["numbers"]):
            ax.text(-0.13 * (numbers - column), n, f"{number:.2f}", va="center", **style)
    for column, words in enumerate(columns[1:-1]):
        ax.text(-0.13 * (numbers - column), -0.6, textwrap.fill(words, 8), va="bottom", **style)
    if columns:
        ax.text(0, -0.6, columns[-1], va="bottom", **style)
    names = [textwrap.fill(row["name"], 48) for row in rows]
    ax.set_yticks(range(len(rows)), names, fontsize=SMALL, parse_math=False)
    top = -1 if columns else -0.5
    ax.set(xlim=(-0.13 * numbers - 0.02, 1), ylim=(len(rows) - 0.4, top), xticks=[])
    ax.tick_params(left=False)
    ax.spines[:].set_visible(False)


def _lines_of(panel: Panel) -> list[list[str]]:
    lines = [panel["head"], *panel["rows"]] if any(panel["head"]) else panel["rows"]
    return [[word and shorten(word, 72) for word in line] for line in lines]


def _ends(panel: Panel) -> list[float]:
    """Return where a table's columns end, in inches from the left."""
    letters = [max(map(len, column)) + 2 for column in zip(*_lines_of(panel), strict=True)]
    return [LETTER * end for end in accumulate(letters)]


def _table(ax: Axes, panel: Panel) -> None:
    """Draw lines of words, the first left-aligned and the others right-aligned in columns."""
    ax.axis("off")
    ends, lines = _ends(panel), _lines_of(panel)
    style: dict[str, Any] = {"textcoords": "offset points", "va": "top", "fontsize": SMALL}
    style["parse_math"] = False
    for n, (heading, *columns) in enumerate(lines):
        ax.annotate(heading, (0, 1), (0, -20 * n - 6), **style)
        for words, end in zip(columns, ends[1:], strict=True):
            ax.annotate(words, (0, 1), (72 * end, -20 * n - 6), ha="right", **style)
    note = textwrap.fill(panel["note"], round(ends[-1] / LETTER))
    ax.annotate(note, (0, 1), (0, -20 * len(lines) - 14), color=NOTE, **style)


KINDS: dict[str, Callable[[Axes, Panel], None]] = {
    "bars": _bars, "matrix": _matrix, "lines": _lines, "arrows": _arrows, "shares": _shares,
    "table": _table,
}  # fmt: skip
