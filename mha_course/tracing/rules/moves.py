"""Names in moves: replay finds where the numbers of each axis came from, and factors name them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, chain, product
from operator import mul
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from mha_course.tracing import axes as factors
from mha_course.tracing import replay
from mha_course.tracing.axes import Axes, Axis, AxisNamer, Factor, Origin, size_of, unknown
from mha_course.tracing.replay import Dim, Placement
from mha_course.tracing.rules import warnings
from mha_course.tracing.rules.call import PIECE, Element, Elements, OpCall, rules
from mha_course.tracing.rules.warnings import Cut

ONE = Factor("1", 1)  # stands in for an axis of size 1 that has no name
Row = Sequence[Axis]
Fit = tuple[Axes, list[Cut]]
Pairs = list[tuple[Factor, int]]  # each factor with the axis it was in


def reshape(call: OpCall) -> list[Axes]:
    """Lay the same numbers, in order, into a new shape; some leave other axes alone."""
    before = call.axes(call.first())
    shape = call.outs[0].shape
    start = 0
    stop = len(before)
    if call.op in ("flatten", "unflatten") and before:
        start = call.arg(1, "dim", "start_dim", default=0) % len(before)
        end = start if call.op == "unflatten" else call.arg(2, "end_dim", default=-1)
        stop = end % len(before) + 1
    hints: Axes = []
    if call.op in ("view", "reshape") and isinstance(call.arg(1, "size", "shape"), int | Sequence):
        hints = list(map(factors.axis_of, call.ints(1, "size", "shape")))
    new_shape = shape[start : len(shape) - len(before) + stop]
    new_axes, cuts = regroup(call.names, before[start:stop], new_shape, hints)
    if call.op == "flatten":  # what a Linear made keeps its free order
        new_axes = [call.names.merge_parts(tuple(chain(*before[start:stop])))]
    after = [*before[:start], *new_axes, *before[stop:]]
    _warn_of(call, cuts, len(after))
    if call.op != "unflatten":
        call.warn(warnings.of_merge(call.names, before, after))
    return [after]


def _warn_of(call: OpCall, cuts: list[Cut], rank: int) -> None:
    value = call.info(call.first())
    orders = warnings.READ_IN_ANOTHER_ORDER.values()
    if rank > len(value.axes):  # what is cut on was no heads
        call.settle(value, *orders)
    for cut in cuts:
        remark = warnings.of_cut(call.names, cut, rank, value.from_linear)
        if remark and remark.id in orders and remark.is_question:
            call.pending.setdefault(call.index, remark)
        else:
            call.warn(remark)


def regroup(names: AxisNamer, axes: Row, shape: Sequence[int], hints: Row = ()) -> Fit:
    """Lay the factors of the axes, in order, into a new shape, if possible without a cut.

    Args: hints has the axes that the new sizes were read from, as far as they are known.
    """
    if 0 in shape:
        return [unknown(size) for size in shape], []
    readings = [names.readings(axis[0], shape) if len(axis) == 1 else [axis] for axis in axes]
    if axes and size_of(axes[-1]) == shape[-1]:  # it stays
        readings[-1] = [axes[-1]]
    for axis, ways in zip(axes, readings, strict=True):
        names.confirm([axis] if ways != [axis] else (), Origin.LINEAR)
    fits = [_fit(names, choice, shape, hints) for choice in product(*readings)]
    # The fewest cuts, then the fewest axes without a name.
    return min(fits, key=lambda fit: (len(fit[1]), list(map(names.label, fit[0])).count("?")))


def _fit(names: AxisNamer, axes: Row, shape: Sequence[int], hints: Row) -> Fit:
    """Lay one reading; axes of size 1 have no place in memory and go where they are needed."""
    flat = [(factor, number) for number, axis in enumerate(axes) for factor in axis or (ONE,)]
    solid = [pair for pair in flat if pair[0].size > 1]
    wanted = [size for size in shape if size > 1]
    have_ends = list(accumulate((factor.size for factor, _ in solid), mul))
    want_ends = list(accumulate(wanted, mul))
    common = sorted({*have_ends} & {*want_ends})
    groups: Axes = []
    cuts: list[Cut] = []
    done = [0, 0]
    for end in common:  # the smallest blocks of equal size
        ends = [have_ends.index(end) + 1, want_ends.index(end) + 1]
        filled, cut = _fill(names, solid[done[0] : ends[0]], wanted[done[1] : ends[1]])
        done = ends
        groups += filled
        if cut:
            cuts.append(cut)
    following = iter(groups)
    out = [next(following) if size > 1 else None for size in shape]
    placed = _place_ones(names, axes, tuple([factor for factor, _ in flat]), out, hints)
    return list(map(names.merge_parts, placed)), cuts


def _fill(names: AxisNamer, pairs: Pairs, sizes: list[int]) -> tuple[Axes, Cut | None]:
    block = tuple([factor for factor, _ in pairs])
    came_from = [axis for _, axis in pairs]
    if len(sizes) == 1:
        return [block], None
    if len(block) == 1:
        return names.parts(block[0], tuple(sizes)), None
    tidied = names.merge_parts(block)
    if len(tidied) < len(block):  # what was put together is not part of one of the axes
        axis_of = dict(pairs)
        return _fill(names, [(f, axis_of.get(f, -1 - n)) for n, f in enumerate(tidied)], sizes)
    permuted = sorted(factor.size for factor in block) == sorted(sizes)
    if not permuted and sizes[0] % block[0].size == 0:  # what comes before the others stays whole
        inner, cut = _fill(names, pairs[1:], [sizes[0] // block[0].size, *sizes[1:]])
        if not cut and (len(block) == 2 or block[-1].name != "H"):  # heads are seldom divided
            return [(block[0], *inner[0]), *inner[1:]], None
    if len(set(came_from)) == 1 and not permuted:  # one axis, divided in another way
        whole = factors.unique(math.prod(sizes), name=names.label(block))
        return names.parts(whole, tuple(sizes)), None
    is_named = not factors.FEATURES.isdisjoint([factor.name for factor in block])
    origin = Origin.MIXED if is_named else Origin.UNKNOWN
    return [(factors.unique(n, origin),) for n in sizes], Cut(list(block), came_from, sizes)


def _place_ones(names: AxisNamer, old: Row, flat: Axis, out: list[Axis | None], hints: Row) -> Axes:
    """Give the new axes of size 1 to the named factors of size 1; neighbours take the rest."""
    ones = [(position, factor) for position, factor in enumerate(flat) if factor.size == 1]
    free = [position for position, axis in enumerate(out) if axis is None]
    axes: Axes = [axis or () for axis in out]
    for slot, axis in enumerate(hints):  # an axis whose size was written is there
        root = names.root(names.label(axis))
        of_axis = [pair for pair in ones if names.root(pair[1].name) == root]
        if slot in free and of_axis and axis:
            axes[slot] = of_axis[0][1:]
            free.remove(slot)
            ones.remove(of_axis[0])
    if len(free) < len(ones):  # heads go first, to their width, then what has no name
        inner = [pair for pair in ones if pair[1].name == "H" and _before_width(flat, pair[0])]
        rest = [pair for pair in ones if pair not in inner]
        ones = rest if len(rest) <= len(free) else [pair for pair in rest if pair[1] != ONE]
        ones = [*ones[: len(free)], *inner, *ones[len(free) :]]
    for slot, (_, factor) in zip(free, ones, strict=False):
        axes[slot] = () if factor == ONE else (factor,)
    for position, factor in ones[len(free) :]:
        _attach(axes, old, flat, position, factor)
    return axes


def _before_width(flat: Axis, position: int) -> bool:
    return position + 1 < len(flat) and flat[position + 1].name == "D"


def _attach(axes: Axes, old_axes: Row, flat: Axis, position: int, factor: Factor) -> None:
    """Join a factor of size 1 that lost its axis: heads to their width, others to the left."""
    after = flat[position + 1] if position + 1 < len(flat) else None
    before = flat[position - 1] if position else None
    joins_right = False
    if factor.name == "H" and _before_width(flat, position):
        batch_is_left = before is not None and before.name == "B" and (before,) in axes
        joins_right = not batch_is_left or (before, factor) in old_axes
    elif factor.name == "B" and after is not None and after.name == "H":
        joins_right = (after,) in axes
    for number, axis in enumerate(axes):
        if (joins_right or before is None) and axis and axis[0] == after:
            axes[number] = (factor, *axis)
            return
        if not joins_right and axis and axis[-1] == before:
            axes[number] = (*axis, factor)
            return


def view(call: OpCall) -> list[Axes]:
    """Show the numbers in another order, or some of them: transpose, chunk, select, expand …"""
    if call.func is functional.unfold:
        return rearrange(call)
    axes = call.axes(call.first())  # its shape may have changed in place
    return _named(call, axes, replay.of_views(call.rerun, list(map(size_of, axes))))


def expand(call: OpCall) -> list[Axes]:
    """Show one number several times without a copy, along an axis that the caller's size names."""
    names = call.names
    other = call.arg(1, "other")
    sized = not isinstance(other, Tensor)
    hints = list(map(factors.axis_of, call.ints(1, "size"))) if sized else call.axes(other)
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
    return _named(call, axes, [replay.of_copies(call.rerun, sizes, call.outs[0].shape)])


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
        _warn_of(call, cuts, len(moved.axes))
        axis_of = dict(zip(dims, regrouped, strict=True))
        rows = [chain.from_iterable([axis_of[dim] for dim in row]) for row in moved.axes]
        out.append([call.names.merge_parts(tuple(row)) for row in rows])
    return out


def is_bool(key: Any) -> bool:
    """Return whether an index is a mask."""
    return isinstance(key, Tensor) and key.dtype in (torch.bool, torch.uint8)


def keys_of(key: Any, rank: int) -> list[Any]:
    """Return an index with all of its slices, also those that Ellipsis stands for."""
    keys = list(key) if isinstance(key, tuple) else [key]
    ranks = [k.dim() if is_bool(k) else 1 for k in keys if k is not None and k is not Ellipsis]
    at = next((n for n, k in enumerate(keys) if k is Ellipsis), len(keys))
    keys[at : at + 1] = [slice(None)] * (rank - sum(ranks))
    return keys


def align_mask(call: OpCall, key: Any, axes: Axes) -> None:
    """Take note that a mask which picks elements has the axes that it picks from."""
    for mask, axis in zip(call.axes(key) if is_bool(key) else (), axes, strict=False):
        call.names.align(mask, axis)


def getitem(call: OpCall) -> list[Axes]:
    """Index with numbers, slices and None; one index tensor brings its own axes."""
    axes = call.axes(call.args[0])
    plain: list[Any] = []  # with slices for index tensors
    advanced: list[tuple[int, Any]] = []
    replaced: set[int] = set()  # the axes that index tensors replace
    unseen = False
    for key in keys_of(call.args[1], len(axes)):
        dim = len([k for k in plain if k is not None])
        place = len([k for k in plain if not isinstance(k, int)])
        unseen |= isinstance(key, Tensor)
        if isinstance(key, slice):
            start, stop, step = key.indices(size_of(axes[dim]))
            is_named = isinstance(key.stop, factors.Size) and key.stop == stop
            if is_named and (start, step) == (0, 1) and call.names.label(axes[dim]) == "?":
                axes[dim] = factors.axis_of(key.stop)
            plain.append(slice(start, start + 1) if start < stop <= start + step else key)
        elif key is None or isinstance(key, int):
            plain.append(key)
        elif isinstance(key, Tensor) and not key.dim() and not is_bool(key):
            plain.append(0)
        else:
            align_mask(call, key, axes[dim:])
            advanced.append((place, key))
            width = key.dim() if is_bool(key) else 1
            plain += [slice(None)] * width
            replaced.update(range(place, place + width))
    moved = replay.of_views(lambda x: [x[tuple(plain)]], list(map(size_of, axes)))
    (viewed,) = _named(call, axes, moved, unseen)
    out = [axis for n, axis in enumerate(viewed) if n not in replaced]
    if advanced:
        place, key = advanced[0]
        shape = call.outs[0].shape[place : place + call.outs[0].dim() - len(out)]
        picked = _axes_of_index(call, viewed[place], key) if len(advanced) == 1 else []
        out[place:place] = picked or list(map(unknown, shape))
    return [out]


def _axes_of_index(call: OpCall, axis: Axis, key: Any) -> Axes:
    """Return the axes that one index puts in place of an axis, or none if they are unknown."""
    if heads := picked_heads(call, axis, key):
        return [heads]
    return call.axes(key) if isinstance(key, Tensor) and not is_bool(key) else []


def picked_heads(call: OpCall, axis: Axis, key: Any) -> Axis:
    """Return the query heads for which an index picks KV heads, or () if it picks others."""
    if call.names.label(axis) != "H_kv":
        return ()
    if type(key) is Tensor and key.dim() == 1 and not key.is_meta:
        key = key.tolist()
    return call.names.repeated_heads(key) if isinstance(key, list) else ()


def _named(
    call: OpCall, axes: Axes, moved: Sequence[Placement], unseen: bool = False
) -> list[Axes]:
    """Name results whose axes each come from one axis, and note which elements they are."""
    pairs = [_name(call, axes, result, number) for number, result in enumerate(moved)]
    if not unseen:
        call.elements = [elements for _, elements in pairs]
    return [result_axes for result_axes, _ in pairs]


def _name(call: OpCall, axes: Axes, moved: Placement, number: int) -> tuple[Axes, Elements]:
    names = call.names
    present = set(chain(*moved.axes))
    linear = len(call.outs) > 1 and call.info(call.first()).from_linear
    axis_of: dict[Dim, Axis] = {}
    elements: list[Element] = []
    sizes = list(map(size_of, axes))
    for stride, size, axis in zip(replay.padded_strides(tuple(sizes)), sizes, axes, strict=True):
        if (stride, size) in present:
            axis_of[Dim(stride, size)] = axis
            continue
        dims = sorted(
            (d for d in present if stride <= d.stride < stride * max(size, 2)), reverse=True
        )
        start = moved.first // stride % (2 * size or 1)
        if dims and dims[0].size == 1:
            names.index_half(axis)
        if len(dims) > 1:
            axis_of |= zip(dims, _windows(names, axis, stride, dims), strict=True)
        elif dims:
            (dim,) = dims
            piece = axis_of[dim] = _sliced(names, axis, start, dim.size, dim.stride / stride)
            if call.op == "getitem" and piece and axis[-len(piece) :] == piece:
                outer = axis[: -len(piece)]  # one head's width
                elements.append(Element(outer, names.label(outer), start // dim.size))
            elif linear and any(names.is_token((factor,)) for factor in axis):
                elements.append(Element((), f"{PIECE} {call.index}", number))
        elif call.op in ("getitem", "select", "unbind"):
            label = names.label(axis)
            names.index_half(axis)
            elements.append(Element(axis, label, start))
    rows = [[_axis_of_dim(dim, axis_of) for dim in row] for row in reversed(moved.axes)]
    out = [row[0] if len(row) == 1 else names.merge_parts(tuple(chain(*row))) for row in rows]
    return out[::-1], tuple(elements)


def _axis_of_dim(dim: Dim, axis_of: dict[Dim, Axis]) -> Axis:
    """Name one dim; of two of size 1 at the same place, the first is new."""
    if dim.size == 1:
        return axis_of.pop(dim, ())
    origin = Origin.UNKNOWN if dim.stride else Origin.COPIES
    return axis_of.get(dim) or (factors.unique(dim.size, origin),)


def _sliced(names: AxisNamer, axis: Axis, start: int, size: int, step: float) -> Axis:
    """Name a slice; every second number of the head width is half of it."""
    if step == 1 and axis:
        return names.slice_of(axis, start, size)
    if step == 2 and names.is_width(axis) and 2 * size == size_of(axis):
        return names.half(axis)
    if names.label(axis) == "H" and step > 1:
        return (Factor("?", size, axis[0], int(step)),)
    return unknown(size)


def _windows(names: AxisNamer, axis: Axis, stride: int, dims: list[Dim]) -> Axes:
    """Name how many windows slide along an axis, and how long each is."""
    count, window = dims
    disjoint = window.stride == stride and count.stride == window.size * stride
    if len(axis) != 1 or not disjoint or count.size * window.size != size_of(axis):
        return [unknown(dim.size) for dim in dims]
    named = names.parts(axis[0], (count.size, window.size))
    if names.is_token(axis):
        names.tokens.update(factor.name for factor in named[0])
    return named


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
    return [factors.keep_matching(call.axes(call.first()), call.outs[0].shape)]


VIEWS = rules(
    ("view reshape view_as reshape_as _unsafe_view ravel flatten unflatten", reshape),
    ("transpose swapaxes swapdims permute movedim moveaxis t T mT mH H adjoint", view),
    ("squeeze unsqueeze", view),
    ("expand expand_as broadcast_to", expand),
    ("repeat tile repeat_interleave", repeat),
    ("pixel_shuffle pixel_unshuffle channel_shuffle as_strided", rearrange),
    ("view_as_complex view_as_real", complex_pairs),
    ("pad diff", pad),
)
PIECES = rules(
    ("chunk split split_with_sizes tensor_split hsplit vsplit dsplit", view),
    ("narrow unbind select diagonal unfold", view),
    ("getitem", getitem),
)
