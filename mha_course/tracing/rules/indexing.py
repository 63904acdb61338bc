"""Where names go when a tensor is cut up, and when tensors are put together."""

from __future__ import annotations

import torch

from mha_course.tracing.axes import Axis, Factor, size_of, unknown
from mha_course.tracing.rules import warnings
from mha_course.tracing.rules.call import OpCall, rules
from mha_course.tracing.rules.moves import PIECES


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
    shared = column[0]
    for axis in column[1:]:
        if size_of(shared) == size_of(axis):
            name, differs = call.names.unify(shared, axis)
            # Roles that tokens have in scores come first.
            roles = [a for a in (shared, axis) if call.names.label(a) in call.names.roots]
            shared = roles[0] if roles and not differs else name
    return shared


def _concatenated(call: OpCall, along: list[Axis], beside: list[str], size: int) -> Axis:
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
        name = labels[0] if same else [*given, joined][0]
        if not same:
            names.pieces[name, size] = along
        return (Factor(name, size),)
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


def index_select(call: OpCall) -> list[list[Axis]]:
    """Take elements of an axis, which is then named as the index is."""
    axes = call.axes(call.first())
    (axes[call.arg(1, "dim")],) = call.axes(call.arg(2, "index"))
    return [axes]


INDEXING = PIECES | rules(
    ("cat concat concatenate", cat),
    ("stack", stack),
    ("index_select", index_select),
    ("gather take_along_dim", gather),
)
