"""The static twin of a lab: the panels that the browser draws, drawn by matplotlib."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle

from mha_course import plots
from mha_course.widgets.labs.panels import HEADS, PALETTES

WIDTH = 11.0  # inches
BOOL = ["#ffffff", plots.BAR]
Panel = Mapping[str, Any]


def figure(question: str, panels: Sequence[Panel]) -> Figure:
    """Draw panels in rows: first the big ones beside each other, then small and tiny matrices."""
    rows = [[panel for panel in panels if "size" not in panel or panel["size"] == "big"]]
    rows += [[panel for panel in panels if panel.get("size") == "small"]]
    tiny = [panel for panel in panels if panel.get("size") == "tiny"]
    rows += [tiny[start : start + 8] for start in range(0, len(tiny), 8)]
    rows = [row for row in rows if row]
    heights = [max(map(_height, row)) for row in rows]
    made = plots.new_figure(WIDTH, 0.4 + sum(heights))
    made.suptitle(question, x=0.01, ha="left", fontsize=12, fontweight="bold")
    if not rows:
        return made
    parts = made.subfigures(len(rows), 1, squeeze=False, height_ratios=heights)[:, 0]
    for part, row in zip(parts, rows, strict=True):
        places = max(len(row), 8 if row[0].get("size") == "tiny" else 1)
        shares = [*map(_share, row), *[1.0] * (places - len(row))]
        axes = part.subplots(1, places, squeeze=False, width_ratios=shares)[0]
        for ax, panel in zip(axes, row, strict=False):
            KINDS[panel["kind"]](ax, panel)
            ax.set_title(textwrap.fill(panel["title"], 44), loc="left", fontsize=9 if panel.get("group") else 10)
        for ax in axes[len(row) :]:
            ax.remove()
    return made


def _height(panel: Panel) -> float:
    """Return how many inches a panel needs."""
    if panel["kind"] == "matrix":
        return {"big": 1.4 + 0.25 * len(panel["rows"]), "small": 2.2, "tiny": 1.6}[panel["size"]]
    return 1.2 + 0.24 * max(9, len(panel.get("names", ())))


def _share(panel: Panel) -> float:
    """Return how wide a panel is beside others."""
    return {"bars": 1.0, "table": 1.3, "lines": 1.3, "plane": 1.3, "matrix": 1.5, "blocks": 1.3}[panel["kind"]]


def _short(word: str) -> str:
    """Return a word as one line that leaves room for the picture."""
    line = " ".join(word.split())
    return line if len(line) <= 12 else f"{line[:11]}…"


def _numbers(values: Any) -> Any:
    """Return numbers as an array, with None as NaN."""
    return np.array(values, dtype=float)


def _bars(ax: Axes, panel: Panel) -> None:
    """Draw horizontal bars with their numbers."""
    values, names = np.nan_to_num(_numbers(panel["values"])), panel["names"]
    colors = [plots.ACCENT if n in panel["lit"] else plots.BAR for n in range(len(names))]
    ax.barh(range(len(names)), values, color=colors)
    for n, value in enumerate(panel["values"]):
        beside: dict[str, Any] = {"xytext": (3, 0), "textcoords": "offset points", "va": "center", "fontsize": 8}
        ax.annotate("NaN" if value is None else f"{value:.2f}", (max(0.0, values[n]), n), **beside)
    ax.axvline(0, color=plots.INK, linewidth=0.8)
    ax.set_yticks(range(len(names)), map(_short, names), fontsize=9, parse_math=False)
    ax.set(xlim=(panel["low"], panel["high"] + 0.18 * (panel["high"] - panel["low"])), xlabel=panel["note"])
    ax.tick_params(axis="y", length=0)
    ax.invert_yaxis()
    sns.despine(ax=ax, left=True)


def _matrix(ax: Axes, panel: Panel) -> None:
    """Draw cells; hidden ones are hatched, and coloured beneath where they have a weight all the same."""
    values, colors = _numbers(panel["values"]), BOOL if panel["palette"] == "bool" else PALETTES[panel["palette"]]
    hidden = np.zeros(values.shape, bool) if panel["hidden"] is None else np.array(panel["hidden"], bool)
    empty = np.ma.masked_where((hidden & (values == 0)) | np.isnan(values), values)
    look = {"cmap": ListedColormap(colors), "vmin": panel["low"], "vmax": panel["high"], "edgecolors": "#d5d8de"}
    ax.pcolormesh(empty, linewidth=0.5, **look)
    for (row, column), value in np.ndenumerate(values):
        if hidden[row, column]:
            ax.add_patch(Rectangle((column, row), 1, 1, fill=False, hatch="////", edgecolor="#9aa1ad", linewidth=0))
        if np.isnan(value):
            ax.text(column + 0.5, row + 0.5, "NaN", ha="center", va="center", fontsize=6, color="#b3261e")
    ax.set_aspect("equal")
    ax.invert_yaxis()
    ax.set(xticks=[], yticks=[])
    if panel["size"] == "big":
        _names(ax, panel)
    if "on" in panel:
        ax.set_xlabel(f"■ {panel['on']}   □ {panel['off']}", fontsize=8)


def _names(ax: Axes, panel: Panel) -> None:
    """Write the tokens along both sides, and the sums where there are some."""
    look: dict[str, Any] = {"fontsize": 8, "parse_math": False}
    columns, rows = list(map(_short, panel["columns"])), list(map(_short, panel["rows"]))
    if "rows_sum" in panel:
        rows = [f"{name}  Σ {total}" for name, total in zip(rows, panel["rows_sum"], strict=True)]
        columns = [f"{name}  Σ {total}" for name, total in zip(columns, panel["columns_sum"], strict=True)]
    ax.xaxis.tick_top()
    ax.set_xticks(np.arange(len(columns)) + 0.5, columns, rotation=60, ha="left", rotation_mode="anchor", **look)
    ax.set_yticks(np.arange(len(rows)) + 0.5, rows, **look)
    ax.tick_params(length=0, pad=2)


def _lines(ax: Axes, panel: Panel) -> None:
    """Draw lines over evenly spaced places, and mark the place that was chosen."""
    styles: dict[str, dict[str, Any]] = {
        "main": {"marker": "o"},
        "dashed": {"linestyle": "--", "marker": "s"},
        "faint": {"alpha": 0.45},
    }
    for line in panel["lines"]:
        color = plots.INK if line["style"] == "faint" else plots.BAR
        ax.plot(_numbers(line["values"]), color=color, label=line["name"], **styles[line["style"]])
    ax.axvline(panel["at"], color=plots.ACCENT, linewidth=2)
    ax.set_xticks(range(len(panel["x"])), [f"{x:g}" for x in panel["x"]], fontsize=8)
    ax.set(xlabel=panel["xlabel"], ylim=(0, None))
    ax.legend(frameon=False, fontsize=8)
    sns.despine(ax=ax)


def _plane(ax: Axes, panel: Panel) -> None:
    """Draw values as arrows from 0, their hull, and the context."""
    ax.add_patch(Polygon(_numbers(panel["hull"]), color=plots.BAR, alpha=0.18))
    for name, point in zip(panel["names"], panel["points"], strict=True):
        ax.annotate("", point, (0, 0), arrowprops={"arrowstyle": "->", "color": plots.BAR, "lw": 1.6})
        ax.annotate(_short(name), point, fontsize=9, parse_math=False)
    ax.annotate("", panel["context"], (0, 0), arrowprops={"arrowstyle": "->", "color": plots.ACCENT, "lw": 2.4})
    ax.plot(*panel["context"], "o", color=plots.ACCENT, markersize=9, markeredgecolor=plots.INK)
    reach = panel["reach"]
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    ax.tick_params(labelsize=8)
    sns.despine(ax=ax)


def _blocks(ax: Axes, panel: Panel) -> None:
    """Draw the rows of a projection, and beside them the vector that comes out, in the colours of the heads."""
    width, deep = panel["width"], panel["width"] // panel["heads"]
    for row in range(width):
        color = HEADS[row // deep % len(HEADS)]
        ax.add_patch(Rectangle((0, row), width, 0.92, color=color, alpha=0.8))
        ax.add_patch(Rectangle((1.12 * width, row), 0.06 * width, 0.92, color=color))
    ax.hlines(np.arange(deep, width, deep) - 0.04, 0, 1.18 * width, color=plots.INK, linewidth=1)
    ax.set(xlim=(0, 1.2 * width), ylim=(width, 0), aspect="equal", xticks=[], yticks=[])
    sns.despine(ax=ax, left=True, bottom=True)


def _table(ax: Axes, panel: Panel) -> None:
    """Write the rows beneath each other."""
    ax.axis("off")
    columns = len(panel["head"])
    lines = [panel["head"], *panel["rows"]] if any(panel["head"]) else panel["rows"]
    for n, row in enumerate(lines):
        height = 1 - (n + 0.6) / (len(lines) + 1)
        ax.text(0, height, row[0], fontsize=9, va="center")
        for back, word in enumerate(reversed(row[1:])):
            ax.text(1 - 0.2 * back * (columns > 2), height, word, fontsize=9, va="center", ha="right")
    ax.text(0, 0, textwrap.fill(panel["note"], 50), fontsize=8, va="bottom", color="#5b606b")


KINDS: dict[str, Callable[[Axes, Panel], None]] = {
    "bars": _bars, "matrix": _matrix, "lines": _lines, "plane": _plane, "blocks": _blocks, "table": _table,
}  # fmt: skip
