"""Where names go in a move: each axis of the result is named by the digits that replay found."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from mha_course.tracing import replay
from mha_course.tracing.axes import (
    Axis,
    AxisNamer,
    Factor,
    Origin,
    Size,
    axis_of,
    kept,
    size_of,
    unique,
    unknown,
)
from mha_course.tracing.replay import Digit, Moved
from mha_course.tracing.rules import warnings
from mha_course.tracing.rules.call import PIECE, OpCall, Rule, Selection
from mha_course.tracing.rules.factors import regroup


def reshape(call: OpCall) -> list[list[Axis]]:
    """Lay the same numbers, in order, into a new shape; some leave other axes alone."""
    before = call.axes(call.first())
    shape = call.outs[0].shape
    start = 0
    stop = len(before)
    if call.op == "unflatten":
        start = call.arg(1, "dim") % len(before)
        stop = start + 1
    elif call.op == "flatten" and before:
        start = call.arg(1, "start_dim", default=0) % len(before)
        stop = call.arg(2, "end_dim", default=-1) % len(before) + 1
    given = call.op in ("view", "reshape") and isinstance(
        call.arg(1, "size", "shape"), (int, tuple, list)
    )
    like = list(map(axis_of, call.ints(1, "size", "shape"))) if given else []
    new_shape = shape[start : len(shape) - len(before) + stop]
    new_axes, cuts = regroup(call.names, before[start:stop], new_shape, like)
    if call.op == "flatten":  # what a Linear made keeps its free order
        new_axes = [call.names.tidy(tuple(itertools.chain(*before[start:stop])))]
    after = [*before[:start], *new_axes, *before[stop:]]
    for cut in cuts:
        call.warn(warnings.of_cut(call.names, cut, len(after), call.info(call.first()).linear))
    if call.op != "unflatten":
        call.warn(warnings.of_merge(call.names, before, after))
    return [after]


def view(call: OpCall) -> list[list[Axis]]:
    """Show the numbers in another order, or some of them: transpose, chunk, select, expand …"""
    axes = call.axes(call.first())  # its shape may have changed in place
    alone = len(call.tensors) == 1
    kind = (call.op, call.args[1:], list(call.kwargs.items())) if alone and call.args else ()
    moved = replay.of_views(call.again, list(map(size_of, axes)), *kind)
    return _named(call, axes, moved)


def expand(call: OpCall) -> list[list[Axis]]:
    """Show one number several times without a copy, along an axis that the caller's size names."""
    other = call.arg(1, "other")
    if isinstance(other, torch.Tensor):
        like = call.axes(other)
    else:
        like = list(map(axis_of, call.ints(1, "size")))
    (shown,) = view(call)
    out = [
        new if old and old[0].origin is Origin.COPIES and call.names.label(new) != "?" else old
        for old, new in zip(shown, like, strict=True)
    ]
    return [[_copies(call.names, axis, few) for axis, few in zip(out, [(), *out], strict=False)]]


def _copies(names: AxisNamer, axis: Axis, few: Axis) -> Axis:
    """Name the copies that stand behind fewer heads, and make them as many as the queries have."""
    label = names.label(few)
    repeated = len(axis) == 1 and axis[0].origin is Origin.COPIES
    if repeated and label in names.extra and size_of(few) * size_of(axis) == names.sizes.get("H"):
        return (axis[0]._replace(name=f"H/{label}"),)
    return axis


def repeat(call: OpCall) -> list[list[Axis]]:
    """Lay copies side by side, of the whole (repeat, tile) or of each number (interleaved)."""
    axes = call.axes(call.first())
    shape = call.outs[0].shape
    if call.op == "repeat_interleave" and call.arg(2, "dim") is None and len(axes) > 1:
        return []  # of all numbers, in a row
    return _named(call, axes, [replay.of_copies(call.again, list(map(size_of, axes)), shape)])


def rearrange(call: OpCall) -> list[list[Axis]]:
    """Lay the digits of several axes together in another order, as pixel_shuffle does."""
    x = call.first()
    axes = call.axes(x)
    if call.op == "as_strided" and (x.storage_offset() or not x.is_contiguous()):
        return []
    sizes = [factor.size for axis in axes for factor in axis]
    places = replay.dense(sizes) if call.op != "as_strided" else []
    out = []
    for moved in replay.of_indices(call.again, list(map(size_of, axes)), places):
        digits = sorted(set(itertools.chain(*moved.axes)), reverse=True) if moved else []
        sizes = [digit.size for digit in digits]
        if moved is None or [digit.stride for digit in digits] != replay.dense(sizes):
            return []
        parts, cuts = regroup(call.names, axes, sizes)
        for cut in cuts:
            call.warn(warnings.of_cut(call.names, cut, len(moved.axes), call.info(x).linear))
        named = dict(zip(digits, parts, strict=True))
        rows = [[factor for digit in row for factor in named[digit]] for row in moved.axes]
        out.append([call.names.tidy(tuple(row)) for row in rows])
    return out


def getitem(call: OpCall) -> list[list[Axis]]:
    """Index with numbers, slices, None and Ellipsis; index tensors bring their own axes."""
    x, key = call.args[0], call.args[1]
    keys = list(key) if isinstance(key, tuple) else [key]
    indices = [k for k in keys if k is not None and k is not Ellipsis]
    rest = x.dim() - sum(k.dim() if is_bool(k) else 1 for k in indices)
    axes = call.axes(x)
    plain: list[Any] = []  # with slices for index tensors
    advanced: list[tuple[int, Any]] = []
    gone: set[int] = set()
    dim = position = 0
    for given in keys:
        k = given
        if isinstance(given, slice):
            start, stop, step = given.indices(size_of(axes[dim]))
            axes[dim] = _first_ones(call, axes[dim], given)
            k = slice(start, start + 1) if start < stop <= start + step else given
        elif isinstance(given, torch.Tensor) and given.dim() == 0 and not is_bool(given):
            k = 0
        if k is None or k is Ellipsis or isinstance(k, (int, slice)):
            plain.append(k)
            dim += rest if k is Ellipsis else k is not None
            position += rest if k is Ellipsis else not isinstance(k, int)
            continue
        meet_mask(call, k, axes[dim:])
        advanced.append((position, k))
        width = k.dim() if is_bool(k) else 1
        plain += [slice(None)] * width
        gone |= set(range(position, position + width))
        dim += width
        position += width
    moved = replay.of_views(lambda x: [x[tuple(plain)]], list(map(size_of, axes)), "[]", plain)
    (named,) = _named(call, axes, moved, any(isinstance(k, torch.Tensor) for k in indices))
    return [_advanced(call, [a for n, a in enumerate(named) if n not in gone], advanced)]


def _first_ones(call: OpCall, axis: Axis, key: slice) -> Axis:
    """Return the axis of the size up to which a slice goes, where its own has no name."""
    start, stop, step = key.indices(size_of(axis))
    first_ones = isinstance(key.stop, Size) and (start, step) == (0, 1) and key.stop == stop
    return axis_of(key.stop) if first_ones and call.names.label(axis) == "?" else axis


def _advanced(call: OpCall, out: list[Axis], keys: list[tuple[int, Any]]) -> list[Axis]:
    """Insert the axes of index tensors: one gives its own axes, several give unknown ones."""
    if not keys:
        return out
    position, key = keys[0]
    missing = call.outs[0].dim() - len(out)
    new = list(map(unknown, call.outs[0].shape[position : position + missing]))
    if len(keys) == 1 and isinstance(key, torch.Tensor) and not is_bool(key):
        new = call.axes(key)
    return [*out[:position], *new, *out[position:]]


def is_bool(key: Any) -> bool:
    """Return whether an index is a mask."""
    return isinstance(key, torch.Tensor) and key.dtype in (torch.bool, torch.uint8)


def meet_mask(call: OpCall, key: Any, axes: list[Axis]) -> None:
    """Take note that a mask which picks elements has the axes that it picks from."""
    if not is_bool(key):
        return
    for mask, axis in zip(call.axes(key), axes, strict=False):
        call.names.meet(mask, axis)


def _named(
    call: OpCall, axes: list[Axis], moved: Sequence[Moved], unseen: bool = False
) -> list[list[Axis]]:
    """Name results each of whose axes has digits of one axis only; note what was selected."""
    pairs = [_name(call, axes, result, number) for number, result in enumerate(moved)]
    call.selections = [() if unseen else selected for _, selected in pairs]
    return [named for named, _ in pairs]


def _name(
    call: OpCall, axes: list[Axis], moved: Moved, number: int
) -> tuple[list[Axis], tuple[Selection, ...]]:
    names = call.names
    seen = set(itertools.chain(*moved.axes))
    linear = len(call.outs) > 1 and call.info(call.first()).linear
    named: dict[Digit, Axis] = {}
    selected: list[Selection] = []
    sizes = list(map(size_of, axes))
    for stride, size, axis in zip(replay.spaced(tuple(sizes)), sizes, axes, strict=True):
        if (stride, size) in seen:
            named[Digit(stride, size)] = axis
            continue
        digits = sorted(
            (d for d in seen if stride <= d.stride < stride * max(size, 2)), reverse=True
        )
        start = moved.first // stride % (2 * size or 1)
        if len(digits) > 1:
            named |= zip(digits, _windows(names, axis, stride, digits), strict=True)
        elif digits:
            (digit,) = digits
            piece = named[digit] = _sliced(names, axis, start, digit.size, digit.stride / stride)
            if call.op == "getitem" and piece and axis[-len(piece) :] == piece:
                outer = axis[: -len(piece)]  # one head's width
                selected.append(Selection(outer, names.label(outer), start // digit.size))
            elif linear and names.is_token(axis):
                selected.append(Selection((), f"{PIECE} {call.index}", number))
        elif call.op in ("getitem", "select", "unbind"):
            label = names.label(axis)
            names.take_apart(axis)
            selected.append(Selection(axis, label, start))
    rows = [[_of(digit, named) for digit in row] for row in reversed(moved.axes)]
    out = [row[0] if len(row) == 1 else names.tidy(tuple(itertools.chain(*row))) for row in rows]
    return out[::-1], tuple(selected)


def _of(digit: Digit, named: dict[Digit, Axis]) -> Axis:
    """Name one digit; of two of size 1 that lie at one place, the first is new."""
    if digit.size == 1:
        return named.pop(digit, ())
    origin = Origin.UNKNOWN if digit.stride else Origin.COPIES
    return named.get(digit) or (unique(digit.size, origin),)


def _sliced(names: AxisNamer, axis: Axis, start: int, size: int, step: float) -> Axis:
    """Name a slice; every second number of the head width is half of it."""
    if step == 1 and axis:
        return names.slice_of(axis, start, size)
    if step == 2 and names.is_width(axis) and 2 * size == size_of(axis):
        return names.half(axis)
    return unknown(size)


def _windows(names: AxisNamer, axis: Axis, stride: int, digits: list[Digit]) -> list[Axis]:
    """Name how many windows slide along an axis, and how long each is."""
    count, window = digits
    disjoint = len(axis) == 1 and window.stride == stride
    disjoint = disjoint and count.stride == window.size * stride
    if not disjoint or count.size * window.size != size_of(axis):
        return [unknown(digit.size) for digit in digits]
    parts = names.parts(axis[0], (count.size, window.size))
    if names.is_token(axis):
        names.tokens.update(factor.name for factor in parts[0])
    return parts


def complex_pairs(call: OpCall) -> list[list[Axis]]:
    """Read pairs of numbers as complex numbers, or write complex numbers as pairs."""
    axes = call.axes(call.first())
    if call.op == "view_as_real":
        return [[*axes, (Factor("2", 2),)]]
    left = axes[:-1]
    call.names.take_apart(axes[-1])
    if left and len(left[-1]) == 1 and left[-1][0].whole and left[-1][0].whole.name == "D":
        left[-1] = (Factor("D/2", size_of(left[-1])),)
    elif left and not left[-1] and call.names.is_width(axes[-1]):  # a width of 2
        left[-1] = call.names.half(axes[-1])
    return [left]


def pad(call: OpCall) -> list[list[Axis]]:
    """Grow or shrink some axes: these are new."""
    return [kept(call.axes(call.first()), call.outs[0].shape)]


def unfold(call: OpCall) -> list[list[Axis]]:
    """Slide a window along an axis, or over pictures."""
    return rearrange(call) if call.func is functional.unfold else view(call)


VIEWS: dict[str, Rule] = {
    **dict.fromkeys(("view", "reshape", "view_as", "reshape_as", "_unsafe_view"), reshape),
    **dict.fromkeys(("ravel", "flatten", "unflatten"), reshape),
    **dict.fromkeys(
        [
            "transpose",
            "swapaxes",
            "swapdims",
            "permute",
            "movedim",
            "moveaxis",
            "t",
            "T",
            "mT",
            "mH",
            "H",
            "adjoint",
        ],
        view,
    ),
    **dict.fromkeys(("squeeze", "unsqueeze"), view),
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), expand),
    **dict.fromkeys(("repeat", "tile", "repeat_interleave"), repeat),
    **dict.fromkeys(
        ("pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "as_strided"), rearrange
    ),
    **dict.fromkeys(("view_as_complex", "view_as_real"), complex_pairs),
    **dict.fromkeys(("pad", "diff"), pad),
}
PIECES: dict[str, Rule] = {
    **dict.fromkeys(
        ["chunk", "split", "split_with_sizes", "tensor_split", "hsplit", "vsplit", "dsplit"], view
    ),
    **dict.fromkeys(("narrow", "unbind", "select", "diagonal"), view),
    "getitem": getitem,
    "unfold": unfold,
}
