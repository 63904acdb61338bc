"""Names in attention done by one torch call, whose steps cannot be seen."""

from __future__ import annotations

import math

from torch import Tensor

from mha_course.tracing.axes import Axes, size_of
from mha_course.tracing.rules import numbers, warnings
from mha_course.tracing.rules.call import OpCall, TensorInfo, rules
from mha_course.tracing.rules.contraction import ask_about_tiles, warn_of_pieces
from mha_course.tracing.unify import unify


def fused(call: OpCall) -> list[Axes]:
    """Attention in one call, from q, k and v."""
    names = call.names
    q, k, v = (call.axes(call.arg(n, name)) for n, name in enumerate(("query", "key", "value")))
    full = names.separate_tokens([*q[:-1], k[-2]])
    names.confirm([q[-1], k[-1], v[-1]])
    mask = call.arg(3, "attn_mask")
    labels = [names.label(axis) for axis in full]
    if labels[-2:] == ["H", "H"]:
        call.warn(warnings.warn("never-transposed"))
    if labels[-1] == "B":
        call.warn(warnings.warn("attention-over-batch"))
    if len(labels) == 3 and names.label(q[-1]) == "C" and names.sizes.get("H", 1) > 1:
        call.warn(warnings.warn("no-split", **names.sizes))
    queries, keys = size_of(full[-2]), size_of(full[-1])
    if call.arg(5, "is_causal", default=False) and queries < keys:
        call.warn(warnings.warn("causal-top-left", T=queries, S=keys))
    if labels[-2:] != ["H", "H"] and names.label(q[-1]) == "D":
        _check_scale_of_kernel(call, size_of(q[-1]))
    ask_about_tiles(call, k)
    warn_of_pieces(call, list(map(call.info, call.tensors[:2])))
    if isinstance(mask, Tensor):
        numbers.check_triangle(call, mask)
        # The kernel broadcasts the mask to the scores, which are never made.
        for left, right in zip(full[::-1], call.axes(mask)[::-1], strict=False):
            call.broadcast(left, right)
    batch = [unify(names, *pair)[0] for pair in zip(full[:-2], k[:-2], strict=False)]
    call.results[0].stage = "context"
    return [[*batch, full[-2], v[-1]]]


def _check_scale_of_kernel(call: OpCall, width: int) -> None:
    query, key = (call.info(call.arg(n, name)) for n, name in enumerate(("query", "key")))
    own_scale = call.kwargs.get("scale")
    before = query.scale * key.scale
    scale_step = max(query.scale_step, key.scale_step)
    if own_scale is None and width > 1 and math.isclose(before, width**-0.5, rel_tol=1e-3):
        call.warn(warnings.ask("scaled-before-the-kernel"), scale_step)
        return
    scale = before * (width**-0.5 if own_scale is None else own_scale)
    numbers.check_scale(call, TensorInfo([], width=width, scale=scale, scale_step=scale_step))


def module(call: OpCall) -> list[Axes]:
    """``nn.MultiheadAttention`` in one call, with the tokens first."""
    names = call.names
    query = call.axes(call.arg(0, "query"))
    key = call.axes(call.arg(1, "key"))
    queries, keys = names.separate_tokens([query[0], key[0]])
    if names.label(keys) == "B":
        call.warn(warnings.warn("attention-over-batch"))
    batch = query[1:-1]
    heads = names.parse("H", names.sizes["H"]) if "H" in names.sizes else None
    mask = call.kwargs.get("attn_mask")
    if isinstance(mask, Tensor) and mask.is_floating_point():  # in this function, True hides
        numbers.check_triangle(call, mask)
    if heads and isinstance(mask, Tensor) and mask.dim() == 3:
        call.broadcast((*batch[0], *heads), call.axes(mask)[0])
    rest: list[Axes] = []
    for result, weights in zip(call.results[1:], call.outs[1:], strict=True):
        between = [heads] if heads and weights.dim() == len(batch) + 3 else []
        rest.append([*batch, *between, queries, keys])
        result.stage = "weights"
    call.results[0].stage = "out"
    return [[queries, *query[1:]], *rest]


KERNELS = rules(
    ("scaled_dot_product_attention flex_attention", fused),
    ("multi_head_attention_forward", module),
)
