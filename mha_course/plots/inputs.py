"""What pictures are given, as arrays: numbers, names of rows and columns, and what is hidden."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mha_course.errors import ShapeError


def as_numbers(place: str, numbers: Any) -> NDArray[Any]:
    """Bring real numbers of any type to an array: a tensor of any device, an array or lists."""
    expected, got = "a tensor, array or lists of one length", type(numbers).__name__
    if hasattr(numbers, "detach"):
        numbers = numbers.detach().cpu()
        array = (numbers.float() if str(numbers.dtype) == "torch.bfloat16" else numbers).numpy()  # numpy has none
    else:
        try:
            array = np.asarray(numbers)
        except (TypeError, ValueError, RuntimeError) as error:  # lists of unequal lengths, tensors with a history
            got = f"{got}: {error}".splitlines()[0]
            raise ShapeError(place, "weights must be numbers", expected=expected, got=got) from None
    if array.dtype.kind == "c":
        raise ShapeError(place, "weights must be real numbers", expected="a float dtype", got=str(array.dtype))
    if array.dtype.kind not in "biuf":
        raise ShapeError(place, "weights must be numbers", expected=expected, got=f"{got} of {array.dtype}")
    return array


def as_array(place: str, numbers: Any, axes: Sequence[str]) -> NDArray[np.float64]:
    """Bring tensors of any device, arrays and lists to one form with these axes."""
    array = as_numbers(place, numbers).astype(np.float64, copy=False)
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
    for word, side, size, names in (("queries", "row", shape[0], queries), ("keys", "column", shape[1], keys)):
        rule = f"{word} must name every {side}"
        if isinstance(names, str) or not (names is None or hasattr(names, "__iter__")):
            fix = f"{word}={word}.split()" if isinstance(names, str) else None
            raise ShapeError(place, rule, expected=f"a list of {size} names", got=repr(names)[:60], fix=fix)
        chosen = [str(n) for n in (range(size) if names is None else names)]
        if len(chosen) != size:
            raise ShapeError(place, rule, expected=f"{size} names", got=f"{len(chosen)} names")
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
