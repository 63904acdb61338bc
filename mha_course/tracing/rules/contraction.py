"""Names in sums of products: Linear, matrix products and einsum."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

from torch import Tensor

from mha_course.tracing.axes import (
    Axes,
    Axis,
    AxisNamer,
    Origin,
    are_turned_groups,
    size_of,
    unique,
    unknown,
)
from mha_course.tracing.rules import numbers, warnings
from mha_course.tracing.rules.call import PIECE, OpCall, TensorInfo, rules

Letters = list[Any]
AxesByLetter = dict[Any, Axes]
Infos = list[TensorInfo]


def linear(call: OpCall) -> list[Axes]:
    """Map the last axis: its new name is that of the weight's rows, or follows from the width."""
    x, weight = call.first(), call.arg(1, "weight")
    rows = call.axes(weight)[0] if weight.dim() == 2 else ()
    call.results[0].stage = after_linear(list(map(call.info, call.tensors)))
    call.results[0].from_linear = True
    call.names.confirm([call.axes(x)[-1]], Origin.LINEAR)
    if call.names.label(rows) == "?":
        rows = _name_output(call.names, call.axes(x), call.outs[0].shape[-1])
    for parameter, axes in ((weight, [rows, call.axes(x)[-1]]), (call.arg(2, "bias"), [rows])):
        if isinstance(parameter, Tensor) and call.info(parameter).is_parameter:
            call.info(parameter).learn(axes, call.names)
    return [[*call.axes(x)[:-1], rows][-call.outs[0].dim() :]]


def _name_output(names: AxisNamer, axes: Axes, size: int) -> Axis:
    """Name what a weight makes of a last axis: tokens and heads are mixed, a width has a size."""
    last = axes[-1] if axes else ()
    label = names.label(last)
    if "H" in map(names.label, axes[:-1]) and label == "D" and size != size_of(last):
        return unknown(size)  # of each head something else
    if names.is_token(last) or label == "H":
        return last if size_of(last) == size else unknown(size)
    if label == "kv_rank":
        return (unique(size, Origin.FROM_LATENTS),)
    made = names.linear_output(size)
    known = names.label(made) in {*map(names.label, axes[:-1])} - {"?"}
    return unknown(size) if known else made  # no tensor has its width twice


def matmul(call: OpCall) -> list[Axes]:
    """Matrix products: @, matmul, bmm, mm, mv, dot; addmm and baddbmm add a bias."""
    offset = 1 if call.op in ("addmm", "baddbmm", "addbmm", "addmv") else 0
    left = call.arg(offset, "batch1", "mat1", "mat", "input")
    right = call.arg(offset + 1, "batch2", "mat2", "other", "vec", "tensor")
    row = "r" if left.dim() > 1 else ""
    column = "c" if right.dim() > 1 else ""
    terms = [f"...{row}s" if row else "s", f"...s{column}" if column else "s"]
    axes = spelled(call, [left, right], terms, f"...{row}{column}")
    if offset:
        axes = call.names.separate_tokens(axes)
        for position, axis in enumerate(reversed(call.axes(call.first())), 1):  # of the bias
            axes[-position] = call.broadcast(axes[-position], axis)
    return [axes]


def tensordot(call: OpCall) -> list[Axes]:
    """Sum products over pairs of axes; inner sums over the last axis of both."""
    left = call.arg(0, "a", "input")
    right = call.arg(1, "b", "other")
    dims = ([-1], [-1]) if call.op == "inner" else call.arg(2, "dims", default=2)
    if isinstance(dims, int):
        dims = range(left.dim() - dims, left.dim()), range(dims)
    pairs = {other % right.dim(): dim % left.dim() for dim, other in zip(*dims, strict=True)}
    one = list(range(left.dim()))
    two = [pairs.get(n, left.dim() + n) for n in range(right.dim())]
    out = [letter for letter in (*one, *two) if letter not in pairs.values()]
    return [contract(call, [left, right], [one, two], out)]


def einsum(call: OpCall) -> list[Axes]:
    """Sum products as the letters say."""
    equation, operands = call.args[0], call.args[1:]
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    if not arrow:
        once = [letter for letter in sorted({*inputs} - {*",."}) if inputs.count(letter) == 1]
        dots = "..." if "..." in inputs else ""
        output = dots + "".join(once)
    return [spelled(call, list(operands), inputs.split(","), output)]


def spelled(call: OpCall, tensors: list[Tensor], terms: list[str], output: str) -> Axes:
    """Replace the dots of terms by as many letters as they stand for, and contract."""
    dots = [x.dim() - len(term.replace("...", "")) for term, x in zip(terms, tensors, strict=True)]
    depth = max(dots)
    spelled: list[Letters] = []
    for term, number in zip([*terms, output], [*dots, depth], strict=True):
        before, ellipsis, after = term.partition("...")
        spelled.append([*before, *(range(depth - number, depth) if ellipsis else ()), *after])
    return contract(call, tensors, spelled[:-1], spelled[-1])


def contract(call: OpCall, tensors: list[Tensor], terms: list[Letters], out: Letters) -> Axes:
    """Name the axes of a sum of products; warn of sums over axes that only agree in size."""
    names = call.names
    values = list(map(call.info, tensors))
    for value, term in zip(values, terms, strict=True):
        _swap_roles(names, value, [letter not in out for letter in term])
    axis_of: dict[Any, Axis] = {}
    axes_by_letter: dict[Any, Axes] = defaultdict(list)
    products = all(value.softmax_step < 0 for value in values)
    for number, term in enumerate(terms):
        factor = _axes_of_factor(call, tensors, terms, number, out)
        for letter, axis in zip(term, factor, strict=True):
            axes_by_letter[letter].append(axis)
            is_summed = letter not in out
            before = axis_of.get(letter, axis)
            axis_of[letter], differs = names.unify(before, axis, strict=products and is_summed)
            if differs:
                _warn_of_mismatch(call, is_summed, before, axis, products)
    axes = [axis_of[letter] for letter in out]
    summed_axes = {
        letter: aligned for letter, aligned in axes_by_letter.items() if letter not in out
    }
    names.confirm([axis_of[letter] for letter in summed_axes], Origin.LINEAR)
    if len(values) > 1 and not any(value.is_parameter for value in values):
        names.confirm(axis for aligned in axes_by_letter.values() for axis in aligned)
    labels = list(map(names.label, axes))
    if labels.count("H") > 1:
        call.warn(warnings.warn("never-transposed"))
    call.results[0].stage = _stage_of(call, values, terms, summed_axes, axes)
    if call.op == "einsum" and len(terms) > 1:
        _ask_about_lone_axes(call, summed_axes)
    return axes


def _ask_about_lone_axes(call: OpCall, summed_axes: AxesByLetter) -> None:
    """Ask about axes that only one factor has, and that are summed away nevertheless."""
    for aligned in summed_axes.values():
        label = call.names.label(aligned[0])
        known = label in ("H", "D", "C") or call.names.counts_tokens(label)
        if len(aligned) == 1 and known and size_of(aligned[0]) > 1:
            call.warn(warnings.warn("summed-alone", axis=label))


def _swap_roles(names: AxisNamer, weights: TensorInfo, is_summed: list[bool]) -> None:
    """Swap T and S where a sum shows that scores were k @ q.mT, with the keys first."""
    tokens = [pair for pair in zip(weights.axes, is_summed, strict=True) if names.is_token(pair[0])]
    keys = [axis for axis, summed in tokens if summed and names.label(axis) == weights.softmax_axis]
    queries = [
        axis for axis, gone in tokens if not gone and names.label(axis) != weights.softmax_axis
    ]
    if not keys or not queries:
        return
    query = names.label(queries[0])
    turned = weights.softmax_axis == "T" or weights.softmax_axis.endswith("'")
    if names.root(weights.softmax_axis) != names.root(query) or query == "T" or not turned:
        return
    swapped = {k.name: q.name for k, q in zip(keys[0], queries[0], strict=True)}
    swapped |= {q: k for k, q in swapped.items()}
    for info in weights.derived:
        info.axes = [
            tuple([f._replace(name=swapped.get(f.name, f.name)) for f in axis])
            for axis in info.axes
        ]
        info.labels = tuple(map(names.label, info.axes))
        info.softmax_axis = "*".join(
            swapped.get(name, name) for name in info.softmax_axis.split("*")
        )


def _axes_of_factor(
    call: OpCall, tensors: list[Tensor], terms: list[Letters], number: int, out: Letters
) -> Axes:
    """Return the axes of a factor, those of a weight named as a Linear's output is."""
    axes = call.axes(tensors[number])
    names = call.names
    term = terms[number]
    if not call.info(tensors[number]).is_parameter:
        return axes
    rest = {  # of the other factors
        letter: axis
        for n, letters in enumerate(terms)
        for letter, axis in zip(letters, call.axes(tensors[n]), strict=True)
        if n != number and size_of(axis) > 1
    }
    own = [n for n, letter in enumerate(term) if letter in out and letter not in rest]
    free = [position for position in own if names.label(axes[position]) == "?"]
    summed = [rest[letter] for letter in term if letter in rest and letter not in out]
    beside = [axis for letter, axis in rest.items() if letter in out]
    sizes = [size_of(axes[position]) for position in free]
    usual = "3HD"[-len(free) :]
    if len(free) > 1 and sizes == [{"3": 3, **names.sizes}.get(name) for name in usual]:
        for position, name, size in zip(free, usual, sizes, strict=True):
            axes[position] = names.parse(name, size)
    elif len(free) == 1 and len(axes) <= 2:
        axes[free[0]] = _name_output(names, beside + summed[:1], sizes[0])
    return axes


def _warn_of_mismatch(call: OpCall, summed: bool, left: Axis, right: Axis, products: bool) -> None:
    names = call.names
    words = {"left": names.label(left), "right": names.label(right)}
    if not summed or "H" in words.values() or words["left"] == words["right"]:
        call.warn(warnings.of_broadcast(names, left, right))
    elif products:  # _check_weighted_sum judges sums with weights.
        key = words["left"] == "D" and names.is_token(right)
        name = "key-not-transposed" if key else "contraction-of-different-axes"
        call.warn(warnings.warn(name, **words))


def _stage_of(
    call: OpCall, values: Infos, terms: list[Letters], summed_axes: AxesByLetter, axes: Axes
) -> str:
    """Tell the stage: tokens times tokens give scores, weights times values the context."""
    names = call.names
    result = call.results[0]
    labels = list(map(names.label, axes))
    weighted = any(value.is_parameter for value in values)
    weights = next((i for i, value in enumerate(values) if value.softmax_axis), None)
    both = len([value for value in values if value.from_linear]) > 1
    if weights is not None and len(values) > 1:
        place = 0 if weights == 0 else -1
        shared = [summed_axes[letter] for letter in summed_axes if letter in terms[weights]]
        over = [names.label(pair[place]) for pair in shared]
        of_values = [names.label(pair[-1 - place]) for pair in shared]
        _check_weighted_sum(call, values[weights], over, of_values)
        numbers.check_weights(call, values[weights])
        had = {label for value in values for label in map(names.label, value.axes)}
        if names.sizes.get("H") != 1 and "H" in had - set(labels) and "D" in labels:
            call.warn(warnings.warn("heads-averaged"))
        return "context"
    if len(values) > 1 and not weighted and len(list(filter(names.is_token, axes))) > 1:
        summed = names.label(next(iter(summed_axes.values()))[0]) if summed_axes else ""
        if summed == "H" and "D" in labels:  # A model may sum over heads on purpose.
            call.warn(warnings.ask("heads-innermost"))
        result.summed_axis = summed if both else ""
        result.width = size_of(next(iter(summed_axes.values()))[0]) if summed == "D" else 0
        result.scale = math.prod([value.scale for value in values])
        result.scale_step = max([value.scale_step for value in values])
        ask_about_tiles(call, [axis for value in values for axis in value.axes])
        _ask_about_shared_heads(call, values)
        result.derived = [result]
        warn_of_pieces(call, values)
        return "scores"
    if both and labels[-2:] in (["D", "D"], ["C", "C"]):
        result.derived = [result]  # attention over channels, if a softmax follows
    elif weighted:
        result.from_linear = True
        return after_linear(values)
    elif len(values) == 1 and summed_axes:
        check_sum(
            call, values[0], [names.label(aligned[0]) for aligned in summed_axes.values()], labels
        )
    return ""


def warn_of_pieces(call: OpCall, values: Infos) -> None:
    """Ask about a product of q, k or v that are pieces of one tensor, cut along its tokens."""
    pieces = [one for value in values for one in value.elements if one.label.startswith(PIECE)]
    if len({one.label for one in pieces}) == 1 < len({one.position for one in pieces}):
        call.warn(warnings.warn("qkv-cut-along-tokens"))


def _check_weighted_sum(
    call: OpCall, weights: TensorInfo, summed: list[str], of_values: list[str]
) -> None:
    names = call.names
    over = weights.softmax_axis
    tokens = list(filter(names.counts_tokens, summed))
    other = next((label for label in of_values if names.counts_tokens(label)), over)
    if over in tokens and names.root(other) != names.root(over):
        call.warn(warnings.warn("contraction-of-different-axes", left=over, right=other))
    # The one of "+1" may be a sink, which has no value.
    if not tokens or over in tokens or over.removesuffix("+1") in tokens:
        call.pending.pop(weights.softmax_step, None)
    elif names.root(over) != over or over == "T":
        text = warnings.of_softmax("softmax-over-queries", weights.labels, tokens[0])
        call.warn(text, weights.softmax_step)
    elif names.counts_tokens(over):
        call.warn(warnings.warn("weights-transposed", left=over, right=tokens[0]))


def check_sum(call: OpCall, value: TensorInfo, gone: list[str], left: list[str]) -> None:
    """Warn where heads are summed although their widths stay apart."""
    sums_heads = "H" in gone and "D" in left and call.names.sizes.get("H") != 1
    if sums_heads and value.stage in ("context", "merged"):
        call.warn(warnings.warn("heads-averaged"))


def after_linear(values: list[Any]) -> str:
    """Return the stage that a Linear leads to."""
    return "out" if any(value.stage in ("context", "merged") for value in values) else "projection"


def cell(call: OpCall) -> list[Axes]:
    """Take one step of a recurrent network: the state's width is named as a Linear's."""
    *before, width = call.axes(call.arg(1, "hx"))
    named = call.names.linear_output(size_of(width))
    call.names.align(width, named)
    return [[*before, named]]


def _ask_about_shared_heads(call: OpCall, values: Infos) -> None:
    """Ask about one query head that reads another KV head than that of its group."""
    picked = {one.label: one for value in values for one in value.elements}
    if {"H", "H_kv"} <= picked.keys():
        query, key = picked["H"], picked["H_kv"]
        if query.position * size_of(key.axis) // size_of(query.axis) != key.position:
            call.warn(warnings.warn("kv-repeat-interleaved-wrongly"))


def ask_about_tiles(call: OpCall, axes: Axes) -> None:
    """Ask about heads that were tiled where each group of queries shares one."""
    heads = [factor for axis in axes for factor in axis if factor.name == "H"]
    tiled = any(factor.origin is Origin.TILED for factor in heads)
    if tiled and not any(map(are_turned_groups, axes)):
        call.warn(warnings.warn("kv-repeat-interleaved-wrongly"))


CONTRACTIONS = rules(
    ("linear", linear),
    ("matmul linalg_matmul bmm mm mv dot addmm baddbmm addmv", matmul),
    ("einsum", einsum),
    ("tensordot inner", tensordot),
    ("gru_cell rnn_tanh_cell rnn_relu_cell", cell),
)
