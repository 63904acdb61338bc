"""Names of axes that follow the numbers: an axis is a product of factors.

Each factor records its origin. As soon as H is known, the width C is stored as the factors (H, D),
so that a split, a transpose or a merge only moves factors. A size names an axis in two cases only:
where the caller says so, and at the output of a Linear, which is new. A factor without a name
differs from all others. The axes it was added to or multiplied with name it when the call has
ended, and not before, so that no warning depends on it.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum, auto
from typing import NamedTuple


class Origin(IntEnum):  # ints are hashed fast
    """Where a factor comes from."""

    NAMED = auto()
    UNKNOWN = auto()
    LINEAR = auto()  # The output of a Linear, which may hold its heads in any order.
    FROM_LATENTS = auto()  # The output of the Linear that expands the latents of attention.
    ASSUMED_D = auto()  # The output of a Linear as wide as a head: D if it is used as one.
    # One of the two axes of (2, 2): half of a width of 4 or the pairs in it, two heads of keys or
    # the two that share one. Without it, rotary embeddings would lose their names where D is 4.
    AMBIGUOUS = auto()
    MIXED = auto()  # A reshape put parts of several axes into this one.
    COPIES = auto()  # The same number again and again, as expand shows it.
    INTERLEAVED = auto()  # Copies follow their head, as in repeat_interleave; or pairs of a width.
    TILED = auto()  # The row of heads is repeated, as in repeat; or two halves of a width.


class Factor(NamedTuple):
    """One of the numbers whose product is the size of an axis."""

    name: str
    size: int
    whole: Factor | None = None  # what it is a part of
    stride: int = 0  # of its steps in the whole; 0 for a slice
    origin: Origin = Origin.NAMED
    number: int = 0  # tells factors without a name from others


Axis = tuple[Factor, ...]  # an empty product is an axis of size 1
Axes = list[Axis]  # of a tensor
Names = Iterable[str]
_numbers = itertools.count(1)


class Size(int):
    """A size read from a shape, with its axis, so that what is made with it has that axis."""

    axis: Axis
    is_token: Callable[[Axis], bool]

    def __new__(cls, size: int, axis: Axis, is_token: Callable[[Axis], bool]) -> Size:
        """Return the number with its axis, and a function that tells token axes."""
        number = super().__new__(cls, size)
        number.axis = axis
        number.is_token = is_token
        return number

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        """Copy and pickle as a plain number."""
        return int, (int(self),)

    def __add__(self, other: int) -> int:
        """Return the sum; more than one added to tokens makes the tokens of keys and values."""
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
    """Return the axis that a size belongs to, as far as it is known."""
    if isinstance(size, Size) and size_of(size.axis) == size:
        return size.axis
    return unknown(int(size))


FEATURES = {"B", "C", "H", "D"}


def size_of(axis: Axis) -> int:
    """Return the length of an axis."""
    return axis[0].size if len(axis) == 1 else math.prod([factor.size for factor in axis])


def unique(size: int, origin: Origin = Origin.UNKNOWN, name: str = "?") -> Factor:
    """Return a factor that differs from all others, usually without a name."""
    return Factor(name, size, origin=origin, number=next(_numbers))


def _name_of_size(sizes: dict[str, int], size: int) -> str:
    return next((name for name, known_size in sizes.items() if known_size == size), "?")


def unknown(size: int) -> Axis:
    """Return an axis about which nothing is known."""
    return () if size == 1 else (unique(size),)


def _unnamed_factor(axis: Axis) -> Factor | None:
    """Return the one unnamed factor of an axis if it, or what it is a part of, is new."""
    if len(axis) != 1 or axis[0].name != "?" or axis[0].origin is Origin.MIXED:
        return None
    whole = axis[0]
    while whole.whole:
        whole = whole.whole
    return axis[0] if whole.number else None


def _is_ambiguous_group(axis: Axis) -> bool:
    """Return whether this is H_kv or the heads of each, and which is not known yet."""
    whole = axis[0].whole if len(axis) == 1 and axis[0].origin is Origin.AMBIGUOUS else None
    return whole is not None and whole.name == "H"


def are_turned_groups(axis: Axis) -> bool:
    """Return whether query heads were cut into groups, and the groups put last: 0 3 1 4 2 5."""
    wholes = {factor.whole and factor.whole.name for factor in axis}
    return wholes == {"H"} and len(axis) == 2 and axis[0].stride < axis[1].stride


def _copy_order(axis: Axis) -> Origin | None:
    """Return whether an axis has its copies, or its pairs, side by side or all of them again."""
    copies = [factor.origin is Origin.COPIES for factor in axis]
    if len(axis) == 2 and sum(copies) == 1:
        return Origin.TILED if copies[0] else Origin.INTERLEAVED
    if are_turned_groups(axis):
        return Origin.TILED
    orders = {factor.origin for factor in axis} & {Origin.INTERLEAVED, Origin.TILED}
    return orders.pop() if len(orders) == 1 else None


def in_another_order(left: Axis, right: Axis) -> bool:
    """Return whether a factor that both axes have is elsewhere in the other one."""
    if len(left) < 2 or len(right) < 2:
        return False
    left_strides = _strides_of_named(left)
    right_strides = _strides_of_named(right)
    return any(left_strides.get(factor, n) != n for factor, n in right_strides.items())


def _strides_of_named(axis: Axis) -> dict[Factor, int]:
    named = [n for n, factor in enumerate(axis) if factor.name != "?" and factor.size > 1]
    return {axis[n]: size_of(axis[n + 1 :]) for n in named}


def _start_of_whole(factors: Sequence[Factor]) -> int | None:
    """Return where the parts of one whole begin that these factors end with."""
    whole, stride = factors[-1].whole, 1
    for n in reversed(range(len(factors))):
        if whole is None or factors[n].whole != whole or factors[n].stride != stride:
            return None
        stride *= factors[n].size
        if stride == whole.size:
            return n
    return None


def _without_ones(axis: Axis) -> Axis:
    return tuple([factor for factor in axis if factor.size > 1])


def keep_matching(axes: Sequence[Axis], shape: Sequence[int]) -> Axes:
    """Return the axes as they were where they have kept their length; the others are new."""
    pairs = zip(axes, shape, strict=True)
    return [axis if size_of(axis) == size else unknown(size) for axis, size in pairs]


class AxisNamer:
    """The vocabulary of one trace: the size of each name, and which names mean the same tokens."""

    def __init__(self, sizes: dict[str, int], given: Names, counts: Names, whole: Names) -> None:
        """Take all known sizes and the names in patterns, in ``sizes=`` and of whole sequences."""
        self.sizes = dict(sizes)
        self.extra = {name: sizes[name] for name in counts if name not in FEATURES | {"T", "S"}}
        letters = {name for name in given if name[0].isalpha()}  # no "?", no "3"
        self.tokens = letters - FEATURES - set(counts) | {"T", "S"}
        self.reserved = set(whole) & self.tokens
        self.roots = {name: name.rstrip("'") for name in letters if name.endswith("'")}
        self.labels: dict[Axis, str] = {}
        # Factors that only looked like a head's width and were then used as one.
        self.confirmed: set[Factor] = set()
        # The axes that a factor without a name was added to or multiplied with, and its final name.
        self.aligned: defaultdict[Factor, Axes] = defaultdict(list)
        self.resolved: dict[Factor, Axis] = {}
        # A factor that was concatenated with itself, as the angles of rotary embeddings are.
        self.halves: dict[Factor, Factor] = {}  # the double of each half
        self.doubles: dict[Factor, Factor] = {}  # the half of each double
        self.pieces: dict[tuple[str, int], Axes] = {}  # the parts of tokens that were concatenated

    def width(self) -> Axis:
        """Return C, as heads times head width where the number of heads is known."""
        full, heads, width = (self.sizes.get(name) for name in "CHD")
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

    def linear_output(self, size: int) -> Axis:
        """Name the output of a Linear by its width."""
        axis = self._axes_by_width().get(size)
        if axis is None:
            return (unique(size, Origin.LINEAR),)
        name = axis[0].name if len(axis) == 1 else ""
        return (unique(size, Origin.ASSUMED_D, name),) if name.startswith("D") else axis

    def _axes_by_width(self) -> dict[int, Axis]:  # what is entered later wins
        full, heads, width = (self.sizes.get(name, 0) for name in "CHD")

        def several(number: int, name: str, size: int) -> Axis:
            return (Factor(f"{number}*{name}", number * size, origin=Origin.LINEAR),)

        table = {4 * full: several(4, "C", full)}
        for name, size in reversed(self.extra.items()):
            table[size * width] = (Factor(name, size), Factor("D", width))
            if [*self.extra.values()].count(size) == 1:
                table[size] = (Factor(name, size),)
        table[width] = (Factor("D", width),)
        table |= {n * full: several(n, "C", full) for n in (2, 3)}
        if heads * width != full:
            table |= {n * heads * width: several(n, "H*D", heads * width) for n in (2, 3)}
            table[heads * width] = (Factor("H", heads), Factor("D", width))
        shared = len(self.width()) == 1 and self.sizes.get("H_kv", 0) * width == full
        table[full] = (Factor("C", full, origin=Origin.LINEAR),) if shared else self.width()
        if latents := self.extra.get("kv_rank", 0):
            table.pop(latents + self.extra.get("D_rope", 0), None)
        table.pop(0, None)
        return table

    def readings(self, factor: Factor, shape: Sequence[int]) -> Axes:
        """Return the ways to read a new axis such as 3*C that gets a shape, (3, H, D) first."""
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
            orders.insert(2, (width, count, heads))  # not by chance: each is an axis of its own
        return orders

    def parts(self, whole: Factor, sizes: tuple[int, ...]) -> Axes:
        """Name the parts into which one factor is split."""
        of_pairs = whole.name == "H" and self.extra.get("H_kv") == 2  # or keys beside values
        if sizes == (2, 2) and (of_pairs or self.is_width((whole,))):  # their use will tell which
            number = next(_numbers)
            return [(Factor("?", 2, whole, n, Origin.AMBIGUOUS, number),) for n in (2, 1)]
        names = self._names_of_parts(whole, sizes)
        strides = [math.prod(sizes[n + 1 :]) for n in range(len(sizes))]
        factors = list(map(Factor, names, sizes, itertools.repeat(whole), strides))
        if names[-2:] == ["?", "D"]:  # is it the width of some heads?
            factors[-1] = factors[-1]._replace(origin=Origin.ASSUMED_D)
        return [(factor,) if factor.size > 1 else () for factor in factors]

    def _names_of_parts(self, whole: Factor, sizes: tuple[int, ...]) -> list[str]:
        heads = self.sizes.get("H")
        first, last = sizes[0], sizes[-1]
        is_free = whole.origin is Origin.LINEAR
        if is_free and whole.name == "?" and heads and sizes[:-2] in ((), (3,)):
            counts = {"H": heads} | self.extra
            if last == self.sizes.get("D"):
                counts["H+2"] = heads + 2  # a key and a value for all heads
            name = _name_of_size(counts, sizes[-2])
            if name == "H" and "C" not in self.sizes:  # the first heads give D
                self.sizes.setdefault("D", last)
            return [*map(str, sizes[:-2]), name, "D" if last == self.sizes.get("D") else "?"]
        if len(sizes) != 2:
            return ["?"] * len(sizes)
        if whole.name == "D" and 2 in sizes:
            return ["2" if size == 2 else "D/2" for size in sizes]
        if whole.name == "H":
            fewer = _name_of_size(self.extra, first)
            return ["?", "?"] if fewer == "?" else [fewer, f"H/{fewer}"]
        if whole.name in self.tokens:  # windows and what is in each
            return [f"{whole.name}/{last}", str(last)]
        from_weight = is_free or whole.origin is Origin.FROM_LATENTS
        if from_weight and first == heads and last != self.sizes.get("C"):
            return ["H", "?"]
        return ["?", "?"]

    def slice_of(self, axis: Axis, start: int, size: int) -> Axis:
        """Name a piece of an axis: tokens and whole factors keep their names."""
        if piece := self._piece(axis, start, size):
            return piece
        whole = axis[0] if len(axis) == 1 else Factor(self.label(axis), size_of(axis))
        if len(axis) == 1 and self.is_token(axis):
            return (whole._replace(size=size),)
        if len(axis) == 1 and whole.origin is Origin.LINEAR:
            self.confirm([axis], Origin.LINEAR)
            return self.linear_output(size)
        if whole.name == "H+2" and (start, size) == (0, self.sizes["H"]):
            return self.parse("H", size)
        for cut in range(1, len(axis)):
            if size_of(axis[cut:]) == size and start % size == 0:
                return axis[cut:]
        if size == 1:
            return ()
        if whole in self.doubles and 2 * size == whole.size:
            return (self.doubles[whole],)
        declared = [name for name, n in self.extra.items() if n == size and name.startswith("D")]
        if len(declared) == 1 and whole.name in ("D", "?") and start == 0:
            return (Factor(declared[0], size, whole),)
        if self.is_width((whole,)) and 2 * size == whole.size:
            return self.half((whole,))
        is_head = whole.name == "C" and size == self.sizes.get("D") and start % size == 0
        return (Factor("D" if is_head else "?", size, whole),)

    def _piece(self, axis: Axis, start: int, size: int) -> Axis:
        """Name one of the pieces of which something was joined, as tokens or latents are."""
        whole = axis[0]
        pieces = self.pieces.get((self.root(self.label(axis)), size_of(axis)), [])
        if len(axis) == 1 and not pieces:
            names = ("D_nope", "D_rope" if whole.name == "D" else "D_v")
            if whole.origin is Origin.LINEAR:
                names = ("kv_rank", "D_rope")
            pieces = [(Factor(name, self.extra.get(name, 0), whole),) for name in names]
        begins = list(itertools.accumulate(map(size_of, pieces), initial=0))
        if begins[-1] != size_of(axis):
            return ()
        by_place = {(begin, size_of(p)): p for begin, p in zip(begins, pieces, strict=False)}
        return by_place.get((start, size), ())

    def is_width(self, axis: Axis) -> bool:
        """Return whether this is D, or a declared part of it such as D_rope."""
        if len(axis) != 1:
            return False
        name = axis[0].name
        return name == "D" or (name[0] == "D" and name in self.extra)

    def half(self, axis: Axis) -> Axis:
        """Return half of a head's width, or of a part of it."""
        return (Factor(f"{axis[0].name}/2", size_of(axis) // 2, axis[0]),)

    def ordered(self, whole: Factor, order: Origin) -> Factor:
        """Mark a known width that was put together from two halves, or from pairs."""
        if whole.origin is Origin.NAMED and self.is_width((whole,)):
            return whole._replace(origin=order)
        return whole

    def patches(self, axis: Axis, size: int, step: int) -> Axis:
        """Name the patches that a convolution with this stride cuts tokens or pixels into."""
        if size == size_of(axis):
            return axis
        if step == 1 or size * step != size_of(axis) or len(axis) != 1 or not self.is_token(axis):
            return unknown(size)
        name = f"{axis[0].name}/{step}"
        self.tokens.add(name)
        return (Factor(name, size),)

    def index_half(self, axis: Axis) -> None:
        """Note that an axis is indexed: in a width of 4 seen as (2, 2), it is the pair, not D/2."""
        whole = axis[0].whole if len(axis) == 1 and axis[0].origin is Origin.AMBIGUOUS else None
        if whole:
            other = axis[0]._replace(stride=3 - axis[0].stride)
            rest = self.parse("H_kv", 2) if whole.name == "H" else self.half((whole,))
            self.resolved |= {axis[0]: (Factor("2", 2),), other: rest}

    def merge_parts(self, axis: Axis) -> Axis:
        """Join what belongs together: all parts of one whole, two halves, repeated heads."""
        out: list[Factor] = []
        for factor in axis:
            if factor.size == 1 and factor in out:
                continue
            out.append(factor)
            start = _start_of_whole(out)
            whole = factor.whole
            if whole and start is not None:
                out[start:] = self.width() if whole.name == "C" else (whole,)
            elif len(out) > 1:
                out[-2:] = self._pair(out[-2], out[-1])
        return tuple(out)

    def _pair(self, left: Factor, right: Factor) -> list[Factor]:
        """Join two neighbours where they make something known."""
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
        """Take note that what was taken for a head's width, or what a Linear made, was used."""
        factors = itertools.chain.from_iterable(axes)
        self.confirmed.update([factor for factor in factors if factor.origin is origin])

    def align(self, left: Axis, right: Axis) -> None:
        """Note that an operation aligns two axes: an unnamed one later takes the other's name."""
        if len(left) > 1 and [factor.size for factor in left] == [factor.size for factor in right]:
            for pair in zip(left, right, strict=True):
                self.align(pair[:1], pair[1:])
            return
        self._align_unnamed(left, right)
        self._align_unnamed(right, left)

    def _align_unnamed(self, axis: Axis, other: Axis) -> None:
        unnamed = _unnamed_factor(axis)
        if unnamed is None or axis == other:
            return
        if self.label(other) == "?" and _unnamed_factor(other) is None:
            return  # nothing will ever name it
        self.aligned[unnamed].append(other)
        if unnamed in self.doubles and self.is_width(other):
            self.aligned[self.doubles[unnamed]].append(self.half(other))
        whole = other[0].whole if len(other) == 1 and other[0].name.endswith("/2") else None
        if unnamed in self.halves and whole:
            self.aligned[self.halves[unnamed]].append((whole,))

    def double(self, axis: Axis) -> Axis:
        """Return the axis that results when one is concatenated with itself."""
        whole = unique(2 * size_of(axis), Origin.TILED)
        self.halves[axis[0]] = whole
        self.doubles[whole] = axis[0]
        return (whole,)

    def _resolve(self, factor: Factor) -> Axis:
        """Return what a factor turned out to be, by all that it met directly or indirectly."""
        if factor in self.resolved:
            return self.resolved[factor]
        group = [factor]  # grows while it is read
        axis_by_label: dict[str, Axis] = {}
        for unnamed in group:
            for axis in self.aligned.get(unnamed, ()):
                other = _unnamed_factor(axis)
                if other is None and not self.label(axis).isdigit():
                    axis_by_label[self.label(axis)] = axis
                elif other is not None and other not in group:
                    group.append(other)
        roots = set(map(self.root, axis_by_label))
        for unnamed in group:
            name = unnamed.name
            if _is_ambiguous_group((unnamed,)):
                name = "H_kv" if unnamed.stride == 2 else "H/H_kv"
            self.resolved[unnamed] = (unnamed._replace(name=name),)
            if len(roots) == 1:  # what met axes of two kinds is none of them
                (root,) = roots
                first = next(iter(axis_by_label.values()))
                self.resolved[unnamed] = axis_by_label.get(root, first)
        return self.resolved[factor]

    def final(self, axes: Sequence[Axis]) -> tuple[str, ...]:
        """Write axes when all is known: a width that was never used as a head's has no name."""
        factors = itertools.chain.from_iterable(axes)
        products = {f for f in factors if f.origin is Origin.LINEAR and "*" in f.name}
        unused = products - self.confirmed
        resolved = list(map(self._resolve_all, axes))
        if resolved != list(axes):
            axes = self.separate_tokens(resolved)
        doubtful = [self.is_unconfirmed(axis) or not unused.isdisjoint(axis) for axis in axes]
        labels = map(self.label, axes)
        return tuple(["?" if x else label for x, label in zip(doubtful, labels, strict=True)])

    def _resolve_all(self, axis: Axis) -> Axis:
        factors: list[Factor] = []
        for factor in axis:
            is_unsure = factor.name == "?" or self.is_unconfirmed((factor,))
            factors += self._resolve(factor) if is_unsure else (factor,)
        return tuple(factors)

    def is_unconfirmed(self, axis: Axis) -> bool:
        """Return whether this only looks like a head's width, not yet used as one."""
        for factor in axis:
            if factor.origin is Origin.ASSUMED_D and factor not in self.confirmed:
                return True
            if factor.whole and self.is_unconfirmed((factor.whole,)):
                return True
        return False

    def label(self, axis: Axis) -> str:
        """Write an axis as the field does: heads and their width are C."""
        if axis in self.labels:
            return self.labels[axis]
        names = [factor.name for factor in axis]
        heads = names.index("H") if "H" in names else -1
        if heads >= 0 and names[heads + 1 : heads + 2] == ["D"]:
            merged = axis[heads].size * axis[heads + 1].size
            if self.sizes.get("C", merged if len(names) == 2 else 0) == merged:
                names[heads : heads + 2] = ["C"]
        text = self.labels[axis] = "?" if "?" in names else "*".join(names) or "1"
        return text

    def is_token(self, axis: Axis) -> bool:
        """Return whether an axis counts tokens."""
        return bool(axis) and self.tokens.issuperset([factor.name for factor in axis])

    def counts_tokens(self, label: str) -> bool:
        """Return whether an axis of this name counts tokens, such as S, or the pixels Y*X."""
        return self.tokens.issuperset(label.split("*"))

    def root(self, label: str) -> str:
        """Return the name under which these tokens first came."""
        if label in self.roots:
            return self.roots[label]
        between = "+" if "+" in label else "*" if "*" in label else ""
        return between.join(map(self.root, label.split(between))) if between else label

    def separate_tokens(self, axes: Axes) -> Axes:
        """Distinguish queries from keys: of two equal token axes the first becomes T."""
        if sum([bool(axis) and axis[0].name in self.tokens for axis in axes]) < 2:
            return axes
        labels = [self.label(axis) if self.is_token(axis) else None for axis in axes]
        for later, label in enumerate(labels):
            earlier = labels.index(label)
            if label is None or earlier == later:
                continue
            roles = [self._roles(factor.name, len(axes[later]) == 1) for factor in axes[later]]
            for position, names in zip((earlier, later), zip(*roles, strict=True), strict=True):
                pairs = zip(axes[position], names, strict=True)
                axes[position] = tuple([factor._replace(name=name) for factor, name in pairs])
                labels[position] = self.label(axes[position])
        return axes

    def _roles(self, label: str, alone: bool) -> tuple[str, str]:
        """Choose names for tokens that attend to themselves, and keep the names the caller gave."""
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

    def groups_differ(self, left: Axis, right: Axis) -> bool:
        """Return whether KV heads meet query heads whose distance is not that of groups."""
        if "H_kv" not in self.extra or len(left) != 1 or len(right) != 1:
            return False
        query, key = (left[0], right[0]) if left[0].whole else (right[0], left[0])
        whole = query.whole
        if key.name != "H_kv" or query.name == "H_kv" or whole is None or whole.name != "H":
            return False
        return query.stride * query.size != whole.size

    def repeated_heads(self, kv_heads: Sequence[int]) -> Axis:
        """Return the heads of an axis that has these KV heads, or () if there is no order."""
        heads, count = self.sizes.get("H", 0), self.extra.get("H_kv", 0)
        if len(kv_heads) != heads or not count or heads % count:
            return ()
        if list(kv_heads) == [head * count // heads for head in range(heads)]:
            return (Factor("H", heads, origin=Origin.INTERLEAVED),)
        if list(kv_heads) == [head % count for head in range(heads)]:
            return (Factor("H", heads, origin=Origin.TILED),)
        return ()

    def unify(self, left: Axis, right: Axis, strict: bool = False) -> tuple[Axis, bool]:
        """Name an axis of two tensors, and say if they differ; strict: no width may be tokens."""
        if size_of(left) != size_of(right):
            return (right if size_of(left) == 1 else left), False
        if size_of(left) == 1:
            return (left or right), False
        if in_another_order(left, right) or self.groups_differ(left, right):
            return (right if self.label(left) == "?" else left), True
        self.align(left, right)
        left_factors, right_factors = _without_ones(left), _without_ones(right)
        right_order = _copy_order(right_factors)
        orders = {_copy_order(left_factors), right_order}
        left_label = self.label(left_factors)
        if orders == {Origin.INTERLEAVED, Origin.TILED}:
            return (right if left_label == "?" else left), True
        if orders == {Origin.TILED} and are_turned_groups(left_factors):
            return right, False
        if orders == {Origin.TILED} and are_turned_groups(right_factors):
            return left, False
        if left_label == self.label(right_factors):
            says_more = right_order is not None or len(left) < len(right)
            return (right if says_more else left), False
        return self._choose_name(left, right, strict)

    def _choose_name(self, left: Axis, right: Axis, strict: bool) -> tuple[Axis, bool]:
        """Choose between two axes of one length and several names, and say if they differ."""
        left_label, right_label = self.label(_without_ones(left)), self.label(_without_ones(right))
        if right_label == "?" or right_label.isdigit():
            return left, False
        if left_label == "?" or left_label.isdigit():
            return (left if _is_ambiguous_group(left) else right), False
        if self.root(left_label) == self.root(right_label):
            return (left if left_label == self.root(left_label) else right), False
        for axis, other in ((left, right), (right, left)):
            by_width = axis[0].origin is Origin.LINEAR or self.is_unconfirmed(axis)
            if len(axis) == 1 and by_width and not (strict and self.is_token(other)):
                self.aligned[axis[0]].append(other)  # it may as well be the other's
                return other, False
        return left, True
