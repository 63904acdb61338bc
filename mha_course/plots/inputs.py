"""What pictures are given, as arrays: numbers, names of rows and columns, and what is hidden."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mha_course.errors import ShapeError


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


def as_hidden(place: str, mask: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
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
