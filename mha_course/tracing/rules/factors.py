"""What a view or reshape does to axes: which factors it merges, splits or cuts across."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from mha_course.tracing.axes import (
    FEATURES,
    Axis,
    AxisNamer,
    Factor,
    Origin,
    size_of,
    unique,
    unknown,
)

ONE = Factor("1", 1)  # stands in for an axis of size 1 that has no name


class Cut(NamedTuple):
    """Factors that a reshape mixed: the boundaries of the new axes do not lie on theirs."""

    factors: list[Factor]
    axes: list[int]  # of which input axis each factor was
    sizes: list[int]  # of the new axes


def regroup(
    names: AxisNamer, axes: Sequence[Axis], shape: Sequence[int], like: Sequence[Axis] = ()
) -> tuple[list[Axis], list[Cut]]:
    """Lay the factors of the axes, in order, into a new shape, if possible without a cut.

    Args: like has the axes that the new sizes were read from, as far as they are known.
    """
    if 0 in shape:
        return [unknown(size) for size in shape], []
    readings = [names.readings(axis[0]) if len(axis) == 1 else [axis] for axis in axes]
    if axes and size_of(axes[-1]) == shape[-1]:  # it stays
        readings[-1] = [axes[-1]]
    for axis, ways in zip(axes, readings, strict=True):
        names.use(axis if ways != [axis] else ())
    laid = [_lay(names, choice, shape, like) for choice in product(*readings)]

    def cuts_and_unknowns(result: tuple[list[Axis], list[Cut]]) -> tuple[int, int]:
        axes, cuts = result
        return len(cuts), sum(names.label(axis) == "?" for axis in axes)

    return min(laid, key=cuts_and_unknowns)


def _lay(
    names: AxisNamer, axes: Sequence[Axis], shape: Sequence[int], like: Sequence[Axis]
) -> tuple[list[Axis], list[Cut]]:
    """Lay one reading; axes of size 1 have no place in memory and go where they are needed."""
    flat = [(factor, number) for number, axis in enumerate(axes) for factor in axis or (ONE,)]
    solid = [pair for pair in flat if pair[0].size > 1]
    wanted = [size for size in shape if size > 1]
    groups: list[Axis] = []
    cuts: list[Cut] = []
    for factors, sizes in _blocks(solid, wanted):
        made, cut = _fill(names, factors, sizes)
        groups += made
        cuts += [cut] if cut else []
    filled = iter(groups)
    out: list[Axis | None] = [next(filled) if size > 1 else None for size in shape]
    placed = _place_ones(names, axes, [factor for factor, _ in flat], out, like)
    return list(map(names.tidy, placed)), cuts


_Pairs = list[tuple[Factor, int]]


def _blocks(solid: _Pairs, wanted: list[int]) -> list[tuple[_Pairs, list[int]]]:
    """Cut both rows into the smallest blocks of equal size."""
    blocks = []
    i = 0
    j = 0
    while i < len(solid):
        start_i, start_j = i, j
        have = solid[i][0].size
        want = wanted[j]
        i, j = i + 1, j + 1
        while have != want:
            if have < want:
                have *= solid[i][0].size
                i += 1
            else:
                want *= wanted[j]
                j += 1
        blocks.append((solid[start_i:i], wanted[start_j:j]))
    return blocks


def _fill(names: AxisNamer, pairs: _Pairs, sizes: list[int]) -> tuple[list[Axis], Cut | None]:
    """Name the new axes of one block."""
    factors = [factor for factor, _ in pairs]
    if len(sizes) == 1:
        return [tuple(factors)], None
    if len(factors) == 1:
        return names.parts(factors[0], tuple(sizes)), None
    tidied = names.tidy(tuple(factors))
    if len(tidied) < len(factors):
        axis_of = dict(pairs)  # what was put together is no part of one of the axes
        joined = [(factor, axis_of.get(factor, -1 - n)) for n, factor in enumerate(tidied)]
        return _fill(names, joined, sizes)
    came_from = [axis for _, axis in pairs]
    permuted = sorted(factor.size for factor in factors) == sorted(sizes)
    whole_first = sizes[0] % factors[0].size == 0 and not permuted
    if whole_first and len(set(came_from[1:])) == 1 and came_from[0] not in came_from[1:]:
        inner, cut = _fill(names, pairs[1:], [sizes[0] // factors[0].size, *sizes[1:]])
        # What stands before the others stays whole.
        return [(factors[0], *inner[0]), *inner[1:]], cut
    whole = unique(math.prod(sizes), name=names.label(tuple(factors)))
    if len(set(came_from)) == 1 and not permuted:
        return names.parts(whole, tuple(sizes)), None  # one axis, divided in another way
    origin = (
        Origin.UNKNOWN if FEATURES.isdisjoint([factor.name for factor in factors]) else Origin.MIXED
    )
    return [(unique(size, origin),) for size in sizes], Cut(factors, came_from, sizes)


def _place_ones(
    names: AxisNamer,
    old: Sequence[Axis],
    flat: list[Factor],
    out: list[Axis | None],
    like: Sequence[Axis],
) -> list[Axis]:
    """Give the new axes of size 1 to the named factors of size 1; neighbours take the rest."""
    ones = [(position, factor) for position, factor in enumerate(flat) if factor.size == 1]
    free = [position for position, axis in enumerate(out) if axis is None]
    axes: list[Axis] = [axis or () for axis in out]
    for slot, axis in enumerate(like):  # an axis whose size was written is there
        root = names.root(names.label(axis))
        named = [pair for pair in ones if names.root(pair[1].name) == root]
        if slot in free and named and axis:
            axes[slot] = named[0][1:]
            free.remove(slot)
            ones.remove(named[0])
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


def _before_width(flat: list[Factor], position: int) -> bool:
    return position + 1 < len(flat) and flat[position + 1].name == "D"


def _attach(
    axes: list[Axis], old: Sequence[Axis], flat: list[Factor], position: int, one: Factor
) -> None:
    """Join a factor of size 1 that lost its axis: heads to their width, others to the left."""
    after = flat[position + 1] if position + 1 < len(flat) else None
    before = flat[position - 1] if position else None
    is_batch = before is not None and before.name == "B" and (before,) in axes
    folded = is_batch and (before, one) not in old
    joins_right = one.name == "H" and _before_width(flat, position) and not folded
    if one.name == "B" and after is not None and after.name == "H" and (after,) in axes:
        joins_right = True
    for number, axis in enumerate(axes):
        if (joins_right or before is None) and axis and axis[0] == after:
            axes[number] = (one, *axis)
            return
        if not joins_right and axis and axis[-1] == before:
            axes[number] = (*axis, one)
            return
