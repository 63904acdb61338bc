"""Decoding token by token, with and without a cache, and what it costs.

Axes: B batch, S tokens, C = d_model width, H heads, G key-value heads, D = C / H.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mha_course.attention import AttentionModule, MultiHeadAttention, attention
from mha_course.caching import KVCache, decode_chunk, decode_step
from mha_course.errors import require
from mha_course.experiments.costs import Flops, count_flops
from mha_course.masks import causal_mask


def splits(tokens: int) -> list[tuple[int, ...]]:
    """List every way to cut a number of tokens into consecutive chunks.

    >>> splits(3)
    [(3,), (2, 1), (1, 2), (1, 1, 1)]
    """
    if tokens == 0:
        return [()]
    return [(first, *rest) for first in range(tokens, 0, -1) for rest in splits(tokens - first)]


def with_cache(module: AttentionModule, x: Tensor, chunks: Sequence[int] | None = None) -> Tensor:
    """Decode with a cache: each chunk brings new tokens, and earlier ones are not recomputed.

    Args: x (B, S, C); chunks are lengths that add up to S, by default 1 each.
    Returns: out (B, S, C). Raises: ShapeError.
    """
    tokens = x.size(1)
    lengths = [1] * tokens if chunks is None else list(chunks)
    fits = sum(lengths) == tokens and min(lengths, default=0) >= 1
    expected = f"positive lengths with a sum of S={tokens}"
    got = f"chunks={lengths}"
    require(fits, "with_cache", "the chunks must make up the sequence", expected=expected, got=got)
    cache = KVCache()
    outs = [decode_chunk(module, chunk, cache) for chunk in x.split(lengths, dim=1)]
    return torch.cat(outs, dim=1)  # (B, S, C)


def reads(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> dict[str, Tensor]:
    """Return how strongly row t of the context depends on each token's q, k and v, by gradients.

    Args: q, k, v (1, 1, S, D), one sentence and one head; mask (S, S), True = may attend.
    Returns: for "q", "k" and "v" a table (S, S) of lengths of d(sum of context t) / d(token s).
    """
    q, k, v = (x.detach().clone().requires_grad_() for x in (q, k, v))
    context, _ = attention(q, k, v, mask)  # (1, 1, S, D)
    rows = [
        torch.autograd.grad(context[0, 0, t].sum(), (q, k, v), retain_graph=True)
        for t in range(q.size(2))
    ]
    return {
        name: torch.stack([row[i][0, 0].norm(dim=-1) for row in rows])
        for i, name in enumerate("qkv")
    }


def step_flops(d_model: int, num_heads: int, tokens: int) -> tuple[Flops, Flops]:
    """Count the FLOPs for one sentence's last token, with and without a cache.

    A multiply-add counts as 2. Raises: ShapeError unless num_heads divides d_model.
    """
    mha = MultiHeadAttention(d_model, num_heads, bias=False)
    x = torch.zeros(1, tokens, d_model)
    past = torch.zeros(1, num_heads, tokens - 1, d_model // num_heads)
    w_q, w_k, w_v, w_o = (
        linear.weight for linear in (mha.q_proj, mha.k_proj, mha.v_proj, mha.out_proj)
    )
    cached = count_flops(lambda: decode_step(x[:, -1:], past, past, w_q, w_k, w_v, w_o, num_heads))
    return cached, count_flops(lambda: mha(x, mask=causal_mask(tokens)))
