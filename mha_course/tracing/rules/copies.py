"""Names when numbers are repeated, interleaved, paired or padded.

A copy treats each axis by itself, so it runs again along one axis at a time, on a short row of
places, and nothing large is copied. What it makes of the row tells the strides and sizes of the
result's axis.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mha_course.tracing.axes import (
    Axes,
    Factor,
    Origin,
    axis_of,
    is_part_of,
    keep_matching,
    size_of,
)
from mha_course.tracing.rules.call import OpCall, rules
from mha_course.tracing.rules.views import Dim, Placement, Rerun, named, padded_strides, view

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


def complex_pairs(call: OpCall) -> list[Axes]:
    """Read pairs of numbers as complex numbers, or write complex numbers as pairs."""
    axes = call.axes(call.first())
    if call.op == "view_as_real":
        return [[*axes, (Factor("2", 2),)]]
    left = axes[:-1]
    if left and is_part_of(left[-1], "D"):
        left[-1] = (Factor("D/2", size_of(left[-1])),)
    elif left and not left[-1] and call.names.is_width(axes[-1]):  # a width of 2
        left[-1] = call.names.half(axes[-1])
    return [left]


def pad(call: OpCall) -> list[Axes]:
    """Grow or shrink some axes, which are then new."""
    return [keep_matching(call.axes(call.first()), call.outs[0].shape)]


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
    ("view_as_complex view_as_real", complex_pairs),
    ("pad diff", pad),
)
