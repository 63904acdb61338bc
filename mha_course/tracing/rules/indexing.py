"""Names where elements are picked by numbers, slices, masks and index tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mha_course.tracing.axes import Axes, Axis, Size, axis_of, size_of, unknown
from mha_course.tracing.rules.call import OpCall, rules
from mha_course.tracing.rules.views import named, of_views


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
            is_named = isinstance(key.stop, Size) and key.stop == stop
            if is_named and (start, step) == (0, 1) and call.names.label(axes[dim]) == "?":
                axes[dim] = axis_of(key.stop)
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


def gather(call: OpCall) -> list[Axes]:
    """Pick elements along an axis, which is then named as that of the index is."""
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


INDEXING = rules(
    ("getitem", getitem),
    ("index_select gather take_along_dim", gather),
)
