"""Inputs that exercises share: sizes that all differ, nothing symmetric, no bias of 0."""

from __future__ import annotations

import torch
from torch import Tensor

B, T, S, C, H, D = 2, 5, 7, 24, 4, 6


def draw(*shape: int, seed: int) -> Tensor:
    """Return normal float64 numbers, the same everywhere: drawn on the CPU from a seed."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def draw_ids(count: int, *shape: int, seed: int) -> Tensor:
    """Return ids of words, out of so many."""
    return torch.randint(0, count, shape, generator=torch.Generator().manual_seed(seed))


def tokens() -> Tensor:
    """Return tokens (B, S, C)."""
    return draw(B, S, C, seed=1)


def qkv() -> tuple[Tensor, Tensor, Tensor]:
    """Return q (B, H, T, D), k and v (B, H, S, D)."""
    return draw(B, H, T, D, seed=1), draw(B, H, S, D, seed=2), draw(B, H, S, D, seed=3)


def square(*seeds: int) -> tuple[Tensor, ...]:
    """Return weights (C, C) of about unit gain."""
    return tuple(draw(C, C, seed=seed) / C**0.5 for seed in seeds)


def weights() -> Tensor:
    """Return attention weights (B, H, T, S), of which one row is all on one key."""
    shares = draw(B, H, T, S, seed=4).softmax(-1)
    shares[0, 1, 2] = torch.eye(S, dtype=torch.float64)[3]
    return shares


def mask(queries: int) -> Tensor:
    """Return a mask (B, 1, T, S) in which one row sees nothing, and one everything."""
    attend = draw(B, 1, queries, S, seed=9) > -0.3
    attend[1, 0, 2] = False
    attend[0, 0, 1] = True
    return attend
