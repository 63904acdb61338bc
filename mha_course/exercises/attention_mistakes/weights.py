"""How mistakes in scores, scaling and softmax are made."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import normalize

from mha_course.exercises.attention_mistakes.projection import identity
from mha_course.exercises.attention_steps import Steps
from mha_course.exercises.spec import Function, mistake


def _cosine(q: Tensor, k: Tensor) -> Tensor:
    return normalize(q, dim=-1) @ normalize(k, dim=-1).transpose(-2, -1)


SCORES = [
    mistake("key-not-transposed", scores=lambda q, k: q @ k, written=r"@ ?k\b", but=("attend",)),
    mistake(
        "key-transposed-wrong-axes",
        # Heads and tokens, sentences and heads, or heads and channels.
        scores=[
            lambda q, k: q @ k.transpose(1, 2),
            lambda q, k: q @ k.transpose(0, 1),
            lambda q, k: q @ k.transpose(-3, -1),
        ],
        but=("attend", "self_attention"),
    ),
    mistake(
        "key-all-axes-reversed",
        scores=lambda q, k: q @ k.T,
        # For tensors with three axes or more; a reversed batch or width would not fit.
        crashes=r"size of tensor a .* at non-singleton .*\((\d+, ){2,}\d+\)",
        written=r"@ ?\w+\.T\b",
    ),
    mistake(
        "key-reshaped", scores=lambda q, k: q @ k.reshape(*k.shape[:-2], k.size(-1), k.size(-2))
    ),
    mistake("query-key-swapped", scores=lambda q, k: k @ q.transpose(-2, -1)),
    mistake(
        "elementwise-product",
        # A product of two tensors of one shape, with or without a sum over D.
        scores=[lambda q, k: q * k, lambda q, k: (q * k).sum(-1), lambda q, k: k * q],
        written=r"\*|@ ?v\b",
        but=("attend",),
    ),
    mistake("elementwise-product/values", weigh=[lambda w, v: w * v, lambda w, v: v * w]),
    mistake("cosine-not-dot", {"scores": _cosine, "scale": identity}, scores=_cosine),
    mistake("scale-d-model", scale=lambda z, q, k, h: z / math.sqrt(q.size(-1) * h)),
    # 12 is the D of the lessons' model, and of no case.
    mistake("/scale-of-the-example", scale=lambda z, q, k, h: z / math.sqrt(12), but=("attend",)),
    mistake("scale-no-root", scale=lambda z, q, k, h: z / q.size(-1)),
    mistake(
        "/scale-half-width",
        scale=[lambda z, q, k, h: z / (q.size(-1) / 2), lambda z, q, k, h: z / q.size(-1) / 2],
    ),
    mistake(
        "scale-by-their-spread",
        scale=[
            lambda z, q, k, h: z / z.std(),
            lambda z, q, k, h: z / z.std(-1, keepdim=True),
            lambda z, q, k, h: z / z.std((-2, -1), keepdim=True),
        ],
    ),
    mistake("scale-missing", scale=identity),
    mistake("scale-inverted", scale=lambda z, q, k, h: z * math.sqrt(q.size(-1))),
    mistake(
        "scale-after-softmax", {"scale": identity, "post": lambda w, q: w / math.sqrt(q.size(-1))}
    ),
    mistake(
        "scale-by-length",
        scale=[
            lambda z, q, k, h: z / math.sqrt(k.size(-2)),
            lambda z, q, k, h: z / math.sqrt(q.size(-2)),
        ],
    ),
    mistake("/scale-rounded", scale=lambda z, q, k, h: z / math.isqrt(q.size(-1))),
    mistake(
        "scale-by-heads",
        scale=lambda z, q, k, h: z / math.sqrt(h),
        but=("attend", "self_attention"),
    ),
]


def _exponentials(scores: Tensor) -> Tensor:
    return (scores - scores.amax(-1, keepdim=True)).exp()


def _divided_over(dim: int) -> Function:
    """Subtract each row's largest score, but divide by the sums over another axis."""
    return lambda z: _exponentials(z) / _exponentials(z).sum(dim, keepdim=True)


def _causal(scores: Tensor, corner: int) -> Tensor:
    past = torch.ones_like(scores, dtype=torch.bool).tril(corner)
    return scores.masked_fill(~past, -math.inf).softmax(-1)


# Their scores have no axis of heads, so axis 1 is that of the queries.
WITHOUT_HEAD_AXIS = ("self_attention", "heads_in_a_loop")
WITH_MASK = ("multi_head_attention", "MultiHeadAttention", "cross_attention")
SOFTMAX = [
    mistake(
        "softmax-over-queries",
        softmax=[lambda z: z.softmax(-2), _divided_over(-2)],
        but=("attend",),
    ),
    mistake(
        "softmax-over-heads",
        softmax=[lambda z: z.softmax(1), _divided_over(1)],
        but=WITHOUT_HEAD_AXIS,
    ),
    mistake("softmax-over-batch", softmax=lambda z: z.softmax(0), but=("attend",)),
    mistake(
        "softmax-over-everything",
        softmax=[
            lambda z: z.flatten(-2).softmax(-1).view_as(z),
            lambda z: z.flatten().softmax(0).view_as(z),
            lambda z: _exponentials(z) / _exponentials(z).sum(),
        ],
    ),
    mistake("softmax-no-exp", softmax=lambda z: z / z.sum(-1, keepdim=True)),
    mistake("softmax-sigmoid", softmax=torch.sigmoid),
    mistake("softmax-base-two", softmax=lambda z: (z * math.log(2)).softmax(-1)),
    mistake("softmax-log", softmax=lambda z: z.log_softmax(-1)),
    mistake(
        "softmax-twice",
        softmax=lambda z: z.softmax(-1).softmax(-1),
        # The second softmax may also follow the mask, or come only when values are weighted.
        attend=lambda *given: Steps.defaults["attend"](*given).softmax(-1),
        weigh=lambda w, v: w.softmax(-1) @ v,
    ),
    mistake("softmax-missing", softmax=identity),
    mistake(
        "/causal-unasked",
        softmax=[lambda z: _causal(z, 0), lambda z: _causal(z, z.size(-1) - z.size(-2))],
        only=("self_attention", *WITH_MASK),
    ),
    mistake(
        "softmax-no-keepdim",
        softmax=lambda z: z.exp() / z.exp().sum(-1),
        but=("attend", "decode_step"),
    ),
]
