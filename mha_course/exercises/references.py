"""The right answers of the exercises: each is what ``solution`` shows and what ``check`` compares with.

Axes: B batch, S tokens, C width.
"""

from __future__ import annotations

from torch import Tensor


def similarity(x: Tensor) -> Tensor:
    """Return the dot product of every pair of tokens, (S, C) -> (S, S)."""
    return x @ x.T  # (S, S)


def project(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return x Wᵀ + b, (B, S, C) -> (B, S, out); weight is (out, C), as nn.Linear stores it."""
    return x @ weight.T + bias  # (B, S, out)


def project_qkv(x: Tensor, w_qkv: Tensor, b_qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return q, k and v, each (B, S, C), from one product with the stacked weights (3C, C)."""
    qkv = project(x, w_qkv, b_qkv)  # (B, S, 3*C)
    q, k, v = qkv.chunk(3, dim=-1)  # (B, S, C)
    return q, k, v
