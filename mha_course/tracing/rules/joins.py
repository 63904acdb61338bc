"""Names when tensors are joined: concatenated or stacked."""

from __future__ import annotations

from torch import Tensor

from mha_course.tracing.axes import Axes, Axis, AxisNamer, Factor, Origin, size_of, unique, unknown
from mha_course.tracing.rules import warnings
from mha_course.tracing.rules.call import OpCall, rules
from mha_course.tracing.rules.indexing import repeated_heads
from mha_course.tracing.unify import unify


def cat(call: OpCall) -> list[Axes]:
    """Concatenate tensors along an existing axis."""
    names = call.names
    rank = call.outs[0].dim()
    dim = call.arg(1, "dim", "axis", default=0) % rank
    tensors = [x for x in call.arg(0, "tensors") if x.dim() == rank and x.shape[dim]]
    _ask_about_joined(call, tensors, dim)
    columns = list(map(list, zip(*map(call.axes, tensors), strict=True)))
    along = columns[dim]
    out = [along[0] if n == dim else _shared_axis(call, axes) for n, axes in enumerate(columns)]
    out[dim] = _concatenated(call, along, list(map(names.label, out)), call.outs[0].shape[dim])
    elements = _axis_of_elements(call, tensors)
    labels = {names.label(axis) for axis in along}
    if labels in ({"B"}, {"H"}, {"D"}) and _may_be_cache(call, tensors, labels):
        call.warn(warnings.warn("cache-joined", axis=warnings.WORDS[labels.pop()]))
    elif elements and (names.is_token(along[0]) or labels == {"D"}):  # sentences, or heads
        out[dim] = (*elements, *along[0])
    elif names.is_token(along[0]) and _are_heads(call, tensors):
        call.warn(warnings.warn("heads-on-sequence-axis"))
        out[dim] = (Factor("H", len(tensors)), *along[0])
    return [out]


def _may_be_cache(call: OpCall, tensors: list[Tensor], labels: set[str]) -> bool:
    """Return whether two tensors split into heads may be old and new keys or values."""
    values = list(map(call.info, tensors))
    if len(values) != 2 or any(value.stage in ("context", "merged") for value in values):
        return False
    if labels == {"D"} and all(value.from_linear for value in values):
        return False  # in MLA, both parts of the width come from Linears of this call
    axes = values[0].axes
    return "H" in map(call.names.label, axes) and any(map(call.names.is_token, axes))


def _are_heads(call: OpCall, tensors: list[Tensor]) -> bool:
    """Return whether attention, or a Linear as wide as a head, made these head by head."""
    values = list(map(call.info, tensors))
    labels = values[0].labels
    if len(values) < 2 or len(values) != call.names.sizes.get("H"):
        return False
    if "D" not in labels or "H" in "*".join(labels).split("*"):
        return False
    results = [v for v in values if v.from_linear or v.stage in ("context", "merged")]
    if len(results) < len(values) or any(value.labels != labels for value in values):
        return False
    call.names.confirm([axis for value in values for axis in value.axes])
    return True


def _ask_about_joined(call: OpCall, tensors: list[Tensor], dim: int | None = None) -> None:
    first, *others = map(call.axes, tensors)
    for axes in others:
        for position, (left, right) in enumerate(zip(first, axes, strict=False)):
            if position != dim:
                call.warn(warnings.of_joined(call.names, left, right))


def _shared_axis(call: OpCall, column: Axes) -> Axis:
    shared = column[0]
    for axis in column[1:]:
        if size_of(shared) == size_of(axis):
            name, differs = unify(call.names, shared, axis)
            # First, the tokens' roles in scores.
            roles = [a for a in (shared, axis) if call.names.label(a) in call.names.roots]
            shared = roles[0] if roles and not differs else name
    return shared


def _concatenated(call: OpCall, along: Axes, beside: list[str], size: int) -> Axis:
    names = call.names
    labels = list(map(names.label, along))
    tensors = list(call.arg(0, "tensors"))
    if len(along) == 1:
        return along[0]
    if set(labels) == {"H_kv"} and all(x is tensors[0] for x in tensors):
        heads = repeated_heads(names, [*range(names.extra["H_kv"])] * len(tensors))
        if heads:
            return heads
    wholes = {axis[0].whole for axis in along if len(axis) == 1}
    whole = wholes.pop() if len(wholes) == 1 else None
    if whole is not None and whole.size == size:
        if whole.name == "C":
            return names.width()
        are_halves = len(along) == 2 and size_of(along[0]) == size_of(along[1])
        return (names.ordered(whole, Origin.TILED) if are_halves else whole,)
    if set(labels) == {"D"} and _are_heads(call, tensors):
        return (Factor("H", names.sizes["H"]), Factor("D", names.sizes.get("D", 0)))
    if set(labels) == {"C"} and len(along) in (2, 3):
        return (Factor(str(len(along)), len(along)), *along[0])
    if len(along) == 2 and along[0] == along[1] and labels[0] == "?" and len(along[0]) == 1:
        return (unique(size, Origin.TILED),)  # as angles of rotary embeddings are
    in_heads = "H" in beside or "H_kv" in beside
    if all(map(names.is_token, along)):
        return _joined_tokens(names, along, size, in_heads)
    return _extended_tokens(names, along, size, in_heads)


def _joined_tokens(names: AxisNamer, along: Axes, size: int, in_heads: bool) -> Axis:
    """Name tokens joined to tokens: split into heads, they are the keys."""
    labels = list(map(names.label, along))
    # Cached tokens come first, and new ones, which may be called T, last.
    are_sequences = names.reserved.issuperset(labels) and labels[-1] != "T"
    is_cache = (in_heads and not are_sequences) or "S" not in names.reserved
    joined = "S" if is_cache else "+".join(labels)
    names.tokens.add(joined)
    if len(set(map(names.root, labels))) == 1:
        return (Factor(labels[0], size),)
    free = [n for n in names.tokens - names.reserved - {*labels} if names.sizes.get(n) == size]
    name = "S" if "S" in free else min(free, default=joined)
    names.pieces[name, size] = along
    return (Factor(name, size),)


def _extended_tokens(names: AxisNamer, along: Axes, size: int, in_heads: bool) -> Axis:
    """Name tokens joined to something else: a cache, or a class token."""
    tokens = [axis for axis in along if names.is_token(axis)]
    if not tokens:
        return unknown(size)
    others = {names.label(axis) for axis in along if axis not in tokens}
    if in_heads and others == {"?"} and len(names.reserved) < 2:
        return (Factor("S", size),)
    # Patches after class tokens.
    are_patches = len(tokens[0]) > 1 and names.sizes.setdefault("S", size) == size
    if len(tokens) > 1 or (size != size_of(tokens[0]) + 1 and not are_patches):
        return unknown(size)
    name = "S" if are_patches else names.label(tokens[0])
    if not are_patches and names.sizes.get(name) != size:  # else one was removed and one inserted
        name = f"{name}+1"
        names.tokens.add(name)
        names.pieces[name, size] = [axis if axis in tokens else () for axis in along]
    return (Factor(name, size),)


def stack(call: OpCall) -> list[Axes]:
    """Stack tensors along a new axis: heads if they are heads, else a plain number."""
    tensors = list(call.arg(0, "tensors"))
    dim = call.arg(1, "dim", default=0) % call.outs[0].dim()
    _ask_about_joined(call, tensors)
    columns = zip(*map(call.axes, tensors), strict=True)
    out = [_shared_axis(call, list(column)) for column in columns]
    out.insert(dim, _stacked(call, tensors, list(map(call.names.label, out))))
    return [out]


def _stacked(call: OpCall, tensors: list[Tensor], beside: list[str]) -> Axis:
    number = len(tensors)
    if "H_kv" in beside and all(x is tensors[0] for x in tensors):
        return (unique(number, Origin.COPIES),)
    if axis := _axis_of_elements(call, tensors):
        return axis
    stages = {call.info(x).stage for x in tensors}
    is_head = number == call.names.sizes.get("H") and "H" not in beside
    if (is_head and stages == {"weights"}) or _are_heads(call, tensors):
        return (Factor("H", number),)
    if number in (2, 3) and stages.isdisjoint(("weights", "context", "merged")):
        return (Factor(str(number), number),)
    return unknown(number)


def _axis_of_elements(call: OpCall, tensors: list[Tensor]) -> Axis:
    """Return the axis whose elements these are, all in order, or ()."""
    rows = [call.info(x).elements for x in tensors]
    for axis, label, _ in rows[0]:
        positions = [[e.position for e in row if e.label == label] for row in rows]
        if positions == [[position] for position in range(size_of(axis))]:
            return axis
    return ()


JOINS = rules(
    ("cat concat concatenate", cat),
    ("stack", stack),
)
