"""Names when numbers along an axis are summed, normalised or selected."""

from __future__ import annotations

from torch import Tensor

from mha_course.tracing.axes import Axes, unknown
from mha_course.tracing.rules import warnings
from mha_course.tracing.rules.call import SCORES, OpCall, rules
from mha_course.tracing.rules.contraction import check_sum
from mha_course.tracing.rules.elementwise import like, same


def along(call: OpCall) -> list[Axes]:
    """Keep the axes of a tensor normalised or cumulated along one; ask if that one is the heads."""
    x = call.first()
    dim = call.arg(2 if call.op == "normalize" else 1, "dim", "axis")
    axes = call.axes(x)
    labels = list(map(call.names.label, axes))
    tokens = [n for n, axis in enumerate(axes) if call.names.is_token(axis)]
    if "D" in labels and tokens and labels[dim] == "H" and x.shape[dim] > 1:
        best = labels.index("D") if call.op == "normalize" else tokens[0]
        call.warn(warnings.warn("runs-over-heads", op=call.op, dim=best))
    return same(call)


def reduced(call: OpCall) -> list[Axes]:
    """Drop axes, or keep them with size 1."""
    x = call.first()
    value = call.info(x)
    dim = call.arg(1, "dim", "axis")
    if isinstance(dim, Tensor):  # max(a, b)
        return like(call)
    dims = list(dim) if isinstance(dim, (tuple, list)) else [dim]
    every = range(x.dim())
    dims = list(every) if dim is None else [every[n] for n in dims]
    reduced = [call.names.label(value.axes[n]) for n in dims]
    left = [axis for n, axis in enumerate(value.axes) if n not in dims]
    if call.op in ("mean", "sum"):
        check_sum(call, value, reduced, list(map(call.names.label, left)))
    # Weights averaged over heads are one table for all; a sum over keys is a softmax's divisor.
    of_heads = call.op == "mean" and value.stage == "weights" and reduced == ["H"]
    if of_heads or (call.op == "sum" and len(reduced) == 1 and value.stage in (*SCORES, "weights")):
        call.results[0].reduced_axis = reduced[0]
    if call.outs[0].dim() == x.dim():
        left = [() if n in dims else axis for n, axis in enumerate(value.axes)]
    return [left for _ in call.outs]


def topk(call: OpCall) -> list[Axes]:
    """Keep the largest numbers along an axis, which then counts something else."""
    axes = call.axes(call.first())
    dim = call.arg(2, "dim", default=-1)
    axes[dim] = unknown(call.outs[0].shape[dim])
    return [axes for _ in call.outs]


_REDUCE = """
    sum mean amax amin max min any all argmax argmin logsumexp var std norm prod median nansum
    nanmean vector_norm linalg_vector_norm count_nonzero var_mean std_mean cosine_similarity
    kthvalue mode
"""
REDUCTIONS = rules(
    ("normalize cumsum cumprod cummax cummin logcumsumexp", along),
    (_REDUCE, reduced),
    ("topk", topk),
)
