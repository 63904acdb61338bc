"""What pictures are given, in one form: numbers, names of rows and columns, and what is hidden."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mha_course.errors import ShapeError, require


class NamedWeights(NamedTuple):
    """Weights (…, T, S) with a name for every row and every column, and True for each cell that is hidden."""

    numbers: NDArray[np.float64]
    queries: list[str]
    keys: list[str]
    hidden: NDArray[np.bool_]


def as_named_weights(
    place: str,
    weights: Any,
    axes: Sequence[str],
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    mask: Any = None,
) -> NamedWeights:
    """Bring weights with these axes, of which the last are T and S, their names and their mask to one form.

    Keys default to queries where T = S, both default to numbers; axes of size 1 in front are dropped.

    >>> as_named_weights("here", [[[0.9, 0.1]]], ("T", "S"), queries=["it"]).keys
    ['0', '1']
    """
    numbers = as_array(place, weights, axes)
    tokens, others = numbers.shape[-2:]
    if keys is None and tokens == others:
        keys = queries
    rows = as_names(place, "queries", "row", queries, tokens)
    columns = as_names(place, "keys", "column", keys, others)
    return NamedWeights(numbers, rows, columns, as_hidden(place, mask, numbers.shape))


def as_array(place: str, numbers: Any, axes: Sequence[str]) -> NDArray[np.float64]:
    """Bring tensors of any device, arrays and lists to one form with these axes."""
    if hasattr(numbers, "detach"):
        numbers = numbers.detach().cpu().double().numpy()
    try:
        array = np.asarray(numbers, dtype=np.float64)
    except (TypeError, ValueError) as error:
        rule, expected = "weights must be numbers", "a tensor, array or lists"
        raise ShapeError(place, rule, expected=expected, got=str(error)) from None
    while array.ndim > len(axes) and array.shape[0] == 1:
        array = array[0]
    require(
        array.ndim == len(axes) and 0 not in array.shape,
        place,
        f"weights must have {len(axes)} axes",
        expected=f"({', '.join(axes)}), none of them 0",
        got=str(array.shape),
        fix="weights[0], one sentence" if array.ndim == len(axes) + 1 else None,
    )
    return array


def as_names(place: str, word: str, side: str, names: Sequence[str] | None, size: int) -> list[str]:
    """Return a name for each of so many rows or columns; numbers where none are given."""
    named = [str(name) for name in (range(size) if names is None else names)]
    rule = f"{word} must name every {side}"
    require(len(named) == size, place, rule, expected=f"{size} names", got=f"{len(named)} names")
    return named


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
    rule, got = "mask must be bool, True = may attend", f"{allowed.dtype} {allowed.shape}"
    require(allowed.dtype == bool and fits, place, rule, expected=f"bool, broadcastable to {shape}", got=got)
    return np.broadcast_to(~allowed, shape)
