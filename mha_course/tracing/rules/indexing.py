"""Where names go when a tensor is cut up, and when tensors are put together."""

from __future__ import annotations

from typing import Any

import torch

from mha_course.tracing.axes import Axis, Factor, Size, axis_of, size_of, unknown
from mha_course.tracing.rules import warnings
from mha_course.tracing.rules.call import PIECE, OpCall, Selection
from mha_course.tracing.rules.reshape import Rule


def cut(call: OpCall) -> list[list[Axis]]:
    """Cut along one axis: chunk, split, tensor_split, narrow."""
    axes = call.axes(call.first())
    dim = call.arg(1, "dim", default=0) if call.op == "narrow" else call.arg(2, "dim", default=0)
    dim %= len(axes)
    start = call.arg(2, "start") if call.op == "narrow" else 0
    out = []
    if call.names.is_token(axes[dim]) and call.info(call.first()).linear:
        label = f"{PIECE} {call.index}"
        call.selections = [(Selection((), label, i),) for i in range(len(call.outs))]
    for piece in call.outs:
        size = piece.shape[dim]
        out.append([*axes[:dim], call.names.slice_of(axes[dim], start, size), *axes[dim + 1 :]])
        start += size
    return out


def unbind(call: OpCall) -> list[list[Axis]]:
    """Take an axis apart into its elements."""
    axes = call.axes(call.first())
    dim = call.arg(1, "dim", default=0) % len(axes)
    label = call.names.label(axes[dim])
    call.names.take_apart(axes[dim])
    call.selections = [(Selection(axes[dim], label, i),) for i in range(len(call.outs))]
    return [[*axes[:dim], *axes[dim + 1 :]]] * len(call.outs)


def select(call: OpCall) -> list[list[Axis]]:
    """Take one element of an axis."""
    axes = call.axes(call.first())
    _select_one(call, axes, call.arg(1, "dim") % len(axes), call.arg(2, "index"))
    return [axes]


def _select_one(call: OpCall, axes: list[Axis], dim: int, index: Any) -> None:
    """Drop an axis of which one element is taken, and note which one that was."""
    axis = axes.pop(dim)
    call.names.take_apart(axis)
    if isinstance(index, int):
        _note_selection(call, axis, index)


def _note_selection(call: OpCall, axis: Axis, index: int) -> None:
    """Note which element of an axis the result is."""
    selected = Selection(axis, call.names.label(axis), index % size_of(axis))
    call.selections = [(*sum(call.selections, ()), selected)]


def getitem(call: OpCall) -> list[list[Axis]]:
    """Index with numbers, slices, None, Ellipsis and tensors."""
    x, key = call.args[0], call.args[1]
    keys = list(key) if isinstance(key, tuple) else [key]
    indices = [k for k in keys if k is not None and k is not Ellipsis]
    used = sum(k.dim() if _is_bool(k) else 1 for k in indices)
    if not any(k is Ellipsis for k in keys):
        keys.append(Ellipsis)
    axes = call.axes(x)
    advanced = []
    out: list[Axis] = []
    for k in keys:
        if k is None:
            out.append(())
        elif k is Ellipsis:
            rest = x.dim() - used
            out += axes[:rest]
            axes = axes[rest:]
        elif isinstance(k, slice):
            start, stop, step = k.indices(size_of(axes[0]))
            first_ones = isinstance(k.stop, Size) and (start, step) == (0, 1) and k.stop == stop
            if first_ones and call.names.label(axes[0]) == "?":
                axes[0] = axis_of(k.stop)
            out.append(_sliced(call, axes.pop(0), start, len(range(start, stop, step)), step))
        elif isinstance(k, int) or (
            isinstance(k, torch.Tensor) and k.dim() == 0 and not _is_bool(k)
        ):
            _select_one(call, axes, 0, k)
        else:
            meet_mask(call, k, axes)
            advanced.append((len(out), k))
            axes = axes[k.dim() if _is_bool(k) else 1 :]
    return [_advanced(call, out, advanced)]


def _sliced(call: OpCall, axis: Axis, start: int, size: int, step: int) -> Axis:
    """Name a slice; every second number of the head width is half of it."""
    if step == 1:
        piece = call.names.slice_of(axis, start, size)
        if piece and len(piece) < len(axis) and axis[-len(piece) :] == piece:  # one head's width
            _note_selection(call, axis[: -len(piece)], start // size)
        return piece
    if step == 2 and call.names.is_width(axis) and 2 * size == size_of(axis):
        return call.names.half(axis)
    return axis[:1] if call.names.is_token(axis) and size == size_of(axis) else unknown(size)


def _advanced(call: OpCall, out: list[Axis], keys: list[tuple[int, Any]]) -> list[Axis]:
    """Insert the axes of index tensors: one gives its own axes, several give unknown ones."""
    if not keys:
        return out
    position, key = keys[0]
    missing = call.outs[0].dim() - len(out)
    new = list(map(unknown, call.outs[0].shape[position : position + missing]))
    if len(keys) == 1 and isinstance(key, torch.Tensor) and not _is_bool(key):
        new = call.axes(key)
    return [*out[:position], *new, *out[position:]]


def _is_bool(key: Any) -> bool:
    return isinstance(key, torch.Tensor) and key.dtype in (torch.bool, torch.uint8)


def meet_mask(call: OpCall, key: Any, axes: list[Axis]) -> None:
    """Take note that a mask which picks elements has the axes that it picks from."""
    if not _is_bool(key):
        return
    for mask, axis in zip(call.axes(key), axes, strict=False):
        call.names.meet(mask, axis)


def cat(call: OpCall) -> list[list[Axis]]:
    """Lay tensors one after another along an axis that they have."""
    rank = call.outs[0].dim()
    dim = call.arg(1, "dim", "axis", default=0) % rank
    parts = [part for part in call.arg(0, "tensors") if part.dim() == rank and part.shape[dim]]
    rows = [call.axes(part) for part in parts]
    out = [_shared_axis(call, [row[position] for row in rows]) for position in range(len(rows[0]))]
    along = [row[dim] for row in rows]
    out[dim] = _concatenated(call, along, list(map(call.names.label, out)), call.outs[0].shape[dim])
    picked = _picked(call, parts)
    labels = {call.names.label(axis) for axis in along}
    split = "H" in map(call.names.label, rows[0]) and any(map(call.names.is_token, rows[0]))
    # In MLA both come from Linears of this call, so none is a cache.
    past = labels != {"D"} or not all(call.info(part).linear for part in parts)
    if split and past and len(parts) == 2 and labels in ({"B"}, {"H"}, {"D"}):
        call.warn(warnings.warn("cache-joined", axis=warnings.WORDS[labels.pop()]))
    elif picked and (call.names.is_token(along[0]) or labels == {"D"}):  # sentences, or heads
        out[dim] = (*picked, *along[0])
    elif call.names.is_token(along[0]) and _are_heads(call, parts):
        call.warn(warnings.warn("heads-on-sequence-axis"))
        out[dim] = (Factor("H", len(parts)), *along[0])
    return [out]


def _are_heads(call: OpCall, parts: list[torch.Tensor]) -> bool:
    """Return whether attention, or a Linear of a head's width, made these head by head."""
    values = [call.info(part) for part in parts]
    labels = values[0].labels
    alike = all(tuple(value.labels) == tuple(labels) for value in values)
    made = all(value.stage in ("context", "merged") or value.linear for value in values)
    if not (alike and made and len(parts) == call.names.sizes.get("H", 0) > 1):
        return False
    heads = "D" in labels and "H" not in "*".join(labels).split("*")
    if heads:
        call.names.confirm(axis for value in values for axis in value.axes)
    return heads


def _shared_axis(call: OpCall, column: list[Axis]) -> Axis:
    """Name an axis that all share."""
    shared = column[0]
    for axis in column[1:]:
        if size_of(shared) == size_of(axis):
            name, differs = call.names.unify(shared, axis)
            # Roles that tokens have in scores come first.
            roles = [a for a in (shared, axis) if call.names.label(a) in call.names.roots]
            shared = roles[0] if roles and not differs else name
    return shared


def _concatenated(call: OpCall, along: list[Axis], beside: list[str], size: int) -> Axis:
    """Name an axis that was put together, beside others of these names."""
    names = call.names
    labels = [call.names.label(axis) for axis in along]
    heads = names.sizes.get("H", 0)
    width = names.sizes.get("D", 0)
    if len(along) == 1:
        return along[0]
    whole, *others = {axis[0].whole for axis in along if len(axis) == 1} or {None}
    if whole is not None and not others and whole.size == size:
        return names.width() if whole.name == "C" else (whole,)
    if set(labels) == {"D/2"} and size == width:
        return (Factor("D", width),)
    if set(labels) == {"D"} and _are_heads(call, list(call.arg(0, "tensors"))):
        return (Factor("H", heads), Factor("D", width))
    if set(labels) == {"C"} and len(along) in (2, 3):
        return (Factor(str(len(along)), len(along)), *along[0])
    if len(along) == 2 and along[0] == along[1] and labels[0] == "?" and len(along[0]) == 1:
        return names.double(along[0])
    return _concatenated_tokens(call, along, labels, size, not {"H", "H_kv"}.isdisjoint(beside))


def _concatenated_tokens(
    call: OpCall, along: list[Axis], labels: list[str], size: int, heads: bool
) -> Axis:
    """Name tokens joined to tokens, or in heads to what is unknown: they are the keys."""
    names = call.names
    tokens = [axis for axis in along if call.names.is_token(axis)]
    if not tokens:
        return unknown(size)
    if len(tokens) == len(along):
        others = ("S", *sorted(names.tokens))
        given = [n for n in others if names.sizes.get(n) == size and n not in labels]
        same = len({names.root(label) for label in labels}) == 1
        joined = "S" if heads or "S" not in names.reserved else "+".join(labels)
        names.tokens.add(joined)
        return (Factor(labels[0] if same else [*given, joined][0], size),)
    others_unknown = {names.label(axis) for axis in along if axis not in tokens} == {"?"}
    if heads and others_unknown and len(names.reserved) < 2:
        return (Factor("S", size),)
    # Patches with class tokens before them.
    patches = len(tokens[0]) > 1 and names.sizes.setdefault("S", size) == size
    if len(tokens) > 1 or (size != size_of(tokens[0]) + 1 and not patches):
        return unknown(size)
    label = names.label(tokens[0])
    if patches or names.sizes.get(label) == size:  # or one was left out, and one put in
        return (Factor("S" if patches else label, size),)
    names.tokens.add(f"{label}+1")
    return (Factor(f"{label}+1", size, tokens[0][0]),)


def stack(call: OpCall) -> list[list[Axis]]:
    """Lay tensors side by side along a new axis."""
    parts = list(call.arg(0, "tensors"))
    dim = call.arg(1, "dim", default=0) % call.outs[0].dim()
    rows = [call.axes(part) for part in parts]
    out = [_shared_axis(call, list(column)) for column in zip(*rows, strict=True)]
    return [[*out[:dim], _stacked(call, parts, out), *out[dim:]]]


def _stacked(call: OpCall, parts: list[torch.Tensor], axes: list[Axis]) -> Axis:
    """Name the new axis: heads where heads were picked or are as many, else the plain number."""
    picked = _picked(call, parts)
    if picked:
        return picked
    labels = {call.names.label(axis) for axis in axes}
    stages = {call.info(part).stage for part in parts}
    as_many = len(parts) == call.names.sizes.get("H")
    weights = as_many and stages == {"weights"} and "H" not in labels
    if weights or _are_heads(call, parts):
        return (Factor("H", len(parts)),)
    named = len(parts) in (2, 3) and not stages & {"weights", "context", "merged"}
    return (Factor(str(len(parts)), len(parts)),) if named else unknown(len(parts))


def _picked(call: OpCall, parts: list[torch.Tensor]) -> Axis:
    """Return the axis of which these are all elements, in order, or ()."""
    values = [call.info(part) for part in parts]
    for pick in values[0].selections:
        label = pick.label
        positions = [[s.position for s in v.selections if s.label == label] for v in values]
        if positions == [[position] for position in range(size_of(pick.axis))]:
            return pick.axis
    return ()


def gather(call: OpCall) -> list[list[Axis]]:
    """Pick elements along an axis by an index of the same rank, which names that axis."""
    axes = call.axes(call.first())
    index = call.arg(2, "index") if call.op == "gather" else call.arg(1, "indices")
    dim = call.arg(1, "dim") if call.op == "gather" else call.arg(2, "dim")
    if dim is None:  # of all numbers, in a row
        return []
    dim = dim % len(axes)
    pairs = enumerate(zip(axes, call.axes(index), strict=True))
    return [[new if n == dim or size_of(old) != size_of(new) else old for n, (old, new) in pairs]]


def unfold(call: OpCall) -> list[list[Axis]]:
    """Slide a window along an axis: how many there are, and at the end how long each is."""
    axes = call.axes(call.first())
    dim = call.arg(1, "dimension")
    step = call.arg(3, "step")
    count = call.outs[0].shape[dim % len(axes)]
    size = call.outs[0].shape[-1]
    disjoint = len(axes[dim]) == 1 and step == size and count * size == size_of(axes[dim])
    windows = unknown(count)
    window = unknown(size)
    if disjoint:
        windows, window = call.names.parts(axes[dim][0], (count, size))
    if disjoint and call.names.is_token(axes[dim]):
        call.names.tokens.update(factor.name for factor in windows)
    axes[dim] = windows
    return [[*axes, window]]


def index_select(call: OpCall) -> list[list[Axis]]:
    """Take elements of an axis, which is then named as the index is."""
    axes = call.axes(call.first())
    (axes[call.arg(1, "dim")],) = call.axes(call.arg(2, "index"))
    return [axes]


INDEXING: dict[str, Rule] = {
    **dict.fromkeys(("chunk", "split", "split_with_sizes", "tensor_split", "narrow"), cut),
    "unbind": unbind,
    "select": select,
    "getitem": getitem,
    **dict.fromkeys(("cat", "concat", "concatenate"), cat),
    "stack": stack,
    "index_select": index_select,
    **dict.fromkeys(("gather", "take_along_dim"), gather),
    "unfold": unfold,
}
