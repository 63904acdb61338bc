"""Pictures of attention: each function draws on one Axes and returns it, a grid returns its Figure.

Axes of tensors: T query tokens, S key tokens, H heads. Everywhere ``weights`` are numbers as a tensor
on any device, an array or lists, where axes of size 1 in front are dropped; ``queries`` and ``keys`` name
every row and column, and keys default to queries where T = S; ``mask`` is bool, True = may attend,
broadcastable to the weights. Hidden cells are hatched, unlike a weight of 0; what is not a number is a ×. Colours
can be told apart without colour vision: cividis, or vlag where numbers have a sign. Of names, as many are written
as have room, long ones shortened. What does not fit raises ShapeError.
"""

from __future__ import annotations

import base64
import io
import math
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mha_course.errors import ShapeError

LINE = 88  # characters that fit beside JupyterLab's file list
ACCENT, BAR, QUIET, INK = "#f2a900", "#5b7fb4", "#e8eaee", "#1f2430"
LOOK = {"linecolor": "white", "xticklabels": False, "yticklabels": False}
HATCH = {"hatch": "////", "facecolor": "#ffffff", "edgecolor": "#9aa1ad"}
SLANT = 50  # degrees of the names of columns
LONGEST = 14  # characters of a name
GAP = 0.17  # inches between heads

_unregistered = ContextVar("unregistered", default=False)


@contextmanager
def unregistered() -> Iterator[None]:
    """Keep figures made meanwhile out of pyplot's list, from which a kernel shows what is open, even half drawn."""
    token = _unregistered.set(True)
    try:
        yield
    finally:
        _unregistered.reset(token)


def new_figure(width: float, height: float, layout: str = "constrained") -> Figure:
    """Make a figure of so many inches."""
    options: dict[str, Any] = {"figsize": (width, height), "layout": layout}
    return Figure(**options) if _unregistered.get() else plt.figure(**options)


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
    """Draw one matrix (T, S): a row for each query, a column for each key.

    Colours run from 0 to the largest number, or evenly to both sides of a white 0 if some are negative.
    annotate writes the numbers into the cells, by default up to 8 columns; without ax a figure is made.

    >>> heatmap([[0.9, 0.1], [0.5, 0.5]], queries=["it", "sat"]).get_ylabel()
    'query'
    """
    matrix = as_array("heatmap", weights, ("T", "S"))
    rows, columns = as_names("heatmap", matrix.shape, queries, keys)
    hidden = _hidden("heatmap", mask, matrix.shape)
    if ax is None:
        size = (1.6 + 0.36 * len(columns), 0.9 + 0.36 * len(rows))
        ax = new_figure(min(max(size[0], 3.2), 11), min(max(size[1], 2.2), 10)).subplots()
    space = ax.get_window_extent()
    side = 0.8 * min(space.width / len(columns), space.height / len(rows)) * 72 / ax.figure.dpi  # the rest is for names
    shown = matrix.shape[1] <= 8 if annotate is None else annotate
    _draw(ax, matrix, hidden, side, _colors(matrix[~hidden]), annot=shown, fmt=".2f", cbar=True, square=True)
    _label(ax, rows, columns, side)
    ax.set(xlabel="key" + _odd(matrix[~hidden]), ylabel="query")
    if title:
        ax.set_title(title, loc="left", fontsize=11, fontweight="bold")
    return ax


def head_grid(
    weights: Any,
    *,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    mask: Any = None,
) -> Figure:
    """Draw the heads (H, T, S) of one layer beside each other, all on one scale.

    It runs from 0 to 1, or further where numbers are larger, or evenly to both sides of 0 if some are negative.
    Names stand along the outermost heads.

    >>> len(head_grid(np.full((4, 5, 5), 0.2)).axes)  # four heads and the colour bar
    5
    """
    heads = as_array("head_grid", weights, ("H", "T", "S"))
    rows, columns = as_names("head_grid", heads.shape[1:], queries, keys)
    hidden = _hidden("head_grid", mask, heads.shape)
    colors = _colors(heads[~hidden], least=1.0)
    across = min(math.ceil(math.sqrt(len(heads))), 6)
    down = math.ceil(len(heads) / across)
    side = max(min(0.24, 8.5 / across / len(columns), 9 / down / len(rows)), 1 / max(heads.shape))  # of a cell
    width, height = (max(side * len(names), 0.15) for names in (columns, rows))
    size = across * (width + GAP) + 1, down * (height + 2 * GAP)
    figure = new_figure(*size, layout="none")  # constrained layout would measure every name, several times over

    def place(x: float, y: float, w: float, h: float) -> Axes:
        """Add axes at so many inches from the upper left."""
        return figure.add_axes((x / size[0], 1 - (y + h) / size[1], w / size[0], h / size[1]))

    for number, (matrix, dark) in enumerate(zip(heads, hidden, strict=True)):
        row, column = divmod(number, across)
        ax = place(column * (width + GAP), 2 * GAP + row * (height + 2 * GAP), width, height)
        _draw(ax, matrix, dark, 72 * side, colors, cbar=False)
        _label(ax, [] if column else rows, [] if row else columns, 72 * side)
        ax.set_title(f"head {number}", fontsize=10, loc="left")
    bar = place(across * (width + GAP), 2 * GAP, 0.12, size[1] - 2 * GAP)
    label = "weight" if colors["vmax"] == 1 and colors["vmin"] == 0 else "value"
    figure.colorbar(figure.axes[0].collections[0], cax=bar, label=label + _odd(heads[~hidden]))
    return figure


def strongest(weights: Any, queries: Sequence[str], keys: Sequence[str] | None = None) -> str:
    """Say in words where each query looks most: the text equivalent of a heatmap.

    >>> strongest([[0.9, 0.1], [0.3, 0.7]], ["it", "sat"])
    'it → it 0.90, sat → sat 0.70'
    """
    matrix = as_array("strongest", weights, ("T", "S"))
    rows, columns = as_names("strongest", matrix.shape, queries, keys)
    best = matrix.argmax(axis=1)
    return ", ".join(
        f"{row} → {columns[j]} {matrix[i, j]:.2f}" for i, (row, j) in enumerate(zip(rows, best, strict=True))
    )


def png(picture: Axes | Figure) -> bytes:
    """Return a picture as PNG, and close its figure."""
    figure = picture if isinstance(picture, Figure) else picture.get_figure(root=True)
    if figure is None:
        raise ShapeError("png", "picture must belong to a figure", expected="an Axes or Figure", got=repr(picture))
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a box stands for a letter that the font lacks
        figure.savefig(file, dpi=150, bbox_inches="tight", facecolor="white")
    plt.close(figure)
    return file.getvalue()


def display_width(data: bytes) -> int:
    """Return the width in which a PNG of ours is shown: sharp on fine screens, in proportion to its text."""
    return round(int.from_bytes(data[16:20], "big") / 150 * 92)


def show(picture: Axes | Figure, text: str) -> None:
    """Show a picture with its text equivalent: as alt text, and printed beneath it."""
    data = png(picture)
    bundle = {"image/png": base64.b64encode(data).decode(), "text/plain": f"Picture: {text}"}
    display(bundle, metadata={"image/png": {"alt": text, "width": display_width(data)}}, raw=True)
    print(textwrap.fill(text, LINE))


def as_array(place: str, numbers: Any, axes: Sequence[str]) -> NDArray[np.float64]:
    """Bring tensors of any device, arrays and lists to one form with these axes."""
    if hasattr(numbers, "detach"):
        numbers = numbers.detach().cpu().double().numpy()
    try:
        array = np.asarray(numbers, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ShapeError(
            place, "weights must be numbers", expected="a tensor, array or lists", got=str(error)
        ) from None
    while array.ndim > len(axes) and array.shape[0] == 1:
        array = array[0]
    if array.ndim != len(axes) or 0 in array.shape:
        fix = "weights[0], one sentence" if array.ndim == len(axes) + 1 else None
        expected = f"({', '.join(axes)}), none of them 0"
        raise ShapeError(place, f"weights must have {len(axes)} axes", expected=expected, got=str(array.shape), fix=fix)
    return array


def as_names(
    place: str, shape: tuple[int, ...], queries: Sequence[str] | None, keys: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Return a name for every row and column."""
    if keys is None and shape[0] == shape[1]:
        keys = queries
    named = []
    for word, size, names in (("queries", shape[0], queries), ("keys", shape[1], keys)):
        chosen = [str(n) for n in (range(size) if names is None else names)]
        if len(chosen) != size:
            side = "row" if word == "queries" else "column"
            raise ShapeError(
                place, f"{word} must name every {side}", expected=f"{size} names", got=f"{len(chosen)} names"
            )
        named.append(chosen)
    return named[0], named[1]


def _hidden(place: str, mask: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Turn True = may attend into True = do not draw, which is how seaborn means it."""
    if mask is None:
        return np.zeros(shape, dtype=bool)
    allowed = np.asarray(mask.detach().cpu().numpy() if hasattr(mask, "detach") else mask)
    while allowed.ndim > len(shape) and allowed.shape[0] == 1:
        allowed = allowed[0]
    fits = allowed.ndim <= len(shape) and all(
        have in (1, want) for have, want in zip(allowed.shape[::-1], shape[::-1], strict=False)
    )
    if allowed.dtype != bool or not fits:
        expected, got = f"bool, broadcastable to {shape}", f"{allowed.dtype} {allowed.shape}"
        raise ShapeError(place, "mask must be bool, True = may attend", expected=expected, got=got)
    return np.broadcast_to(~allowed, shape)


def _colors(seen: NDArray[np.float64], least: float = 0.0) -> dict[str, Any]:
    """Return the palette for these numbers, and the numbers at its ends: 0 and at least so much, or ± the largest."""
    finite = seen[np.isfinite(seen)]
    largest = float(np.abs(finite).max(initial=0.0))
    if (finite < 0).any():
        return {"cmap": "vlag", "vmin": -largest, "vmax": largest}
    return {"cmap": "cividis", "vmin": 0.0, "vmax": (least if largest < 1.01 * least else largest) or 1.0}


def _odd(seen: NDArray[np.float64]) -> str:
    """Say what a × means, where there is one."""
    return " (× is not a number)" if np.isnan(seen).any() else ""


def _draw(
    ax: Axes,
    matrix: NDArray[np.float64],
    hidden: NDArray[np.bool_],
    side: float,
    colors: dict[str, Any],
    **options: Any,
) -> None:
    """Colour the cells, each so many points wide; where one is hidden the hatched background shows."""
    ax.figure.set_visible(False)  # else seaborn draws the whole figure, to see whether names meet that it was not given
    sns.heatmap(matrix, mask=hidden, ax=ax, linewidths=0.5 * (side > 6), **colors, **options, **LOOK)
    ax.figure.set_visible(True)
    ax.patch.set(**HATCH)
    odd = np.isnan(matrix) & ~hidden
    if odd.any():
        ax.pcolormesh(np.where(odd, 0.0, np.nan), cmap=ListedColormap(["white"]))
        y, x = odd.nonzero()
        ax.scatter(x + 0.5, y + 0.5, (side / 2) ** 2, color=INK, marker="x", linewidths=min(side / 8, 1.5))


def _label(ax: Axes, rows: Sequence[str], columns: Sequence[str], side: float) -> None:
    """Write the names along the rows and, at a slant, above the columns, where cells are so many points wide."""
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.tick_params(length=0, pad=2)
    slant = {"rotation": SLANT, "ha": "left", "rotation_mode": "anchor"}
    for write, names, look in ((ax.set_xticks, columns, slant), (ax.set_yticks, rows, {"rotation": 0})):
        places = [place for place, name in enumerate(names) if name]
        room = side * len(names) / max(len(places), 1) * math.sin(math.radians(SLANT)) / 1.2  # from line to line
        size = min(9.0, max(7.5, room))
        every = next((n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500) if n * room >= size), 1000)
        chosen = places[::every]
        texts = [names[place].replace("\n", "↵") for place in chosen]
        texts = [text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…" for text in texts]
        write(np.array(chosen) + 0.5, texts, fontsize=size, parse_math=False, **look)  # a $ in a word is a $
