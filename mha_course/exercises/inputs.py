"""Inputs that exercises share: sizes that all differ, nothing symmetric, no bias of 0."""

from __future__ import annotations

import torch
from torch import Tensor

B, T, S, C, H, D = 2, 5, 7, 24, 4, 6
SIZES = {"B": B, "T": T, "S": S, "C": C, "H": H, "D": D}
OTHER_SIZES = {"B": 3, "T": 4, "S": 9, "C": 10, "H": 5, "D": 2, "X": 30}  # X is 3 C


def draw(*shape: int, seed: int) -> Tensor:
    """Return normal float64 numbers, the same everywhere: drawn on the CPU from a seed."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


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
    """Return attention weights (B, H, T, S): one row is all on one key, and one on two."""
    rows = draw(B, H, T, S, seed=4).softmax(-1)
    one_hot = torch.eye(S, dtype=torch.float64)
    rows[0, 1, 2] = one_hot[3]
    rows[1, 2, 0] = (3 * one_hot[1] + one_hot[5]) / 4
    return rows


def others(*letters: str, seed: int = 21) -> tuple[Tensor, ...]:
    """Return tensors of other sizes than all the above, such as ``others("BHTD", "BHSD")``.

    On them an answer is tried last, since a size may be written down as a number.
    """
    shapes = [[OTHER_SIZES[letter] for letter in word] for word in letters]
    return tuple(draw(*shape, seed=seed + number) for number, shape in enumerate(shapes))


def mask(queries: int) -> Tensor:
    """Return a mask (B, 1, T, S) in which one row sees nothing, and one everything."""
    attend = draw(B, 1, queries, S, seed=9) > -0.3
    attend[1, 0, 2] = False
    attend[0, 0, 1] = True
    return attend
