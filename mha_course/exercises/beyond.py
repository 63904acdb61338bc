"""The right answers of the exercises from cross-attention on: each is what ``solution`` shows.

Axes: B batch, T query tokens, S key and value tokens, C width, H heads, D = C / H head width, V words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from mha_course.attention import attention, merge_heads, split_heads


def cross_attention(
    x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int,
    memory_mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Ask from x (B, T, C), answer from memory (B, S, C): out (B, T, C) and weights (B, H, T, S)."""
    q = split_heads(x @ w_q.T, num_heads)  # (B, H, T, D)
    k, v = (split_heads(memory @ w.T, num_heads) for w in (w_k, w_v))  # (B, H, S, D)
    context, weights = attention(q, k, v, memory_mask)
    return merge_heads(context) @ w_o.T, weights


def layer_norm(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """Give each token mean 0 and variance 1 over its channels, then stretch by gamma and shift by beta, (C,)."""
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)  # (B, S, 1), divided by C, not by C - 1
    return gamma * centred / (variance + eps).sqrt() + beta  # (B, S, C)


def encoder_block(
    x: Tensor,
    attention: Callable[[Tensor], Tensor],
    feed_forward: Callable[[Tensor], Tensor],
    norm1: Callable[[Tensor], Tensor],
    norm2: Callable[[Tensor], Tensor],
) -> Tensor:
    """Add what attention finds, then what feed_forward makes of it; each reads a normed copy (pre-norm)."""
    x = x + attention(norm1(x))  # (B, S, C)
    return x + feed_forward(norm2(x))  # (B, S, C)


def next_token_targets(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return what is read and what comes next, each (B, S - 1): targets[:, t] follows inputs[:, t]."""
    return ids[:, :-1], ids[:, 1:]  # (B, S-1)


def generate(model: Callable[[Tensor], Tensor], ids: Tensor, steps: int) -> Tensor:
    """Append the most probable next word, again and again, (B, S) -> (B, S + steps)."""
    for _ in range(steps):
        with torch.no_grad():
            logits = model(ids)  # (B, S, V)
        best = logits[:, -1].argmax(-1, keepdim=True)  # (B, 1)
        ids = torch.cat((ids, best), dim=1)  # (B, S+1)
    return ids


def ablate_heads(context: Tensor, heads: Sequence[int]) -> Tensor:
    """Return the context (B, H, S, D) with these heads set to 0."""
    silenced = context.clone()
    silenced[:, list(heads)] = 0.0
    return silenced


def other_weights(weights: Tensor, v: Tensor) -> Tensor:
    """Return weights (T, S), of other sizes, that mix v (S, D) into the very same context.

    Each weight is multiplied by 1 + a factor. The changes, weight · factor, must lie in the null space of
    [V, 1], so that neither the context nor the sum moves. Of all such factors of length 1 those that change
    most are taken, as often as no weight falls below 0. A row that rests on D + 1 tokens or fewer stays.
    """
    weights_64 = weights.double()  # (T, S)
    v_and_ones = torch.cat((v, torch.ones_like(v[:, :1])), dim=1).double()  # (S, D+1)
    mixed = (weights_64[:, :, None] * v_and_ones).mT  # (T, D+1, S), times the factors is what they add
    null_space = torch.linalg.svd(mixed).Vh[:, v_and_ones.size(1) :]  # (T, S-D-1, S), one basis for each row
    best = torch.linalg.svd(null_space * weights_64[:, None]).U[:, :, :1]  # (T, S-D-1, 1)
    factors = (null_space.mT @ best).squeeze(-1)  # (T, S)
    largest, smallest = factors.amax(-1, keepdim=True), factors.amin(-1, keepdim=True)  # (T, 1)
    limit = torch.where(largest < -smallest, -largest, -smallest)  # (T, 1), in the direction that goes further
    factors = torch.where(limit.abs() > 1e-6, factors / limit, 0.0)  # (T, S), less is nothing but rounding
    return (weights_64 * (1 + factors)).to(weights.dtype)  # (T, S)


def relation_score(weights: Tensor, pairs: Sequence[tuple[int, int]]) -> Tensor:
    """Return how much each head (H, S, S) looks along the pairs (from, to) on average, (H,)."""
    queries, keys = zip(*pairs, strict=True)
    return weights[:, list(queries), list(keys)].mean(-1)  # (H,)
