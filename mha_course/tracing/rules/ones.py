"""Axes of size 1 in a reshape, which have no place in memory and go where needed."""

from __future__ import annotations

from collections.abc import Sequence

from mha_course.tracing.axes import Axes, Axis, AxisNamer, Factor

ONE = Factor("1", 1)  # a stand-in for an unnamed axis of size 1
Row = Sequence[Axis]


def place_ones(
    names: AxisNamer, old: Row, flat: Axis, axes: Axes, free: list[int], hints: Row
) -> None:
    """Give the new axes of size 1 to the named factors of size 1; neighbours take the rest.

    Args: ``flat`` has all old factors in order, ``axes`` the new axes, ``free`` where they are 1.
    """
    ones = [(position, factor) for position, factor in enumerate(flat) if factor.size == 1]
    for slot, axis in enumerate(hints):  # an axis whose size is given
        root = names.root(names.label(axis))
        of_axis = [pair for pair in ones if names.root(pair[1].name) == root]
        if slot in free and of_axis and axis:
            axes[slot] = of_axis[0][1:]
            free.remove(slot)
            ones.remove(of_axis[0])
    if len(free) < len(ones):  # first heads, to their width, then unnamed ones
        inner = [pair for pair in ones if pair[1].name == "H" and _before_width(flat, pair[0])]
        rest = [pair for pair in ones if pair not in inner]
        ones = rest if len(rest) <= len(free) else [pair for pair in rest if pair[1] != ONE]
        ones = [*ones[: len(free)], *inner, *ones[len(free) :]]
    for slot, (_, factor) in zip(free, ones, strict=False):
        axes[slot] = () if factor == ONE else (factor,)
    for position, factor in ones[len(free) :]:
        _attach(axes, old, flat, position, factor)


def _before_width(flat: Axis, position: int) -> bool:
    return position + 1 < len(flat) and flat[position + 1].name == "D"


def _attach(axes: Axes, old_axes: Row, flat: Axis, position: int, factor: Factor) -> None:
    """Join a factor of size 1 without an axis: heads to their width, others to the left."""
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
