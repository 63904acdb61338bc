"""Names in views, which show all or some of the same numbers, perhaps in a different order.

Such a call makes no new numbers, so it needs no rule. It runs again on a tensor without memory,
whose strides show where each axis of the result came from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import torch

from mha_course.tracing.axes import Axes, Axis, Origin, size_of, unique
from mha_course.tracing.parts import sliced, windows
from mha_course.tracing.rules.call import PIECE, Element, Elements, OpCall, rules


class Dim(NamedTuple):
    """Equal steps through the original tensor; copies have stride 0."""

    stride: int
    size: int


class Placement(NamedTuple):
    """The position of a result's first number, and each axis's dims, the slowest first."""

    first: int
    axes: list[list[Dim]]


Rerun = Callable[[torch.Tensor], Sequence[torch.Tensor]]  # the call on another tensor


@lru_cache(maxsize=4096)
def padded_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return strides with gaps, so that every position belongs to only one axis."""
    strides = [2]
    for size in shape[:0:-1]:
        strides.append(strides[-1] * 2 * max(size, 1))
    return tuple(strides[::-1][: len(shape)])


def of_views(rerun: Rerun, shape: Sequence[int]) -> list[Placement]:
    """Follow a view by its strides, on a tensor without memory."""
    places = torch.empty_strided(tuple(shape), padded_strides(tuple(shape)), device="meta")
    placements = []
    for out in rerun(places):
        dims = map(Dim, out.stride(), out.shape)
        placements.append(Placement(int(out.storage_offset()), [[dim] for dim in dims]))
    return placements


def view(call: OpCall) -> list[Axes]:
    """Show the numbers in another order, or only some: transpose, chunk, select, expand …"""
    axes = call.axes(call.first())  # its shape may have changed in place
    return named(call, axes, of_views(call.rerun, list(map(size_of, axes))))


def windows_of(call: OpCall) -> list[Axes]:
    """Slide windows along an axis.

    ``F.unfold`` has the same name but copies the patches of pictures, and has no rule yet.
    """
    return [] if call.func is torch.nn.functional.unfold else view(call)


def named(call: OpCall, axes: Axes, moved: Sequence[Placement], unseen: bool = False) -> list[Axes]:
    """Name results whose axes each come from one axis, and note their elements."""
    pairs = [_name(call, axes, result, number) for number, result in enumerate(moved)]
    if not unseen:
        call.elements = [elements for _, elements in pairs]
    return [result_axes for result_axes, _ in pairs]


def _name(call: OpCall, axes: Axes, moved: Placement, number: int) -> tuple[Axes, Elements]:
    names = call.names
    present = set(chain(*moved.axes))  # The dims left in the result.
    linear = len(call.outs) > 1 and call.info(call.first()).from_linear
    axis_of: dict[Dim, Axis] = {}
    elements: list[Element] = []
    sizes = list(map(size_of, axes))
    for stride, size, axis in zip(padded_strides(tuple(sizes)), sizes, axes, strict=True):
        if (stride, size) in present:  # The axis was moved whole.
            axis_of[Dim(stride, size)] = axis
            continue
        # Strides are padded, so only steps along this axis lie in its range.
        dims = sorted(
            (d for d in present if stride <= d.stride < stride * max(size, 2)), reverse=True
        )
        start = moved.first // stride % (2 * size or 1)  # Where this axis's slice begins.
        if len(dims) > 1:
            axis_of |= zip(dims, windows(names, axis, stride, *dims), strict=True)
        elif dims:
            (dim,) = dims
            piece = axis_of[dim] = sliced(names, axis, start, dim.size, dim.stride / stride)
            if call.op == "getitem" and piece and axis[-len(piece) :] == piece:
                outer = axis[: -len(piece)]  # one head's width
                elements.append(Element(outer, names.label(outer), start // dim.size))
            elif linear and any(names.is_token((factor,)) for factor in axis):
                elements.append(Element((), f"{PIECE} {call.index}", number))
        elif call.op in ("getitem", "select", "unbind"):
            elements.append(Element(axis, names.label(axis), start))
    rows = [[_axis_of_dim(dim, axis_of) for dim in row] for row in reversed(moved.axes)]
    out = [row[0] if len(row) == 1 else names.merge_parts(tuple(chain(*row))) for row in rows]
    return out[::-1], tuple(elements)


def _axis_of_dim(dim: Dim, axis_of: dict[Dim, Axis]) -> Axis:
    """Name one dim; of two with size 1 at the same position, the first is new."""
    if dim.size == 1:
        return axis_of.pop(dim, ())
    origin = Origin.UNKNOWN if dim.stride else Origin.COPIES
    return axis_of.get(dim) or (unique(dim.size, origin),)


VIEWS = rules(
    ("transpose swapaxes swapdims permute movedim moveaxis t T mT mH H adjoint", view),
    ("squeeze unsqueeze", view),
    ("chunk split split_with_sizes tensor_split hsplit vsplit dsplit", view),
    ("narrow unbind select diagonal", view),
    ("unfold", windows_of),
)
