"""Small experiments whose set-up is stated once and used by lessons, panels and tests alike."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Saturation:
    """What a softmax over many scores does at one head width and one scale.

    ``weights`` (N, 64) of N queries over 64 keys, each row sorted from large to small; ``spread`` the standard
    deviation of the scores; ``entropy`` in nats and ``top``, the largest weight, averaged over the rows;
    ``at_scores`` and ``at_q`` (N,) the lengths of the gradients that reach the scores and q of each query.
    """

    weights: Tensor
    spread: float
    entropy: float
    top: float
    at_scores: Tensor
    at_q: Tensor


def saturation(head_dim: int, divisor: float, *, count: int = 400, seed: int = 0) -> Saturation:
    """Let N queries attend to 64 keys each: unit-normal q, k, values of width 16, and gradient at the context.

    Args: head_dim is D, divisor what q · k is divided by. All in float64 on the CPU, drawn from the seed.
    Raises: ValueError unless both are positive.
    """
    if head_dim < 1 or divisor <= 0:
        raise ValueError(f"saturation: head_dim and divisor must be positive, got {head_dim} and {divisor}")
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(count, 1, head_dim, generator=generator, dtype=torch.float64).requires_grad_()
    k = torch.randn(count, 64, head_dim, generator=generator, dtype=torch.float64)
    v, upstream = (torch.randn(count, n, 16, generator=generator, dtype=torch.float64) for n in (64, 1))
    scores = q @ k.mT / divisor  # (N, 1, 64)
    scores.retain_grad()
    weights = scores.softmax(-1)  # (N, 1, 64)
    (weights @ v * upstream).sum().backward()
    assert scores.grad is not None
    assert q.grad is not None
    rows = weights.detach()[:, 0]  # (N, 64)
    return Saturation(
        weights=rows.sort(-1, descending=True).values,
        spread=float(scores.detach().std()),
        entropy=float(torch.special.entr(rows).sum(-1).mean()),
        top=float(rows.amax(-1).mean()),
        at_scores=scores.grad[:, 0].norm(dim=-1),
        at_q=q.grad[:, 0].norm(dim=-1),
    )


def divisors(head_dim: int, num_heads: int) -> dict[str, float]:
    """Name what people divide scores by, rightly and wrongly."""
    return {
        "√D": math.sqrt(head_dim),
        "nothing": 1.0,
        "D": float(head_dim),
        "√d_model": math.sqrt(head_dim * num_heads),
    }
