"""The exercises as compositions of named steps: a wrong implementation is the right one with a step replaced.

Axes: B batch, T query tokens, S key and value tokens, C width, H heads, D = C / H head width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from mha_course import caching, flash, masks, positions
from mha_course.exercises import beyond
from mha_course.exercises import solutions as r
from mha_course.models import vision

Three = tuple[Tensor, Tensor, Tensor]


def _project(x: Tensor, memory: Tensor, weights: Any, biases: Any, num_heads: int, s: Steps) -> Three:
    """Project queries from x, keys and values from memory."""
    sources = (x, memory, memory)
    q, k, v = (s.linear(a, w, b) for a, w, b in zip(sources, weights, biases, strict=True))
    return q, k, v


def _apart(q: Tensor, k: Tensor, v: Tensor, num_heads: int, s: Steps) -> Three:
    return s.split(q, num_heads), s.split(k, num_heads), s.split(v, num_heads)


def _hide(scores: Tensor, mask: Tensor) -> Tensor:
    """Hide keys; a row without a key stays open here, so that nothing is NaN."""
    return scores.masked_fill(~mask & mask.any(-1, keepdim=True), -math.inf)


def _attend(scores: Tensor, mask: Tensor | None, s: Steps) -> Tensor:
    """Turn scores into weights."""
    if mask is None:
        return s.softmax(scores)
    mask = s.mask(mask, scores)
    return s.empty(s.softmax(s.hide(scores, mask)), mask)


def _output(merged: Tensor, w_o: Tensor, b_o: Tensor | None, num_heads: int) -> Tensor:
    return merged @ w_o.T + (0 if b_o is None else b_o)


# Exercises of Part II that are one step each, by the room of their reference.
WHOLES = {
    masks: ("causal_mask", "padding_mask", "combine_masks", "causal_mask_for_cache", "to_attend", "additive_mask"),
    positions: ("sinusoidal_encoding", "rope"),
    caching: ("repeat_kv", "kv_cache_bytes"),
    flash: ("online_softmax", "tiled_attention"),
    vision: ("patchify", "add_class_token"),
    beyond: (
        "layer_norm", "encoder_block", "next_token_targets", "generate",
        "ablate_heads", "other_weights", "relation_score",
    ),
}  # fmt: skip


class Steps:
    """All steps, each replaceable: ``Steps(scale=…)`` is everything right but the scale."""

    defaults: ClassVar[dict[str, Callable[..., Any]]] = {
        "linear": lambda x, w, b=None: x @ w.T + (0 if b is None else b),
        "unpack": lambda qkv: qkv.chunk(3, dim=-1),
        "order": lambda q, k, v: (q, k, v),
        "project": _project,
        "split": r.split_heads,
        "apart": _apart,
        "split_fused": r.split_fused_qkv,
        "rows": lambda x, w, head, num_heads: x @ w.chunk(num_heads)[head].T,
        "scores": lambda q, k: q @ k.transpose(-2, -1),
        "scale": lambda scores, q, k, num_heads: scores / math.sqrt(q.size(-1)),
        "form": lambda a, b: a.T @ b,
        "softmax": r.softmax,
        "mask": lambda mask, scores: mask,
        "hide": _hide,
        "empty": lambda weights, mask: weights * mask.any(-1, keepdim=True),
        "attend": _attend,
        "post": lambda weights, q: weights,
        "weigh": lambda weights, v: weights @ v,
        "merge": r.merge_heads,
        "output": _output,
        "sources": lambda x, memory: (x, memory),
        "append": lambda k_past, v_past, k, v: (torch.cat((k_past, k), 2), torch.cat((v_past, v), 2)),
        "columns": lambda context, w_o: torch.einsum(
            "bhsd,chd->bhsc", context, w_o.unflatten(1, (context.size(1), -1))
        ),
        "entropy": r.entropy,
        "count": r.parameter_count,
        "fold": r.fold_value_bias,
        **{name: getattr(room, name) for room, names in WHOLES.items() for name in names},
    }

    def __init__(self, **changes: Callable[..., Any]) -> None:
        unknown = set(changes) - set(self.defaults)
        if unknown:
            raise KeyError(f"no such step: {', '.join(sorted(unknown))}")
        self.changes = changes

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self.changes.get(name) or self.defaults[name]


def pass_through(
    s: Steps, x: Tensor, memory: Tensor, weights: Any, biases: Any, num_heads: int, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Do all six steps."""
    q, k, v = s.order(*s.project(x, memory, weights[:3], biases[:3], num_heads, s))
    q, k, v = s.apart(q, k, v, num_heads, s)
    scores = s.scale(s.scores(q, k), q, k, num_heads)
    attention = s.post(s.attend(scores, mask, s), q)
    context = s.weigh(attention, v)
    return s.output(s.merge(context), weights[3], biases[3], num_heads), attention


def _self_attention(s: Steps) -> Callable[..., Any]:
    def answer(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = s.order(*s.project(x, x, (w_q, w_k, w_v), (None, None, None), 1, s))
        weights = s.post(s.attend(s.scale(s.scores(q, k), q, k, 1), None, s), q)
        return s.weigh(weights, v), weights

    return answer


def _module(s: Steps) -> Callable[..., Any]:
    class Answer(nn.Module):
        def __init__(self, d_model: int, num_heads: int) -> None:
            super().__init__()
            self.num_heads = num_heads
            self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d_model, d_model) for _ in range(4))

        def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
            """Map x (B, S, C) to out (B, S, C)."""
            linears: list[Any] = list(self.children())
            weights, biases = [one.weight for one in linears], [one.bias for one in linears]
            return pass_through(s, x, x, weights, biases, self.num_heads, mask)[0]

    return Answer


def _decode(s: Steps) -> Callable[..., Any]:
    def answer(x_t: Tensor, k_cache: Tensor, v_cache: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
        *weights, h = rest
        q, k, v = s.order(*s.project(x_t, x_t, weights[:3], (None,) * 3, h, s))
        q, k, v = s.apart(q, k, v, h, s)
        keys, values = s.append(k_cache, v_cache, k, v)
        scores = s.scale(s.scores(q, keys), q, keys, h)
        context = s.weigh(s.post(s.attend(scores, None, s), q), values)
        return s.output(s.merge(context), weights[3], None, h), keys, values

    return answer


def _two(pair: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    return pair


NO_BIAS = (None,) * 4
ATTEND = ("softmax", "attend")
MASKED = (*ATTEND, "mask", "hide", "empty")
WHOLE = ("linear", "order", "project", "split", "apart", "scores", "scale", "weigh", "merge", "output", "post", *MASKED)
# Each exercise: the steps it is made of, and how.
COMPOSED: dict[str, tuple[tuple[str, ...], Callable[[Steps], Callable[..., Any]]]] = {
    "similarity": (("scores",), lambda s: lambda x: s.scores(x, x)),
    "project": (("linear",), lambda s: s.linear),
    "project_qkv": (
        ("linear", "unpack", "order"),
        lambda s: lambda x, w, b: s.order(*s.unpack(s.linear(x, w, b))),
    ),
    "split_heads": (("split",), lambda s: s.split),
    "split_fused_qkv": (("split_fused", "order"), lambda s: lambda x, h: s.order(*s.split_fused(x, h))),
    "one_head_queries": (("rows",), lambda s: s.rows),
    "attention_scores": (("scores",), lambda s: s.scores),
    "scaled_scores": (
        ("scores", "scale"),
        lambda s: lambda q, k: s.scale(s.scores(q, k), q, k, q.size(1)),
    ),
    "score_form": (
        ("form",),
        lambda s: lambda a, b, head, h: s.form(a.chunk(h)[head], b.chunk(h)[head]),
    ),
    "softmax": (("softmax",), lambda s: s.softmax),
    "masked_softmax": (MASKED, lambda s: lambda scores, mask: s.attend(scores, mask, s)),
    "entropy": (("entropy",), lambda s: s.entropy),
    "weighted_sum": (("weigh",), lambda s: s.weigh),
    "self_attention": (("linear", "order", "project", "scores", "scale", "weigh", "post", *ATTEND), _self_attention),
    "merge_heads": (("merge",), lambda s: s.merge),
    "head_contributions": (("columns",), lambda s: s.columns),
    "multi_head_attention": (
        WHOLE,
        lambda s: (
            lambda x, w_q, w_k, w_v, w_o, h, mask=None: pass_through(s, x, x, (w_q, w_k, w_v, w_o), NO_BIAS, h, mask)
        ),
    ),
    "MultiHeadAttention": (WHOLE, _module),
    "parameter_count": (("count",), lambda s: s.count),
    "fold_value_bias": (("fold",), lambda s: s.fold),
    "cross_attention": (
        (*WHOLE, "sources"),
        lambda s: (
            lambda x, memory, w_q, w_k, w_v, w_o, h, mask=None: pass_through(
                s, *_two(s.sources(x, memory)), (w_q, w_k, w_v, w_o), NO_BIAS, h, mask
            )
        ),
    ),
    "decode_step": ((*(step for step in WHOLE if step not in ("mask", "hide", "empty")), "append"), _decode),
    **{name: ((name,), attrgetter(name)) for names in WHOLES.values() for name in names},
}
