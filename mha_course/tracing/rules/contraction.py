"""Names in sums of products, such as matrix products."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import chain
from typing import Any

from torch import Tensor

from mha_course.tracing.axes import Axes, Axis, AxisNamer, Factor, Origin, size_of
from mha_course.tracing.rules import warnings
from mha_course.tracing.rules.call import PIECE, OpCall, TensorInfo, rules
from mha_course.tracing.rules.linear import Letters, after_linear, axes_of_weight
from mha_course.tracing.unify import are_turned_groups, unify

AxesByLetter = dict[Any, Axes]
Infos = list[TensorInfo]


def matmul(call: OpCall) -> list[Axes]:
    """Matrix products: @, matmul, bmm, mm, mv, dot; addmm and baddbmm add a bias."""
    offset = int(call.op in ("addmm", "baddbmm", "addmv"))  # The bias comes first.
    left = call.arg(offset, "batch1", "mat1", "mat", "input")
    right = call.arg(offset + 1, "batch2", "mat2", "other", "vec", "tensor")
    row = "r" if left.dim() > 1 else ""  # A vector has no rows, and neither has its product.
    column = "c" if right.dim() > 1 else ""
    terms = [f"...{row}s" if row else "s", f"...s{column}" if column else "s"]
    axes = spelled(call, [left, right], terms, f"...{row}{column}")
    if offset:
        axes = call.names.separate_tokens(axes)
        for position, axis in enumerate(reversed(call.axes(call.first())), 1):  # of the bias
            axes[-position] = call.broadcast(axes[-position], axis)
    return [axes]


def einsum(call: OpCall) -> list[Axes]:
    """Sum products as the letters say."""
    equation, operands = call.args[0], call.args[1:]
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    # Without an arrow, torch keeps the letters that occur once, in alphabetical order.
    if not arrow:
        once = [letter for letter in sorted({*inputs} - {*",."}) if inputs.count(letter) == 1]
        dots = "..." if "..." in inputs else ""
        output = dots + "".join(once)
    return [spelled(call, list(operands), inputs.split(","), output)]


def spelled(call: OpCall, tensors: list[Tensor], terms: list[str], output: str) -> Axes:
    """Replace the dots in terms with letters, and contract."""
    dots = [x.dim() - len(term.replace("...", "")) for term, x in zip(terms, tensors, strict=True)]
    depth = max(dots)  # Shorter tensors broadcast, so their dots are the last ones.
    spelled: list[Letters] = []
    for term, number in zip([*terms, output], [*dots, depth], strict=True):
        before, ellipsis, after = term.partition("...")
        spelled.append([*before, *(range(depth - number, depth) if ellipsis else ()), *after])
    return contract(call, tensors, spelled[:-1], spelled[-1])


def contract(call: OpCall, tensors: list[Tensor], terms: list[Letters], out: Letters) -> Axes:
    """Name the axes of a sum of products; warn of sums over axes that agree only in size."""
    names = call.names
    values = list(map(call.info, tensors))
    for value, term in zip(values, terms, strict=True):
        _swap_roles(names, value, term, out)
    axis_of: dict[Any, Axis] = {}
    axes_by_letter: dict[Any, Axes] = defaultdict(list)
    # Before any softmax this is q times k, and the axes that it sums over must be the same.
    products = max([value.softmax_step for value in values]) < 0
    for number, term in enumerate(terms):
        factor = call.axes(tensors[number])
        if values[number].is_parameter:
            factor = axes_of_weight(call, tensors, terms, number, out)
        for letter, axis in zip(term, factor, strict=True):
            axes_by_letter[letter].append(axis)
            known = axis_of.setdefault(letter, axis)
            if known == axis:  # The letter is the same axis, or new.
                continue
            is_summed = letter not in out
            strict = products and is_summed
            axis_of[letter], differs = unify(names, known, axis, strict)
            if differs:
                call.warn(warnings.of_mismatch(names, known, axis, is_summed, products))
    axes = [axis_of[letter] for letter in out]
    summed_axes = {letter: axes_by_letter[letter] for letter in axes_by_letter if letter not in out}
    # A sum over a Linear's output uses its numbers in the order they have.
    names.confirm([axis_of[letter] for letter in summed_axes], Origin.LINEAR)
    if len(values) > 1 and not any(value.is_parameter for value in values):
        names.confirm(chain.from_iterable(axes_by_letter.values()))
    labels = list(map(names.label, axes))
    if labels.count("H") > 1:
        call.warn(warnings.warn("never-transposed"))
    call.results[0].stage = _stage_of(call, values, terms, summed_axes, axes)
    if call.op == "einsum" and len(terms) > 1:
        _ask_about_lone_axes(call, summed_axes)
    return axes


def _ask_about_lone_axes(call: OpCall, summed_axes: AxesByLetter) -> None:
    """Ask about axes that only one factor has but that are summed over."""
    for first, *others in summed_axes.values():
        label = call.names.label(first)
        is_named = label in ("H", "D", "C") or call.names.counts_tokens(label)
        if is_named and not others and size_of(first) > 1:
            call.warn(warnings.warn("summed-alone", axis=label))


def _swap_roles(names: AxisNamer, weights: TensorInfo, term: Letters, out: Letters) -> None:
    """Swap T and S if a sum shows that scores were k @ q.mT, with the keys first."""
    key = weights.softmax_axis  # So far, only the softmax has shown which axis is the keys'.
    if key != "T" and not key.endswith("'"):
        return
    labels = list(map(names.label, weights.axes))
    others = [label for label in labels if label != key and names.root(label) == names.root(key)]
    # Unless they were swapped, the sum does not run over the axis that came first.
    is_swapped = key in labels and term[labels.index(key)] not in out and others not in ([], ["T"])
    if not is_swapped or term[labels.index(others[0])] not in out:
        return
    swapped = dict(zip(key.split("*"), others[0].split("*"), strict=True))
    swapped |= {query: key for key, query in swapped.items()}

    def swap(factor: Factor) -> Factor:
        return factor._replace(name=swapped.get(factor.name, factor.name))

    for info in weights.derived:
        info.axes = [tuple(map(swap, axis)) for axis in info.axes]
        info.labels = tuple(map(names.label, info.axes))
        info.softmax_axis = {key: others[0], others[0]: key}.get(info.softmax_axis, "")


def _stage_of(
    call: OpCall, values: Infos, terms: list[Letters], summed_axes: AxesByLetter, axes: Axes
) -> str:
    """Find the stage: tokens times tokens give scores, weights times values the context."""
    names = call.names
    labels = list(map(names.label, axes))
    position = next((n for n, value in enumerate(values) if value.softmax_axis), None)
    if len(values) > 1 and position is not None:
        _check_context(call, values, position, terms[position], summed_axes, labels)
        return "context"
    has_weight = any(value.is_parameter for value in values)
    from_linears = sum([value.from_linear for value in values]) > 1
    if len(values) > 1 and not has_weight and len(list(filter(names.is_token, axes))) > 1:
        summed = _describe_scores(call, values, summed_axes, labels)
        call.results[0].summed_axis = summed if from_linears else ""
        return "scores"
    if has_weight:
        call.results[0].from_linear = True
        return after_linear(values)
    if len(values) == 1 and summed_axes:
        labels_summed = [names.label(aligned[0]) for aligned in summed_axes.values()]
        check_sum(call, values[0], labels_summed, labels)
    return ""


def _check_context(
    call: OpCall,
    values: Infos,
    position: int,
    term: Letters,
    summed_axes: AxesByLetter,
    labels: list[str],
) -> None:
    """Check that weights are summed over their keys, and no sum runs over heads."""
    names = call.names
    pairs = [axes for letter, axes in summed_axes.items() if letter in term]
    if position > 0:  # values @ weights
        pairs = [pair[::-1] for pair in pairs]
    summed = [names.label(pair[0]) for pair in pairs]
    of_values = [names.label(pair[-1]) for pair in pairs]
    weights = values[position]
    _check_weighted_sum(call, weights, summed, of_values)
    # The root of D belongs before the softmax, but these weights were divided by it.
    if weights.width and math.isclose(weights.scale, weights.width**-0.5, rel_tol=1e-3):
        call.warn(warnings.ask("scale-after-softmax"), weights.scale_step)
    before = {label for value in values for label in map(names.label, value.axes)}
    is_shared = weights.reduced_axis == "H" and "H" in labels  # one average for all heads
    if names.sizes.get("H") != 1 and (is_shared or ("H" in before - {*labels} and "D" in labels)):
        call.warn(warnings.warn("heads-averaged"))


def _describe_scores(
    call: OpCall, values: Infos, summed_axes: AxesByLetter, labels: list[str]
) -> str:
    """Note the scale of scores, ask about heads, and return the axes summed over."""
    result = call.results[0]
    aligned = next(iter(summed_axes.values()), None)
    summed = call.names.label(aligned[0]) if aligned else ""
    if summed == "H" and "D" in labels:  # A model may sum over heads on purpose.
        call.warn(warnings.ask("heads-innermost"))
    if aligned and summed == "D":
        result.width = size_of(aligned[0])
    result.scale = math.prod([value.scale for value in values])
    result.scale_step = max([value.scale_step for value in values])
    result.derived = [result]
    ask_about_tiles(call, [axis for value in values for axis in value.axes])
    _ask_about_shared_heads(call, values)
    warn_of_pieces(call, values)
    return summed


def warn_of_pieces(call: OpCall, values: Infos) -> None:
    """Ask about a product of q, k or v that were cut from one tensor along its tokens."""
    numbers_of: dict[str, set[int]] = defaultdict(set)
    for element in chain.from_iterable([value.elements for value in values]):
        if element.label.startswith(PIECE):
            numbers_of[element.label].add(element.position)
    if [len(numbers) > 1 for numbers in numbers_of.values()] == [True]:
        call.warn(warnings.warn("qkv-cut-along-tokens"))


def _check_weighted_sum(
    call: OpCall, weights: TensorInfo, summed: list[str], of_values: list[str]
) -> None:
    names = call.names
    keys = weights.softmax_axis
    tokens = list(filter(names.counts_tokens, summed))
    other = next(filter(names.counts_tokens, of_values), keys)
    if keys in tokens and names.root(other) != names.root(keys):
        call.warn(warnings.warn("contraction-of-different-axes", left=keys, right=other))
    # The "+1" may be a sink, which has no value.
    if not tokens or keys in tokens or keys.removesuffix("+1") in tokens:
        call.pending.pop(weights.softmax_step, None)
    elif names.root(keys) != keys or keys == "T":
        text = warnings.of_softmax("softmax-over-queries", weights.labels, tokens[0])
        call.warn(text, weights.softmax_step)
    elif names.counts_tokens(keys):
        call.warn(warnings.warn("weights-transposed", left=keys, right=tokens[0]))


def check_sum(call: OpCall, value: TensorInfo, summed: list[str], left: list[str]) -> None:
    """Warn if heads are summed although their widths stay separate."""
    if "H" not in summed or "D" not in left or call.names.sizes.get("H") == 1:
        return
    if value.stage in ("context", "merged"):
        call.warn(warnings.warn("heads-averaged"))


def _ask_about_shared_heads(call: OpCall, values: Infos) -> None:
    """Ask about a query head that reads another group's KV head."""
    by_label = {element.label: element for value in values for element in value.elements}
    if {"H", "H_kv"} <= by_label.keys():
        query, key = by_label["H"], by_label["H_kv"]
        if query.position * size_of(key.axis) // size_of(query.axis) != key.position:
            call.warn(warnings.warn("kv-repeat-interleaved-wrongly"))


def ask_about_tiles(call: OpCall, axes: Axes) -> None:
    """Ask about KV heads that were tiled although each group of query heads shares one."""
    factors = chain.from_iterable(axes)
    is_tiled = any(factor.name == "H" and factor.origin is Origin.TILED for factor in factors)
    if is_tiled and not any(map(are_turned_groups, axes)):
        call.warn(warnings.warn("kv-repeat-interleaved-wrongly"))


CONTRACTIONS = rules(
    ("matmul linalg_matmul bmm mm mv dot addmm baddbmm addmv", matmul),
    ("einsum", einsum),
)
