"""Decide whether two axes that meet, for example in a sum or product, mean the same."""

from __future__ import annotations

from mha_course.tracing.axes import (
    Axis,
    AxisNamer,
    Factor,
    Origin,
    is_part_of,
    size_of,
    unnamed_factor,
)


def unify(names: AxisNamer, left: Axis, right: Axis, strict: bool = False) -> tuple[Axis, bool]:
    """Name an axis of two tensors; return whether they differ; strict: no width may be tokens."""
    if size_of(left) != size_of(right):
        return (right if size_of(left) == 1 else left), False  # Broadcasting keeps the longer.
    if size_of(left) == 1:
        return (left or right), False
    if in_another_order(left, right) or groups_differ(names, left, right):
        return (right if names.label(left) == "?" else left), True
    align(names, left, right)
    left_factors, right_factors = _without_ones(left), _without_ones(right)
    right_order = _copy_order(right_factors)
    orders = {_copy_order(left_factors), right_order}
    left_label = names.label(left_factors)
    if orders == {Origin.INTERLEAVED, Origin.TILED}:
        return (right if left_label == "?" else left), True
    if orders == {Origin.TILED} and are_turned_groups(left_factors):
        return right, False
    if orders == {Origin.TILED} and are_turned_groups(right_factors):
        return left, False
    if left_label == names.label(right_factors):
        says_more = right_order is not None or len(left) < len(right)
        return (right if says_more else left), False  # Keep the order of copies.
    return _choose_name(names, left, right, strict)


def _choose_name(names: AxisNamer, left: Axis, right: Axis, strict: bool) -> tuple[Axis, bool]:
    """Choose between two axes of the same length, and return whether they differ."""
    left_label, right_label = names.label(_without_ones(left)), names.label(_without_ones(right))
    if right_label == "?" or right_label.isdigit():
        return left, False
    if left_label == "?" or left_label.isdigit():
        # A part of the heads stays one, so that they can be put together again.
        return (left if left_label == "?" and is_part_of(left, "H") else right), False
    if names.root(left_label) == names.root(right_label):
        return (left if left_label == names.root(left_label) else right), False
    for axis, other in ((left, right), (right, left)):
        by_width = axis[0].origin is Origin.LINEAR or names.is_unconfirmed(axis)
        if len(axis) == 1 and by_width and not (strict and names.is_token(other)):
            names.aligned[axis[0]].append(other)  # it may also be the other's
            return other, False
    return left, True


def groups_differ(names: AxisNamer, left: Axis, right: Axis) -> bool:
    """Return whether KV heads meet query heads of other groups."""
    if "H_kv" not in names.extra or len(left) != 1 or len(right) != 1:
        return False
    query, key = (left[0], right[0]) if left[0].whole else (right[0], left[0])
    whole = query.whole
    if key.name != "H_kv" or query.name == "H_kv" or whole is None or whole.name != "H":
        return False
    return query.stride * query.size != whole.size


def align(names: AxisNamer, left: Axis, right: Axis) -> None:
    """Note that an operation aligns two axes: an unnamed one later takes the other's name."""
    if len(left) > 1 and [factor.size for factor in left] == [factor.size for factor in right]:
        for pair in zip(left, right, strict=True):
            align(names, pair[:1], pair[1:])
        return
    _align_unnamed(names, left, right)
    _align_unnamed(names, right, left)


def _align_unnamed(names: AxisNamer, axis: Axis, other: Axis) -> None:
    unnamed = unnamed_factor(axis)
    if unnamed is None or axis == other:
        return
    if names.label(other) == "?" and unnamed_factor(other) is None:
        return  # it will never get a name
    names.aligned[unnamed].append(other)


def are_turned_groups(axis: Axis) -> bool:
    """Return whether query heads were split into groups, with the groups put last: 0 3 1 4 2 5."""
    wholes = {factor.whole and factor.whole.name for factor in axis}
    return wholes == {"H"} and len(axis) == 2 and axis[0].stride < axis[1].stride


def _copy_order(axis: Axis) -> Origin | None:
    """Return whether an axis's copies, or pairs, are adjacent or repeated as a whole."""
    copies = [factor.origin is Origin.COPIES for factor in axis]
    if len(axis) == 2 and sum(copies) == 1:
        return Origin.TILED if copies[0] else Origin.INTERLEAVED
    if are_turned_groups(axis):
        return Origin.TILED
    orders = {factor.origin for factor in axis} & {Origin.INTERLEAVED, Origin.TILED}
    return orders.pop() if len(orders) == 1 else None


def in_another_order(left: Axis, right: Axis) -> bool:
    """Return whether a factor of both axes is in different places."""
    left_strides = _strides_of_named(left)
    right_strides = _strides_of_named(right)
    return any(left_strides.get(factor, n) != n for factor, n in right_strides.items())


def _strides_of_named(axis: Axis) -> dict[Factor, int]:
    return {
        factor: size_of(axis[n + 1 :])
        for n, factor in enumerate(axis)
        if factor.name != "?" and factor.size > 1
    }


def _without_ones(axis: Axis) -> Axis:
    return tuple([factor for factor in axis if factor.size > 1])
