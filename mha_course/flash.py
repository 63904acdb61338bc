"""Attention without the whole matrix of scores: keys come in blocks, and softmax is finished on the way.

Axes: B batch, H heads, T query tokens, S key and value tokens, K keys of one block, D head width.
Inputs that do not fit raise ShapeError.
Reference: Dao et al. 2022, FlashAttention, section 3.1; Milakov and Gimelshein 2018, algorithm 3.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mha_course import errors
from mha_course.errors import ShapeError


def online_softmax(scores: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    """Return m = max of the scores and the sum of exp(score - m), reading each block once.

    When a block brings a larger maximum, the sum so far shrinks by exp(old maximum - new maximum).

    Args: scores (..., S), S >= 1, -inf where hidden; block_size >= 1, the last block may be shorter.
    Returns: two of shape (...); a row that is hidden throughout has maximum -inf and sum 0. Raises: ShapeError.

    >>> online_softmax(torch.zeros(2, 7), block_size=3)
    (tensor([0., 0.]), tensor([7., 7.]))
    """
    errors.require_float("online_softmax", scores=scores)
    _require_blocks("online_softmax", scores.size(-1) if scores.dim() else 0, block_size)
    running_max = scores.new_full(scores.shape[:-1], -math.inf)  # (B, H, T)
    running_sum = torch.zeros_like(running_max)  # (B, H, T)
    for block in scores.split(block_size, dim=-1):
        new_max = torch.maximum(running_max, block.amax(-1))  # (B, H, T)
        shift = new_max.masked_fill(new_max.isneginf(), 0.0)  # -inf - -inf would be NaN
        shrink = (running_max - shift).exp()  # (B, H, T), 0 for the first block
        running_sum = running_sum * shrink + (block - shift[..., None]).exp().sum(-1)  # (B, H, T)
        running_max = new_max
    return running_max, running_sum


def tiled_attention(q: Tensor, k: Tensor, v: Tensor, block_size: int) -> Tensor:
    """Attend block by block: softmax(q kᵀ / sqrt(D)) v with at most (B, H, T, block_size) scores at a time.

    Args: q (B, H, T, D), k and v (B, H, S, D), S >= 1; block_size >= 1, the last block may be shorter.
    Returns: context (B, H, T, D), the same as attention gives, to rounding. Raises: ShapeError.

    >>> tiled_attention(torch.ones(2, 4, 5, 6), *torch.ones(2, 2, 4, 7, 6), block_size=3).shape
    torch.Size([2, 4, 5, 6])
    """
    errors.require_attention_inputs("tiled_attention", q, k, v, None)
    _require_blocks("tiled_attention", k.size(2), block_size)
    running_max = q.new_full((*q.shape[:3], 1), -math.inf)  # (B, H, T, 1)
    running_sum = torch.zeros_like(running_max)  # (B, H, T, 1)
    context = q.new_zeros(*q.shape[:3], v.size(3))  # (B, H, T, D)
    for k_block, v_block in zip(k.split(block_size, dim=2), v.split(block_size, dim=2), strict=True):
        scaled_scores = q @ k_block.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T, K)
        new_max = torch.maximum(running_max, scaled_scores.amax(-1, keepdim=True))  # (B, H, T, 1)
        shrink = (running_max - new_max).exp()  # (B, H, T, 1), 0 for the first block
        exponentials = (scaled_scores - new_max).exp()  # (B, H, T, K)
        running_sum = running_sum * shrink + exponentials.sum(-1, keepdim=True)  # (B, H, T, 1)
        context = context * shrink + exponentials @ v_block  # (B, H, T, D)
        running_max = new_max
    return context / running_sum  # (B, H, T, D)


def _require_blocks(place: str, keys: int, block_size: int) -> None:
    """Raise unless there is a key, and block_size is a positive int."""
    if keys < 1:
        raise ShapeError(place, "there must be a key to attend to", expected="S >= 1", got=f"S={keys}")
    if not isinstance(block_size, int) or block_size < 1:
        rule, got = "block_size must be a positive int", f"block_size={block_size!r}"
        raise ShapeError(place, rule, expected="block_size >= 1", got=got)
