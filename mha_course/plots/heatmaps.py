"""Pictures of attention weights, and of other tables of numbers.

Axes: T query tokens, S key tokens, H heads. In all functions, ``weights`` are a tensor on any
device, an array or lists; leading axes of size 1 are dropped; ``queries`` and ``keys`` name rows
and columns, and keys default to queries if T = S; ``mask`` is bool, True = may attend,
broadcastable to the weights. Hidden cells and -inf are hatched, unlike a weight of 0; NaN and inf
are written out, or as a × in small cells. Inputs that do not fit raise ShapeError.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from mha_course.colours import DARK_ON_CELL, EDGE, HATCH, INK, WHITE_ON_CELL
from mha_course.markup import isolate_word, shorten
from mha_course.plots.figures import SMALL, TEXT, TITLE, new_figure
from mha_course.plots.inputs import Names, as_array, as_named_weights
from mha_course.plots.scales import SLANT, WEIGHTS, Scale, scale_of, stretched

LEAK: dict[str, Any] = {**HATCH, "facecolor": "none", "linewidth": 0}
LONGEST = 14  # characters of a name
GAP = 0.17  # inches between heads
WORDY = 24  # points of a cell that has room for NaN


def heatmap(
    weights: Any, *, queries: Names = None, keys: Names = None, mask: Any = None,
    annotate: bool | None = None, title: str | None = None, scale: Scale | None = None,
    bar: bool = True, leaks: bool = False, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw one matrix (T, S): a row for each query, a column for each key, with numbers if there
    are at most 8 columns.

    Colours run from 0 to the largest number, or symmetrically around a white 0; a scale sets both
    ends, so that several pictures can share it. Without a bar there is a frame; with leaks, a
    hidden cell shows its number's colour under the hatching. Without ax, a figure is made.

    >>> heatmap([[0.9, 0.1], [0.5, 0.5]], queries=["it", "sat"]).get_ylabel()
    'query'
    """
    named = as_named_weights("heatmap", weights, ("T", "S"), queries, keys, mask)
    matrix, rows, columns, hidden = named
    width = 0.36 * len(columns) + max(1.6, 0.9 + _name_width(rows))
    height = 0.36 * len(rows) + max(0.9, 0.3 + _name_height(columns))
    ax = ax or new_figure(min(max(width, 3.2), 11), min(max(height, 2.2), 10)).subplots()
    extent = ax.get_window_extent()
    dpi = ax.figure.dpi
    side = 0.8 * np.divide(extent.size, matrix.shape[::-1]).min() * 72 / dpi  # rest: names
    inches = extent.width / dpi  # before the bar
    annotate = len(columns) <= 8 if annotate is None else annotate
    leaking = leaks & hidden & (matrix != 0) & ~np.isneginf(matrix)
    scale = scale or stretched(matrix, hidden)
    mesh = _draw_cells(ax, matrix, hidden & ~leaking, side, scale)
    if annotate:
        _write_numbers(ax, mesh)
    for row, column in np.argwhere(leaking):
        ax.add_patch(Rectangle((column, row), 1, 1, **LEAK))
    if bar:
        ax.figure.colorbar(mesh, ax=ax).outline.set_linewidth(0)
    else:
        ax.set_anchor("C")
        ax.spines[:].set(visible=True, color=INK, linewidth=0.8)  # else empty cells have no edges
        mesh.set(edgecolor=EDGE, linewidth=0.5)
    _write_names(ax, rows, columns, side)
    ax.set(xlabel="key" + _note_on_odd(matrix[~hidden], side), ylabel="query")
    wrapped = _title(title or ax.get_title("left"), inches)
    ax.set_title(wrapped, loc="left", fontsize=TITLE, fontweight="bold")
    return ax


def head_grid(
    weights: Any, *, queries: Names = None, keys: Names = None, mask: Any = None,
    titles: Sequence[str] = (), scale: Scale | None = None, top: float = 0.0,
) -> Figure:  # fmt: skip
    """Draw heads (H, T, S) side by side, on one scale.

    It runs from 0 to 1, or further if numbers are larger, or symmetrically around 0 if some are
    negative. Only the outermost heads have names; titles default to head numbers; ``top`` inches
    stay free above.
    """
    axes = ("H", "T", "S")
    named = as_named_weights("head_grid", weights, axes, queries, keys, mask)
    heads, rows, columns, hidden = named
    scale = scale or scale_of(heads, hidden)
    figure, side, across = _head_axes(len(heads), rows, columns, top)
    (*panels, bar) = figure.axes
    titles = titles or [f"head {number}" for number in range(len(heads))]
    for number, (ax, title) in enumerate(zip(panels, titles, strict=True)):
        row, column = divmod(number, across)
        mesh = _draw_cells(ax, heads[number], hidden[number], side, scale)
        _write_names(ax, [] if column else rows, [] if row else columns, side)
        pad = 4 if row else 4 + 72 * _name_height(columns)
        ax.set_title(title, fontsize=TEXT, loc="left", y=1, pad=pad)
    label = "weight" if scale == WEIGHTS else "value"
    label += _note_on_odd(heads[~hidden], side)
    figure.colorbar(mesh, cax=bar, label=label)
    return figure


def heatmap_row(panels: Mapping[str, Any], tokens: Sequence[str], *, mask: Any = None) -> Figure:
    """Draw heatmaps of the same tokens, two in a row, all on one scale.

    Args: panels maps a title to its weights (S, S); mask is that of all panels, or maps a title to
        its own.
    """
    maps = [as_array("heatmap_row", weights, ("S", "S")) for weights in panels.values()]
    scale = stretched(maps)
    num_rows = math.ceil(len(maps) / 2)
    figure = new_figure(11, 5.2 * num_rows)
    axes = figure.subplots(num_rows, 2, squeeze=False).ravel()
    for ax, title, weights in zip(axes, panels, maps, strict=True):
        own = mask.get(title) if isinstance(mask, Mapping) else mask
        heatmap(weights, queries=tokens, mask=own, title=title, scale=scale, ax=ax)
    return _with_one_bar(figure, axes, "weight")


def heatmap_tables(
    panels: Mapping[str, Any], rows: Sequence[str], columns: Sequence[str], *,
    group: int = 0, unit: str = "weight",
) -> Figure:  # fmt: skip
    """Draw tables of numbers under one another, all on one scale, with each number written.

    Args: panels maps a title to its numbers (rows, columns); after every ``group`` columns, such as
        the heads of a layer, there is a gap; unit is the label of the colour bar.
    """
    tables = [as_array("heatmap_tables", table, ("rows", "columns")) for table in panels.values()]
    scale = stretched(tables)
    figure = new_figure(0.62 * len(columns) + 2.9, (0.34 * len(rows) + 1) * len(tables))
    axes = figure.subplots(len(tables), 1, squeeze=False).ravel()
    for ax, title, table in zip(axes, panels, tables, strict=True):
        names: dict[str, Any] = {"queries": rows, "keys": columns}
        heatmap(table, **names, annotate=True, title=title, scale=scale, ax=ax)
        ax.set(xlabel="", ylabel="", aspect="auto")
        ax.set_yticklabels(rows)  # in full
        if group:
            for edge in range(group, len(columns), group):
                ax.axvline(edge, color="white", linewidth=6)
    return _with_one_bar(figure, axes, unit)


def _with_one_bar(figure: Figure, axes: Any, label: str) -> Figure:
    """Replace the colour bars of several heatmaps with one."""
    for ax in axes:
        ax.collections[0].colorbar.remove()
    figure.colorbar(axes[0].collections[0], ax=axes, label=label, aspect=30, pad=0.02)
    return figure


def strongest(weights: Any, queries: Sequence[str], keys: Names = None) -> str:
    """Write each query's largest weight, for a heatmap's caption; punctuation is quoted.

    >>> strongest([[0.9, 0.1], [0.3, 0.7]], ["it", ","])
    'it → it 0.90, “,” → “,” 0.70'
    """
    matrix, rows, columns, _ = as_named_weights("strongest", weights, ("T", "S"), queries, keys)
    best = [columns[column] for column in matrix.argmax(axis=1)]
    triples = zip(rows, best, matrix.max(axis=1), strict=True)
    return ", ".join(
        f"{_quoted(row)} → {_quoted(key)} {weight:.2f}" for row, key, weight in triples
    )


def _quoted(word: str) -> str:
    """Return a word for use in a sentence; punctuation is quoted."""
    isolated = isolate_word(word)
    return isolated if any(map(str.isalnum, word)) else f"“{isolated}”"


def _title(text: str, width: float) -> str:
    """Wrap a title to a width in inches, in at most three lines."""
    most = max(24, round(12 * width))  # letters
    lines = textwrap.wrap(text, most, max_lines=3, placeholder=" …")
    return "\n".join(lines) if len(text) > most else text


def _note_on_odd(visible: NDArray[np.float64], side: float) -> str:
    """Explain the ×, if there is one."""
    crossed = side <= WORDY and (np.isnan(visible) | np.isposinf(visible)).any()
    return " (× is not a finite number)" if crossed else ""


def _draw_cells(
    ax: Axes, matrix: NDArray[np.float64], hidden: NDArray[np.bool_], side: float, scale: Scale
) -> QuadMesh:
    """Colour the cells, of a width in points, the first row at the top; hidden ones show the
    hatched background.
    """
    rows, columns = matrix.shape
    colors: dict[str, Any] = {"cmap": scale.cmap, "vmin": scale.low, "vmax": scale.high}
    seen = np.ma.masked_where(hidden, matrix)
    mesh = ax.pcolormesh(seen, edgecolor="white", linewidth=0, **colors)
    ax.spines[:].set_visible(False)
    ax.set(xlim=(0, columns), ylim=(rows, 0), xticks=[], yticks=[])
    if max(rows, columns) <= 20 * min(rows, columns):  # else it would be a line
        ax.set_aspect("equal")
    if side > 6:  # lines in the page's colour, which a bitmap cannot have
        ax.hlines(range(1, rows), 0, columns, color="white", linewidth=0.5)
        ax.vlines(range(1, columns), 0, rows, color="white", linewidth=0.5)
    ax.patch.set(**HATCH)
    odd = (np.isnan(matrix) | np.isposinf(matrix)) & ~hidden
    if odd.any():
        _write_odd(ax, matrix, odd, side)
    return mesh


def _write_odd(ax: Axes, matrix: NDArray[np.float64], odd: NDArray[np.bool_], side: float) -> None:
    """Write NaN and ∞ into their cells, or a × if these are small."""
    ax.pcolormesh(np.where(odd, 0.0, np.nan), cmap=ListedColormap(["white"]))
    y, x = np.argwhere(odd).T + 0.5
    if side > WORDY:
        style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SMALL}
        for column, row, number in zip(x, y, matrix[odd], strict=True):
            ax.text(column, row, "NaN" if np.isnan(number) else "∞", color=INK, **style)
    else:
        width = min(side / 8, 1.5)
        ax.scatter(x, y, (side / 2) ** 2, color=INK, marker="x", linewidths=width)


def _luminance(color: NDArray[np.float64]) -> float:
    """Return a colour's relative luminance, as defined by WCAG."""
    linear = np.where(color <= 0.04045, color / 12.92, ((color + 0.055) / 1.055) ** 2.4)
    return float(linear[:3] @ (0.2126, 0.7152, 0.0722))


def _write_numbers(ax: Axes, mesh: QuadMesh) -> None:
    """Write the numbers of cells, in the text colour with more contrast."""
    mesh.update_scalarmappable()
    numbers: Any = np.ma.masked_invalid(np.ma.asarray(mesh.get_array()))
    colors = np.asarray(mesh.get_facecolor()).reshape(*numbers.shape, 4)
    for row, column in np.argwhere(~np.ma.getmaskarray(numbers)):
        light = _luminance(colors[row, column]) > 0.18  # where white and black have equal contrast
        ink = DARK_ON_CELL if light else WHITE_ON_CELL
        words = f"{numbers[row, column]:z.2f}"  # no -0.00
        ax.text(column + 0.5, row + 0.5, words, color=ink, ha="center", va="center")


def _head_axes(
    count: int, rows: Sequence[str], columns: Sequence[str], free: float
) -> tuple[Figure, float, int]:
    """Make axes for heads and a bar; return a cell's size in points, and the heads per row."""
    num_rows = math.ceil(count / 4) if free else max(math.isqrt(count), math.ceil(count / 6))
    across = math.ceil(count / num_rows)
    side = min(0.24, 8.75 / across / len(columns), 9 / num_rows / len(rows))
    side = max(side, 1 / max(len(rows), len(columns)))  # at least an inch for the longer side
    width = max(side * len(columns), 0.15)
    height = max(side * len(rows), 0.15)
    left = _name_width(rows)
    top = free + _name_height(columns) + 2 * GAP
    step = height + 2 * GAP
    long = max(num_rows * step - 2 * GAP, 1.0)  # the bar
    size = left + across * (width + GAP) + 0.9, top + long + 2 * GAP
    # Constrained layout would measure every name several times.
    figure = new_figure(*size, layout="none")
    boxes = [(n % across, n // across * step, width, height) for n in range(count)]
    for column, y, w, h in (*boxes, (across, 0, 0.12, long)):
        x = left + column * (width + GAP)
        figure.add_axes((x / size[0], 1 - (top + y + h) / size[1], w / size[0], h / size[1]))
    return figure, 72 * side, across


def _name_width(names: Sequence[str]) -> float:
    """Return the width of the longest name in inches, at most."""
    wide = "mwMW@%—…"
    ems = max(sum(1 if letter in wide else 0.8 for letter in name[:LONGEST]) for name in names)
    return (ems * SMALL + 4) / 72


def _name_height(names: Sequence[str]) -> float:
    """Return the height of the longest name in inches, when slanted."""
    return _name_width(names) * math.sin(math.radians(SLANT)) + 0.08


def _write_names(ax: Axes, rows: Sequence[str], columns: Sequence[str], side: float) -> None:
    """Write row names, and slanted column names, for cells of a width in points."""
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.xaxis.set_visible(bool(columns))
    ax.yaxis.set_visible(bool(rows))
    ax.tick_params(length=0, pad=2)
    slant: dict[str, Any] = {"rotation": SLANT, "ha": "left", "rotation_mode": "anchor"}
    places, names = _names_that_fit(columns, side * math.sin(math.radians(SLANT)))
    # Without parse_math, a $ in a word stays a $.
    ax.set_xticks(places, names, fontsize=SMALL, parse_math=False, **slant)
    places, names = _names_that_fit(rows, side)
    ax.set_yticks(places, names, fontsize=SMALL, parse_math=False, rotation=0)


def _names_that_fit(names: Sequence[str], line: float) -> tuple[NDArray[np.float64], list[str]]:
    """Return the positions and names to write, with a line distance in points."""
    positions = [position for position, name in enumerate(names) if name]
    height = line * len(names) / max(len(positions), 1) / 1.15
    every = next((n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500) if n * height >= SMALL), 1000)
    chosen = positions[::every]
    return np.array(chosen) + 0.5, [shorten(names[position], LONGEST) for position in chosen]
