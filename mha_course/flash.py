"""Attention block by block: the whole score matrix never exists.

Axes: B batch, H heads, T query tokens, S key and value tokens, D head width, K parts of the keys;
rows are the queries of one block, columns its keys. A mask is bool, True = may attend. Inputs that
do not fit raise ShapeError.
Reference: Dao et al. 2022, FlashAttention, section 3.1 and algorithm 4; Milakov and Gimelshein
    2018, algorithm 3; Rabe and Staats 2021, Self-attention Does Not Need O(n²) Memory, section 2.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from mha_course import errors


def online_softmax(scores: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    """Return m = max(scores) and the sum of exp(score - m), reading each block once.

    When a block brings a larger maximum, the sum so far shrinks by exp(old maximum - new maximum).

    Args: scores, -inf where hidden; block_size >= 1, the last block may be shorter.
    Shape: scores (..., S), S >= 1.
    Returns: two tensors of shape (...); a fully masked row has maximum -inf and sum 0.
    Raises: ShapeError.

    >>> online_softmax(torch.zeros(2, 7), block_size=3)
    (tensor([0., 0.]), tensor([7., 7.]))
    """
    errors.require_float("online_softmax", {"scores": scores})
    _require_blocks("online_softmax", scores.size(-1) if scores.dim() else 0, block_size)
    running_max = scores.new_full(scores.shape[:-1], -math.inf)  # (B, H, T)
    running_sum = torch.zeros_like(running_max)  # (B, H, T)
    for block in scores.split(block_size, dim=-1):
        new_max = torch.maximum(running_max, block.amax(-1))  # (B, H, T)
        shift = _finite(new_max)  # (B, H, T)
        shrink = (running_max - shift).exp()  # (B, H, T), 0 for the first block: exp(-inf)
        running_sum = running_sum * shrink + (block - shift[..., None]).exp().sum(-1)  # (B, H, T)
        running_max = new_max
    return running_max, running_sum


def merge_partials(maxima: Tensor, sums: Tensor, contexts: Tensor) -> Tensor:
    """Merge the results of K parts of the keys, each weighted by its sum times exp(its maximum).

    Args:
        maxima: the largest scaled score of each part, -inf if it is empty.
        sums: of exp(score - maximum), 0 if it is empty.
        contexts: each divided by its own sum, 0 if it is empty.
    Shape: maxima and sums (K, B, H, T), contexts (K, B, H, T, D) -> (B, H, T, D), 0 where all parts
        are empty.
    Raises: ShapeError.

    >>> maxima, sums = torch.tensor([2.0, 2.0]), torch.tensor([1.0, 3.0])
    >>> contexts = torch.tensor([0.0, 4.0])
    >>> merge_partials(*(x.view(2, 1, 1, 1) for x in (maxima, sums)), contexts.view(2, 1, 1, 1, 1))
    tensor([[[[3.]]]])

    Reference: Dao et al. 2023, Flash-Decoding for long-context inference.
    """
    errors.require_float("merge_partials", {"maxima": maxima, "sums": sums, "contexts": contexts})
    errors.require_shape("merge_partials", "maxima", maxima, dict.fromkeys("KBHT"))
    sizes = dict(zip("KBHT", maxima.shape, strict=True))
    errors.require_shape("merge_partials", "sums", sums, sizes)
    errors.require_shape("merge_partials", "contexts", contexts, {**sizes, "D": None})
    highest = _finite(maxima.amax(0))  # (B, H, T)
    shares = sums * (maxima - highest).exp()  # (K, B, H, T), relative to one maximum
    total = shares.sum(0)  # (B, H, T)
    merged = (shares[..., None] * contexts).sum(0)  # (B, H, T, D)
    return merged / total.masked_fill(total == 0, 1.0)[..., None]  # (B, H, T, D)


def tiled_attention(
    q: Tensor, k: Tensor, v: Tensor, block_size: int | tuple[int, int], *,
    mask: Tensor | None = None,
    causal: bool = False,
) -> Tensor:  # fmt: skip
    """Attend block by block: softmax(q kᵀ / sqrt(D)) v, never storing all scores.

    Args:
        q, k, v, mask: as for attention.
        block_size: one for both, or (queries, keys); the last blocks may be shorter.
        causal: hide later keys and skip their blocks; the queries are the last of the tokens.
    Returns: context (B, H, T, D), as from attention; backward recomputes the blocks.
    Raises: ShapeError.

    >>> tiled_attention(torch.ones(2, 4, 5, 6), *torch.ones(2, 2, 4, 7, 6), block_size=3).shape
    torch.Size([2, 4, 5, 6])
    """
    errors.require_attention_inputs("tiled_attention", q, k, v, mask)
    running_max = torch.full_like(_wide(q[..., :1]), -math.inf)  # (B, H, T, 1)
    running_sum = torch.zeros_like(running_max)  # (B, H, T, 1)
    context = running_sum.repeat(1, 1, 1, v.size(3))  # (B, H, T, D)
    with torch.no_grad(), _exact(q.device.type):
        for rows, columns in _grid("tiled_attention", q.size(2), k.size(2), block_size, causal):
            scaled_scores = _scaled_scores(q, k, mask, causal, rows, columns)
            old_max = running_max[:, :, rows]  # (B, H, rows, 1)
            new_max = torch.maximum(old_max, scaled_scores.amax(-1, keepdim=True))
            shrink = (old_max - _finite(new_max)).exp()  # (B, H, rows, 1), 0 for the first block
            exponentials = (scaled_scores - _finite(new_max)).exp()  # (B, H, rows, columns)
            running_sum[:, :, rows] *= shrink
            running_sum[:, :, rows] += exponentials.sum(-1, keepdim=True)
            context[:, :, rows] *= shrink
            context[:, :, rows] += exponentials @ _wide(v[:, :, columns])
            running_max[:, :, rows] = new_max
        context /= running_sum.masked_fill(running_sum == 0, 1.0)  # a row without a key stays 0
    # One number for each row instead of two: weights = exp(score - log_sum).
    log_sum = running_max + running_sum.log()  # (B, H, T, 1), -inf where nothing is seen
    return _RecomputeBackward.apply(q, k, v, context, log_sum, mask, causal, block_size)  # type: ignore[no-untyped-call]


def blocks(
    queries: int, keys: int, block_size: int | tuple[int, int], *, causal: bool = False
) -> list[tuple[slice, slice]]:
    """List the blocks that tiled_attention visits, as slices of queries and keys.

    Args: queries is T, keys is S >= 1; the others as for tiled_attention.
    Raises: ShapeError.

    >>> [len(blocks(512, 512, 64, causal=causal)) for causal in (False, True)]
    [64, 36]
    """
    return _grid("blocks", queries, keys, block_size, causal)


class _RecomputeBackward(torch.autograd.Function):
    """Pass the context through; recompute each block of weights in backward."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, context: Tensor, log_sum: Tensor,
        mask: Tensor | None, causal: bool, block_size: int | tuple[int, int],
    ) -> Tensor:  # fmt: skip
        """Save what backward needs: one log-sum-exp for each row, and no scores."""
        context = context.to(q.dtype)  # (B, H, T, D)
        ctx.save_for_backward(q, k, v, context, log_sum, mask)
        ctx.causal = causal
        ctx.block_size = block_size
        return context

    @staticmethod
    def backward(ctx: Any, d_context: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of q, k and v; d_x is the gradient of x."""
        if torch.is_grad_enabled():
            rule = "tiled_attention has no second derivative"
            raise RuntimeError(f"{rule}: leave out create_graph=True, or use attention")
        q, k, v, context, log_sum, mask = ctx.saved_tensors
        # A row without a key gets weights 0.
        log_sum = log_sum.masked_fill(log_sum.isneginf(), math.inf)  # (B, H, T, 1)
        d_context = _wide(d_context)  # (B, H, T, D)
        d_q, d_k, d_v = (torch.zeros_like(_wide(x)) for x in (q, k, v))
        # Softmax's gradient needs each row's mean of d_weights under the weights. Since context =
        # weights @ v, it equals d_context · context, which needs no second pass over the blocks.
        mean = (d_context * context).sum(-1, keepdim=True)  # (B, H, T, 1)
        root = math.sqrt(q.size(-1))
        sizes = q.size(2), k.size(2)
        for rows, columns in _grid("tiled_attention", *sizes, ctx.block_size, ctx.causal):
            scaled_scores = _scaled_scores(q, k, mask, ctx.causal, rows, columns)
            weights = (scaled_scores - log_sum[:, :, rows]).exp()  # (B, H, rows, columns)
            d_weights = d_context[:, :, rows] @ _wide(v[:, :, columns]).mT
            d_scores = weights * (d_weights - mean[:, :, rows]) / root  # (B, H, rows, columns)
            d_q[:, :, rows] += d_scores @ _wide(k[:, :, columns])
            d_k[:, :, columns] += d_scores.transpose(-2, -1) @ _wide(q[:, :, rows])
            d_v[:, :, columns] += weights.transpose(-2, -1) @ d_context[:, :, rows]
        return d_q.to(q.dtype), d_k.to(k.dtype), d_v.to(v.dtype), None, None, None, None, None


def _scaled_scores(
    q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, rows: slice, columns: slice
) -> Tensor:
    """Compute one block of scores, -inf where hidden."""
    scores = _wide(q[:, :, rows]) @ _wide(k[:, :, columns]).mT  # (B, H, rows, columns)
    scaled_scores = scores / math.sqrt(q.size(-1))  # (B, H, rows, columns)
    if mask is not None:
        # Slice the mask before expanding: on a mask expanded to (B, H, T, S), ~ would store all of
        # it.
        mask = mask if mask.size(-2) == 1 else mask[..., rows, :]
        mask = mask if mask.size(-1) == 1 else mask[..., columns]
        scaled_scores = scaled_scores.masked_fill(~mask, -math.inf)  # (B, H, rows, columns)
    last_seen = rows.start + k.size(2) - q.size(2)  # visible to the block's first query
    if causal and columns.stop - 1 > last_seen:  # the block crosses the diagonal
        everything = torch.ones_like(scores[0, 0], dtype=torch.bool)  # (rows, columns)
        later = everything.triu(last_seen - columns.start + 1)  # (rows, columns)
        scaled_scores = scaled_scores.masked_fill(later, -math.inf)  # (B, H, rows, columns)
    return scaled_scores


def _grid(
    place: str, queries: int, keys: int, block_size: int | tuple[int, int], causal: bool
) -> list[tuple[slice, slice]]:
    """Cut T x S into blocks, without those hidden even from their last query."""
    height, width = block_size if isinstance(block_size, tuple) else (block_size, block_size)
    for size in (height, width):
        _require_blocks(place, keys, size)
    rows = [slice(start, min(start + height, queries)) for start in range(0, queries, height)]
    columns = [slice(start, min(start + width, keys)) for start in range(0, keys, width)]
    return [
        (r, c) for r in rows for c in columns if not causal or c.start < r.stop + keys - queries
    ]


def _exact(device_type: str) -> AbstractContextManager[Any]:
    """Switch autocast off: backward must compute the same scores as forward."""
    available = torch.amp.is_autocast_available(device_type)
    return torch.autocast(device_type, enabled=False) if available else nullcontext()


def _wide(x: Tensor) -> Tensor:
    """Use at least float32: sums over many keys need it."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _finite(highest: Tensor) -> Tensor:
    """Replace the maximum of no keys with 0: -inf - -inf is NaN, and -inf - 0 is right."""
    return highest.masked_fill(highest.isneginf(), 0.0)


def _require_blocks(place: str, keys: int, block_size: int) -> None:
    if keys < 1:
        raise errors.ShapeError(
            place, "there must be a key to attend to", expected="S >= 1", got=f"S={keys}"
        )
    errors.require_int(place, "block_size", block_size)
