"""Names when numbers are repeated, interleaved, paired or padded.

A copy runs again on a tensor of positions, and each axis of the result is a list of strides and
sizes in them. A call that treats axes separately runs along one at a time, so that nothing large is
copied.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain

import torch
from torch import Tensor
from torch.nn import functional

from mha_course.tracing.axes import Axes, Factor, Origin, axis_of, keep_matching, size_of
from mha_course.tracing.parts import index_half
from mha_course.tracing.rules.call import OpCall, rules
from mha_course.tracing.rules.reshape import regroup, warn_of_cuts
from mha_course.tracing.rules.views import Dim, Placement, Rerun, named, padded_strides, view

LIMIT = 400_000  # numbers to follow one by one
REORDERED = -1  # the stride of an axis in another order


def expand(call: OpCall) -> list[Axes]:
    """Repeat numbers without copying, along an axis named by the caller's size."""
    names = call.names
    other = call.arg(1, "other")
    sized = not isinstance(other, Tensor)
    hints = list(map(axis_of, call.ints(1, "size"))) if sized else call.axes(other)
    (axes,) = view(call)
    for n, (axis, asked) in enumerate(zip(axes, hints, strict=True)):
        if not axis or axis[0].origin is not Origin.COPIES:
            continue
        kv_heads = axes[n - 1] if n else ()
        label = names.label(kv_heads)
        if names.label(asked) != "?":
            axes[n] = asked
        elif label in names.extra and size_of(kv_heads) * size_of(axis) == names.sizes.get("H"):
            axes[n] = (axis[0]._replace(name=f"H/{label}"),)
    return [axes]


def repeat(call: OpCall) -> list[Axes]:
    """Put copies side by side, of the whole (repeat, tile) or of each number (interleaved)."""
    axes = call.axes(call.first())
    if call.op == "repeat_interleave" and call.arg(2, "dim") is None and len(axes) > 1:
        return []  # of all numbers, in a row
    sizes = list(map(size_of, axes))
    return named(call, axes, [_of_copies(call.rerun, sizes, call.outs[0].shape)])


def rearrange(call: OpCall) -> list[Axes]:
    """Interleave several axes in another order, as pixel_shuffle does."""
    x = call.first()
    axes = call.axes(x)
    if call.op == "as_strided" and (x.storage_offset() or not x.is_contiguous()):
        return []
    sizes = [factor.size for axis in axes for factor in axis]
    places = _contiguous_strides(sizes) if call.op != "as_strided" else []
    out = []
    for moved in _of_indices(call.rerun, list(map(size_of, axes)), places):
        dims = sorted(set(chain(*moved.axes)), reverse=True) if moved else []
        sizes = [dim.size for dim in dims]
        if moved is None or [dim.stride for dim in dims] != _contiguous_strides(sizes):
            return []
        regrouped, cuts = regroup(call.names, axes, sizes)
        warn_of_cuts(call, cuts, len(moved.axes))
        axis_of = dict(zip(dims, regrouped, strict=True))
        rows = [chain.from_iterable([axis_of[dim] for dim in row]) for row in moved.axes]
        out.append([call.names.merge_parts(tuple(row)) for row in rows])
    return out


def complex_pairs(call: OpCall) -> list[Axes]:
    """Read pairs of numbers as complex numbers, or write complex numbers as pairs."""
    axes = call.axes(call.first())
    if call.op == "view_as_real":
        return [[*axes, (Factor("2", 2),)]]
    left = axes[:-1]
    index_half(call.names, axes[-1])
    if left and len(left[-1]) == 1 and left[-1][0].whole and left[-1][0].whole.name == "D":
        left[-1] = (Factor("D/2", size_of(left[-1])),)
    elif left and not left[-1] and call.names.is_width(axes[-1]):  # a width of 2
        left[-1] = call.names.half(axes[-1])
    return [left]


def pad(call: OpCall) -> list[Axes]:
    """Grow or shrink some axes, which are then new."""
    return [keep_matching(call.axes(call.first()), call.outs[0].shape)]


def unfold(call: OpCall) -> list[Axes]:
    """Slide windows along an axis: a view as a method, a copy as a function on pictures."""
    return rearrange(call) if call.func is functional.unfold else view(call)


def _contiguous_strides(shape: Sequence[int]) -> list[int]:
    """Return contiguous strides."""
    return [math.prod(shape[n + 1 :]) for n in range(len(shape))]


def _of_copies(rerun: Rerun, shape: Sequence[int], out_shape: Sequence[int]) -> Placement:
    """Follow a call that treats axes separately along one at a time, keeping the others short."""
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
        row = _dims_of([place * stride for place in _line(out, added + dim)])
        axes[added + dim] = row or [Dim(REORDERED, out_shape[added + dim])]
    return Placement(0, axes)


def _of_indices(
    rerun: Rerun, shape: Sequence[int], ends: Sequence[int] = ()
) -> list[Placement | None]:
    """Follow any rearrangement number by number; None if an axis of the result has no strides.

    Args: ``ends``, the strides of the factors; a dim that crosses one is cut there.
    """
    if math.prod(shape) > LIMIT:
        return []
    places = torch.arange(math.prod(shape), dtype=torch.double).view(list(shape))
    moved: list[Placement | None] = []
    for out in rerun(places):
        numbers = out.long()
        lines = [_line(numbers, dim) for dim in range(out.dim())]
        rows = list(map(_dims_of, lines))
        first = int(numbers[(0,) * out.dim()])
        total = torch.tensor(first)
        for line in lines:
            total = total[..., None] + torch.tensor(line) - first
        axes = [list(_cut_at(ends, row)) for row in rows if row is not None]
        is_exact = len(axes) == len(rows) and torch.equal(total, numbers)
        moved.append(Placement(first, axes) if is_exact else None)
    return moved


def _cut_at(ends: Sequence[int], row: list[Dim]) -> Iterator[Dim]:
    """Cut dims that cross from one factor into the next, if nothing is left over."""
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


def _dims_of(line: list[int]) -> list[Dim] | None:
    """Write a row of positions as dims; None if it has no strides."""
    if len(line) == 1:
        return []
    step = line[1] - line[0]
    count = next((n for n in range(1, len(line)) if line[n] - line[n - 1] != step), len(line))
    rows = line[::count]
    even = [first + step * n for first in rows for n in range(count)] == line
    outer = _dims_of(rows) if even else None
    return None if outer is None else [*outer, Dim(step, count)]


COPIES = rules(
    ("expand expand_as broadcast_to", expand),
    ("repeat tile repeat_interleave", repeat),
    ("pixel_shuffle pixel_unshuffle channel_shuffle as_strided", rearrange),
    ("view_as_complex view_as_real", complex_pairs),
    ("pad diff", pad),
    ("unfold", unfold),
)
