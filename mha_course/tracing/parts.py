"""Names of new axes: a Linear's output, and the parts of a split axis."""

from __future__ import annotations

import itertools
import math

from mha_course.tracing.axes import (
    Axes,
    Axis,
    AxisNamer,
    Factor,
    Origin,
    size_of,
    unique,
    unknown,
)


def linear_output(names: AxisNamer, size: int) -> Axis:
    """Name the output of a Linear by its width."""
    axis = _axes_by_width(names).get(size)
    if axis is None:
        return (unique(size, Origin.LINEAR),)
    name = axis[0].name if len(axis) == 1 else ""  # A size equal to D may be a coincidence.
    return (unique(size, Origin.ASSUMED_D, name),) if name.startswith("D") else axis


def _axes_by_width(names: AxisNamer) -> dict[int, Axis]:  # later entries win
    full, heads, width = (names.sizes.get(name, 0) for name in "CHD")

    def several(number: int, name: str, size: int) -> Axis:
        return (Factor(f"{number}*{name}", number * size, origin=Origin.LINEAR),)

    table = {4 * full: several(4, "C", full)}
    for name, size in reversed(names.extra.items()):
        table[size * width] = (Factor(name, size), Factor("D", width))
        if [*names.extra.values()].count(size) == 1:
            table[size] = (Factor(name, size),)
    table[width] = (Factor("D", width),)
    table |= {n * full: several(n, "C", full) for n in (2, 3)}
    if heads * width != full:
        table |= {n * heads * width: several(n, "H*D", heads * width) for n in (2, 3)}
        table[heads * width] = (Factor("H", heads), Factor("D", width))
    shared = len(names.width()) == 1 and names.sizes.get("H_kv", 0) * width == full
    table[full] = (Factor("C", full, origin=Origin.LINEAR),) if shared else names.width()
    if latents := names.extra.get("kv_rank", 0):
        table.pop(latents + names.extra.get("D_rope", 0), None)
    table.pop(0, None)
    return table


def parts(names: AxisNamer, whole: Factor, sizes: tuple[int, ...]) -> Axes:
    """Name the parts into which one factor is split."""
    labels = _names_of_parts(names, whole, sizes)
    strides = [math.prod(sizes[n + 1 :]) for n in range(len(sizes))]  # The last one varies fastest.
    factors = list(map(Factor, labels, sizes, itertools.repeat(whole), strides))
    if labels[-2:] == ["?", "D"]:  # is it the width of some heads?
        factors[-1] = factors[-1]._replace(origin=Origin.ASSUMED_D)
    return [(factor,) if factor.size > 1 else () for factor in factors]


def _names_of_parts(names: AxisNamer, whole: Factor, sizes: tuple[int, ...]) -> list[str]:
    heads = names.sizes.get("H")
    first, last = sizes[0], sizes[-1]
    is_free = whole.origin is Origin.LINEAR
    if is_free and whole.name == "?" and heads and sizes[:-2] in ((), (3,)):
        counts = {"H": heads} | names.extra
        name = _name_of_size(counts, sizes[-2])
        if name == "H" and "C" not in names.sizes:  # the first heads give D
            names.sizes.setdefault("D", last)
        return [*map(str, sizes[:-2]), name, "D" if last == names.sizes.get("D") else "?"]
    # A width of 4 as halves or as pairs, 4 heads in groups or as keys next to values: either way.
    if len(sizes) != 2 or (sizes == (2, 2) and whole.name in ("D", "H")):
        return ["?"] * len(sizes)
    if whole.name == "D" and 2 in sizes:
        return ["2" if size == 2 else "D/2" for size in sizes]
    if whole.name == "H":
        fewer = _name_of_size(names.extra, first)
        return ["?", "?"] if fewer == "?" else [fewer, f"H/{fewer}"]
    if whole.name in names.tokens:  # windows and their contents
        return [f"{whole.name}/{last}", str(last)]
    from_weight = is_free or whole.origin is Origin.FROM_LATENTS
    if from_weight and first == heads and last != names.sizes.get("C"):
        return ["H", "?"]
    return ["?", "?"]


def slice_of(names: AxisNamer, axis: Axis, start: int, size: int) -> Axis:
    """Name a piece of an axis: tokens and whole factors keep their names."""
    if piece := _piece(names, axis, start, size):
        return piece  # Joined parts get their old names back.
    whole = axis[0] if len(axis) == 1 else Factor(names.label(axis), size_of(axis))
    if len(axis) == 1 and names.is_token(axis):
        return (whole._replace(size=size),)  # Some of the tokens are still tokens.
    if len(axis) == 1 and whole.origin is Origin.LINEAR:
        names.confirm([axis], Origin.LINEAR)
        return linear_output(names, size)
    for cut in range(1, len(axis)):
        if size_of(axis[cut:]) == size and start % size == 0:
            return axis[cut:]  # For instance, one head's width out of all heads.
    if size == 1:
        return ()
    declared = [name for name, n in names.extra.items() if n == size and name.startswith("D")]
    if len(declared) == 1 and whole.name in ("D", "?") and start == 0:
        return (Factor(declared[0], size, whole),)
    if names.is_width((whole,)) and 2 * size == whole.size:
        return names.half((whole,))
    is_head = whole.name == "C" and size == names.sizes.get("D") and start % size == 0
    return (Factor("D" if is_head else "?", size, whole),)


def sliced(names: AxisNamer, axis: Axis, start: int, size: int, step: float) -> Axis:
    """Name a slice; every second channel of a head is half its width."""
    if step == 1 and axis:
        return slice_of(names, axis, start, size)
    if step == 2 and names.is_width(axis) and 2 * size == size_of(axis):
        return names.half(axis)
    if names.label(axis) == "H" and step > 1:
        return (Factor("?", size, axis[0], int(step)),)
    return unknown(size)


def windows(
    names: AxisNamer, axis: Axis, stride: int, count: tuple[int, int], window: tuple[int, int]
) -> Axes:
    """Name the number and the length of windows sliding along an axis, by their strides."""
    (count_stride, number), (window_stride, length) = count, window
    are_disjoint = window_stride == stride and count_stride == length * stride
    if len(axis) != 1 or not are_disjoint or number * length != size_of(axis):
        return [unknown(number), unknown(length)]
    named = parts(names, axis[0], (number, length))
    if names.is_token(axis):
        names.tokens.update(factor.name for factor in named[0])
    return named


def _piece(names: AxisNamer, axis: Axis, start: int, size: int) -> Axis:
    """Name one of the pieces that something was joined from, such as tokens or latents."""
    whole = axis[0]
    pieces = names.pieces.get((names.root(names.label(axis)), size_of(axis)), [])
    if len(axis) == 1 and not pieces:
        labels = ("D_nope", "D_rope" if whole.name == "D" else "D_v")
        if whole.origin is Origin.LINEAR:
            labels = ("kv_rank", "D_rope")
        pieces = [(Factor(label, names.extra.get(label, 0), whole),) for label in labels]
    begins = list(itertools.accumulate(map(size_of, pieces), initial=0))
    if begins[-1] != size_of(axis):  # The known pieces do not fill it.
        return ()
    by_place = {(begin, size_of(p)): p for begin, p in zip(begins, pieces, strict=False)}
    return by_place.get((start, size), ())


def _name_of_size(sizes: dict[str, int], size: int) -> str:
    return next((name for name, known_size in sizes.items() if known_size == size), "?")
