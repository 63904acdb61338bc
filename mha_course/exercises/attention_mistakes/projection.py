"""How mistakes in the projections to q, k and v are made."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from mha_course.exercises.attention_steps import Steps
from mha_course.exercises.spec import Function, mistake

_linear = Steps.defaults["linear"]
_split = Steps.defaults["split"]


def _not_transposed(x: Tensor, w: Tensor, b: Tensor | None = None, *_: Any) -> Any:
    return _linear(x, w.T, b)


def _without_bias(x: Tensor, w: Tensor, *_: Any) -> Any:
    return _linear(x, w)


def identity(x: Tensor, *_: Any) -> Tensor:
    """Stand for a forgotten step: pass its first argument on."""
    return x


def own_slice(x: Tensor, w: Tensor, b: Tensor | None, h: int) -> Any:
    """Let each head read only its own part of x."""
    keep = torch.block_diag(*[torch.ones(w.size(0) // h, w.size(1) // h, dtype=w.dtype)] * h)
    return _linear(x, w * keep, b)


def _one_small(x: Tensor, w: Tensor, b: Tensor | None, h: int) -> Any:
    """Use one D x D weight for all heads."""
    d = w.size(0) // h
    return _linear(x.unflatten(-1, (h, d)), w[:d, :d], None if b is None else b[:d]).flatten(-2)


def _projected(change: Function, names: str = "qkv") -> Function:
    """Project some of q, k and v wrongly."""

    def project(x: Tensor, memory: Tensor, weights: Any, biases: Any, h: int, s: Steps) -> Any:
        inputs = zip("qkv", (x, memory, memory), weights, biases, strict=True)
        return tuple(
            change(a, w, b, h) if name in names else s.linear(a, w, b) for name, a, w, b in inputs
        )

    return project


def by_share(scores: Tensor, q: Tensor, k: Tensor, h: int) -> Tensor:
    """Divide by the root of one head's width when q holds all heads together."""
    return scores / math.sqrt(q.size(-1) / h)  # q is as wide as C


def in_three(split: Function, dim: int = -1) -> Function:
    """Cut the fused q, k and v in three, and split each."""
    return lambda qkv, h: [split(x, h) for x in qkv.chunk(3, dim)]


def _orders(*orders: str) -> list[Function]:
    """Return q, k and v in these orders."""
    return [
        lambda *projected, order=order: tuple(projected["qkv".index(name)] for name in order)
        for order in orders
    ]


IN_THREE = ("project_qkv", "split_fused_qkv", "fused_mha", "gpt2_attention")
PROJECTION = [
    mistake(
        "weight-not-transposed",
        # A learner forgets it in every Linear, in all but the last, or in a single one.
        {"linear": _not_transposed, "output": _not_transposed},
        linear=_not_transposed,
        project=[_projected(_not_transposed, name) for name in "qkv"],
        but=("gpt2_attention",),
    ),
    mistake("weight-not-transposed/output", output=_not_transposed, but=("gpt2_attention",)),
    mistake(
        "/weight-before-x",
        linear=[
            lambda x, w, b=None: w @ x,
            lambda x, w, b=None: w @ x.T,
            lambda x, w, b=None: w @ x[0],
            lambda x, w, b=None: w.T @ x,
        ],
        but=("MultiHeadAttention", "decode_step", "gpt2_attention"),
    ),
    mistake(
        "bias-dropped",
        {"linear": _without_bias, "output": _without_bias},
        linear=_without_bias,
        output=_without_bias,
        project=[_projected(_without_bias, name) for name in "qv"],
    ),
    mistake(
        "wrong-unpack-order",
        order=_orders("kqv", "vkq", "kvq", "vqk"),
        only=(*IN_THREE, "gpt2_qkv"),
    ),
    mistake("key-value-swapped", order=_orders("qvk")),
    mistake(
        "pieces-not-three",
        # chunk(3) cuts along the sentences, of which the first case has two: two pieces.
        unpack=lambda t: t.chunk(3),
        split_fused=[in_three(identity, 0), in_three(_split, 0)],
        crashes=r"not enough values to unpack \(expected 3, got 2\)",
        written=r"^(?!.*\.(shape\b|size\(\)))",  # nor that a shape was unpacked
        only=IN_THREE,
    ),
    mistake(
        "/split-takes-a-size",
        unpack=lambda t: t.split(3, dim=-1),
        crashes=r"too many values to unpack \(expected 3",
        written="split",
        only=(*IN_THREE, "gpt2_qkv"),
    ),
    mistake(
        "chunk-wrong-axis",
        unpack=[lambda t: t.tensor_split(3, dim=1), lambda t: t.chunk(3, dim=1)],
        split_fused=[in_three(identity, 1), in_three(_split, 1)],
    ),
    mistake("value-through-key-projection", order=_orders("qkk")),
    mistake("key-through-query-projection", order=_orders("qqv")),
    mistake("shared-projection", order=_orders("qqq", "vvv", "kkk")),
    mistake("value-not-projected", project=_projected(identity, "v")),
    mistake("/nothing-projected", project=_projected(identity)),
    mistake(
        "/query-or-key-not-projected",
        {"project": _projected(identity, "qk"), "scale": identity},
        {"project": _projected(identity, "qk"), "scale": by_share},
        project=[_projected(identity, names) for names in ("q", "k", "qk")],
    ),
    mistake("head-reads-own-slice", project=_projected(own_slice)),
    mistake("one-small-linear-for-all-heads", project=_projected(_one_small)),
    mistake("activation-on-projection", linear=lambda *given: _linear(*given).relu()),
    mistake(
        "fused-heads-outermost",
        split_fused=lambda t, h: t.unflatten(2, (h, 3, -1)).permute(3, 0, 2, 1, 4),
    ),
    mistake(
        "fused-three-innermost",
        split_fused=lambda t, h: t.unflatten(2, (h, -1, 3)).permute(4, 0, 2, 1, 3),
    ),
    mistake(
        "fused-dim-before-heads",
        split_fused=lambda t, h: t.unflatten(2, (3, -1, h)).permute(2, 0, 4, 1, 3),
    ),
]
