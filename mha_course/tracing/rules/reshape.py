"""Where names go when a tensor is viewed in another shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from mha_course.tracing.axes import Axis, AxisNamer, Factor, axis_of, kept, size_of, unique, unknown
from mha_course.tracing.rules import warnings
from mha_course.tracing.rules.call import OpCall
from mha_course.tracing.rules.factors import regroup

Rule = Callable[[OpCall], Sequence[list[Axis]]]


def reshape(call: OpCall) -> list[list[Axis]]:
    """Lay the same numbers, in order, into a new shape; unflatten leaves other axes alone."""
    before = call.axes(call.first())
    shape = call.outs[0].shape
    start = 0
    stop = len(before)
    if call.op == "unflatten":
        start = call.arg(1, "dim") % len(before)
        stop = start + 1
    given = call.op in ("view", "reshape") and isinstance(
        call.arg(1, "size", "shape"), (int, tuple, list)
    )
    like = list(map(axis_of, call.ints(1, "size", "shape"))) if given else []
    new_shape = shape[start : len(shape) - len(before) + stop]
    new_axes, cuts = regroup(call.names, before[start:stop], new_shape, like)
    after = [*before[:start], *new_axes, *before[stop:]]
    for cut in cuts:
        call.warn(warnings.of_cut(call.names, cut, len(after), call.info(call.first()).linear))
    if call.op != "unflatten":
        call.warn(warnings.of_merge(call.names, before, after))
    return [after]


def flatten(call: OpCall) -> list[list[Axis]]:
    """Make one axis of several; what a Linear made keeps its free order."""
    before = call.axes(call.first())
    start = call.arg(1, "start_dim", default=0) % len(before)
    stop = call.arg(2, "end_dim", default=-1) % len(before) + 1
    together = call.names.tidy(tuple(factor for axis in before[start:stop] for factor in axis))
    after = [*before[:start], together, *before[stop:]]
    call.warn(warnings.of_merge(call.names, before, after))
    return [after]


def permute(call: OpCall) -> list[list[Axis]]:
    """Bring the axes into a new order."""
    axes = call.axes(call.first())
    if call.op in ("T", "t", "t_", "numpy_T"):
        return [axes[::-1]]
    if call.op in ("mT", "mH", "H", "adjoint"):
        return [[*axes[:-2], axes[-1], axes[-2]]]
    if call.op == "permute":
        return [[axes[dim] for dim in call.ints(1, "dims")]]
    if call.op in ("movedim", "moveaxis"):
        rank = len(axes)
        sources = call.dims(call.arg(1, "source"), rank)
        targets = call.dims(call.arg(2, "destination"), rank)
        order = [dim for dim in range(rank) if dim not in sources]
        for target, source in sorted(zip(targets, sources, strict=True)):
            order.insert(target, source)
        return [[axes[dim] for dim in order]]
    one = call.arg(1, "dim0", "axis0")
    two = call.arg(2, "dim1", "axis1")
    axes[one], axes[two] = axes[two], axes[one]
    return [axes]


def squeeze(call: OpCall) -> list[list[Axis]]:
    """Drop axes of size 1."""
    axes = call.axes(call.first())  # its shape may have changed in place
    dims = call.dims(call.arg(1, "dim"), len(axes))
    return [[axis for dim, axis in enumerate(axes) if dim not in dims or size_of(axis) != 1]]


def unsqueeze(call: OpCall) -> list[list[Axis]]:
    """Add an axis of size 1."""
    axes = call.axes(call.first())
    axes.insert(call.arg(1, "dim") % (len(axes) + 1), ())
    return [axes]


def expand(call: OpCall) -> list[list[Axis]]:
    """Show one number several times without a copy."""
    axes = call.axes(call.first())
    shape = call.outs[0].shape
    other = call.arg(1, "other")
    if isinstance(other, torch.Tensor):
        like = call.axes(other)
    else:
        like = list(map(axis_of, call.ints(1, "size")))
    axes = [()] * (len(shape) - len(axes)) + axes
    rows = zip(axes, shape, like, strict=True)
    out = [old if size_of(old) == size else _shown(call, new, size) for old, size, new in rows]
    return [[_copies(call.names, axis, few) for axis, few in zip(out, [(), *out], strict=False)]]


def _copies(names: AxisNamer, axis: Axis, few: Axis) -> Axis:
    """Name the copies that stand behind fewer heads, and make them as many as the queries have."""
    label = names.label(few)
    repeated = len(axis) == 1 and axis[0].kind == "repeated"
    if repeated and label in names.extra and size_of(few) * size_of(axis) == names.sizes.get("H"):
        return (axis[0]._replace(name=f"H/{label}"),)
    return axis


def _shown(call: OpCall, name: Axis, size: int) -> Axis:
    """Name an axis along which one number is shown so many times."""
    return name if size_of(name) == size and call.names.label(name) != "?" else _repeated((), size)


def repeat(call: OpCall) -> list[list[Axis]]:
    """Lay copies side by side, of the whole (repeat, tile) or of each number (interleaved)."""
    axes = call.axes(call.first())
    shape = call.outs[0].shape
    inside = call.op == "repeat_interleave"
    if inside and call.arg(2, "dim") is None and len(axes) > 1:  # of all numbers, in a row
        return []
    axes = [()] * (len(shape) - len(axes)) + axes
    pairs = zip(axes, shape, strict=True)
    return [[call.names.tidy(_repeated(axis, size, inside)) for axis, size in pairs]]


def _repeated(axis: Axis, size: int, inside: bool = False) -> Axis:
    """Return an axis that is repeated as a whole, or number by number (inside)."""
    old = size_of(axis)
    if old == size:
        return axis
    if size % old:
        return unknown(size)
    copies = unique(size // old, "repeated")
    if old == 1:
        return (copies,)
    return (*axis, copies) if inside else (copies, *axis)


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


VIEWS: dict[str, Rule] = {
    **dict.fromkeys(("view", "reshape", "view_as", "reshape_as", "_unsafe_view"), reshape),
    **dict.fromkeys(("ravel", "unflatten"), reshape),
    "flatten": flatten,
    **dict.fromkeys(("transpose", "swapaxes", "swapdims"), permute),
    **dict.fromkeys(("permute", "movedim", "moveaxis"), permute),
    **dict.fromkeys(("t", "T", "mT", "mH", "H", "adjoint"), permute),
    "squeeze": squeeze,
    "unsqueeze": unsqueeze,
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), expand),
    **dict.fromkeys(("repeat", "tile", "repeat_interleave"), repeat),
    **dict.fromkeys(("view_as_complex", "view_as_real"), complex_pairs),
    **dict.fromkeys(("pad", "diff"), pad),
}
