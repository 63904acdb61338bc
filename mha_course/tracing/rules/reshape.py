"""Names in a reshape: the same numbers in the same order, with other boundaries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, chain, product
from operator import mul

from mha_course.tracing.axes import (
    FEATURES,
    Axes,
    AxisNamer,
    Factor,
    Origin,
    axis_of,
    size_of,
    unique,
    unknown,
)
from mha_course.tracing.parts import parts
from mha_course.tracing.rules import warnings
from mha_course.tracing.rules.call import OpCall, rules
from mha_course.tracing.rules.ones import ONE, Row, place_ones
from mha_course.tracing.rules.warnings import Cut, Remark

SENSELESS: dict[tuple[str, ...], str] = {  # merges, by their last factors
    ("D", "H"): "merge-dim-before-heads",
    ("B", "D"): "fold-order-mixed",
}
Fit = tuple[Axes, list[Cut]]
Pairs = list[tuple[Factor, int]]  # each factor with its old axis


def reshape(call: OpCall) -> list[Axes]:
    """Put the same numbers, in order, into a new shape; some functions change only part of it."""
    before = call.axes(call.first())
    shape = call.outs[0].shape
    start = 0
    stop = len(before)
    if call.op in ("flatten", "unflatten"):
        start = call.arg(1, "dim", "start_dim", default=0) % len(before)
        end = start if call.op == "unflatten" else call.arg(2, "end_dim", default=-1)
        stop = end % len(before) + 1
    hints: Axes = []
    if call.op in ("view", "reshape") and isinstance(call.arg(1, "size", "shape"), int | Sequence):
        hints = list(map(axis_of, call.ints(1, "size", "shape")))
    new_shape = shape[start : len(shape) - len(before) + stop]
    new_axes, cuts = regroup(call.names, before[start:stop], new_shape, hints)
    if call.op == "flatten":  # a Linear's output keeps its free order
        new_axes = [call.names.merge_parts(tuple(chain(*before[start:stop])))]
    after = [*before[:start], *new_axes, *before[stop:]]
    warn_of_cuts(call, cuts, len(after))
    if call.op != "unflatten":
        call.warn(_of_merge(call.names, before, after))
    return [after]


def warn_of_cuts(call: OpCall, cuts: list[Cut], rank: int) -> None:
    """Warn of mixed factors, or ask later if a Linear was free to order them that way."""
    value = call.info(call.first())
    orders = warnings.READ_IN_ANOTHER_ORDER.values()
    if rank > len(value.axes):  # what is cut further was not heads
        call.settle(value, *orders)
    for cut in cuts:
        remark = warnings.of_cut(call.names, cut, rank, value.from_linear)
        if remark and remark.id in orders and remark.is_question:
            call.pending.setdefault(call.index, remark)
        else:
            call.warn(remark)


def _of_merge(names: AxisNamer, before: Row, after: Row) -> Remark | None:
    """Ask about whole axes merged into one that makes no sense."""
    for axis in [axis for axis in after if len(axis) > 1 and axis not in before]:
        labels = tuple([factor.name for factor in axis if factor.size > 1])
        name = SENSELESS.get(labels[-2:])
        if name is None and labels[1:] == ("D",) and names.is_token((axis[-2],)):
            others = chain.from_iterable([other for other in after if other != axis])
            if any(factor.name == "H" and factor.size > 1 for factor in others):
                first = [factor.name for factor in chain.from_iterable(before)][:2]
                name = "merge-batch-mixed" if first == ["H", "B"] else "merge-without-transpose"
        if name:
            return warnings.ask(name, axes="tokens and head width")
    return None


def regroup(names: AxisNamer, axes: Row, shape: Sequence[int], hints: Row = ()) -> Fit:
    """Put the axes' factors, in order, into a new shape, if possible without cuts.

    Args: hints has the axes that the new sizes were read from, if known.
    """
    if 0 in shape:
        return [unknown(size) for size in shape], []
    readings = [names.readings(axis[0], shape) if len(axis) == 1 else [axis] for axis in axes]
    if axes and size_of(axes[-1]) == shape[-1]:  # unchanged
        readings[-1] = [axes[-1]]
    for axis, ways in zip(axes, readings, strict=True):
        if ways != [axis]:
            names.confirm([axis], Origin.LINEAR)
    fits = [_fit(names, choice, shape, hints) for choice in product(*readings)]
    # Fewest cuts first, then fewest unnamed axes.
    return min(fits, key=lambda fit: (len(fit[1]), list(map(names.label, fit[0])).count("?")))


def _fit(names: AxisNamer, axes: Row, shape: Sequence[int], hints: Row) -> Fit:
    """Try one reading; axes of size 1 have no place in memory and go where needed."""
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
    following = iter(groups)  # Axes longer than 1 get theirs in order.
    out = [next(following) if size > 1 else () for size in shape]
    if len(solid) < len(flat):
        free = [position for position, size in enumerate(shape) if size == 1]
        place_ones(names, axes, tuple([factor for factor, _ in flat]), out, free, hints)
    return list(map(names.merge_parts, out)), cuts


def _fill(names: AxisNamer, pairs: Pairs, sizes: list[int]) -> tuple[Axes, Cut | None]:
    block = tuple([factor for factor, _ in pairs])
    came_from = [axis for _, axis in pairs]
    if len(sizes) == 1:
        return [block], None  # Whole factors became one axis.
    if len(block) == 1:
        return parts(names, block[0], tuple(sizes)), None
    tidied = names.merge_parts(block)
    if len(tidied) < len(block):  # the joined parts do not come from one axis
        axis_of = dict(pairs)
        return _fill(names, [(f, axis_of.get(f, -1 - n)) for n, f in enumerate(tidied)], sizes)
    permuted = sorted(factor.size for factor in block) == sorted(sizes)  # As if transposed.
    if not permuted and sizes[0] % block[0].size == 0:  # whatever comes first stays whole
        inner, cut = _fill(names, pairs[1:], [sizes[0] // block[0].size, *sizes[1:]])
        if not cut and (len(block) == 2 or block[-1].name != "H"):  # heads are seldom divided
            return [(block[0], *inner[0]), *inner[1:]], None
    if len(set(came_from)) == 1 and not permuted:  # one axis, divided in another way
        whole = unique(math.prod(sizes), name=names.label(block))
        return parts(names, whole, tuple(sizes)), None
    is_named = not FEATURES.isdisjoint([factor.name for factor in block])
    origin = Origin.MIXED if is_named else Origin.UNKNOWN
    return [(unique(n, origin),) for n in sizes], Cut(list(block), came_from, sizes)


RESHAPES = rules(("view reshape view_as reshape_as _unsafe_view ravel flatten unflatten", reshape))
