"""Where numbers go in a copy: the same call again, on the places of the numbers.

It runs on a tensor of places, and each axis of the result is a list of strides and sizes in these
places. A copy that treats each axis by itself runs along one at a time, so that nothing large is
copied.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch

from mha_course.tracing.rules.views import Dim, Placement, Rerun, padded_strides

LIMIT = 400_000  # numbers that are followed one by one
REORDERED = -1  # the stride of an axis in another order


def contiguous_strides(shape: Sequence[int]) -> list[int]:
    """Return the strides of numbers in a row."""
    return [math.prod(shape[n + 1 :]) for n in range(len(shape))]


def of_copies(rerun: Rerun, shape: Sequence[int], out_shape: Sequence[int]) -> Placement:
    """Follow a call that treats each axis by itself along one after another, the others short."""
    added = len(out_shape) - len(shape)
    axes = [[Dim(0, size)] for size in out_shape]
    for dim, (size, stride) in enumerate(zip(shape, padded_strides(tuple(shape)), strict=True)):
        if out_shape[added + dim] == size:
            axes[added + dim] = [Dim(stride, size)]
        if size < 2 or out_shape[added + dim] in (0, size):
            continue
        short = [1] * len(shape)
        short[dim] = size
        (out,) = rerun(torch.arange(size).view(short))
        row = dims_of([place * stride for place in _line(out, added + dim)])
        axes[added + dim] = row or [Dim(REORDERED, out_shape[added + dim])]
    return Placement(0, axes)


def of_indices(
    rerun: Rerun, shape: Sequence[int], ends: Sequence[int] = ()
) -> list[Placement | None]:
    """Follow any move number by number; None if an axis of the result has no strides.

    Args: ``ends``, the strides of the factors; a dim that runs over one of them is cut there.
    """
    if math.prod(shape) > LIMIT:
        return []
    places = torch.arange(math.prod(shape), dtype=torch.double).view(list(shape))
    moved: list[Placement | None] = []
    for out in rerun(places):
        numbers = out.long()
        lines = [_line(numbers, dim) for dim in range(out.dim())]
        rows = list(map(dims_of, lines))
        first = int(numbers[(0,) * out.dim()])
        total = torch.tensor(first)
        for line in lines:
            total = total[..., None] + torch.tensor(line) - first
        axes = [list(_cut_at(ends, row)) for row in rows if row is not None]
        is_exact = len(axes) == len(rows) and torch.equal(total, numbers)
        moved.append(Placement(first, axes) if is_exact else None)
    return moved


def _cut_at(ends: Sequence[int], row: list[Dim]) -> Iterator[Dim]:
    """Cut dims that run from one factor into the next, where nothing is left over."""
    for stride, size in row:
        whole = stride * size
        for end in ends:
            if 0 < stride < end < whole and end % stride == 0 == whole % end:
                yield Dim(end, whole // end)
                whole = end
        yield Dim(stride, whole // stride if stride else size)


def _line(numbers: torch.Tensor, dim: int) -> list[int]:
    line = numbers[tuple(slice(None) if n == dim else 0 for n in range(numbers.dim()))]
    return list(map(int, line.tolist()))


def dims_of(line: list[int]) -> list[Dim] | None:
    """Write a row of places as dims; None if it has no strides."""
    if len(line) == 1:
        return []
    step = line[1] - line[0]
    count = next((n for n in range(1, len(line)) if line[n] - line[n - 1] != step), len(line))
    rows = line[::count]
    even = [first + step * n for first in rows for n in range(count)] == line
    outer = dims_of(rows) if even else None
    return None if outer is None else [*outer, Dim(step, count)]
