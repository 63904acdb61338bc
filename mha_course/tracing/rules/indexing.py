"""Names when elements are read or written by numbers, slices, masks and index tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mha_course.tracing.axes import (
    Axes,
    Axis,
    AxisNamer,
    Factor,
    Origin,
    Size,
    axis_of,
    size_of,
    unknown,
)
from mha_course.tracing.rules import numbers, warnings
from mha_course.tracing.rules.call import SCORES, OpCall, rules
from mha_course.tracing.rules.views import named, of_views
from mha_course.tracing.unify import align


def is_bool(key: Any) -> bool:
    """Return whether an index is a mask."""
    return isinstance(key, Tensor) and key.dtype in (torch.bool, torch.uint8)


def keys_of(key: Any, rank: int) -> list[Any]:
    """Return an index with all of its slices, including those of Ellipsis."""
    keys = list(key) if isinstance(key, tuple) else [key]
    ranks = [k.dim() if is_bool(k) else 1 for k in keys if k is not None and k is not Ellipsis]
    at = next((n for n, k in enumerate(keys) if k is Ellipsis), len(keys))
    keys[at : at + 1] = [slice(None)] * (rank - sum(ranks))
    return keys


def align_mask(call: OpCall, key: Any, axes: Axes) -> None:
    """Note that a mask used as an index has the axes it indexes."""
    if is_bool(key):
        for mask, axis in zip(call.axes(key), axes, strict=False):
            align(call.names, mask, axis)


def getitem(call: OpCall) -> list[Axes]:
    """Index with numbers, slices and None; an index tensor brings its own axes."""
    axes = call.axes(call.args[0])
    plain: list[Any] = []  # with slices in place of index tensors
    advanced: list[tuple[int, Any]] = []
    replaced: set[int] = set()  # the axes that index tensors replace
    unseen = False
    for key in keys_of(call.args[1], len(axes)):
        dim = len([k for k in plain if k is not None])
        place = len([k for k in plain if not isinstance(k, int)])
        unseen |= isinstance(key, Tensor)
        if isinstance(key, slice):
            start, stop, step = key.indices(size_of(axes[dim]))
            is_named = isinstance(key.stop, Size) and key.stop == stop
            if is_named and (start, step) == (0, 1) and call.names.label(axes[dim]) == "?":
                axes[dim] = axis_of(key.stop)
            # A long step that takes one element would otherwise show its own stride.
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
    moved = of_views(lambda x: [x[tuple(plain)]], list(map(size_of, axes)))
    (viewed,) = named(call, axes, moved, unseen)
    out = [axis for n, axis in enumerate(viewed) if n not in replaced]
    if advanced:
        place, key = advanced[0]
        shape = call.outs[0].shape[place : place + call.outs[0].dim() - len(out)]
        picked = _axes_of_index(call, viewed[place], key) if len(advanced) == 1 else []
        out[place:place] = picked or list(map(unknown, shape))
    return [out]


def _axes_of_index(call: OpCall, axis: Axis, key: Any) -> Axes:
    """Return the axes that an index replaces one axis with, or none if unknown."""
    if heads := picked_heads(call, axis, key):
        return [heads]
    return call.axes(key) if isinstance(key, Tensor) and not is_bool(key) else []


def picked_heads(call: OpCall, axis: Axis, key: Any) -> Axis:
    """Return the query heads for which an index picks the right KV heads, else ()."""
    if call.names.label(axis) != "H_kv":
        return ()
    if type(key) is Tensor and key.dim() == 1 and not key.is_meta:
        key = key.tolist()
    return repeated_heads(call.names, key) if isinstance(key, list) else ()


def gather(call: OpCall) -> list[Axes]:
    """Pick elements along an axis, which then takes the index's name."""
    axes = call.axes(call.first())
    dim_is_last = call.op == "take_along_dim"
    index = call.axes(call.arg(1 if dim_is_last else 2, "indices", "index"))
    dim = call.arg(2 if dim_is_last else 1, "dim")
    if call.op == "index_select":
        axes[dim] = picked_heads(call, axes[dim], call.arg(2, "index")) or index[0]
        return [axes]
    dim %= len(axes)
    for n, axis in enumerate(index):
        if n == dim or size_of(axes[n]) != size_of(axis):
            axes[n] = axis
    return [axes]


def repeated_heads(names: AxisNamer, kv_heads: Sequence[int]) -> Axis:
    """Return the heads of an axis with these KV heads, or () if they have no order."""
    heads, count = names.sizes.get("H", 0), names.extra["H_kv"]
    if list(kv_heads) == [head * count // heads for head in range(heads)]:
        return (Factor("H", heads, origin=Origin.INTERLEAVED),)
    if list(kv_heads) == [head % count for head in range(heads)]:
        return (Factor("H", heads, origin=Origin.TILED),)
    return ()


def copied(call: OpCall) -> list[Axes]:
    """Copy into a tensor or its rows: axes written whole take the source's names."""
    target = call.first()
    rows = "index" in call.op
    source = call.axes(call.arg(3, "source") if rows else call.arg(1, "src"))
    dims = list(range(target.dim()))[::-1]
    skipped = call.arg(1, "dim") % target.dim() if rows else None
    pairs = zip(dims, source[::-1], strict=False)
    return _written(call, target, {dim: axis for dim, axis in pairs if dim != skipped})


def stored(call: OpCall) -> list[Axes]:
    """Write into part of a tensor: axes written whole take the source's names.

    Writing one axis's element from the same element of another shows that the axes are the same.
    """
    target, key, source = call.args[:3]
    axes = call.axes(target)
    value = call.info(target)
    if value.stage in SCORES:
        call.results[0].stage = "masked_scores"
    elif value.stage == "weights" and not isinstance(call.args[2], Tensor):
        numbers.check_masked_weights(call, value)
    align_mask(call, key, axes)
    keys = keys_of(key, len(axes))
    plain = [k for k in keys if isinstance(k, (int, slice))]
    lists = [k for k in keys if isinstance(k, Tensor) and k.dim() == 1 and not is_bool(k)]
    if not isinstance(source, Tensor) or len(plain) + len(lists) < len(keys) or len(lists) > 1:
        return [axes]
    sliced = [n for n, k in enumerate(keys) if not isinstance(k, int)]
    written = dict(zip(sliced[::-1], call.axes(source)[::-1], strict=False))
    elements = {(size_of(e.axis), e.position): e.axis for e in call.info(source).elements}
    for n, key in enumerate(keys):
        if isinstance(key, int):
            written[n] = elements.get((size_of(axes[n]), key % size_of(axes[n])), ())
        elif isinstance(key, Tensor):  # positions along an axis, not all of it
            written.pop(n, None)
    return _written(call, target, written)


def _written(call: OpCall, target: Tensor, written: dict[int, Axis]) -> list[Axes]:
    axes = call.axes(target)
    for dim, axis in written.items():
        if size_of(axes[dim]) == size_of(axis):
            call.warn(warnings.of_joined(call.names, axes[dim], axis))
            align(call.names, axes[dim], axis)
            axes[dim] = axis if call.names.label(axes[dim]) == "?" else axes[dim]
    call.info(target).learn(axes, call.names)
    return [axes]


INDEXING = rules(
    ("getitem", getitem),
    ("index_select gather take_along_dim", gather),
)
WRITES = rules(
    ("copy_ index_copy index_add", copied),
    ("setitem", stored),
)
