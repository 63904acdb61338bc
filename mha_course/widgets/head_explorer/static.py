"""The head explorer without scripts: a caption and a picture."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mha_course import plots
from mha_course.markup import isolate_word, shorten
from mha_course.plots.inputs import numbered
from mha_course.widgets.head_explorer.maps import Maps

MAX_HEADS = 16  # as many as can be told apart in a picture
MAX_TOKENS = 64  # beyond which one head alone is drawn: with more, matplotlib takes seconds


def caption(maps: Maps, layer: int, slot: int) -> str:
    """Say in one sentence how much there is, and where the head that is shown is largest.

    A row that sees a single key has no choice, so it is passed over where others see more.
    """
    R, H, T, S = maps.shape
    B = len(maps.tokens)
    counts = [f"{n} {word}s" for n, word in ((R // B, "layer"), (B, "sentence")) if n > 1]
    heads = f"{H} head{'s' * (H > 1)}"
    tokens = f"{T} query and {S} key token{'s' * (S > 1)}"
    counted = ", ".join([*counts, heads, tokens])
    if max(T, S) > MAX_TOKENS:
        counted += " (a still picture shows this head alone)" if H > 1 else ""
    elif H > MAX_HEADS:
        counted += f" (a still picture shows the first {MAX_HEADS} heads)"
    where = _name(maps, layer, slot, "the average of heads")
    matrix = maps.numbers[layer, slot]
    seen = np.isfinite(matrix) & ~maps.hidden[layer, slot]
    if not seen.any():
        return f"{counted}; in {where} there is no number to be seen."
    choosing = seen & (seen.sum(axis=1, keepdims=True) > 1)
    candidates = np.where(choosing if choosing.any() else seen, matrix, -np.inf)
    row, column = np.unravel_index(candidates.argmax(), matrix.shape)
    queries, keys = map(numbered, maps.tokens_of(layer))
    pair = f"from “{isolate_word(queries[row], 14)}” to “{isolate_word(keys[column], 14)}”"
    return f"{counted}; in {where} the largest number is {matrix[row, column]:.2f}, {pair}."


def figure(maps: Maps, layer: int, slot: int) -> Axes | Figure:
    """Draw up to 16 heads of a layer, or one where numbers are no weights or tokens are many."""
    R, H, T, S = maps.shape
    matrices = maps.numbers[layer]
    seen = ~maps.hidden[layer]
    queries, keys = ([shorten(name) for name in names] for names in maps.tokens_of(layer))
    look: dict[str, Any] = {"queries": queries, "keys": keys, "scale": maps.scale}
    if H > 1 and maps.scale.kind == "weights" and max(T, S) <= MAX_TOKENS:
        shown = slice(min(H, MAX_HEADS))
        above = layer if R > 1 else None
        return plots.head_grid(matrices[shown], mask=seen[shown], layer=above, **look)
    title = _name(maps, layer, slot, "average of heads")
    return plots.heatmap(matrices[slot], mask=seen[slot], title=title, **look)


def _name(maps: Maps, layer: int, slot: int, average: str) -> str:
    """Name a map: head 3, or layer 1, head 3."""
    head = f"head {slot}" if slot < maps.num_heads else average
    return f"{maps.rows[layer]}, {head}" if maps.rows[layer] else head
