"""Attention as named steps: a mistake is the right answer with one step replaced.

Axes: B batch, T query tokens, S key and value tokens, C width, H heads, D = C / H head width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

from torch import Tensor

Three = tuple[Tensor, Tensor, Tensor]


def _project(
    x: Tensor, memory: Tensor, weights: Any, biases: Any, num_heads: int, s: Steps
) -> Three:
    q, k, v = map(s.linear, (x, memory, memory), weights, biases)
    return q, k, v


def _split_each(q: Tensor, k: Tensor, v: Tensor, num_heads: int, s: Steps) -> Three:
    return s.split(q, num_heads), s.split(k, num_heads), s.split(v, num_heads)


def _softmax(scores: Tensor) -> Tensor:
    exponentials = (scores - scores.amax(-1, keepdim=True)).exp()
    return exponentials / exponentials.sum(-1, keepdim=True)


def _hide(scores: Tensor, mask: Tensor) -> Tensor:
    """Hide keys; leave a fully masked row open, so that nothing becomes NaN."""
    return scores.masked_fill(~mask & mask.any(-1, keepdim=True), -math.inf)


def _attend(scores: Tensor, mask: Tensor | None, s: Steps) -> Tensor:
    if mask is None:
        return s.softmax(scores)
    mask = s.mask(mask, scores)
    return s.empty(s.softmax(s.hide(scores, mask)), mask)


class Steps(SimpleNamespace):
    """Steps that lessons share, each replaceable: ``Steps(scale=…)`` is right except for scale."""

    defaults: ClassVar[dict[str, Callable[..., Any]]] = {
        # A step gets all that any mistake in it may use, even where the right one needs less.
        "linear": lambda x, w, b=None: x @ w.T + (0 if b is None else b),
        "unpack": lambda qkv: qkv.chunk(3, dim=-1),
        "order": lambda *qkv: qkv,
        "project": _project,
        "split": lambda x, num_heads: x.unflatten(2, (num_heads, -1)).transpose(1, 2),
        "split_each": _split_each,
        "split_fused": lambda qkv, h: qkv.unflatten(2, (3, h, -1)).permute(2, 0, 3, 1, 4),
        "scores": lambda q, k: q @ k.transpose(-2, -1),
        "scale": lambda scores, q, k, num_heads: scores / math.sqrt(q.size(-1)),
        "softmax": _softmax,
        "mask": lambda mask, scores: mask,
        "hide": _hide,
        "empty": lambda weights, mask: weights * mask.any(-1, keepdim=True),
        "attend": _attend,
        "post": lambda weights, q: weights,
        "returned": lambda weights, scores: weights,
        "weigh": lambda weights, v: weights @ v,
        "merge": lambda context: context.transpose(1, 2).flatten(2),
        "output": lambda merged, w_o, b_o, num_heads: merged @ w_o.T + (0 if b_o is None else b_o),
    }

    def __init__(self, **changes: Callable[..., Any]) -> None:
        super().__init__(**self.defaults | changes)


# Which steps an exercise has; mistakes in others cannot be made there.
ATTEND = ("softmax", "attend")
MASKED = (*ATTEND, "mask", "hide", "empty")
ALL_SIX = (
    "linear", "order", "project", "split", "split_each", "scores", "scale", "weigh", "merge",
    "output", "post", "returned",
)  # fmt: skip
NO_BIAS = (None,) * 4


def read_fused(qkv: Tensor, num_heads: int, s: Steps) -> Three:
    """Return q, k and v of a fused projection: cut in three, then split, or both at once."""
    # A mistake in only one of the two ways must not be hidden by the other.
    if s.split_fused is not Steps.defaults["split_fused"]:
        return s.order(*s.split_fused(qkv, num_heads))
    q, k, v = s.order(*s.unpack(qkv))
    return s.split_each(q, k, v, num_heads, s)


def pass_through(
    s: Steps,
    x: Tensor,
    memory: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    w_o: Tensor,
    num_heads: int,
    mask: Tensor | None = None,
    biases: Any = NO_BIAS,
) -> tuple[Tensor, Tensor]:
    """Do all six steps of multi-head attention."""
    q, k, v = s.order(*s.project(x, memory, (w_q, w_k, w_v), biases[:3], num_heads, s))
    q, k, v = s.split_each(q, k, v, num_heads, s)
    scores = s.scale(s.scores(q, k), q, k, num_heads)
    attention = s.post(s.attend(scores, mask, s), q)
    context = s.weigh(attention, v)
    return s.output(s.merge(context), w_o, biases[3], num_heads), s.returned(attention, scores)
