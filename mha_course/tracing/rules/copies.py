"""Names where numbers are repeated, interleaved, paired or padded."""

from __future__ import annotations

from itertools import chain

from torch import Tensor
from torch.nn import functional

from mha_course.tracing.axes import Axes, Factor, Origin, axis_of, keep_matching, size_of
from mha_course.tracing.rules import replay
from mha_course.tracing.rules.call import OpCall, rules
from mha_course.tracing.rules.reshape import regroup, warn_of_cuts
from mha_course.tracing.rules.views import named, view


def expand(call: OpCall) -> list[Axes]:
    """Show one number several times without a copy, along an axis that the caller's size names."""
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
    """Lay copies side by side, of the whole (repeat, tile) or of each number (interleaved)."""
    axes = call.axes(call.first())
    if call.op == "repeat_interleave" and call.arg(2, "dim") is None and len(axes) > 1:
        return []  # of all numbers, in a row
    sizes = list(map(size_of, axes))
    return named(call, axes, [replay.of_copies(call.rerun, sizes, call.outs[0].shape)])


def rearrange(call: OpCall) -> list[Axes]:
    """Interleave several axes in another order, as pixel_shuffle does."""
    x = call.first()
    axes = call.axes(x)
    if call.op == "as_strided" and (x.storage_offset() or not x.is_contiguous()):
        return []
    sizes = [factor.size for axis in axes for factor in axis]
    places = replay.contiguous_strides(sizes) if call.op != "as_strided" else []
    out = []
    for moved in replay.of_indices(call.rerun, list(map(size_of, axes)), places):
        dims = sorted(set(chain(*moved.axes)), reverse=True) if moved else []
        sizes = [dim.size for dim in dims]
        if moved is None or [dim.stride for dim in dims] != replay.contiguous_strides(sizes):
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
    call.names.index_half(axes[-1])
    if left and len(left[-1]) == 1 and left[-1][0].whole and left[-1][0].whole.name == "D":
        left[-1] = (Factor("D/2", size_of(left[-1])),)
    elif left and not left[-1] and call.names.is_width(axes[-1]):  # a width of 2
        left[-1] = call.names.half(axes[-1])
    return [left]


def pad(call: OpCall) -> list[Axes]:
    """Grow or shrink some axes: these are new."""
    return [keep_matching(call.axes(call.first()), call.outs[0].shape)]


def unfold(call: OpCall) -> list[Axes]:
    """Slide windows along an axis: a view as a method, and a copy as a function of pictures."""
    return rearrange(call) if call.func is functional.unfold else view(call)


COPIES = rules(
    ("expand expand_as broadcast_to", expand),
    ("repeat tile repeat_interleave", repeat),
    ("pixel_shuffle pixel_unshuffle channel_shuffle as_strided", rearrange),
    ("view_as_complex view_as_real", complex_pairs),
    ("pad diff", pad),
    ("unfold", unfold),
)
