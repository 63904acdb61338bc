"""Warnings and questions of a trace: a mistake's id, and its words from the table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from mha_course.mistakes import ROWS, Row
from mha_course.tracing.axes import FEATURES, Axis, AxisNamer, Factor, Origin, size_of
from mha_course.tracing.unify import groups_differ, in_another_order, unify

if TYPE_CHECKING:
    from mha_course.tracing.rules.call import TensorInfo

# What may be intended: attention over images or sentences, competing slots, one head among others.
QUESTIONS = {
    "softmax-over-queries", "softmax-over-heads", "softmax-over-everything", "weights-transposed",
    "heads-averaged",
    "no-split", "attention-over-batch", "tokens-joined", "merge-dim-before-heads", "cache-joined",
    "qkv-cut-along-tokens", "softmax-twice", "mask-on-queries", "rope-layout-mixed",
    "kv-repeat-interleaved-wrongly", "result-discarded",
    "softmax-over-one", "runs-over-heads", "summed-alone",
}  # fmt: skip

WORDS = {"H": "heads", "D": "head width", "B": "batch"}
READ_IN_ANOTHER_ORDER = {  # the factors of one axis, in order
    ("H", "D"): "heads-innermost",
    ("B", "H"): "fold-order-mixed",
    ("H", "B"): "fold-order-mixed",
    ("3", "H"): "fused-heads-outermost",
    ("3", "H", "D"): "fused-three-innermost",
}


class Cut(NamedTuple):
    """Factors that a reshape mixed: the new axes' boundaries are not theirs."""

    factors: list[Factor]
    axes: list[int]  # each factor's input axis
    sizes: list[int]  # of the new axes


class Remark(str):
    """A trace's message about a mistake: its id, a colon, what happened and what to do.

    A question is about something unusual that may be intended; otherwise it is certainly wrong.
    """

    id: str
    is_question: bool

    def __new__(cls, text: str, mistake: str = "", is_question: bool = False) -> Remark:
        """Return the text with its mistake's id; a copy gets the id with its attributes."""
        remark = super().__new__(cls, text)
        remark.id = mistake
        remark.is_question = is_question
        return remark

    def and_also(self, mistake: str) -> Remark:
        """Add a second mistake to the remark: its id in brackets, its title at the end."""
        rest = self.removeprefix(self.id)
        text = f"{self.id} ({mistake}){rest} {row_of(mistake).title}"
        return Remark(text, self.id, self.is_question)


def row_of(name: str) -> Row:
    """Return a mistake's row, in a trace's wording if that differs."""
    return ROWS.get(f"{name}/traced") or ROWS[name]


def warn(name: str, **words: object) -> Remark:
    """Return a mistake's message: a question if it may be intended."""
    text = row_of(name).text.format(**words)
    return Remark(f"{name}: {text[0].lower()}{text[1:]}", name, name in QUESTIONS)


def ask(name: str, **words: object) -> Remark:
    """Return a question about a mistake, even one that is otherwise a warning."""
    return Remark(warn(name, **words), name, is_question=True)


def of_softmax(name: str, labels: Sequence[str], keys: str) -> Remark:
    """Say over which dim a softmax of tensors with these axes should run."""
    dim = list(labels).index(keys) if keys in labels[:-1] else -1
    return warn(name, dim=dim)


def of_pooling(names: AxisNamer, axis: Axis, axes: Sequence[Axis], is_score: bool) -> Remark | None:
    """Judge a softmax on a tensor with at most one token axis, or over an axis of size 1."""
    label = names.label(axis)
    labels = list(map(names.label, axes))
    tokens = [n for n in range(len(axes)) if names.is_token(axes[n])]
    several = any(size_of(axes[n]) > 1 for n in tokens)
    together = [factor.name for factor in axis if names.is_token((factor,))]
    if label == "B" and labels.count("B") > 1 and len(labels) > 2:  # (B, B) compares sentences
        return warn("attention-over-batch")
    if label == "B" and tokens:
        return ask("softmax-over-batch", dim=tokens[0])
    if label == "1" and several and not is_score:
        return warn("softmax-over-one", dim=tokens[-1])
    if len(together) > 1 and is_score:  # pixels Y*X have both
        return warn("softmax-over-everything", axes=" and ".join(together))
    return None


def of_joined(names: AxisNamer, left: Axis, right: Axis) -> Remark | None:
    """Ask about two axes joined or aligned only because their sizes agree."""
    labels = [names.label(left), names.label(right)]
    if all(map(names.counts_tokens, labels)):
        return None  # they may be the same tokens under another name
    if not all(label in FEATURES or names.counts_tokens(label) for label in labels):
        return None
    differ = unify(names, left, right)[1]
    return ask("joined-different-axes", left=labels[0], right=labels[1]) if differ else None


def of_mismatch(
    names: AxisNamer, left: Axis, right: Axis, is_summed: bool, of_products: bool
) -> Remark | None:
    """Name the mistake when a product pairs two different axes.

    Args: ``of_products``, whether no factor is weights, whose sums are judged by their softmax.
    """
    labels = [names.label(left), names.label(right)]
    if not is_summed or "H" in labels or labels[0] == labels[1]:
        return of_broadcast(names, left, right)
    if not of_products:
        return None
    is_key = labels[0] == "D" and names.is_token(right)
    name = "key-not-transposed" if is_key else "contraction-of-different-axes"
    return warn(name, left=labels[0], right=labels[1])


def of_cut(names: AxisNamer, cut: Cut, rank: int, free: bool = False) -> Remark | None:
    """Name the mistake behind a reshape that cuts across the old axes.

    Args: ``free``, whether a Linear made these numbers, and so may order them freely.
    """
    labels = [factor.name for factor in cut.factors]
    sizes = [factor.size for factor in cut.factors]
    named = [factor for factor in cut.factors if factor.name != "?" or _is_part_of_width(factor)]
    if len(named) < 2:
        return None
    if len(set(cut.axes)) == 1:
        if order := READ_IN_ANOTHER_ORDER.get(tuple(labels)):
            return ask(order) if free else warn(order)
        if free or "?" in labels or cut.sizes == sizes:
            return None
        return warn("reshape-across-axes", axes=" and ".join(labels))
    heads = _index_of_heads(cut)
    tokens = [i for i, factor in enumerate(cut.factors) if names.is_token((factor,))]
    others = heads is None or not tokens
    shifted = len(tokens) == 2 and cut.sizes == sizes[::-1]  # each row is shifted further
    mistakes = (
        (rank == 4 and _is_key_reshaped(names, cut), "key-reshaped"),
        (_joins_tokens(names, cut, rank), "tokens-joined"),
        (others and labels[-1] == "D" and "B" in labels, "merge-batch-mixed"),
        (others and {"B", "H"} <= {*labels} and not shifted, "fold-order-mixed"),
        (others, "reshape-across-axes"),
        (tokens and (heads or 0) > tokens[0], "view-without-transpose"),
        ("B" in labels[1:], "merge-batch-mixed"),
        (True, "merge-without-transpose"),
    )
    name = next(name for holds, name in mistakes if holds)
    words = dict.fromkeys(_written(names, factor) for factor in cut.factors)
    unusual = shifted and name == "reshape-across-axes"
    speak = ask if unusual or _groups_channels(names, cut) else warn
    return speak(name, axes=" and ".join(words))


def _groups_channels(names: AxisNamer, cut: Cut) -> bool:
    """Return whether several channels with all their pixels became one, as in a group norm."""
    pixels = tuple(cut.factors[cut.axes.count(cut.axes[0]) :])
    channels = not names.is_token((cut.factors[0],))
    return channels and names.is_token(pixels) and cut.sizes[-1] % size_of(pixels) == 0


def _joins_tokens(names: AxisNamer, cut: Cut, rank: int) -> bool:
    """Return whether whole tokens were put side by side, as when patches are merged."""
    width = size_of(tuple(cut.factors[1:]))
    several = len(cut.sizes) == 2 and cut.sizes[1] > width and cut.sizes[1] % width == 0
    heads_given = rank > 3 and cut.sizes[0] == names.sizes.get("H")
    return several and names.is_token((cut.factors[0],)) and not heads_given


def _is_key_reshaped(names: AxisNamer, cut: Cut) -> bool:
    tokens = [factor.size for factor in cut.factors if names.is_token((factor,))]
    width = [factor.size for factor in cut.factors if factor.name == "D"]
    swapped = cut.sizes[-2:] == [*width, *tokens]
    return cut.factors[-1].name == "D" and swapped and width != tokens


def _index_of_heads(cut: Cut) -> int | None:
    """Return the index of the heads, of the width that contains them, or of fused q, k and v."""
    for position, factor in enumerate(cut.factors):
        if factor.name in ("H", "C") or _is_part_of_width(factor):
            return position
    return len(cut.factors) - 1 if cut.factors[-1].name in ("2", "3") else None


def _is_part_of_width(factor: Factor) -> bool:
    return factor.name == "?" and factor.whole is not None and factor.whole.name == "C"


def _written(names: AxisNamer, factor: Factor) -> str:
    if _is_part_of_width(factor) or factor.name == "C":
        return "the width"
    if names.is_token((factor,)):
        return "tokens"
    return WORDS.get(factor.name, factor.name)


def of_broadcast(
    names: AxisNamer, left: Axis, right: Axis, rows: Sequence[Sequence[str]] = ()
) -> Remark:
    """Name the mistake when broadcasting aligned two different axes.

    Args: ``rows``, the names of all axes of both tensors, which identify masks.
    """
    labels = [names.label(left), names.label(right)]
    pair = {*labels}
    turned = in_another_order(left, right)
    is_folded = any({"B", "H"} <= {*label.split("*")} for label in labels)
    both = {"B", "H"} <= {factor.name for factor in (*left, *right)}
    # A bias has numbers for each head, and nothing to transpose.
    is_bias = any(row.count("H") == 1 and {"B", "C", "D"}.isdisjoint(row) for row in rows)
    has_mask = not rows or any({"C", "D"}.isdisjoint(row) for row in rows)
    mistakes = (
        (turned and both, "fold-order-mixed"),
        (turned, "broadcast-of-different-axes"),
        (len(pair) == 1 and "H" in pair, "groups-mixed"),
        (groups_differ(names, left, right), "kv-repeat-interleaved-wrongly"),
        (names.is_width(left) and bool(pair & {"?"} or len(pair) == 1), "rope-layout-mixed"),
        (is_bias and "H" in pair and pair & names.tokens, "broadcast-of-different-axes"),
        ("H" in pair and (pair - {"H"}) & names.tokens, "never-transposed"),
        (pair == {"B", "H"}, "mask-missing-head-axis"),
        ("B" in pair and pair & names.tokens and has_mask, "padding-broadcast-raw"),
        (is_folded, "fold-order-mixed"),
        (True, "broadcast-of-different-axes"),
    )
    name = next(name for holds, name in mistakes if holds)
    if turned:
        labels = [_spell(left), _spell(right)]
    # Two kinds of tokens may be the same positions under different names.
    positions = name == "broadcast-of-different-axes" and not turned
    speak = ask if positions and all(map(names.counts_tokens, pair)) else warn
    other = next(iter(pair - {"B"}), "B")
    return speak(name, left=labels[0], right=labels[1], other=other)


def _spell(axis: Axis) -> str:
    words = []
    for factor in axis:
        word = "copies" if factor.origin is Origin.COPIES else factor.name
        if factor.name.isdigit() and factor.whole:
            word = f"({word} of {factor.whole.name})"
        words.append(word)
    return "*".join(words)


def of_crash(op: str, message: str, infos: Sequence[TensorInfo], names: AxisNamer) -> Remark | None:
    """Name the mistake behind a call that raised."""
    if op == "view" and "stride" in message:
        return warn("view-on-non-contiguous")
    rows = [info.axes for info in infos]
    merged = [axis for axis in rows[0][:-1] if len(axis) > 1] if op == "linear" else []
    if any(factor.name == "H" for factor in chain.from_iterable(merged)):
        return warn("heads-on-sequence-axis")
    if op in ("matmul", "bmm", "einsum", "baddbmm"):
        labels = [info.labels for info in infos[-2:]]
        if [row[-1:] for row in labels] == [("D",), ("D",)]:
            return warn("key-not-transposed", left="D", right=labels[-1][-2])
        return None
    if op == "scaled_dot_product_attention" and len(infos) > 3:
        rows = [[*rows[0][:-1], rows[1][-2]], rows[3]]
    if len(rows) < 2:
        return None
    # Broadcasting aligns axes from the last.
    aligned = list(zip(rows[0][::-1], rows[1][::-1], strict=False))
    for left, right in reversed(aligned):
        differ = size_of(left) != size_of(right) and left and right
        if differ and "B" in (names.label(left), names.label(right)):
            return of_broadcast(names, left, right)
    return None
