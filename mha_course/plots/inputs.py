"""Inputs of pictures in one form: numbers, names of rows and columns, and hidden cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mha_course.errors import ShapeError, require

Names = Sequence[str] | None  # of rows or columns; numbers if there are none
_NUMPY_FLOATS = ("torch.float16", "torch.float32", "torch.float64")
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


class NamedWeights(NamedTuple):
    """Weights (…, T, S), names of rows and columns, and True where a cell is hidden."""

    numbers: NDArray[np.float64]
    queries: list[str]
    keys: list[str]
    hidden: NDArray[np.bool_]


def as_named_weights(
    place: str, weights: Any, axes: Sequence[str], queries: Names = None, keys: Names = None,
    mask: Any = None,
) -> NamedWeights:  # fmt: skip
    """Convert weights with these axes (the last are T and S), their names and mask to one form."""
    numbers = as_array(place, weights, axes)
    rows, columns = as_row_and_column_names(place, numbers.shape[-2:], queries, keys)
    hidden = as_hidden(place, mask, numbers.shape)
    return NamedWeights(numbers, numbered(rows), numbered(columns), hidden)


def numbered(names: Sequence[str]) -> list[str]:
    """Add an occurrence number to each repeated word.

    >>> numbered(["the", "cat", "chased", "the", "dogs"])
    ['the₁', 'cat', 'chased', 'the₂', 'dogs']
    """
    counts = Counter(names)
    occurrences = Counter[str]()
    distinct = []
    for name in names:
        occurrences[name] += 1
        repeated = counts[name] > 1 and name.isalpha()
        distinct.append(name + str(occurrences[name]).translate(_SUBSCRIPTS) if repeated else name)
    return distinct


def as_numbers(place: str, numbers: Any) -> NDArray[Any]:
    """Convert real numbers to an array: a tensor on any device, an array, or lists of either."""
    expected = "a tensor, array or lists of one length"
    got = type(numbers).__name__
    try:
        array = np.asarray(_as_arrays(numbers))
    except (TypeError, ValueError, RuntimeError) as error:
        # Lists of unequal lengths, or tensors without readable numbers: sparse, meta.
        got = f"{got}: {error}".splitlines()[0]
        raise ShapeError(place, "weights must be numbers", expected=expected, got=got) from None
    kind = array.dtype.kind
    rule = "weights must be real numbers"
    require(kind != "c", place, rule, expected="a float dtype", got=str(array.dtype))
    rule = "weights must be numbers"
    require(kind in "biuf", place, rule, expected=expected, got=f"{got} of {array.dtype}")
    return array


def _as_arrays(numbers: Any) -> Any:
    """Convert tensors, also in lists, to arrays; NumPy has neither bfloat16 nor float8."""
    if isinstance(numbers, list | tuple):
        return [_as_arrays(item) for item in numbers]
    if not hasattr(numbers, "detach"):
        return numbers
    tensor = numbers.detach().cpu()
    unknown = tensor.is_floating_point() and str(tensor.dtype) not in _NUMPY_FLOATS
    return (tensor.float() if unknown else tensor).numpy()


def as_array(place: str, numbers: Any, axes: Sequence[str]) -> NDArray[np.float64]:
    """Convert numbers to an array with these axes; drop leading ones of size 1."""
    numbers_in = as_numbers(place, numbers).astype(np.float64, copy=False)
    array = numbers_in
    while array.ndim > len(axes) and array.shape[0] == 1:
        array = array[0]
    fits = array.ndim == len(axes) and 0 not in array.shape
    rule = f"weights must have {len(axes)} axes"
    expected = f"({', '.join(axes)}), none of them 0"
    index = ", ".join(["0"] * (numbers_in.ndim - len(axes)))
    fix = f"weights[{index}]" if array.ndim == len(axes) + 1 else None
    require(fits, place, rule, expected=expected, got=str(array.shape), fix=fix)
    return array


def as_names(place: str, word: str, side: str, names: Names, size: int) -> list[str]:
    """Return a name for each row or column; numbers if none are given."""
    names = listed(names)
    rule = f"{word} must name every {side}"
    if names is not None and not isinstance(names, list):
        expected = f"a list of {size} names"
        fix = f"{word}={word}.split()" if isinstance(names, str) else None
        raise ShapeError(place, rule, expected=expected, got=repr(names)[:60], fix=fix)
    named = [str(name) for name in (range(size) if names is None else names)]
    require(len(named) == size, place, rule, expected=f"{size} names", got=f"{len(named)} names")
    return named


def listed(names: Any) -> Any:
    """Convert an iterable of names to a list, and ids in tensors or arrays to numbers."""
    if hasattr(names, "tolist"):
        return names.tolist()
    if isinstance(names, str) or not hasattr(names, "__iter__"):
        return names
    return [listed(name) for name in names]


def as_row_and_column_names(
    place: str, shape: Sequence[int], queries: Names, keys: Names
) -> tuple[list[str], list[str]]:
    """Return a name for each of the T rows and S columns; keys default to queries if T = S."""
    queries = listed(queries)  # once, since a generator can be read only once
    if keys is None and shape[0] == shape[1]:
        keys = queries
    rows = as_names(place, "queries", "row", queries, shape[0])
    return rows, as_names(place, "keys", "column", keys, shape[1])


def as_hidden(place: str, mask: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Convert True = may attend to True = hidden, for every weight."""
    if mask is None:
        return np.zeros(shape, dtype=bool)
    allowed = np.asarray(_as_arrays(mask))
    while allowed.ndim > len(shape) and allowed.shape[0] == 1:
        allowed = allowed[0]
    pairs = zip(allowed.shape[::-1], shape[::-1], strict=False)
    fits = allowed.ndim <= len(shape) and all(mask_size in (1, size) for mask_size, size in pairs)
    rule = "mask must be bool, True = may attend"
    expected = f"bool, broadcastable to {shape}"
    got = f"{allowed.dtype} {allowed.shape}"
    require(allowed.dtype == bool and fits, place, rule, expected=expected, got=got)
    return np.broadcast_to(~allowed, shape)
