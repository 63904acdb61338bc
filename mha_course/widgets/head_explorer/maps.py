"""Weights, tokens and masks in one form, whatever they came as.

Axes: L layers, B sentences, H heads, T query tokens, S key tokens. A map is one matrix (T, S); every layer has
one more than it has heads, their average, unless there is only one head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mha_course.errors import ShapeError

PLACE = "HeadExplorer"
MOST = 2048  # tokens
Array = NDArray[np.float64] | NDArray[np.float32]


@dataclass(frozen=True)
class Maps:
    """Numbers (L, B, H, T, S) where they lie, and the names of rows and columns, one list for all or one a sentence.

    ``mask``: (L, B, H, T, S), where each of the first three axes may be 1; True = may attend.
    """

    numbers: Any
    queries: list[list[str]]
    keys: list[list[str]]
    mask: NDArray[np.bool_] | None = None

    @property
    def shape(self) -> tuple[int, int, int, int, int]:
        """Return the five sizes."""
        L, B, H, T, S = self.numbers.shape
        return L, B, H, T, S

    @property
    def slots(self) -> int:
        """Count the maps of a layer: its heads and their average."""
        return self.shape[2] + (self.shape[2] > 1)

    def heads(self, layer: int, item: int) -> Array:
        """Bring the heads of one layer and sentence here, and add their average, (slots, T, S)."""
        part = self.numbers[layer, item]
        if isinstance(part, torch.Tensor):
            part = part.to("cpu", torch.float64 if part.dtype == torch.float64 else torch.float32).numpy()
        heads = part.astype(np.float64 if part.dtype.itemsize > 4 else np.float32, copy=False)
        if len(heads) == 1:
            return heads
        with np.errstate(invalid="ignore"):  # inf - inf
            return np.concatenate([heads, heads.mean(0, keepdims=True)])

    def hidden(self, layer: int, item: int) -> NDArray[np.bool_] | None:
        """Return which cells of one layer and sentence are hidden, (slots or 1, T, S)."""
        if self.mask is None:
            return None
        hidden = ~self.mask[layer % self.mask.shape[0], item % self.mask.shape[1]]
        return hidden if len(hidden) == 1 else np.concatenate([hidden, hidden.all(0, keepdims=True)])

    def names(self, item: int) -> tuple[list[str], list[str]]:
        """Return the names of the rows and columns of one sentence."""
        return self.queries[item % len(self.queries)], self.keys[item % len(self.keys)]


def read(weights: Any, queries: Any = None, keys: Any = None, mask: Any = None) -> Maps:
    """Bring weights of 2 to 5 axes, names and a mask to one form, or raise ShapeError."""
    numbers = _numbers(weights)
    numbers = numbers.reshape((1,) * (5 - numbers.ndim) + tuple(numbers.shape))
    _, B, _, T, S = numbers.shape
    if keys is None and T == S:
        keys = queries
    return Maps(
        numbers, _names("queries", "row", queries, B, T), _names("keys", "column", keys, B, S),
        _mask(mask, tuple(numbers.shape), np.ndim(weights) if not hasattr(weights, "ndim") else weights.ndim),
    )  # fmt: skip


def _numbers(weights: Any) -> Any:
    """Return a tensor without its history, or an array."""
    expected = "(T, S), (H, T, S), (B, H, T, S) or (L, B, H, T, S)"
    if hasattr(weights, "detach"):
        numbers = weights.detach()
        kind = "c" if numbers.is_complex() else "f"
    else:
        try:
            numbers = np.asarray(weights)
            kind = numbers.dtype.kind
            got = f"{type(weights).__name__} of {numbers.dtype}"
        except (TypeError, ValueError, RuntimeError) as error:  # lists of unequal lengths, tensors with a history
            kind, got = "", f"{type(weights).__name__}: {error}".splitlines()[0]
        if kind not in list("biufc"):
            lists = "a tensor, array or lists of one length"
            raise ShapeError(PLACE, "weights must be numbers", expected=lists, got=got)
    if kind == "c":
        raise ShapeError(PLACE, "weights must be real numbers", expected="a float dtype", got=str(numbers.dtype))
    shape = tuple(numbers.shape)
    if not 2 <= len(shape) <= 5:
        fix = "weights[0]" if len(shape) == 6 else None
        raise ShapeError(PLACE, "weights must have 2 to 5 axes", expected=expected, got=str(shape), fix=fix)
    if 0 in shape:
        raise ShapeError(PLACE, "weights must not be empty", expected=f"{expected}, none of them 0", got=str(shape))
    if max(shape[-2:]) > MOST:
        fix = f"weights[..., :{MOST}, :{MOST}]"
        rule = f"a picture has room for {MOST:,} tokens"
        raise ShapeError(PLACE, rule, expected=f"T and S <= {MOST}", got=str(shape), fix=fix)
    return numbers


def _names(word: str, side: str, given: Any, sentences: int, size: int) -> list[list[str]]:
    """Return lists of names: one for all sentences, or one for each."""
    rule, wanted = f"{word} must name every {side}", f"{size} token{'s' * (size > 1)}"
    if given is None:
        return [[str(n) for n in range(size)]]
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        fix = f"{word}={word}.split()" if isinstance(given, str) else None
        raise ShapeError(PLACE, rule, expected=f"a list of {wanted}", got=repr(given)[:60], fix=fix)
    listed = list(given)
    nested = bool(listed) and all(isinstance(one, Sequence) and not isinstance(one, str) for one in listed)
    lists = [[str(name) for name in one] for one in (listed if nested else [listed])]
    if nested and len(lists) != sentences:
        raise ShapeError(PLACE, rule, expected=f"one list, or {sentences}, one a sentence", got=f"{len(lists)} lists")
    for number, names in enumerate(lists):
        if len(names) != size:
            where = f" for sentence {number}" if nested else ""
            raise ShapeError(PLACE, rule, expected=wanted, got=f"{len(names)} tokens{where}")
    return lists


def _mask(mask: Any, shape: tuple[int, ...], axes: int) -> NDArray[np.bool_] | None:
    """Return a mask with five axes, of which the first three may be 1."""
    if mask is None:
        return None
    allowed = np.asarray(mask.detach().cpu().numpy() if hasattr(mask, "detach") else mask)
    if allowed.dtype != bool:
        fix = "mask.bool() if 1 means may attend" if hasattr(mask, "bool") else None
        raise ShapeError(
            PLACE, "mask must be bool, True = may attend", expected="bool", got=str(allowed.dtype), fix=fix
        )
    got, rule = str(allowed.shape), "mask must be broadcastable to the weights"
    if allowed.ndim == 3 and axes > 3 and allowed.shape[0] > 1:
        rule, fix = "a mask of 3 axes is ambiguous: sentences or heads?", "mask[:, None], one a sentence"
        raise ShapeError(PLACE, rule, expected="(T, S) or (B, 1, T, S)", got=got, fix=fix)
    full = allowed.reshape((1,) * (5 - allowed.ndim) + allowed.shape) if allowed.ndim <= 5 else allowed
    if full.ndim > 5 or any(have not in (1, want) for have, want in zip(full.shape, shape, strict=True)):
        raise ShapeError(PLACE, rule, expected=f"(T, S) = {shape[3:]}, or broadcastable to {shape[-axes:]}", got=got)
    return np.broadcast_to(full, (*full.shape[:3], *shape[3:]))


def shorten(name: str, most: int = 14) -> str:
    """Bring a token to one short line.

    >>> [shorten(name) for name in ("cat", "", "a\\nb", "Donaudampfschifffahrt")]
    ['cat', '(empty)', 'a⏎b', 'Donaudampfsch…']
    """
    line = name.replace("\n", "⏎").replace("\t", "⇥").strip() or ("␣" if name else "(empty)")
    return line if len(line) <= most else f"{line[: most - 1]}…"
