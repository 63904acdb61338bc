"""The head explorer without scripts: a caption and a picture."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mha_course import plots
from mha_course.markup import count, isolate_word, shorten
from mha_course.plots.arcs import LEAST
from mha_course.plots.inputs import numbered
from mha_course.widgets.head_explorer.maps import Maps

MAX_HEADS = 16  # as many as can be distinguished in a picture
SENTENCE = 2.3  # inches
MAX_TOKENS = 64  # beyond this only one head is drawn, since matplotlib would be slow


def caption(maps: Maps, layer: int, slot: int, row: int) -> str:
    """Say in one sentence how much there is, and what the followed word attends to."""
    R, H, T, S = maps.shape
    B = len(maps.tokens)
    counts = [count(n, word) for n, word in ((R // B, "layer"), (B, "sentence")) if n > 1]
    counted = ", ".join([*counts, count(H, "head"), f"{T} query and {count(S, 'key token')}"])
    if max(T, S) > MAX_TOKENS:
        counted += " (a still picture shows this head alone)" if H > 1 else ""
    elif H > MAX_HEADS:
        counted += f" (a still picture shows the first {MAX_HEADS} heads)"
    place = _name(maps, layer, slot, "the average of heads")
    largest = maps.largest(layer, slot)
    if largest is None:
        return f"{counted}; in {place} there is no number to show."
    queries, keys = map(numbered, maps.tokens_of(layer))
    weights = np.where(maps.hidden[layer, slot], 0, maps.numbers[layer, slot])
    best = [key for key in np.argsort(-weights[row])[:3] if weights[row, key] >= LEAST]
    if maps.has_words and best:
        weighted = ", ".join(f"{weights[row, key]:.2f} on {_quoted(keys[key])}" for key in best)
        return f"{counted}; in {place} {_quoted(queries[row])} puts {weighted}."
    pair = f"from {_quoted(queries[largest[0]])} to {_quoted(keys[largest[1]])}"
    return f"{counted}; in {place} the largest number is {weights[largest]:.2f}, {pair}."


def _quoted(word: str) -> str:
    return f"“{isolate_word(word, 14)}”"


def figure(maps: Maps, layer: int, slot: int, row: int, colour: str) -> Axes | Figure:
    """Draw the sentence with its arcs above up to 16 heads of the layer; or only one head if
    numbers are not weights or there are many tokens.
    """
    _, H, T, S = maps.shape
    matrices = maps.numbers[layer]
    mask = ~maps.hidden[layer]
    words = maps.tokens_of(layer)
    queries, keys = ([shorten(name) for name in names] for names in words)
    style: dict[str, Any] = {"queries": queries, "keys": keys, "scale": maps.scale}
    title = _name(maps, layer, slot, "average of heads")
    few = max(T, S) <= MAX_TOKENS
    if few and (H == 1 or maps.scale.kind != "weights"):
        return plots.heatmap(matrices[slot], mask=mask[slot], title=title, **style)
    heads = list(range(min(H, MAX_HEADS))) if few else [slot]
    titles = [_name(maps, layer, head, "average of heads") for head in heads]
    top = SENTENCE if maps.has_words else 0.0
    grid = plots.head_grid(matrices[heads], mask=mask[heads], titles=titles, top=top, **style)
    if maps.has_words:
        fraction = top / grid.get_figheight()
        ax = grid.add_axes((0.01, 1 - fraction, 0.98, fraction))
        plots.sentence_arcs(ax, words, matrices[slot, row], row, colour=colour, title=title)
        if slot < len(grid.axes) - 2:
            plots.frame_row(grid.axes[slot], row)
    return grid


def _name(maps: Maps, layer: int, slot: int, average: str) -> str:
    """Name a map: head 3, or layer 1, head 3, or this head, if there is only one."""
    numbered_head = f"head {slot}" if slot < maps.num_heads else average
    head = numbered_head if maps.num_heads > 1 else "this head"
    return f"{maps.rows[layer]}, {head}" if maps.rows[layer] else head
