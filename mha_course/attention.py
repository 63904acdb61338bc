"""The reference: scaled dot-product attention and the multi-head module around it.

Axes: B batch, T query tokens, S key and value tokens (T = S in self-attention), C = d_model width,
H heads, D = C / H. A mask is bool, True = may attend. Inputs that do not fit raise ShapeError.
Reference: Vaswani et al. 2017, Attention Is All You Need, section 3.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mha_course import errors

_FiveTensors = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Cut the width into H heads and bring the head axis before the tokens.

    Shape: x (B, S, C) -> (B, H, S, D), a view: no number moves. Raises: ShapeError. Section 3.2.2.
    >>> split_heads(torch.zeros(2, 5, 24), num_heads=4).shape
    torch.Size([2, 4, 5, 6])
    """
    errors.require_tokens("split_heads", "x", x, "B S C")
    errors.require_heads("split_heads", x.size(2), num_heads, width="C")
    return x.unflatten(2, (num_heads, -1)).transpose(1, 2)  # (B, H, S, D)


def merge_heads(x: Tensor) -> Tensor:
    """Undo split_heads: lay the heads of each token side by side, which the paper calls Concat.

    Shape: x (B, H, S, D) -> (B, S, C); copies unless H or S is 1. Raises: ShapeError. Section 3.2.2.
    >>> merge_heads(torch.zeros(2, 4, 5, 6)).shape
    torch.Size([2, 5, 24])
    """
    errors.require_tokens("merge_heads", "x", x, "B H S D")
    return x.transpose(1, 2).flatten(2)  # (B, S, C)


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Let every query mix the values: softmax(q kᵀ / sqrt(D)) v.

    Args: q (B, H, T, D), k and v (B, H, S, D) of one float dtype; v may have a width of its own.
        mask: True = may attend; (T, S), or 4-D and broadcastable to (B, H, T, S).
    Returns: context (B, H, T, D) and weights (B, H, T, S), whose rows sum to 1. A row with every
        key hidden gives weights 0 and context 0, and finite gradients.
    Raises: ShapeError. Section 3.2.1, equation 1.
    >>> context, weights = attention(*(torch.ones(2, 4, n, 6) for n in (5, 7, 7)))
    >>> context.shape, weights.shape
    (torch.Size([2, 4, 5, 6]), torch.Size([2, 4, 5, 7]))
    """
    errors.require_attention_inputs("attention", q, k, v, mask)
    *_, weights, context = _attend(q, k, v, mask)
    return context, weights


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float = 0.0) -> _FiveTensors:
    """Compute scores, scaled_scores, masked_scores, weights and context."""
    scores = q @ k.transpose(-2, -1)  # (B, H, T, S)
    scaled_scores = scores / math.sqrt(q.size(-1))  # (B, H, T, S)
    if mask is None:
        masked_scores = scaled_scores  # (B, H, T, S)
        weights = torch.softmax(masked_scores, dim=-1)  # (B, H, T, S)
    else:
        masked_scores = scaled_scores.masked_fill(~mask, -math.inf)  # (B, H, T, S)
        sees = mask.any(-1, keepdim=True)  # softmax of a row without a key would be NaN
        weights = torch.softmax(masked_scores.masked_fill(~sees, 0.0), dim=-1) * sees  # (B, H, T, S)
    weights = F.dropout(weights, dropout)  # (B, H, T, S)
    context = weights @ v  # (B, H, T, D)
    return scores, scaled_scores, masked_scores, weights, context


def fused_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float = 0.0) -> Tensor:
    """Compute the context alone, in one fused kernel; a head of k and v may serve several of q."""
    shared = k.size(1) != q.size(1)
    if mask is None:
        return F.scaled_dot_product_attention(q, k, v, None, dropout, enable_gqa=shared)  # (B, H, T, D)
    sees = mask.any(-1, keepdim=True)  # kernels differ on a row without a key: open it, then empty it
    return F.scaled_dot_product_attention(q, k, v, mask | ~sees, dropout, enable_gqa=shared) * sees  # (B, H, T, D)


@dataclass(frozen=True)
class AttentionSteps:
    """Every stage of one pass through MultiHeadAttention, in the order in which it is made."""

    q: Tensor  # (B, H, T, D)
    k: Tensor  # (B, H, S, D)
    v: Tensor  # (B, H, S, D)
    scores: Tensor  # (B, H, T, S)
    scaled_scores: Tensor  # (B, H, T, S)
    masked_scores: Tensor  # (B, H, T, S)
    weights: Tensor  # (B, H, T, S), after dropout while training
    context: Tensor  # (B, H, T, D)
    merged: Tensor  # (B, T, C)
    out: Tensor  # (B, T, C)


class MultiHeadAttention(nn.Module):
    """Attend with H heads at once: Concat(head_1 … head_H) W_O. Section 3.2.2.

    Args: d_model is C, num_heads divides it, bias is for all Linears, dropout (0 to 1) for the weights.
    >>> out, weights = MultiHeadAttention(d_model=24, num_heads=4)(torch.zeros(2, 5, 24))
    >>> out.shape, weights.shape
    (torch.Size([2, 5, 24]), torch.Size([2, 4, 5, 5]))
    """

    def __init__(self, d_model: int, num_heads: int, *, bias: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        errors.require_heads("MultiHeadAttention", d_model, num_heads)
        errors.require_dropout("MultiHeadAttention", dropout)
        self.d_model, self.num_heads, self.dropout = d_model, num_heads, dropout
        linears = (nn.Linear(d_model, d_model, bias=bias) for _ in range(4))
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = linears

    def forward(
        self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None, mask: Tensor | None = None,
        *, need_weights: bool = True,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Return out (B, T, C) and weights (B, H, T, S); without need_weights None, and a fused kernel.
        query is (B, T, C); key (B, S, C) is query if not given, value is key. Raises: ShapeError.
        """
        if need_weights:
            steps = self.steps(query, key, value, mask)
            return steps.out, steps.weights
        q, k, v = self._project(query, key, value, mask)
        context = fused_attention(q, k, v, mask, self.dropout if self.training else 0.0)
        return self.out_proj(merge_heads(context)), None

    def steps(
        self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None, mask: Tensor | None = None
    ) -> AttentionSteps:
        """Do the same pass and keep every stage of it. Arguments as for forward."""
        q, k, v = self._project(query, key, value, mask)
        stages = _attend(q, k, v, mask, self.dropout if self.training else 0.0)
        merged = merge_heads(stages[-1])  # (B, T, C)
        return AttentionSteps(q, k, v, *stages, merged, self.out_proj(merged))

    def _project(self, query: Tensor, key: Tensor | None, value: Tensor | None, mask: Tensor | None) -> list[Tensor]:
        """Check the inputs, project them and split the heads."""
        key = query if key is None else key
        value = key if value is None else value
        inputs = {"query": query, "key": key, "value": value}
        errors.require_module_inputs("MultiHeadAttention", self.q_proj.weight, inputs, self.num_heads, mask)
        projections = self.q_proj, self.k_proj, self.v_proj
        return [split_heads(proj(x), self.num_heads) for proj, x in zip(projections, inputs.values(), strict=True)]
