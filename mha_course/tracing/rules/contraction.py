"""Names in sums of products: Linear, matrix products, einsum, and attention in one call."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch

from mha_course.tracing.axes import Axis, AxisNamer, Origin, size_of, unique, unknown
from mha_course.tracing.rules import warnings
from mha_course.tracing.rules.call import PIECE, OpCall, TensorInfo, rules

Letters = list[Any]


def linear(call: OpCall) -> list[list[Axis]]:
    """Map the last axis: its new name is that of the weight's rows, or follows from the width."""
    x, weight = call.first(), call.arg(1, "weight")
    rows = call.axes(weight)[0] if weight.dim() == 2 else ()
    call.names.confirm([call.axes(x)[-1]], Origin.LINEAR)
    if call.names.label(rows) == "?":
        rows = _made_of(call.names, call.axes(x), call.outs[0].shape[-1])
    for parameter, axes in ((weight, [rows, call.axes(x)[-1]]), (call.arg(2, "bias"), [rows])):
        if isinstance(parameter, torch.Tensor) and call.info(parameter).weight:
            call.info(parameter).learn(axes, call.names)
    return [[*call.axes(x)[:-1], rows][-call.outs[0].dim() :]]


def _made_of(names: AxisNamer, axes: list[Axis], size: int) -> Axis:
    """Name what a weight makes of a last axis: tokens and heads are mixed, a width has a size."""
    last = axes[-1] if axes else ()
    if "H" in map(names.label, axes[:-1]) and names.label(last) == "D" and size != size_of(last):
        return unknown(size)  # of each head something else
    if names.is_token(last) or names.label(last) == "H":
        return last if size_of(last) == size else unknown(size)
    return (unique(size, Origin.LATENT),) if names.label(last) == "kv_rank" else names.linear(size)


def matmul(call: OpCall) -> list[list[Axis]]:
    """Matrix products: @, matmul, bmm, mm, mv, dot; addmm and baddbmm add a bias."""
    offset = 1 if call.op in ("addmm", "baddbmm", "addbmm", "addmv") else 0
    left = call.arg(offset, "batch1", "mat1", "mat", "input")
    right = call.arg(offset + 1, "batch2", "mat2", "other", "vec", "tensor")
    batch = [f"b{position}" for position in range(max(left.dim(), right.dim()) - 2, 0, -1)]
    one = [*batch[len(batch) - max(left.dim() - 2, 0) :], "row", "sum"][-left.dim() :]
    two = [*batch[len(batch) - max(right.dim() - 2, 0) :], "sum", "column"]
    two = ["sum"] if right.dim() == 1 else two
    out = [*batch, *(["row"] if left.dim() > 1 else []), *(["column"] if right.dim() > 1 else [])]
    axes = contract(call, [left, right], [one, two], out)
    if offset:
        axes = call.names.separate_tokens(axes)
        for position, axis in enumerate(reversed(call.axes(call.first())), 1):  # of the bias
            axes[-position] = call.broadcast(axes[-position], axis)
    return [axes]


def tensordot(call: OpCall) -> list[list[Axis]]:
    """Sum products over pairs of axes; inner sums over the last axis of both."""
    left = call.arg(0, "a", "input")
    right = call.arg(1, "b", "other")
    dims = call.arg(2, "dims", default=2)
    if call.op == "inner":
        dims = [-1], [-1]
    elif isinstance(dims, int):
        dims = range(left.dim() - dims, left.dim()), range(dims)
    pairs = {dim % left.dim(): other % right.dim() for dim, other in zip(*dims, strict=True)}
    one = [f"sum{n}" if n in pairs else f"left{n}" for n in range(left.dim())]
    two = {other: f"sum{n}" for n, other in pairs.items()}
    letters = [two.get(n, f"right{n}") for n in range(right.dim())]
    out = [letter for letter in (*one, *letters) if not letter.startswith("sum")]
    return [contract(call, [left, right], [one, letters], out)]


def einsum(call: OpCall) -> list[list[Axis]]:
    """Sum products as the letters say."""
    equation, operands = call.args[0], call.args[1:]
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    if not isinstance(equation, str):  # torch.einsum(x, [0, 1], …)
        return []
    inputs, _, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if "->" not in equation:
        letters = sorted(set(inputs) - {",", "."})
        output = "..." if "..." in inputs else ""
        output += "".join(letter for letter in letters if inputs.count(letter) == 1)
    dots = [x.dim() - len(term.replace("...", "")) for term, x in zip(terms, operands, strict=True)]
    depth = max(dots)
    spelled = [_spell(term, number, depth) for term, number in zip(terms, dots, strict=True)]
    return [contract(call, list(operands), spelled, _spell(output, depth, depth))]


def _spell(term: str, dots: int, depth: int) -> Letters:
    """Replace the dots of a term by as many letters as they stand for."""
    before, ellipsis, after = term.partition("...")
    return [*before, *(range(depth - dots, depth) if ellipsis else ()), *after]


def contract(
    call: OpCall, tensors: list[torch.Tensor], terms: list[Letters], out: Letters
) -> list[Axis]:
    """Name the axes of a sum of products; warn of sums over axes that only agree in size."""
    for tensor, term in zip(tensors, terms, strict=True):
        _turn_roles(call.names, call.info(tensor), [letter not in out for letter in term])
    met: dict[Any, Axis] = {}
    seen: dict[Any, list[Axis]] = defaultdict(list)
    products = not any(call.info(tensor).over for tensor in tensors)
    for number, term in enumerate(terms):
        factor = _axes_of_factor(call, tensors, terms, number, out)
        for letter, axis in zip(term, factor, strict=True):
            seen[letter].append(axis)
            summed = letter not in out
            before = met.get(letter, axis)
            met[letter], differs = call.names.unify(before, axis, strict=products and summed)
            if differs:
                _warn_of_mismatch(call, summed, before, axis, tensors)
    axes = [met[letter] for letter in out]
    gone = [letter for letter in met if letter not in out]
    call.names.confirm([met[letter] for letter in gone], Origin.LINEAR)
    _infer_stage(call, tensors, terms, seen, gone, axes)
    return axes


def _turn_roles(names: AxisNamer, weights: TensorInfo, summed: list[bool]) -> None:
    """Swap T and S where a sum shows that scores were k @ q.mT, with the keys first."""
    pairs = zip(weights.axes, summed, strict=True)
    tokens = [(names.label(axis), axis, gone) for axis, gone in pairs if names.is_token(axis)]
    keys = [axis for label, axis, gone in tokens if label == weights.over and gone]
    queries = [axis for label, axis, gone in tokens if label != weights.over and not gone]
    if not keys or not queries:
        return
    query = names.label(queries[0])
    if names.root(weights.over) != names.root(query) or query == "T":
        return
    if weights.over != "T" and not weights.over.endswith("'"):
        return
    keys_to_queries = {k.name: q.name for k, q in zip(keys[0], queries[0], strict=True)}
    swapped = keys_to_queries | {q: k for k, q in keys_to_queries.items()}
    for info in weights.family:
        info.axes = [
            tuple([f._replace(name=swapped.get(f.name, f.name)) for f in axis])
            for axis in info.axes
        ]
        info.labels = tuple(map(names.label, info.axes))
        info.over = "*".join(swapped.get(name, name) for name in info.over.split("*"))


def _axes_of_factor(
    call: OpCall, tensors: list[torch.Tensor], terms: list[Letters], number: int, out: Letters
) -> list[Axis]:
    """Return the axes of a factor, those of a weight named as a Linear's output is."""
    axes = call.axes(tensors[number])
    names = call.names
    term = terms[number]
    if not call.info(tensors[number]).weight:
        return axes
    rest: dict[Any, Axis] = {}  # of the other factors
    for n, (letters, tensor) in enumerate(zip(terms, tensors, strict=True)):
        pairs = zip(letters, call.axes(tensor), strict=True)
        if n != number:
            rest |= {letter: axis for letter, axis in pairs if size_of(axis) > 1}
    own = [position for position, letter in enumerate(term) if letter in out and letter not in rest]
    free = [position for position in own if names.label(axes[position]) == "?"]
    summed = [rest[letter] for letter in term if letter in rest and letter not in out]
    beside = [axis for letter, axis in rest.items() if letter in out]
    sizes = [size_of(axes[position]) for position in free]
    if len(free) > 1 and sizes == [3, names.sizes.get("H"), names.sizes.get("D")][-len(free) :]:
        for position, name in zip(free, ("3", "H", "D")[-len(free) :], strict=True):
            axes[position] = names.read(name, size_of(axes[position]))
        return axes
    for position, size in zip(free, sizes, strict=True):
        fits = [
            name
            for name in ("C", "D", "H")
            if names.sizes.get(name) == size and sizes.count(size) == 1
        ]
        if len(free) == 1 and len(axes) <= 2:
            axes[position] = _made_of(names, beside + summed[:1], size)
        elif len(fits) == 1 and len(own) + len(summed) == len(term):  # the size leaves no doubt
            axes[position] = names.read(fits[0], size)
    return axes


def _warn_of_mismatch(
    call: OpCall, summed: bool, left: Axis, right: Axis, tensors: list[torch.Tensor]
) -> None:
    """Warn where two axes met that only have the same size."""
    names = call.names
    words = {"left": names.label(left), "right": names.label(right)}
    if not summed or "H" in words.values():
        call.warn(warnings.of_broadcast(names, left, right))
    elif any(call.info(tensor).over for tensor in tensors):
        return  # judged by _check_weighted_sum
    elif words["left"] == "D" and names.is_token(right):
        call.warn(warnings.warn("key-not-transposed", **words))
    else:
        call.warn(warnings.warn("contraction-of-different-axes", **words))


def _infer_stage(
    call: OpCall, tensors: list[torch.Tensor], terms: list[Letters], seen: dict[Any, list[Axis]],
    summed: list[Any], axes: list[Axis],
) -> None:  # fmt: skip
    """Name the stage: tokens times tokens give scores, weights times values the context."""
    names = call.names
    values = [call.info(tensor) for tensor in tensors]
    labels = [names.label(axis) for axis in axes]
    of_data = len(values) > 1 and not any(value.weight for value in values)
    if of_data:
        names.confirm(axis for found in seen.values() for axis in found)
    if labels.count("H") > 1:
        call.warn(warnings.warn("never-transposed"))
    weights = next((i for i, value in enumerate(values) if value.over), None)
    linears = len([value for value in values if value.linear])
    if weights is not None and len(values) > 1:
        place = 0 if weights == 0 else -1
        over = [names.label(seen[letter][place]) for letter in summed if letter in terms[weights]]
        _name_context(call, tensors, values[weights], over, labels)
    elif of_data and len([axis for axis in axes if names.is_token(axis)]) > 1:
        _name_scores(call, values, names.label(seen[summed[0]][0]) if summed else "", labels)
    elif linears > 1 and labels[-2:] in (["D", "D"], ["C", "C"]):
        # channels meet channels: scores, if a softmax follows
        call.results[0].family = [call.results[0]]
    elif any(value.weight for value in values):
        call.results[0].stage = after_linear(values)
        call.results[0].linear = True
    elif len(values) == 1 and summed:
        of_sum(call, tensors[0], [names.label(seen[letter][0]) for letter in summed], labels)


def _name_context(
    call: OpCall,
    tensors: list[torch.Tensor],
    weights: TensorInfo,
    over: list[str],
    labels: list[str],
) -> None:
    names = call.names
    call.results[0].stage = "context"
    _check_weighted_sum(call, weights, over)
    had = {label for x in tensors for label in map(names.label, call.axes(x))}
    if names.sizes.get("H") != 1 and "H" in had - set(labels) and "D" in labels:
        call.warn(warnings.warn("heads-averaged"))


def _name_scores(call: OpCall, values: list[TensorInfo], summed: str, labels: list[str]) -> None:
    result = call.results[0]
    result.stage = "scores"
    if summed == "H" and "D" in labels:  # they may have been turned on purpose
        call.warn(warnings.Question(warnings.warn("heads-innermost")))
    both = len([value for value in values if value.linear]) > 1
    result.summed = summed if both else ""
    result.family = [result]
    pieces = [one for value in values for one in value.selections if one.label.startswith(PIECE)]
    if len({one.label for one in pieces}) == 1 < len({one.position for one in pieces}):
        call.warn(warnings.warn("qkv-cut-along-tokens"))


def _check_weighted_sum(call: OpCall, weights: TensorInfo, summed: list[str]) -> None:
    """Compare the axis along which weights sum to 1 with the one over which values are summed."""
    over = weights.over
    tokens = list(filter(call.names.counts_tokens, summed))
    # The one of "+1" may be a sink, which has no value.
    if not tokens or over in tokens or over.removesuffix("+1") in tokens:
        call.settled.add(weights.softmax)
    elif call.names.root(over) != over or over == "T":
        text = warnings.of_softmax("softmax-over-queries", weights.labels, tokens[0])
        call.warn(text, weights.softmax)
    elif call.names.counts_tokens(over):
        call.warn(warnings.warn("weights-transposed", left=over, right=tokens[0]))


def of_sum(call: OpCall, x: torch.Tensor, gone: list[str], left: list[str]) -> None:
    """Warn where heads are summed although their widths stay apart."""
    sums_heads = "H" in gone and "D" in left and call.names.sizes.get("H") != 1
    if sums_heads and call.info(x).stage in ("context", "merged"):
        call.warn(warnings.warn("heads-averaged"))


def after_linear(values: list[Any]) -> str:
    """Return the stage that a Linear leads to."""
    return "out" if any(value.stage in ("context", "merged") for value in values) else "projection"


def cell(call: OpCall) -> list[list[Axis]]:
    """Take one step of a recurrent network: the state's width is named as a Linear's."""
    *before, width = call.axes(call.arg(1, "hx"))
    named = call.names.linear(size_of(width))
    call.names.meet(width, named)
    return [[*before, named]]


def fused(call: OpCall) -> list[list[Axis]]:
    """Attention in one call, from q, k and v."""
    q = call.axes(call.arg(0, "query"))
    k = call.axes(call.arg(1, "key"))
    v = call.axes(call.arg(2, "value"))
    full = call.names.separate_tokens([*q[:-1], k[-2]])
    call.names.confirm([q[-1], k[-1], v[-1]])
    mask = call.arg(3, "attn_mask")
    labels = [call.names.label(axis) for axis in full]
    if labels[-2:] == ["H", "H"]:
        call.warn(warnings.warn("never-transposed"))
    if labels[-1] == "B":
        call.warn(warnings.warn("attention-over-batch"))
    if len(labels) == 3 and call.names.label(q[-1]) == "C" and call.names.sizes.get("H", 1) > 1:
        call.warn(warnings.warn("no-split", **call.names.sizes))
    queries, keys = size_of(full[-2]), size_of(full[-1])
    if call.arg(5, "is_causal", default=False) and queries < keys:
        call.warn(warnings.warn("causal-top-left", T=queries, S=keys))
    if isinstance(mask, torch.Tensor):
        for left, right in zip(full[::-1], call.axes(mask)[::-1], strict=False):
            call.broadcast(left, right)
    pairs = zip(full[:-2], k[:-2], strict=False)
    batch = [call.names.unify(of_query, of_key)[0] for of_query, of_key in pairs]
    call.results[0].stage = "context"
    return [[*batch, full[-2], v[-1]]]


def module(call: OpCall) -> list[list[Axis]]:
    """``nn.MultiheadAttention`` in one call: tokens first, or after the batch on its fast path."""
    query = call.axes(call.arg(0, "query"))
    key = call.axes(call.arg(1, "key"))
    position = 1 if call.op == "_native_multi_head_attention" else 0
    if len(query) == 2:
        position = 0
    queries, keys = call.names.separate_tokens([query[position], key[position]])
    if call.names.label(keys) == "B":
        call.warn(warnings.warn("attention-over-batch"))
    out = [*query[:position], queries, *query[position + 1 :]]
    batch = [axis for dim, axis in enumerate(query[:-1]) if dim != position]
    heads = call.names.sizes.get("H", 0)
    mask = call.kwargs.get("attn_mask")
    if isinstance(mask, torch.Tensor) and mask.dim() == 3 and heads:
        call.broadcast((*batch[0], *call.names.read("H", heads)), call.axes(mask)[0])
    rest: list[list[Axis]] = []
    for weights in call.outs[1:]:
        between = [call.names.read("H", heads)] if heads and weights.dim() == len(batch) + 3 else []
        rest.append([*batch, *between, queries, keys])
        call.results[len(rest)].stage = "weights"
    call.results[0].stage = "out"
    return [out, *rest]


CONTRACTIONS = rules(
    ("linear", linear),
    ("matmul linalg_matmul bmm mm mv dot addmm baddbmm addmv", matmul),
    ("einsum", einsum),
    ("tensordot inner", tensordot),
    ("gru_cell rnn_tanh_cell rnn_relu_cell", cell),
    ("scaled_dot_product_attention flex_attention", fused),
    ("multi_head_attention_forward _native_multi_head_attention", module),
)
