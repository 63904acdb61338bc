"""Where names go when a tensor is cut up, and when tensors are put together."""

from __future__ import annotations

from torch import Tensor

from mha_course.tracing.axes import Axes, Axis, Factor, Origin, size_of, unique, unknown
from mha_course.tracing.rules import warnings
from mha_course.tracing.rules.call import OpCall, rules
from mha_course.tracing.rules.moves import PIECES, picked_heads


def cat(call: OpCall) -> list[Axes]:
    """Lay tensors one after another along an axis that they have."""
    names = call.names
    rank = call.outs[0].dim()
    dim = call.arg(1, "dim", "axis", default=0) % rank
    parts = [part for part in call.arg(0, "tensors") if part.dim() == rank and part.shape[dim]]
    _ask_about_joined(call, parts, dim)
    rows = [call.axes(part) for part in parts]
    columns = [list(column) for column in zip(*rows, strict=True)]
    along = columns[dim]
    out = [along[0] if n == dim else _shared_axis(call, one) for n, one in enumerate(columns)]
    out[dim] = _concatenated(call, along, list(map(names.label, out)), call.outs[0].shape[dim])
    picked = _axis_of_elements(call, parts)
    labels = {names.label(axis) for axis in along}
    split = "H" in map(names.label, rows[0]) and any(map(names.is_token, rows[0]))
    # In MLA both come from Linears of this call, so none is a cache.
    past = labels != {"D"} or not all(call.info(part).from_linear for part in parts)
    past = past and all(call.info(part).stage not in ("context", "merged") for part in parts)
    if split and past and len(parts) == 2 and labels in ({"B"}, {"H"}, {"D"}):
        call.warn(warnings.warn("cache-joined", axis=warnings.WORDS[labels.pop()]))
    elif picked and (names.is_token(along[0]) or labels == {"D"}):  # sentences, or heads
        out[dim] = (*picked, *along[0])
    elif names.is_token(along[0]) and _are_heads(call, parts):
        call.warn(warnings.warn("heads-on-sequence-axis"))
        out[dim] = (Factor("H", len(parts)), *along[0])
    return [out]


def _are_heads(call: OpCall, parts: list[Tensor]) -> bool:
    """Return whether attention, or a Linear of a head's width, made these head by head."""
    values = [call.info(part) for part in parts]
    labels = values[0].labels
    made = all(value.stage in ("context", "merged") or value.from_linear for value in values)
    alike = made and all(value.labels == labels for value in values)
    heads = alike and len(parts) == call.names.sizes.get("H", 0) > 1
    if not heads or "D" not in labels or "H" in "*".join(labels).split("*"):
        return False
    call.names.confirm(axis for value in values for axis in value.axes)
    return True


def _ask_about_joined(call: OpCall, parts: list[Tensor], dim: int | None = None) -> None:
    first, *others = [call.axes(part) for part in parts]
    for axes in others:
        for position, (left, right) in enumerate(zip(first, axes, strict=False)):
            if position != dim:
                call.ask_about_joined(left, right)


def _shared_axis(call: OpCall, column: Axes) -> Axis:
    shared = column[0]
    for axis in column[1:]:
        if size_of(shared) == size_of(axis):
            name, differs = call.names.unify(shared, axis)
            # Roles that tokens have in scores come first.
            roles = [a for a in (shared, axis) if call.names.label(a) in call.names.roots]
            shared = roles[0] if roles and not differs else name
    return shared


def _concatenated(call: OpCall, along: Axes, beside: list[str], size: int) -> Axis:
    names = call.names
    labels = [names.label(axis) for axis in along]
    heads, width = (names.sizes.get(name, 0) for name in "HD")
    if len(along) == 1:
        return along[0]
    if set(labels) == {"H_kv"} and (tiled := names.repeated_heads(_kv_heads(call))):
        return tiled
    whole, *others = {axis[0].whole for axis in along if len(axis) == 1} or {None}
    if whole is not None and not others and whole.size == size:
        halves = len(along) == 2 and size_of(along[0]) == size_of(along[1])
        ordered = names.ordered(whole, Origin.TILED) if halves else whole
        return names.width() if whole.name == "C" else (ordered,)
    if set(labels) == {"D"} and _are_heads(call, list(call.arg(0, "tensors"))):
        return (Factor("H", heads), Factor("D", width))
    if set(labels) == {"C"} and len(along) in (2, 3):
        return (Factor(str(len(along)), len(along)), *along[0])
    if len(along) == 2 and along[0] == along[1] and labels[0] == "?" and len(along[0]) == 1:
        return names.double(along[0])
    return _concatenated_tokens(call, along, labels, size, not {"H", "H_kv"}.isdisjoint(beside))


def _kv_heads(call: OpCall) -> list[int]:
    """Return the KV heads of tensors that are joined along them: of one, again and again."""
    parts = call.arg(0, "tensors")
    once = {id(part) for part in parts}
    return [*range(call.names.extra["H_kv"])] * len(parts) if len(once) == 1 else []


def _concatenated_tokens(
    call: OpCall, along: Axes, labels: list[str], size: int, heads: bool
) -> Axis:
    """Name tokens joined to tokens, or in heads to what is unknown: they are the keys."""
    names = call.names
    tokens = [axis for axis in along if names.is_token(axis)]
    if not tokens:
        return unknown(size)
    if len(tokens) == len(along):
        own = {*labels} <= names.reserved and labels[-1] != "T"  # new ones come last in a cache
        cache = (heads and not own) or "S" not in names.reserved
        joined = "S" if cache else "+".join(labels)
        names.tokens.add(joined)
        if len({names.root(label) for label in labels}) == 1:
            return (Factor(labels[0], size),)
        free = sorted(names.tokens - names.reserved, key=lambda name: (name != "S", name))
        known = [n for n in free if names.sizes.get(n) == size]
        name = next((n for n in known if n not in labels), joined)
        names.pieces[name, size] = along
        return (Factor(name, size),)
    others = {label for axis, label in zip(along, labels, strict=True) if axis not in tokens}
    if heads and others == {"?"} and len(names.reserved) < 2:
        return (Factor("S", size),)
    # Patches with class tokens before them.
    patches = len(tokens[0]) > 1 and names.sizes.setdefault("S", size) == size
    if len(tokens) > 1 or (size != size_of(tokens[0]) + 1 and not patches):
        return unknown(size)
    label = names.label(tokens[0])
    if patches or names.sizes.get(label) == size:  # or one was left out, and one put in
        return (Factor("S" if patches else label, size),)
    names.tokens.add(f"{label}+1")
    names.pieces[f"{label}+1", size] = [axis if axis in tokens else () for axis in along]
    return (Factor(f"{label}+1", size),)


def stack(call: OpCall) -> list[Axes]:
    """Lay tensors side by side along a new axis: heads if they are, else the plain number."""
    parts = list(call.arg(0, "tensors"))
    dim = call.arg(1, "dim", default=0) % call.outs[0].dim()
    _ask_about_joined(call, parts)
    rows = [call.axes(part) for part in parts]
    out = [_shared_axis(call, list(column)) for column in zip(*rows, strict=True)]
    stages = {call.info(part).stage for part in parts}
    as_many = len(parts) == call.names.sizes.get("H")
    weights = as_many and stages == {"weights"} and "H" not in map(call.names.label, out)
    new = _axis_of_elements(call, parts)
    if "H_kv" in map(call.names.label, out) and len({id(part) for part in parts}) == 1:
        new = (unique(len(parts), Origin.COPIES),)
    if not new and (weights or _are_heads(call, parts)):
        new = (Factor("H", len(parts)),)
    elif not new and len(parts) in (2, 3) and not stages & {"weights", "context", "merged"}:
        new = (Factor(str(len(parts)), len(parts)),)
    return [[*out[:dim], new or unknown(len(parts)), *out[dim:]]]


def _axis_of_elements(call: OpCall, parts: list[Tensor]) -> Axis:
    """Return the axis of which these are all elements, in order, or ()."""
    values = [call.info(part) for part in parts]
    for pick in values[0].elements:
        label = pick.label
        positions = [[s.position for s in v.elements if s.label == label] for v in values]
        if positions == [[position] for position in range(size_of(pick.axis))]:
            return pick.axis
    return ()


def gather(call: OpCall) -> list[Axes]:
    """Pick elements along an axis, which is then named as that of the index is."""
    axes = call.axes(call.first())
    last = call.op == "take_along_dim"
    index = call.axes(call.arg(1 if last else 2, "indices", "index"))
    dim = call.arg(2 if last else 1, "dim")
    if call.op == "index_select":
        axes[dim] = picked_heads(call, axes[dim], call.arg(2, "index")) or index[0]
        return [axes]
    dim %= len(axes)
    pairs = enumerate(zip(axes, index, strict=True))
    return [[new if n == dim or size_of(old) != size_of(new) else old for n, (old, new) in pairs]]


INDEXING = PIECES | rules(
    ("cat concat concatenate", cat),
    ("stack", stack),
    ("index_select gather take_along_dim", gather),
)
