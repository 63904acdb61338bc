"""Questions about numbers: the scale of the scores, and the keys a mask leaves visible."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from mha_course.tracing.axes import Size
from mha_course.tracing.rules.call import OpCall, TensorInfo
from mha_course.tracing.rules.warnings import ask, warn

HIDDEN = -9000  # lower scores count as hidden: BERT's masks add -10000
PLAIN = (Tensor, torch.nn.Parameter)  # A subclass may have no numbers.
DIVISIONS = ("div", "true_divide", "divide")
LIMIT = 2**20  # the largest number of scores of one head to check


def factor_of(call: OpCall) -> float:
    """Return the plain number a call multiplies by, 1 if there is none.

    It is NaN, and nothing is asked later, if each vector is multiplied by its own number, as in a
    norm by hand or a learned temperature.
    """
    op = call.op.removesuffix("_")
    inverse = op in DIVISIONS  # Only a denominator divides.
    if not inverse and op not in ("mul", "multiply"):
        return 1.0
    tensors = [value for value in call.args[:2] if isinstance(value, Tensor) and value.dim()]
    # 1 and another size: a column with one number for each vector.
    if {value.shape[-1] for value in tensors} > {1}:
        return math.nan
    number = next(filter(None, map(_number, call.args[inverse:2])), 1.0)
    return 1 / number if inverse else number


def _number(value: Any) -> float:
    """Return a plain number, or a scalar tensor's; 0 for anything else."""
    is_scalar = type(value) in PLAIN and value.dim() == 0 and value.device.type == "cpu"
    if is_scalar and not value.is_complex():
        return float(value.detach())
    return float(value) if type(value) in (int, float, Size) else 0.0


def check_scale(call: OpCall, scores: TensorInfo) -> None:
    """Ask about several heads' scores scaled by the root of a size other than D."""
    width = scores.width
    sizes = call.names.sizes
    heads = sizes.get("H", 1)
    if not width or heads == 1 or math.isclose(scores.scale, width**-0.5, rel_tol=1e-3):
        return
    usual = (
        (sizes.get("C", heads * width) ** -0.5, "scale-d-model"),
        (1 / width, "scale-no-root"),
        (width**0.5, "scale-inverted"),
    )
    for scale, name in usual:
        if math.isclose(scores.scale, scale, rel_tol=1e-3):
            call.warn(ask(name), None if scores.scale_step < 0 else scores.scale_step)


def check_hidden_weights(call: OpCall) -> None:
    """Warn of weights filled with a large negative number, as is right only for scores."""
    fills = [_number(value) for value in (*call.args[1:], *call.kwargs.values())]
    if call.op.removesuffix("_") in ("masked_fill", "where") and min(fills, default=0) <= HIDDEN:
        call.warn(warn("mask-after-softmax"))


def check_masked_weights(call: OpCall, weights: TensorInfo) -> None:
    """Ask about weights that a mask sets to 0, until they are renormalised.

    A mask hides the same keys from all queries, or all later ones; dropout differs in each row.
    """
    out = call.outs[0]
    before = next((x for x in call.tensors if call.info(x) is weights), out)
    over_keys = weights.labels[-1:] == (weights.softmax_axis,)
    readable = type(out) in PLAIN and not out.is_meta and out.numel() <= LIMIT
    if not over_keys or not readable or out.dim() < 2 or out.shape != before.shape:
        return
    zeroed = (out == 0) & (before != 0)
    if before is out:  # it works in place, so the earlier zeros are unknown
        hidden = any(info.stage == "masked_scores" for info in weights.derived)
        zeroed = (out == 0) & (not hidden)
    queries, keys = zeroed.shape[-2:]
    some = zeroed & ~zeroed.all(-1, keepdim=True)  # not a whole head
    later = torch.ones_like(zeroed).triu(keys - queries + 1)
    same_keys = bool((some == some[..., :1, :]).all()) and queries > 1
    if some.any() and (same_keys or (queries > 2 and torch.equal(zeroed, later))):
        call.pending[call.index] = ask("mask-after-softmax")


def check_added(call: OpCall) -> None:
    """Ask about a triangle of ones added to scores, in which 0 was meant to hide."""
    if call.op.removesuffix("_") != "add":
        return
    for table in call.tensors:
        first = _first_table(table)
        ahead = 0 if first is None else first.size(1) - first.size(0)
        if first is not None and torch.equal(first, torch.ones_like(first).tril(ahead)):
            call.warn(ask("mask-added-as-number"))


def _first_table(table: Tensor) -> Tensor | None:
    """Return a tensor's first matrix (T, S), or None if there is no triangle to look for."""
    if table.dim() < 2 or table.is_meta or type(table) not in PLAIN:
        return None
    queries, keys = table.shape[-2:]
    if not 2 < queries <= keys or queries * keys > LIMIT:
        return None
    return table.detach()[(0,) * (table.dim() - 2)].cpu()


def check_triangle(call: OpCall, table: Tensor) -> None:
    """Ask about a triangle of visible keys, in scores or their mask, that is not causal."""
    first = _first_table(table)
    if first is None:
        return
    queries, keys = first.shape
    visible = first if first.dtype == torch.bool else first > HIDDEN
    ahead = keys - queries
    every = torch.ones_like(visible)
    if visible.all() and torch.equal(first == 0, every.triu(ahead + 1)):
        added = torch.equal(first == 1, every.tril(ahead))
        call.warn(ask("mask-added-as-number" if added else "mask-multiplied"))
    triangles = (
        (every.tril(ahead), ""),
        (every.triu(ahead + 1), "mask-inverted"),
        (every.triu(ahead), "mask-inverted"),
        (every.tril(ahead + 1), "causal-leaks-next"),
        (every.tril(ahead - 1), "causal-hides-self"),
        (every.tril(), "causal-top-left"),
    )
    name = next((name for triangle, name in triangles if triangle.equal(visible)), "")
    if name:
        call.warn(ask(name, T=queries, S=keys))
