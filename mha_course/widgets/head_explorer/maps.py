"""Weights, tokens and masks in one form, and the data for the browser.

Axes: L layers, B sentences, H heads, T query tokens, S key tokens. A map is one matrix (T, S);
every layer of every sentence is a row of M maps: its heads and, if there are several, their
average.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mha_course.errors import require
from mha_course.plots.inputs import (
    as_hidden,
    as_numbers,
    as_row_and_column_names,
    listed,
    numbered,
)
from mha_course.plots.scales import HALF_TOLERANCE, Scale, scale_of

PLACE = "HeadExplorer"
MAX_TOKENS = 512  # a cell is then a pixel
MAX_WORDS = 40  # of a sentence written on one line
MAX_MEGABYTES = 64  # in one message to the browser, which copies them several times
HALF = ("torch.float16", "torch.bfloat16", "float16")
MANY = 9 * 128 * 128  # cells; if there are more, the visible map is sent first


@dataclass(frozen=True)
class Maps:
    """Numbers (L · B, M, T, S), and which cells are hidden by a mask or a score of -inf.

    ``rows`` gives each row's layer and sentence, ``tokens`` a pair of lists for each sentence;
    ``tolerance`` is how far a row's sum may be from 1.
    """

    numbers: NDArray[np.float32]
    num_heads: int
    tokens: list[tuple[list[str], list[str]]]
    hidden: NDArray[np.bool_]
    tolerance: float
    rows: list[str]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Return L · B, H, T, S."""
        R, _, T, S = self.numbers.shape
        return R, self.num_heads, T, S

    @cached_property
    def scale(self) -> Scale:
        """Return the scale that all maps share."""
        return scale_of(self.numbers, self.hidden)

    @property
    def has_words(self) -> bool:
        """Return whether these are weights between words, few enough to read as a sentence."""
        T, S = self.shape[2:]
        unnamed = [str(n) for n in range(T)] == self.tokens[0][0]
        return self.scale.kind == "weights" and max(T, S) <= MAX_WORDS and S > 1 and not unnamed

    def message(self, ahead: tuple[int, int] | None = None) -> dict[str, Any]:
        """Return what the browser draws: facts, numbers, and a byte per cell for hidden ones.

        Args: ahead is the row and slot of the visible map: if there are many cells, it is sent
            alone, and the browser asks for the rest.
        """
        every = list(np.ndindex(self.numbers.shape[:2]))
        only = ahead if len(every) > 1 and self.numbers.size > MANY else None
        sent = only or ...
        hidden = self.hidden[sent]
        tokens = [self.tokens_of(row) for row in range(len(self.rows))]
        return {
            "shape": list(self.shape), "slots": self.numbers.shape[1],
            "only": only and {"layer": only[0], "slot": only[1]},
            "facts": [self._facts(*place) for place in ([only] if only else every)],
            "rows": self.rows,
            "tokens": [tuple(map(numbered, pair)) for pair in tokens],
            "words": tokens if self.has_words else None,
            "scale": self.scale.message(),
            "numbers": self.numbers[sent].astype("<f4", copy=False).tobytes(),
            "hidden": hidden.tobytes() if hidden.any() else None,
        }  # fmt: skip

    def tokens_of(self, row: int) -> tuple[list[str], list[str]]:
        """Return the queries and keys of a row's sentence."""
        return self.tokens[row % len(self.tokens)]

    def largest(self, row: int, slot: int, *, distinct: bool = False) -> tuple[int, int] | None:
        """Return the cell with the largest visible number, or None.

        Rows with a single visible key are skipped if others see more; with ``distinct``, so are
        pairs of equal tokens.
        """
        matrix = self.numbers[row, slot]
        visible = np.isfinite(matrix) & ~self.hidden[row, slot]
        if not visible.any():
            return None
        choosing = visible & (visible.sum(axis=1, keepdims=True) > 1)
        queries, keys = self.tokens_of(row)
        differ = choosing & (np.array(queries)[:, None] != keys) if distinct else choosing
        best = next(cells for cells in (differ, choosing, visible) if cells.any())
        candidates = np.where(best, matrix, -np.inf)
        query, key = np.unravel_index(candidates.argmax(), matrix.shape)
        return int(query), int(key)

    def _facts(self, row: int, slot: int) -> dict[str, Any]:
        """Describe one map, in data.js's form, ignoring rows that are fully masked or have NaN."""
        matrix = self.numbers[row, slot]
        hidden = self.hidden[row, slot]
        nans = np.isnan(matrix)
        numbers = np.where(np.isfinite(matrix), matrix, 0)
        used = (numbers != 0).any(1) & ~nans.any(1) & ~hidden.all(1)
        rows = numbers.sum(1, dtype=np.float64)[used]
        columns = numbers.sum(0, dtype=np.float64)
        logs = np.log(np.where(numbers > 0, numbers, 1))
        entropy = -(numbers * logs).sum(1, dtype=np.float64)[used]
        even = bool((np.abs(rows - 1) <= self.tolerance).all())
        sum_to_1 = used.any() and even and numbers.min() >= -self.tolerance
        return {
            "entropy": max(float(entropy.mean()), 0.0) if sum_to_1 else None,
            "sums": [float(rows.min()), float(rows.max())] if used.any() else None,
            "over_queries": not sum_to_1 and bool((np.abs(columns - 1) <= self.tolerance).all()),
            "nans": int(nans.sum()),
            "leak": float(np.abs(numbers * hidden).max()),
        }


def read(weights: Any, queries: Any = None, keys: Any = None, mask: Any = None) -> Maps:
    """Convert weights with 2 to 5 axes, names and a mask to one form, or raise ShapeError."""
    array = numbers_of(weights)
    L, B, H, T, S = (1,) * (5 - array.ndim) + array.shape
    names = _names(B, T, S, queries, keys)
    hidden = _hidden(mask, array.shape).reshape(L * B, H, T, S)
    with np.errstate(over="ignore", invalid="ignore"):  # the average of inf and -inf is NaN
        numbers = array.reshape(L * B, H, T, S).astype(np.float32, copy=H == 1)
        if H > 1:
            numbers = np.concatenate([numbers, numbers.mean(1, keepdims=True)], 1)
            hidden = np.concatenate([hidden, hidden.all(1, keepdims=True)], 1)
    element = weights
    while isinstance(element, list | tuple):
        element = element[0]
    tolerance = HALF_TOLERANCE if str(getattr(element, "dtype", "")) in HALF else 1e-3
    layers = [f"layer {n}" for n in range(L)] if L > 1 else [""]
    sentences = [f"sentence {n}" for n in range(B)] if B > 1 else [""]
    rows = [", ".join(filter(None, pair)) for pair in product(layers, sentences)]
    return Maps(numbers, H, names, hidden | (numbers == -np.inf), tolerance, rows)


def numbers_of(weights: Any) -> NDArray[Any]:
    """Return weights with 2 to 5 axes as an array, or raise ShapeError."""
    array = as_numbers(PLACE, weights)
    _check_size(array.shape)
    return array


def _check_size(shape: tuple[int, ...]) -> None:
    """Raise unless there are 2 to 5 axes, none empty, and few enough numbers for the browser."""
    axes = "(T, S), (H, T, S), (B, H, T, S) or (L, B, H, T, S)"
    got = str(tuple(shape))
    rule = "weights must have 2 to 5 axes"
    fix = "weights[0]" if len(shape) == 6 else None
    require(2 <= len(shape) <= 5, PLACE, rule, expected=axes, got=got, fix=fix)
    rule = "weights must not be empty"
    require(0 not in shape, PLACE, rule, expected=f"{axes}, none of them 0", got=got)
    *outer, H, T, S = (1, 1, *shape)[-5:]
    rule = f"the explorer shows up to {MAX_TOKENS} tokens"
    expected = f"T and S <= {MAX_TOKENS}"
    fix = f"weights[..., :{MAX_TOKENS}, :{MAX_TOKENS}], and tokens and mask that fit it"
    require(max(T, S) <= MAX_TOKENS, PLACE, rule, expected=expected, got=got, fix=fix)
    size = 4 * math.prod(outer) * (H + (H > 1)) * T * S / 2**20
    rule = f"the explorer shows up to {MAX_MEGABYTES} MiB"
    most = f"with their average, {MAX_MEGABYTES} MiB of float32"
    expected = f"fewer layers, sentences or heads: {most}"
    require(size <= MAX_MEGABYTES, PLACE, rule, expected=expected, got=f"{got}, {size:.0f} MiB")


def _names(B: int, T: int, S: int, queries: Any, keys: Any) -> list[tuple[list[str], list[str]]]:
    rows = _for_each("queries", queries, B)
    columns = _for_each("keys", keys, B)
    places = [PLACE] if B == 1 else [f"{PLACE}: sentence {n}" for n in range(B)]
    return [
        as_row_and_column_names(place, (T, S), *pair)
        for place, *pair in zip(places, rows, columns, strict=True)
    ]


def _for_each(word: str, tokens: Any, sentences: int) -> list[Any]:
    """Return each sentence's tokens; one list may serve for all."""
    tokens = listed(tokens)
    nested = isinstance(tokens, list) and tokens and all(isinstance(row, list) for row in tokens)
    if not nested:
        return [tokens] * sentences
    rule = f"{word} must name every token"
    expected = f"one list, or {sentences}, one per sentence"
    require(len(tokens) == sentences, PLACE, rule, expected=expected, got=f"{len(tokens)} lists")
    return tokens


def _hidden(mask: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    ambiguous = np.ndim(mask) == 3 and len(shape) > 3 and len(mask) > 1
    rule = "a mask of 3 axes is ambiguous: sentences or heads?"
    got = str(tuple(np.shape(mask)))
    expected = "(T, S) or (B, 1, T, S)"
    fix = "mask[:, None], one per sentence"
    require(not ambiguous, PLACE, rule, expected=expected, got=got, fix=fix)
    return as_hidden(PLACE, mask, shape)
