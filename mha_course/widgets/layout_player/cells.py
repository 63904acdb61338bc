"""Where every number of a tensor lies while it is laid out anew, and whose number it is."""

from __future__ import annotations

import math
from itertools import product
from operator import mul
from typing import TYPE_CHECKING, Any

from mha_course.errors import ShapeError
from mha_course.tracing.records import Argument, Step

if TYPE_CHECKING:
    from mha_course.tracing import Trace

LIMIT = 512  # numbers that can be drawn
RESHAPES = {"view", "reshape", "unflatten", "flatten", "view_as", "reshape_as", "ravel"}
KEEPS_ORDER = RESHAPES | {"contiguous", "clone"}  # element by element, where it copies
ROLES = {
    "token": ("N", "S", "T"),
    "head": ("H",),
    "batch": ("B",),
    "part": ("3",),
}  # of several names the last counts
HUES = (
    "#a393f5",
    "#ecca45",
    "#3fbf9f",
    "#f4856f",
    "#8fb8ea",
    "#d1efb3",
    "#e59ad0",
    "#b99646",
)  # not those of axes
PLAIN = "#e4e0ee"

Tensor = Argument | Step
Owner = dict[
    str, int
]  # the token, head, batch and part that a number belongs to, as far as they are known


def chains(trace: Trace) -> list[list[Tensor]]:
    """Return each tensor that is laid out anew with the steps that do it, a list for each end."""
    known: dict[int | str, Tensor] = {argument.name: argument for argument in trace.arguments}
    known |= {step.index: step for step in trace.steps}
    before: dict[int | str, int | str] = {
        step.index: step.inputs[0].source
        for step in trace.steps
        if step.inputs
        and (
            step.storage == "view" or (step.storage in ("copy", "same") and step.op in KEEPS_ORDER)
        )
    }
    found = []
    for end in before:
        if end in before.values():
            continue
        at = end
        chain = [known[end]]
        while at in before and before[at] in known:
            at = before[at]
            chain.insert(0, known[at])
        found += [chain] if len(chain) > 1 else []
    return found


def choose(trace: Trace) -> list[Tensor]:
    """Return the first chain with a reshape, or the first of all, if it can be drawn."""
    found = chains(trace)
    if not found:
        rule = "the trace must hold a step that lays a tensor out anew"
        expected = "view, reshape, transpose, permute …"
        got = ", ".join(dict.fromkeys(step.op for step in trace.steps)) or "no step"
        raise ShapeError("LayoutPlayer", rule, expected=expected, got=got)
    chosen = next(
        (chain for chain in found if any(getattr(one, "op", "") in RESHAPES for one in chain)),
        found[0],
    )
    for tensor in chosen:
        numbers = math.prod(tensor.shape)
        if not 0 < numbers <= LIMIT:
            rule = "each number is drawn as a cell"
            fix = "trace it with smaller sizes, e.g. B=1, S=3, C=8, H=2"
            got = f"{written(tensor.axes, tensor.shape)}, {numbers} numbers"
            raise ShapeError(
                "LayoutPlayer", rule, expected=f"1 to {LIMIT} numbers", got=got, fix=fix
            )
    return chosen


def written(axes: tuple[str, ...], shape: tuple[int, ...]) -> str:
    """Write names and sizes: (B=1, S=3, C=8)."""
    pairs = zip(axes, shape, strict=True)
    texts = [
        str(size) if axis == "?" or axis.isdigit() else f"{axis}={size}" for axis, size in pairs
    ]
    return f"({', '.join(texts)})"


def places(tensor: Tensor) -> list[int]:
    """Return the place in memory of every element, read row by row."""
    indices = product(*map(range, tensor.shape))
    return [tensor.offset + sum(map(mul, index, tensor.strides)) for index in indices]


def replay(chain: list[Tensor]) -> tuple[list[dict[int, int]], list[tuple[int, list[int]]]]:
    """Return the strips of memory, each number by its first place, and how tensors read them."""
    first = places(chain[0])
    strips = [{place: place for place in sorted(first)}]
    reads = [(0, first)]
    for tensor in chain[1:]:
        number, read = reads[-1]
        now = places(tensor)
        if isinstance(tensor, Step) and tensor.storage == "copy":
            strips.append(
                dict(sorted(zip(now, (strips[number][place] for place in read), strict=True)))
            )
            number += 1
        if not strips[number].keys() >= set(now):
            break  # it reaches beyond what is drawn
        reads.append((number, now))
    return strips, reads


def _factors(axis: str, length: int, sizes: dict[str, int]) -> list[tuple[str, int]]:
    """Take an axis apart: C of 8 with two heads is H of 2 and D of 4."""
    names = [
        name
        for part in axis.split("*")
        for name in (("H", "D") if part == "C" and "H" in sizes else (part,))
    ]
    if len(names) == 1:
        return [(names[0], length)]
    known = [int(name) if name.isdigit() else sizes.get(name, 0) for name in names]
    if known.count(0) == 1:
        known[known.index(0)] = length // math.prod(size for size in known if size)
    return list(zip(names, known, strict=True)) if math.prod(known) == length else [("?", length)]


def owners_by_axes(
    axes: tuple[str, ...], shape: tuple[int, ...], sizes: dict[str, int]
) -> list[Owner]:
    """Return whose numbers the elements are if the axes are what they are called."""
    factors = [
        factor
        for axis, size in zip(axes, shape, strict=True)
        for factor in _factors(axis, size, sizes)
    ]
    found = []
    for index in product(*(range(size) for _, size in factors)):
        at = {name: place for (name, _), place in zip(factors, index, strict=True)}
        found.append(
            {role: at[name] for role, names in ROLES.items() for name in names if name in at}
        )
    return found


def owners_by_number(
    chain: list[Tensor], strips: list[dict[int, int]], reads: Any, sizes: dict[str, int]
) -> dict[int, Owner]:
    """Return the owner of each number, by the first tensor that names tokens and heads."""
    chosen = 0
    for number, tensor in enumerate(chain[: len(reads)]):
        if "?" in tensor.axes or getattr(tensor, "warning", None):
            break
        once = len({*reads[number][1]}) == len(
            reads[number][1]
        )  # not where heads share their numbers
        if once and "H" in tensor.axes and {*ROLES["token"]} & {*tensor.axes}:
            chosen = number
            break
    result: dict[int, Owner] = {}
    for number in (0, chosen):
        strip, read = reads[number]
        own = owners_by_axes(chain[number].axes, chain[number].shape, sizes)
        result |= {strips[strip][place]: owner for place, owner in zip(read, own, strict=True)}
    return result


def assumed_axes(
    tensor: Tensor, known: list[Tensor], start: Tensor, sizes: dict[str, int]
) -> tuple[str, ...]:
    """Return what a reader takes the axes for, where they are mixed and so have no name."""
    width = {"C": sizes["C"]} if "C" in sizes else {}
    if "?" not in tensor.axes:
        return tuple(
            "C" if axis == "D*H" and width.get("C") == size else axis
            for axis, size in zip(tensor.axes, tensor.shape, strict=True)
        )
    alike = [other.axes for other in known if other.shape == tensor.shape]
    if alike:
        return alike[-1]
    factors = dict(
        f
        for axis, size in zip(start.axes, start.shape, strict=True)
        for f in _factors(axis, size, sizes)
    )
    free = {
        n: size
        for n, size in (factors | width).items()
        if n not in tensor.axes and not n.isdigit() and size > 1
    }
    options = [[n for n in free if free[n] == size] for size in tensor.shape]
    pairs = zip(tensor.axes, options, strict=True)
    return tuple(fits[0] if axis == "?" and len(fits) == 1 else axis for axis, fits in pairs)


def fill(owner: Owner, tokens: int) -> str:
    """Return a colour: a hue for each head, paler for first tokens; without heads for tokens."""
    if "head" not in owner:
        return HUES[owner["token"] % len(HUES)] if "token" in owner else PLAIN
    share = 0.3 + 0.7 * (owner.get("token", 0) + 1) / tokens
    hue = HUES[owner["head"] % len(HUES)]
    parts = [int(hue[i : i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(255 + share * (part - 255)):02x}" for part in parts)


def tag(owner: Owner, batches: bool = False) -> str:
    """Write an owner: t1 h0, or q1 h0 where q, k and v share the strip; b0 t1 h0 in full."""
    letter = "qkv"[owner["part"]] if "part" in owner else "t"
    words = [f"b{owner['batch']}"] if batches else []
    words += [f"{letter}{owner['token']}"] if "token" in owner else []
    return " ".join([*words, f"h{owner['head']}"] if "head" in owner else words)
