"""The numbers of many heads as a browser needs them: two bytes a cell, and small pictures where there are too many.

Axes: T query tokens, S key tokens; maps (T, S) come as one array, the heads of a layer and their average.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mha_course.widgets.head_explorer.maps import Array, Maps

STEPS, PLUS, MINUS, NAN = 65532, 65533, 65534, 65535  # codes: 0 to STEPS from low to high, then what is no number
WHOLE = 8_000_000  # bytes up to which every cell is sent at once
CACHE = 2**18  # cells
SIDE = 64  # rows and columns of a small picture
HALF = {"torch.float16", "torch.bfloat16", "float16"}


def facts(heads: Array, hidden: NDArray[np.bool_] | None, tolerance: float) -> NDArray[np.float64]:
    """Tell of each map: low, high, entropy, least and largest sum of a row, columns sum to 1, NaNs, hidden weight.

    Entropy is the mean over rows that see something, in nats; NaN unless all of these sum to 1.
    """
    finite, missing = np.isfinite(heads), np.isnan(heads)
    numbers, low, high = heads, heads.min((1, 2)), heads.max((1, 2))
    if not finite.all():
        numbers, some = np.where(finite, heads, 0), finite.any((1, 2))
        low = np.where(some, np.min(heads, (1, 2), initial=np.inf, where=finite), 0)
        high = np.where(some, np.max(heads, (1, 2), initial=-np.inf, where=finite), 0)
    used = (numbers != 0).any(-1) & ~missing.any(-1)
    used &= True if hidden is None else ~hidden.all(-1)
    rows, columns = numbers.sum(-1, dtype=np.float64), numbers.sum(-2, dtype=np.float64)
    least = np.min(rows, 1, initial=np.inf, where=used)
    most = np.max(rows, 1, initial=-np.inf, where=used)
    even = used.any(1) & (np.abs(least - 1) <= tolerance) & (np.abs(most - 1) <= tolerance) & (low >= -tolerance)
    logs = np.log(np.where(numbers > 0, numbers, 1))
    entropy = -np.einsum("hts,hts->ht", numbers, logs, dtype=np.float64)
    mean = np.where(used, entropy, 0).sum(1) / np.maximum(used.sum(1), 1)
    upright = (np.abs(columns - 1) <= tolerance).all(1) & ~even
    leak = np.zeros(len(heads)) if hidden is None else np.abs(numbers * hidden).max((1, 2))
    mean = np.where(even, np.maximum(mean, 0), np.nan)
    return np.stack([low, high, mean, least, most, upright, missing.sum((1, 2)), leak], 1).astype(np.float64)


def encode(maps: Array, low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.uint16]:
    """Write every map in uint16, evenly from its own low to its own high."""
    span = np.where(high > low, high - low, 1)[:, None, None]
    finite = np.isfinite(maps)
    codes = np.rint((np.where(finite, maps, low[:, None, None]) - low[:, None, None]) / span * STEPS)
    codes = np.clip(codes, 0, STEPS).astype("<u2")
    if not finite.all():
        codes[np.isnan(maps)], codes[np.isposinf(maps)], codes[np.isneginf(maps)] = NAN, PLUS, MINUS
    return codes


def shrink(maps: Array, hidden: NDArray[np.bool_] | None, side: int = SIDE) -> Array:
    """Average blocks of cells that can be seen, so that at most side rows and columns are left."""
    down, across = (math.ceil(size / side) for size in maps.shape[1:])

    def blocks(cells: Any) -> Any:
        whole = np.pad(cells, ((0, 0), (0, -cells.shape[1] % down), (0, -cells.shape[2] % across)))
        rows = whole.reshape(len(whole), -1, down, whole.shape[2]).sum(2)
        return rows.reshape(*rows.shape[:2], -1, across).sum(3)

    finite = np.isfinite(maps)
    seen = finite if hidden is None else finite & ~hidden
    count = blocks(seen.astype(np.float32))
    small: Array = blocks(np.where(seen, maps, 0)) / np.maximum(count, 1)
    if not finite.all():
        small[(blocks(np.isneginf(maps).astype(np.float32)) > 0) & (count == 0)] = -np.inf
        small[blocks(np.isposinf(maps).astype(np.float32)) > 0] = np.inf
        small[blocks(np.isnan(maps).astype(np.float32)) > 0] = np.nan
    return small


def pack(maps: Maps, serial: int, whole: int = WHOLE, side: int = SIDE) -> bytes:
    """Write all maps for the browser: a head in JSON, the facts (float64), the cells (uint16), the mask in bits."""
    L, B, H, T, S = maps.shape
    cells = L * B * maps.slots * T * S * 2 + (0 if maps.mask is None else maps.mask.size // 8)
    every = cells <= whole
    tolerance = 2e-2 if str(maps.numbers.dtype) in HALF else 1e-3
    told, codes, bits, masks = [], [], [], [1, 1, 1]
    for layer in range(L):
        for item in range(B):
            heads, hidden = maps.heads(layer, item), maps.hidden(layer, item)
            for some, own in _pieces(heads, hidden):
                about = facts(some, own, tolerance)
                told.append(about)
                codes.append(encode(some if every else shrink(some, own, side), about[:, 0], about[:, 1]))
            if hidden is not None and layer < maps.mask.shape[0] and item < maps.mask.shape[1]:  # type: ignore[union-attr]
                masks = [layer + 1, item + 1, len(hidden)]
                bits += [
                    _bits(own if every else shrink(own.astype(np.float32), None, side) == 1) for own in hidden[:, None]
                ]
    table = np.concatenate(told)
    head = {
        "serial": serial, "shape": [L, B, H, T, S], "slots": maps.slots, "grid": codes[0].shape[1:],
        "every": every, "queries": maps.queries, "keys": maps.keys,
        "mask": None if maps.mask is None else masks,
        "low": float(table[:, 0].min()), "high": float(table[:, 1].max()),
    }  # fmt: skip
    return _join(head, table, *codes, *bits)


def _pieces(heads: Array, hidden: NDArray[np.bool_] | None) -> Iterator[tuple[Array, NDArray[np.bool_] | None]]:
    """Cut many large maps into pieces that the processor's cache holds."""
    most = max(1, CACHE // heads[0].size)
    for start in range(0, len(heads), most):
        piece = slice(start, start + most)
        yield heads[piece], hidden if hidden is None or len(hidden) == 1 else hidden[piece]


def pack_one(maps: Maps, serial: int, layer: int, item: int, slot: int) -> bytes:
    """Write one map with every cell, where ``pack`` sent it small."""
    heads, hidden = maps.heads(layer, item), maps.hidden(layer, item)
    one = heads[slot : slot + 1]
    about = facts(one, None, 1.0)
    own = None if hidden is None else hidden[slot % len(hidden)][None]
    head = {
        "serial": serial,
        "map": [layer, item, slot],
        "low": about[0, 0],
        "high": about[0, 1],
        "mask": own is not None,
    }
    return _join(head, encode(one, about[:, 0], about[:, 1]), *([] if own is None else [_bits(own)]))


def _bits(hidden: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Write eight cells a byte, every map from a byte of its own on."""
    return np.packbits(hidden.reshape(len(hidden), -1), axis=1)


def _join(head: dict[str, Any], *blocks: NDArray[Any]) -> bytes:
    """Write a head, with its length before it, and then the blocks."""
    text = json.dumps(head).encode()
    return b"".join([len(text).to_bytes(4, "little"), text, *(block.tobytes() for block in blocks)])
