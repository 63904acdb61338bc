"""What is said of heads, and the picture of them where no script runs.

Axes: H heads, T query tokens, S key tokens.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import seaborn as sns
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mha_course import plots
from mha_course.widgets.head_explorer.maps import Maps, shorten
from mha_course.widgets.head_explorer.packing import SIDE, shrink

HEADS, NAMES = 16, 20  # as many as a picture has room for


def told(maps: Maps, layer: int, item: int, slot: int) -> str:
    """Say in one sentence how much there is, and where the head that is shown is largest.

    A row that sees a single key tells nothing, so it is passed over where others see more.
    """
    L, B, H, T, S = maps.shape
    layer, item, slot = min(layer, L - 1), min(item, B - 1), min(slot, maps.slots - 1)
    counts = [f"{n} {word}s" for n, word in ((L, "layer"), (B, "sentence")) if n > 1]
    tokens = f"{T} query and {S} key token{'s' * (S > 1)}"
    said = ", ".join([*counts, f"{H} head{'s' * (H > 1)}", tokens])
    if maps.slots > HEADS + 1:
        said += f" (a still picture shows the first {HEADS} heads)"
    if max(T, S) > SIDE:
        said += f" (a still picture shows means of {math.ceil(T / SIDE)} × {math.ceil(S / SIDE)} cells)"
    heads, hidden = maps.heads(layer, item), maps.hidden(layer, item)
    seen = np.isfinite(heads[slot]) if hidden is None else np.isfinite(heads[slot]) & ~hidden[slot % len(hidden)]
    where = f"layer {layer}, " * (L > 1) + (f"head {slot}" if slot < H else "the average of heads")
    if not seen.any():
        return f"{said}; in {where} there is no number to be seen."
    choosing = seen & (seen.sum(axis=1, keepdims=True) > 1)
    matrix = np.where(choosing if choosing.any() else seen, heads[slot], -np.inf)
    row, column = np.unravel_index(matrix.argmax(), matrix.shape)
    queries, keys = maps.names(item)
    pair = f"from “{shorten(queries[row])}” to “{shorten(keys[column])}”"
    return f"{said}; in {where} the largest number is {matrix[row, column]:.2f}, {pair}."


def drawn(maps: Maps, layer: int, item: int, slot: int) -> Axes | Figure:
    """Draw up to 16 heads of the layer that is shown, or one head alone where its numbers are no weights."""
    L, B, H, T, S = maps.shape
    layer, item, slot = min(layer, L - 1), min(item, B - 1), min(slot, maps.slots - 1)
    heads, hidden = maps.heads(layer, item), maps.hidden(layer, item)
    dark = np.isneginf(heads) if hidden is None else np.isneginf(heads) | hidden
    small, dark = shrink(heads, hidden), shrink(dark.astype(np.float32), None) == 1
    queries, keys = (
        _thin(names[:: math.ceil(size / SIDE)]) for names, size in zip(maps.names(item), (T, S), strict=True)
    )
    finite = small[np.isfinite(small)]
    if H > 1 and (not finite.size or (finite.min() >= 0 and finite.max() <= 1.01)):
        shown, names = slice(min(H, HEADS)), {"queries": queries, "keys": keys}
        return plots.head_grid(small[shown], mask=~dark[shown], layer=layer if L > 1 else None, **names)
    title = f"layer {layer}, " * (L > 1) + (f"head {slot}" if slot < H else "average of heads")
    return plots.heatmap(small[slot], mask=~dark[slot], title=title, queries=queries, keys=keys)


def _thin(names: list[str]) -> list[str]:
    """Leave every nth name, so that they can be read."""
    every = math.ceil(len(names) / NAMES)
    return [shorten(name) if number % every == 0 else "" for number, name in enumerate(names)]


@cache
def palettes() -> bytes:
    """Return 256 colours from 0 to 1 and 256 to both sides of a white 0, three bytes each."""
    places = np.linspace(0, 1, 256)
    both: tuple[Any, ...] = (colormaps["cividis"], sns.color_palette("vlag", as_cmap=True))
    return b"".join((colors(places)[:, :3] * 255).round().astype("u1").tobytes() for colors in both)
