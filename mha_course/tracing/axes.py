"""Axis names that follow the numbers: an axis is a product of factors.

Each factor records its origin. Once H is known, the width C is stored as the factors (H, D), so
that a split, a transpose or a merge only moves factors. A size names an axis only if the caller
says so, or at the output of a Linear, which is new. An unnamed factor differs from all others. It
gets the name of the axes it was added to or multiplied with only after the call has ended, so that
no warning depends on it.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum, auto
from typing import NamedTuple


class Origin(IntEnum):  # ints hash fast
    """How a factor came about, if not from a pattern: it decides what may still be read off it."""

    NAMED = auto()
    UNKNOWN = auto()
    LINEAR = auto()  # The output of a Linear, which may have its heads in any order.
    FROM_LATENTS = auto()  # The output of the Linear that expands the latents of attention.
    ASSUMED_D = auto()  # The output of a Linear as wide as a head: D if it is used as one.
    MIXED = auto()  # A reshape mixed parts of several axes into this one.
    COPIES = auto()  # The same number repeated, as by expand.
    INTERLEAVED = auto()  # Copies are adjacent, as in repeat_interleave; or pairs of a width.
    TILED = auto()  # All heads are repeated in turn, as in repeat; or two halves of a width.


class Factor(NamedTuple):
    """One of the numbers whose product is an axis's size."""

    name: str
    size: int
    whole: Factor | None = None  # the factor it is a part of
    stride: int = 0  # its stride in the whole; 0 for a slice
    origin: Origin = Origin.NAMED
    number: int = 0  # identifies unnamed factors


Axis = tuple[Factor, ...]  # an empty product is an axis of size 1
Axes = list[Axis]  # of a tensor
Names = Iterable[str]
numbers = itertools.count(1)


class Size(int):
    """A size read from a shape, with its axis, so that tensors made with it get that axis."""

    axis: Axis
    is_token: Callable[[Axis], bool]

    def __new__(cls, size: int, axis: Axis, is_token: Callable[[Axis], bool]) -> Size:
        """Return the number with its axis, and a function that recognises token axes."""
        number = super().__new__(cls, size)
        number.axis = axis
        number.is_token = is_token
        return number

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        """Copy and pickle as a plain number."""
        return int, (int(self),)

    def __add__(self, other: int) -> int:
        """Return the sum; adding more than one to tokens gives the key and value tokens."""
        total = super().__add__(other)
        tokens = self.is_token(self.axis)
        if not isinstance(other, Size):
            if tokens and isinstance(other, int) and other not in (0, 1):
                return Size(total, (Factor("S", total),), self.is_token)
            return self if total == self else total  # an empty cache adds 0
        if not tokens and not self.is_token(other.axis):
            return total
        names = {factor.name for factor in (*self.axis, *other.axis)}
        name = names.pop() if len(names) == len(self.axis) == len(other.axis) == 1 else "S"
        return Size(total, (Factor(name, total),), self.is_token)

    __radd__ = __add__


def axis_of(size: int) -> Axis:
    """Return the axis that a size belongs to, if known."""
    if isinstance(size, Size) and size_of(size.axis) == size:
        return size.axis
    return unknown(int(size))


FEATURES = {"B", "C", "H", "D"}


def size_of(axis: Axis) -> int:
    """Return the length of an axis."""
    return axis[0].size if len(axis) == 1 else math.prod([factor.size for factor in axis])


def unique(size: int, origin: Origin = Origin.UNKNOWN, name: str = "?") -> Factor:
    """Return a factor that differs from all others, usually without a name."""
    return Factor(name, size, origin=origin, number=next(numbers))


def unknown(size: int) -> Axis:
    """Return an axis without a name, which differs from every other; () for size 1."""
    return () if size == 1 else (unique(size),)


def unnamed_factor(axis: Axis) -> Factor | None:
    """Return an axis's only factor if it is unnamed and it, or its whole, is new."""
    if len(axis) != 1 or axis[0].name != "?" or axis[0].origin is Origin.MIXED:
        return None
    whole = axis[0]
    while whole.whole:
        whole = whole.whole
    return axis[0] if whole.number else None


def is_part_of(axis: Axis, name: str) -> bool:
    """Return whether an axis is one part of a whole with this name."""
    return len(axis) == 1 and axis[0].whole is not None and axis[0].whole.name == name


def _start_of_whole(factors: Sequence[Factor]) -> int | None:
    """Return where the parts of one whole begin at the end of these factors."""
    whole, stride = factors[-1].whole, 1
    for n in reversed(range(len(factors))):
        if whole is None or factors[n].whole != whole or factors[n].stride != stride:
            return None
        stride *= factors[n].size
        if stride == whole.size:
            return n
    return None


def keep_matching(axes: Sequence[Axis], shape: Sequence[int]) -> Axes:
    """Return the old axes if their length is unchanged, new ones otherwise."""
    pairs = zip(axes, shape, strict=True)
    return [axis if size_of(axis) == size else unknown(size) for axis, size in pairs]


class AxisNamer:
    """The vocabulary of one trace: the size of each name, and which names mean the same tokens."""

    def __init__(self, sizes: dict[str, int], given: Names, counts: Names, whole: Names) -> None:
        """Store known sizes, and the names in patterns, in ``sizes=`` and of whole sequences."""
        self.sizes = dict(sizes)
        self.extra = {name: sizes[name] for name in counts if name not in FEATURES | {"T", "S"}}
        letters = {name for name in given if name[0].isalpha()}  # no "?", no "3"
        self.tokens = letters - FEATURES - set(counts) | {"T", "S"}
        self.reserved = set(whole) & self.tokens
        self.roots = {name: name.rstrip("'") for name in letters if name.endswith("'")}
        self.labels: dict[Axis, str] = {}  # Labels are needed often, and axes repeat.
        # Factors that looked like a head's width and were then used as one.
        self.confirmed: set[Factor] = set()
        # The axes that an unnamed factor was added to or multiplied with, and its final name.
        self.aligned: defaultdict[Factor, Axes] = defaultdict(list)
        self.resolved: dict[Factor, Axis] = {}
        self.pieces: dict[tuple[str, int], Axes] = {}  # concatenated parts of tokens

    def width(self) -> Axis:
        """Return C, as heads times head width if the number of heads is known."""
        full, heads, width = map(self.sizes.get, "CHD")
        if heads and width and (full is None or heads * width == full):
            return (Factor("H", heads), Factor("D", width))
        return (Factor("C", full),) if full else ()

    def parse(self, text: str, size: int) -> Axis:
        """Return the axis that a pattern names: ``S``, ``3*C``, ``1`` or ``?``."""
        if text == "?":
            return unknown(size)
        factors: list[Factor] = []
        for name in text.split("*"):
            if name.isdigit():
                factors += unknown(1) if name == "1" else (Factor(name, int(name)),)
            elif name == "C" and self.sizes["C"] == size_of(self.width()):
                factors += self.width()
            else:
                factors.append(Factor(name, self.sizes[name]))
        return tuple(factors)

    def readings(self, factor: Factor, shape: Sequence[int]) -> Axes:
        """Return the ways to split a new axis such as 3*C, (3, H, D) first."""
        times, _, rest = factor.name.partition("*")
        if factor.origin is Origin.LINEAR and factor.name == "C":
            return [self.parse("H_kv*D", factor.size), (factor,)]
        if factor.origin is not Origin.LINEAR or not rest or times == "4":
            return [(factor,)]
        count = Factor(times, int(times))
        inner = self.width() if rest == "C" else self.parse(rest, factor.size // int(times))
        if len(inner) == 1:
            return [(count, *inner), (*inner, count)]
        heads, width = inner
        orders: Axes = [(count, heads, width), (heads, count, width), (heads, width, count)]
        innermost = [width.size, count.size, heads.size]
        if any(list(shape[n : n + 3]) == innermost for n in range(len(shape))):
            orders.insert(2, (width, count, heads))  # not a coincidence: each is a separate axis
        return orders

    def is_width(self, axis: Axis) -> bool:
        """Return whether this is D, or a declared part such as D_rope."""
        if len(axis) != 1:
            return False
        name = axis[0].name
        return name == "D" or (name[0] == "D" and name in self.extra)

    def half(self, axis: Axis) -> Axis:
        """Return half of a head's width, or of its part."""
        return (Factor(f"{axis[0].name}/2", size_of(axis) // 2, axis[0]),)

    def ordered(self, whole: Factor, order: Origin) -> Factor:
        """Mark a known width joined from two halves, or from pairs."""
        if whole.origin is Origin.NAMED and self.is_width((whole,)):
            return whole._replace(origin=order)
        return whole

    def merge_parts(self, axis: Axis) -> Axis:
        """Join all parts of one whole, two halves, or repeated heads."""
        out: list[Factor] = []
        for factor in axis:
            out.append(factor)
            start = _start_of_whole(out)  # A split is undone once all its parts are back.
            whole = factor.whole
            if whole and start is not None:
                out[start:] = self.width() if whole.name == "C" else (whole,)
            elif len(out) > 1:
                out[-2:] = self._pair(out[-2], out[-1])
        return tuple(out)

    def _pair(self, left: Factor, right: Factor) -> list[Factor]:
        """Join two neighbours if they form something known."""
        half, pair = (left, right) if left.name.endswith("/2") else (right, left)
        whole = half.whole or Factor("D", 2 * half.size)
        is_pair = pair.name == "2" or (pair.size == 2 and pair is right)
        if is_pair and half.name == f"{whole.name}/2" and self.is_width((whole,)):
            return [self.ordered(whole, Origin.INTERLEAVED if pair is right else Origin.TILED)]
        heads = left.size * right.size
        if heads == self.sizes.get("H"):  # KV heads and their copies
            if left.name in self.extra and right.origin is Origin.COPIES:
                return [Factor("H", heads, origin=Origin.INTERLEAVED)]
            if left.origin is Origin.COPIES and right.name in self.extra:
                return [Factor("H", heads, origin=Origin.TILED)]
        return [left, right]

    def confirm(self, axes: Iterable[Axis], origin: Origin = Origin.ASSUMED_D) -> None:
        """Record that a presumed head width, or a Linear's output, was used as such."""
        factors = itertools.chain.from_iterable(axes)
        self.confirmed.update([factor for factor in factors if factor.origin is origin])

    def _resolve(self, factor: Factor) -> Axis:
        """Return what a factor turned out to be, from all axes it met directly or indirectly."""
        if factor in self.resolved:
            return self.resolved[factor]
        group = [factor]  # grows while iterating
        axis_by_label: dict[str, Axis] = {}
        for unnamed in group:
            for axis in self.aligned.get(unnamed, ()):
                other = unnamed_factor(axis)
                if other is None and not self.label(axis).isdigit():
                    axis_by_label[self.label(axis)] = axis
                elif other is not None and other not in group:
                    group.append(other)
        roots = set(map(self.root, axis_by_label))  # T and S of one sequence agree.
        for unnamed in group:
            self.resolved[unnamed] = (unnamed,)
            if len(roots) == 1:  # a factor that met two kinds of axes is neither
                (root,) = roots
                first = next(iter(axis_by_label.values()))
                self.resolved[unnamed] = axis_by_label.get(root, first)
        return self.resolved[factor]

    def final(self, axes: Sequence[Axis]) -> tuple[str, ...]:
        """Write final axes: a width never used as a head's has no name."""
        resolved = list(map(self._resolve_all, axes))
        if resolved != list(axes):
            resolved = self.separate_tokens(resolved)
        return tuple(map(self._final_label, resolved))

    def _final_label(self, axis: Axis) -> str:
        for factor in axis:
            is_product = factor.origin is Origin.LINEAR and "*" in factor.name
            if is_product and factor not in self.confirmed:
                return "?"
        return "?" if self.is_unconfirmed(axis) else self.label(axis)

    def _resolve_all(self, axis: Axis) -> Axis:
        factors: list[Factor] = []
        for factor in axis:
            is_unsure = factor.name == "?" or self.is_unconfirmed((factor,))
            factors += self._resolve(factor) if is_unsure else (factor,)
        return tuple(factors)

    def is_unconfirmed(self, axis: Axis) -> bool:
        """Return whether this looks like a head's width but is not yet used as one."""
        for factor in axis:
            if factor.origin is Origin.ASSUMED_D and factor not in self.confirmed:
                return True
            # A part is as uncertain as the whole.
            if factor.whole and self.is_unconfirmed((factor.whole,)):
                return True
        return False

    def label(self, axis: Axis) -> str:
        """Write an axis in the usual notation: heads and their width are C."""
        if axis in self.labels:
            return self.labels[axis]
        names = [factor.name for factor in axis]
        heads = names.index("H") if "H" in names else len(names)
        if names[heads + 1 : heads + 2] == ["D"]:
            merged = axis[heads].size * axis[heads + 1].size  # Fewer heads are not C.
            if self.sizes.get("C", merged if len(names) == 2 else 0) == merged:
                names[heads : heads + 2] = ["C"]
        text = self.labels[axis] = "?" if "?" in names else "*".join(names) or "1"
        return text

    def is_token(self, axis: Axis) -> bool:
        """Return whether an axis counts tokens."""
        return bool(axis) and self.counts_tokens(self.label(axis))

    def counts_tokens(self, label: str) -> bool:
        """Return whether an axis of this name counts tokens, such as S, or the pixels Y*X."""
        return label in self.tokens or self.tokens.issuperset(label.split("*"))

    def root(self, label: str) -> str:
        """Return the first name of these tokens."""
        if label in self.roots:
            return self.roots[label]
        between = "+" if "+" in label else "*" if "*" in label else ""
        return between.join(map(self.root, label.split(between))) if between else label

    def separate_tokens(self, axes: Axes) -> Axes:
        """Distinguish queries from keys: the first of two equal token axes becomes T."""
        if sum([bool(axis) and axis[0].name in self.tokens for axis in axes]) < 2:
            return axes
        labels = [self.label(axis) if self.is_token(axis) else None for axis in axes]
        for later, label in enumerate(labels):
            earlier = labels.index(label)  # Only equal names need two roles.
            if label is None or earlier == later:
                continue
            roles = [self._roles(factor.name, len(axes[later]) == 1) for factor in axes[later]]
            for position, names in zip((earlier, later), zip(*roles, strict=True), strict=True):
                pairs = zip(axes[position], names, strict=True)
                axes[position] = tuple([factor._replace(name=name) for factor, name in pairs])
                labels[position] = self.label(axes[position])
        return axes

    def _roles(self, label: str, alone: bool) -> tuple[str, str]:
        """Choose names for tokens that attend to themselves, keeping the caller's names."""
        root = self.root(label)
        if not alone:  # Y of the pixels Y*X
            self.roots[f"{root}'"] = root
            self.tokens.add(f"{root}'")
            return f"{root}'", root
        of_others = {name for name in "TS" if self.roots.get(name, root) != root}
        free = {"T", "S"} - (self.reserved - {root}) - of_others
        first = "T" if "T" in free and root not in ("X", "Y") else f"{root}'"
        second = root if root != first else f"{root}'"
        if root in ("T", "S") and "S" in free:
            second = "S"
        for name in (first, second):
            if name != root:
                self.roots[name] = root
                self.tokens.add(name)
        return first, second
