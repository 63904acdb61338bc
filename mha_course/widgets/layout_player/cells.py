"""Where every number of a tensor is while its layout changes, and which head it belongs to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

from mha_course.colours import CELLS, UNOWNED_CELL
from mha_course.errors import require
from mha_course.tracing.records import Argument, Step

if TYPE_CHECKING:
    from mha_course.tracing import Trace

LIMIT = 512  # numbers that can be drawn
RESHAPES = {"view", "reshape", "unflatten", "flatten", "view_as", "reshape_as", "ravel"}
KEEPS_ORDER = RESHAPES | {"contiguous", "clone"}  # element by element, where it copies
TOKENS = {"N", "S", "T"}
ROLES = dict.fromkeys(TOKENS, "token") | {"H": "head", "B": "batch", "3": "part"}  # by axis

Tensor = Argument | Step
# the token, head, batch and part that a number belongs to, if known
Owner = dict[str, int]


class Reading(NamedTuple):
    """How a tensor reads a strip of memory: each element's position, and the number there."""

    tensor: Tensor
    strip: int
    places: list[int]
    ids: list[int]


def chains(trace: Trace) -> list[list[Tensor]]:
    """Return each tensor whose layout changes, with its steps, one list for each end."""
    tensors: dict[int | str, Tensor] = {argument.name: argument for argument in trace.arguments}
    tensors |= {step.index: step for step in trace.steps}
    before: dict[int | str, int | str] = {
        step.index: step.inputs[0].source
        for step in trace.steps
        if step.inputs
        and (step.storage == "view" or (step.storage != "new" and step.op in KEEPS_ORDER))
    }
    every = []
    for end in before:
        if end in before.values():
            continue
        chain = [tensors[end]]
        source = before.get(end)
        while source in tensors:
            chain.insert(0, tensors[source])
            source = before.get(source)
        every += [chain] if len(chain) > 1 else []
    return every


def choose(trace: Trace) -> list[Tensor]:
    """Return the first chain with a reshape, or else the first, if it can be drawn."""
    every = chains(trace)
    rule = "the trace must have a step that changes the layout of a tensor"
    expected = "view, reshape, transpose, permute …"
    got = ", ".join(dict.fromkeys(step.op for step in trace.steps)) or "no step"
    require(bool(every), "LayoutPlayer", rule, expected=expected, got=got)
    with_reshape = (c for c in every if any(getattr(tensor, "op", "") in RESHAPES for tensor in c))
    chosen = next(with_reshape, every[0])
    rule = "each number is drawn as a cell"
    expected = f"1 to {LIMIT} numbers"
    fix = "trace it with smaller sizes, e.g. B=1, S=3, C=8, H=2"
    for tensor in chosen:
        numbers = math.prod(tensor.shape)
        got = f"{written(tensor.axes, tensor.shape)}, {numbers} numbers"
        require(0 < numbers <= LIMIT, "LayoutPlayer", rule, expected=expected, got=got, fix=fix)
    return chosen


def written(axes: Sequence[str], shape: Sequence[int]) -> str:
    """Write names and sizes: (B=1, S=3, C=8)."""
    pairs = zip(axes, shape, strict=True)
    texts = [
        str(size) if axis == "?" or axis.isdigit() else f"{axis}={size}" for axis, size in pairs
    ]
    return f"({', '.join(texts)})"


def _places(tensor: Tensor) -> list[int]:
    """Return every element's position in memory, in row order."""
    indices = product(*map(range, tensor.shape))
    return [tensor.offset + sum(map(mul, index, tensor.strides)) for index in indices]


def replay(chain: list[Tensor]) -> tuple[list[dict[int, int]], list[Reading]]:
    """Return strips of memory, numbers labelled by first position, and how tensors read them."""
    start = _places(chain[0])
    strips = [{place: place for place in sorted(start)}]
    readings = [Reading(chain[0], 0, start, start)]
    for tensor in chain[1:]:
        places = _places(tensor)
        if getattr(tensor, "storage", "") == "copy":
            strips.append(dict(sorted(zip(places, readings[-1].ids, strict=True))))
        if not strips[-1].keys() >= set(places):
            break  # it extends beyond the drawing
        ids = [strips[-1][place] for place in places]
        readings.append(Reading(tensor, len(strips) - 1, places, ids))
    return strips, readings


def _factors(
    axes: tuple[str, ...], shape: tuple[int, ...], sizes: dict[str, int]
) -> list[tuple[str, int]]:
    """Split axes into factors: C of 8 with two heads is H of 2 and D of 4."""
    split = {"C": ["H", "D"]} if "H" in sizes else {}
    factors = []
    for axis, length in zip(axes, shape, strict=True):
        names = [name for factor in axis.split("*") for name in split.get(factor, [factor])]
        lengths = [int(name) if name.isdigit() else sizes.get(name, 0) for name in names]
        if lengths.count(0) == 1:
            lengths[lengths.index(0)] = length // math.prod(filter(None, lengths))
        if len(names) == 1:
            factors.append((names[0], length))
        elif math.prod(lengths) == length:
            factors += zip(names, lengths, strict=True)
        else:
            factors.append(("?", length))
    return factors


def owners_by_axes(
    axes: tuple[str, ...], shape: tuple[int, ...], sizes: dict[str, int]
) -> list[Owner]:
    """Return each element's owner if the axes are named correctly."""
    factors = _factors(axes, shape, sizes)
    # T comes after S, and wins if both are present
    named = sorted((name, at) for at, (name, _) in enumerate(factors) if name in ROLES)
    indices = product(*(range(length) for _, length in factors))
    return [{ROLES[name]: index[at] for name, at in named} for index in indices]


def owners_by_number(readings: list[Reading], sizes: dict[str, int]) -> dict[int, Owner]:
    """Return each number's owner, from the first tensor that names tokens and heads."""
    owners: dict[int, Owner] = {}
    for tensor, _, _, ids in readings:
        mixed = "?" in tensor.axes or bool(getattr(tensor, "warning", None))
        distinct = len(set(ids)) == len(ids)  # not if heads share their numbers
        named = not mixed and distinct and "H" in tensor.axes and not TOKENS.isdisjoint(tensor.axes)
        if named or not owners:
            by_axes = owners_by_axes(tensor.axes, tensor.shape, sizes)
            owners |= zip(ids, by_axes, strict=True)
        if named or mixed:
            break
    return owners


def assumed_axes(
    tensor: Tensor, named: list[Tensor], start: Tensor, sizes: dict[str, int]
) -> tuple[str, ...]:
    """Return what a reader would take unnamed, mixed axes for."""
    pairs = list(zip(tensor.axes, tensor.shape, strict=True))
    if "?" not in tensor.axes:
        width = sizes.get("C")
        return tuple("C" if axis == "D*H" and size == width else axis for axis, size in pairs)
    alike = [like.axes for like in named if like.shape == tensor.shape]
    if alike:
        return alike[-1]
    lengths = dict(_factors(start.axes, start.shape, sizes))
    if "C" in sizes:
        lengths["C"] = sizes["C"]
    free = {name for name in lengths if name not in tensor.axes and not name.isdigit()}
    options = [[name for name in free if lengths[name] == size > 1] for size in tensor.shape]
    choices = zip(tensor.axes, options, strict=True)
    return tuple(fits[0] if axis == "?" and len(fits) == 1 else axis for axis, fits in choices)


def fill(owner: Owner, tokens: int) -> str:
    """Return a colour: a hue for each head, or else for each token; paler for first tokens."""
    if "head" not in owner:
        return CELLS[owner["token"] % len(CELLS)] if "token" in owner else UNOWNED_CELL
    strength = 0.3 + 0.7 * (owner.get("token", 0) + 1) / tokens
    hue = bytes.fromhex(CELLS[owner["head"] % len(CELLS)].removeprefix("#"))
    return "#" + bytes(round(255 + strength * (byte - 255)) for byte in hue).hex()


def tag(owner: Owner, batches: bool = False) -> str:
    """Write an owner: t1 h0, or q1 h0 where q, k and v share the strip; b0 t1 h0 in full."""
    letters = {"token": "qkv"[owner["part"]] if "part" in owner else "t", "head": "h"}
    letters = {"batch": "b"} | letters if batches else letters
    return " ".join(f"{letter}{owner[role]}" for role, letter in letters.items() if role in owner)
