"""Pictures of attention: each function draws on one Axes and returns it, a grid returns its Figure.

Axes of tensors: T query tokens, S key tokens, H heads. Everywhere ``weights`` are numbers as a tensor
on any device, an array or lists, where axes of size 1 in front are dropped; ``queries`` and ``keys`` name
every row and column, and keys default to queries where T = S; ``mask`` is bool, True = may attend,
broadcastable to the weights. Hidden cells and those of -inf are hatched, unlike a weight of 0; NaN and inf are a ×.
Colours can be told apart without colour vision: cividis, or vlag where numbers have a sign. As many names are written
as there is room for, long ones shortened. What does not fit raises ShapeError.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from mha_course.plots.figures import HATCH, INK, new_figure
from mha_course.plots.inputs import as_array, as_hidden, as_names

LOOK = {"fmt": ".2f", "linecolor": "white", "xticklabels": False, "yticklabels": False}
SLANT = 50  # degrees of the names of columns
LONGEST, LARGE = 14, 9.0  # characters of a name, and points of its letters where there is room
GAP = 0.17  # inches between heads


def heatmap(
    weights: Any,
    *,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    mask: Any = None,
    annotate: bool | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw one matrix (T, S): a row for each query, a column for each key, with numbers up to 8 columns.

    Colours run from 0 to the largest number, or evenly to both sides of a white 0. Without ax a figure is made.

    >>> heatmap([[0.9, 0.1], [0.5, 0.5]], queries=["it", "sat"]).get_ylabel()
    'query'
    """
    matrix = as_array("heatmap", weights, ("T", "S"))
    rows, columns = as_names("heatmap", matrix.shape, queries, keys)
    hidden = as_hidden("heatmap", mask, matrix.shape)
    width = 0.36 * len(columns) + max(1.6, 0.9 + _reach(rows))
    height = 0.36 * len(rows) + max(0.9, 0.3 + _rise(columns))
    ax = ax or new_figure(min(max(width, 3.2), 11), min(max(height, 2.2), 10)).subplots()
    side = 0.8 * np.divide(ax.get_window_extent().size, matrix.shape[::-1]).min() * 72 / ax.figure.dpi  # rest: names
    _draw(ax, matrix, hidden, side, _colors(matrix[~hidden]), annot=len(columns) <= 8 if annotate is None else annotate)
    _label(ax, rows, columns, side)
    ax.set(xlabel="key" + _odd(matrix[~hidden]), ylabel="query")
    ax.set_title(title or ax.get_title("left"), loc="left", fontsize=11, fontweight="bold")
    return ax


def head_grid(
    weights: Any,
    *,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    mask: Any = None,
    layer: int | None = None,
) -> Figure:
    """Draw the heads (H, T, S) of one layer beside each other, with their numbers, all on one scale.

    It runs from 0 to 1, or further where numbers are larger, or evenly to both sides of 0 if some are negative.
    Names stand along the outermost heads; layer, where it is given, above each.

    >>> len(head_grid(np.full((4, 5, 5), 0.2)).axes)  # four heads and the colour bar
    5
    """
    heads = as_array("head_grid", weights, ("H", "T", "S"))
    rows, columns = as_names("head_grid", heads.shape[1:], queries, keys)
    hidden = as_hidden("head_grid", mask, heads.shape)
    colors = _colors(heads[~hidden], least=1.0)
    figure, side, across = _frame(len(heads), rows, columns)
    (*panels, bar), above = figure.axes, "" if layer is None else f"layer {layer}, "
    for number, ax in enumerate(panels):
        row, column = divmod(number, across)
        _draw(ax, heads[number], hidden[number], side, colors, cbar=False)
        _label(ax, [] if column else rows, [] if row else columns, side)
        ax.set_title(f"{above}head {number}", fontsize=10, loc="left", y=1, pad=4 if row else 4 + 72 * _rise(columns))
    label = "weight" if (colors["vmin"], colors["vmax"]) == (0, 1) else "value"
    figure.colorbar(panels[0].collections[0], cax=bar, label=label + _odd(heads[~hidden]))
    return figure


def head_rows(rows: Mapping[str, Any], names: Sequence[str]) -> Figure:
    """Draw the heads of several layers of weights (H, S, S), one row a title, on one scale from 0 to 1."""
    heads = [as_array("head_rows", weights, ("H", "T", "S")) for weights in rows.values()]
    across = len(heads[0])
    figure = new_figure(2.4 * across + 1.4, 2.5 * len(rows))
    axes = figure.subplots(len(rows), across, squeeze=False, sharex=True, sharey=True)
    for line, (title, layer) in enumerate(zip(rows, heads, strict=True)):
        for head, (ax, weights) in enumerate(zip(axes[line], layer, strict=True)):
            image = ax.imshow(weights, cmap="cividis", vmin=0, vmax=1, interpolation="nearest")
            ax.set_title(f"{title}\nhead {head}" if head == 0 else f"\nhead {head}", fontsize=9, loc="left")
            ax.set_xticks(range(len(names)), names, fontsize=6.5, rotation=90, parse_math=False)
            ax.set_yticks(range(len(names)), names, fontsize=6.5, parse_math=False)
            ax.tick_params(length=0, pad=2)
    figure.colorbar(image, ax=axes, label="weight", aspect=40)
    return figure


def heatmap_row(panels: Mapping[str, Any], names: Sequence[str]) -> Figure:
    """Draw maps (T, S) of the same tokens side by side, all on one scale that begins at 0.

    >>> import torch
    >>> len(heatmap_row({"before": torch.eye(3), "after": torch.eye(3)}, ["a", "b", "c"]).axes)
    3
    """
    figure = new_figure(6.0 * len(panels), 5.4)
    axes = list(np.atleast_1d(figure.subplots(1, len(panels))))
    most = max(float(panel.detach().max()) for panel in panels.values())
    for ax, (title, panel) in zip(axes, panels.items(), strict=True):
        heatmap(panel, queries=names, title=title, ax=ax)
        cells = ax.collections[0]
        cells.colorbar.remove()  # one for all stands at the right
        cells.set_clim(0.0, most)
    figure.colorbar(axes[0].collections[0], ax=axes, label="weight", aspect=30, pad=0.02)
    return figure


def number_tables(
    panels: Mapping[str, Tensor], rows: Sequence[str], columns: Sequence[str], *, apart: int = 0, unit: str = ""
) -> Figure:
    """Draw tables of numbers on one scale, each with its title: narrow ones side by side, others under one another.

    Args: apart draws a line after so many columns, such as those of a layer; unit stands beside the colour bar.

    >>> import torch
    >>> len(number_tables({"before": torch.zeros(2, 3), "after": torch.ones(2, 3)}, ["a", "b"], ["x", "y", "z"]).axes)
    3
    """
    numbers = [panel.detach().cpu().double().numpy().round(2) + 0.0 for panel in panels.values()]  # no -0.00
    colors = _colors(np.stack(numbers))
    across = 1 if len(columns) > 5 else len(panels)
    down = len(panels) // across
    figure = new_figure(0.62 * len(columns) * across + 2.9, (0.34 * len(rows) + 0.75) * down)
    axes = list(np.atleast_1d(figure.subplots(down, across)).ravel())
    for ax, title, table in zip(axes, panels, numbers, strict=True):
        sns.heatmap(
            table, ax=ax, annot=True, fmt=".2f", linewidths=0.6, cbar=False, annot_kws={"fontsize": 9}, **colors
        )
        ax.set_title(title, loc="left", fontsize=11, fontweight="bold")
        ax.set_yticks(np.arange(len(rows)) + 0.5, rows if ax is axes[0] or across == 1 else [], rotation=0, fontsize=9)
        ax.set_xticks(np.arange(len(columns)) + 0.5, columns, rotation=0, fontsize=9)
        ax.tick_params(length=0)
        for edge in range(apart, len(columns), apart) if apart else ():
            ax.axvline(edge, color="white", linewidth=6)
    figure.colorbar(axes[0].collections[0], ax=axes, label=unit, aspect=30, pad=0.02)
    return figure


def strongest(weights: Any, queries: Sequence[str], keys: Sequence[str] | None = None) -> str:
    """Say in words where each query looks most: the text equivalent of a heatmap.

    >>> strongest([[0.9, 0.1], [0.3, 0.7]], ["it", "sat"])
    'it → it 0.90, sat → sat 0.70'
    """
    matrix = as_array("strongest", weights, ("T", "S"))
    rows, columns = as_names("strongest", matrix.shape, queries, keys)
    best = zip(rows, matrix.argmax(axis=1), matrix.max(axis=1), strict=True)
    return ", ".join(f"{row} → {columns[column]} {weight:.2f}" for row, column, weight in best)


def _colors(seen: NDArray[np.float64], least: float = 0.0) -> dict[str, Any]:
    """Return the palette for these numbers, and the numbers at its ends: 0 and at least so much, or ± the largest."""
    finite = seen[np.isfinite(seen)]
    largest = float(np.abs(finite).max(initial=0.0))
    if (finite < 0).any():
        return {"cmap": "vlag", "vmin": -largest, "vmax": largest}
    return {"cmap": "cividis", "vmin": 0.0, "vmax": (least if largest < 1.01 * least else largest) or 1.0}


def _odd(seen: NDArray[np.float64]) -> str:
    """Say what a × means, where there is one."""
    return " (× is no finite number)" if (np.isnan(seen) | np.isposinf(seen)).any() else ""


def _draw(
    ax: Axes,
    matrix: NDArray[np.float64],
    hidden: NDArray[np.bool_],
    side: float,
    colors: dict[str, Any],
    **options: Any,
) -> None:
    """Colour the cells, each so many points wide; where one is hidden the hatched background shows."""
    figure = ax.figure.canvas.figure
    figure.set_visible(False)  # else seaborn draws all that the figure has so far, to see whether names overlap
    options["square"] = max(matrix.shape) <= 20 * min(matrix.shape)  # else it would be a line
    sns.heatmap(matrix, mask=hidden, ax=ax, linewidths=0.5 * (side > 6), **colors, **options, **LOOK)
    figure.set_visible(True)
    ax.patch.set(**HATCH)
    odd = (np.isnan(matrix) | np.isposinf(matrix)) & ~hidden
    if odd.any():
        ax.pcolormesh(np.where(odd, 0.0, np.nan), cmap=ListedColormap(["white"]))
        y, x = odd.nonzero()
        ax.scatter(x + 0.5, y + 0.5, (side / 2) ** 2, color=INK, marker="x", linewidths=min(side / 8, 1.5))


def _frame(count: int, rows: Sequence[str], columns: Sequence[str]) -> tuple[Figure, float, int]:
    """Make axes for so many heads and one for the bar; return how wide a cell is, in points, and how many heads."""
    down = max(math.isqrt(count), math.ceil(count / 6))
    across = math.ceil(count / down)
    side = min(0.24, 8.5 / across / len(columns), 9 / down / len(rows))
    side = max(side, 1 / max(len(rows), len(columns)))  # an inch for the longer side at least
    width, height = (max(side * len(names), 0.15) for names in (columns, rows))
    left, top, step = _reach(rows), _rise(columns) + 2 * GAP, height + 2 * GAP
    long = max(down * step - 2 * GAP, 1.0)  # the bar
    size = left + across * (width + GAP) + 0.9, top + long + 2 * GAP
    figure = new_figure(*size, layout="none")  # constrained layout would measure every name, several times over
    boxes = [(n % across, n // across * step, width, height) for n in range(count)]
    for column, y, w, h in (*boxes, (across, 0, 0.12, long)):
        x = left + column * (width + GAP)
        figure.add_axes((x / size[0], 1 - (top + y + h) / size[1], w / size[0], h / size[1]))
    return figure, 72 * side, across


def _reach(names: Sequence[str]) -> float:
    """Return how many inches the longest of these names takes at most."""
    ems = max(sum(1 if letter in "mwMW@%—…" else 0.8 for letter in name[:LONGEST]) for name in names)
    return (ems * LARGE + 4) / 72


def _rise(names: Sequence[str]) -> float:
    """Return how many inches the longest of these names rises at a slant."""
    return _reach(names) * math.sin(math.radians(SLANT)) + 0.08


def _label(ax: Axes, rows: Sequence[str], columns: Sequence[str], side: float) -> None:
    """Write the names along the rows and, at a slant, above the columns, where cells are so many points wide."""
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.xaxis.set_visible(bool(columns))
    ax.yaxis.set_visible(bool(rows))
    ax.tick_params(length=0, pad=2)
    slant = {"rotation": SLANT, "ha": "left", "rotation_mode": "anchor"}
    for write, names, look in ((ax.set_xticks, columns, slant), (ax.set_yticks, rows, {"rotation": 0})):
        places = [place for place, name in enumerate(names) if name]
        room = side * len(names) / max(len(places), 1) * math.sin(math.radians(SLANT)) / 1.2  # from line to line
        size = min(LARGE, max(7.5, room))
        every = next((n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500) if n * room >= size), 1000)
        chosen = places[::every]
        texts = [names[place].replace("\n", "↵") for place in chosen]
        texts = [text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…" for text in texts]
        write(np.array(chosen) + 0.5, texts, fontsize=size, parse_math=False, **look)  # a $ in a word is a $
