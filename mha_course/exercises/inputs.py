"""Inputs that exercises share: sizes that all differ, nothing symmetric, no bias of 0.

An answer is judged on fixed inputs first, where its mistake is named. If it agrees, it is then
judged on random sizes and numbers, one set for each of KINDS.
"""

from __future__ import annotations

import random
from zlib import crc32

import torch
from torch import Tensor

B, T, S, C, H, D = 2, 5, 7, 24, 4, 6
SIZES = {"B": B, "T": T, "S": S, "C": C, "H": H, "D": D}
FIRST_SIZES = {**SIZES, "R": 9, "O": 18}  # of the first case, unless an exercise has its own

# The running example's, except B and T: with B = 1 and T = S, too much is right by chance.
EXAMPLE = {"B": 2, "T": 14, "S": 15, "H": 4, "D": 12}

OTHER_SIZES = "other sizes"
OTHER_NUMBERS = "other numbers"  # of the same sizes: an answer may have cached its input
MORE_QUERIES = "more queries than keys"
AS_MANY_QUERIES = "as many queries as keys"
HIDDEN_LEAD = "very large scores at hidden keys"  # this and the next where there is a mask
FAR_BELOW = "scores far below 0"
# What is special about each random set of sizes; sizes not named here all differ, and none is 1.
KINDS: dict[str, dict[str, int]] = {
    OTHER_SIZES: {},
    OTHER_NUMBERS: {},
    MORE_QUERIES: {},
    HIDDEN_LEAD: {},
    FAR_BELOW: {},
    AS_MANY_QUERIES: {},
    "one sentence": {"B": 1},
    "one head": {"H": 1},
    "one query": {"T": 1},
    "one channel in each head": {"D": 1},
    "one token": {"T": 1, "S": 1},
    "one channel": {"T": 1, "S": 1, "H": 1, "D": 1, "R": 1, "O": 1},
}


class Draw:
    """Random sizes and numbers for an exercise: ``d("BSC")`` is a tensor, ``d.S`` a size.

    Each letter is a size: those of attention, X = 3 C, R a latent's width, O a Linear's output
    width; a digit is itself. Sizes are larger than in SIZES in some kinds and smaller in others,
    and T, S, H and D have the other parity.
    """

    def __init__(self, name: str, kind: str, **sizes: int) -> None:
        self.kind = kind
        self.number = [*KINDS].index(kind)
        longer = kind == MORE_QUERIES
        picks = random.Random(crc32(name.encode()))
        few = picks.choice((True, False)) != longer  # fewer heads than in SIZES, but wider ones
        length = picks.choice((8, 10))
        self.B = 6 if longer else 5
        self.H = 3 if few else 7
        self.D = 9 if few else 3
        self.T = length if kind in (MORE_QUERIES, AS_MANY_QUERIES) else 4
        self.S = 4 if longer else length
        self.R = 2 if longer else 12
        self.O = 22 if longer else 13
        vars(self).update(KINDS[kind] | sizes)
        self.C = self.H * self.D
        self.X = 3 * self.C
        # other numbers, but the same head: an answer may have cached this head
        self.picks = random.Random(f"{name}, {OTHER_SIZES if kind == OTHER_NUMBERS else kind}")
        seed = random.Random(f"{name}, {kind}").randrange(2**31)
        self._generator = torch.Generator().manual_seed(seed)

    def shape(self, axes: str) -> list[int]:
        """Return the sizes for some letters."""
        return [int(axis) if axis.isdigit() else getattr(self, axis) for axis in axes]

    def __call__(self, axes: str) -> Tensor:
        """Return normal float64 numbers with these axes, such as ``"BSC"``."""
        return self.normal(*self.shape(axes))

    def normal(self, *sizes: int) -> Tensor:
        """Return normal float64 numbers of given sizes."""
        return torch.randn(*sizes, dtype=torch.float64, generator=self._generator)

    def weights(self, axes: str) -> Tensor:
        """Return attention weights, their last axis over the keys."""
        return self(axes).softmax(-1)

    def matrices(self, *axes: str) -> tuple[Tensor, ...]:
        """Return matrices of about unit gain."""
        return tuple(self(pair) / self.shape(pair[1])[0] ** 0.5 for pair in axes)

    def ids(self, count: int, axes: str) -> Tensor:
        """Return word ids below a number."""
        return torch.randint(count, self.shape(axes), generator=self._generator)

    def mask(self, axes: str) -> Tensor:
        """Return a mask, with one fully masked row if it has several."""
        attend = self(axes) > -0.3
        # A first key that all may see: no other row is fully masked by chance.
        attend[..., 0] = True
        if attend.dim() > 1 and attend.size(-2) > 2:
            attend[..., 2, :] = False
        return attend

    def head(self) -> int:
        """Return the number of a head."""
        return self.picks.randrange(self.H)


def self_attention(d: Draw, forms: tuple[str, ...]) -> tuple[Tensor, Tensor | None]:
    """Return tokens (B, S, C), and a mask of one of the forms, such as ``"BS1"``, or none.

    Padding has large numbers, so that hidden keys would get large scores.
    """
    x = d("BSC")
    form = ["", *forms][d.number % (len(forms) + 1)]
    if d.kind in (HIDDEN_LEAD, FAR_BELOW):
        form = forms[0]
    mask = d.mask(form) if form else None
    if d.kind == HIDDEN_LEAD and mask is not None:
        x[:, -1] *= 1e5
        mask[..., -1] = False
        mask[..., -1, :] = False
    return x, mask


def opposed(d: Draw, x: Tensor, w_q: Tensor, w_k: Tensor) -> tuple[Tensor, Tensor]:
    """Return tokens and a key weight, which may give scores far below 0.

    Then all tokens are nearly alike, and their keys are their negated queries.
    """
    if d.kind != FAR_BELOW:
        return x, w_k
    return 24 * (x[:1, :1] + 0.05 * x), -w_q


def draw(*shape: int, seed: int) -> Tensor:
    """Return normal float64 numbers, the same everywhere: drawn on the CPU from a seed."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def tokens() -> Tensor:
    """Return tokens (B, S, C), the same at every call."""
    return draw(B, S, C, seed=1)


def qkv() -> tuple[Tensor, Tensor, Tensor]:
    """Return q (B, H, T, D), k and v (B, H, S, D)."""
    return draw(B, H, T, D, seed=1), draw(B, H, S, D, seed=2), draw(B, H, S, D, seed=3)


def square(*seeds: int) -> tuple[Tensor, ...]:
    """Return weights (C, C) of about unit gain."""
    return tuple(draw(C, C, seed=seed) / C**0.5 for seed in seeds)


def weights() -> Tensor:
    """Return attention weights (B, H, T, S): one row is all on one key, another on two."""
    rows = draw(B, H, T, S, seed=4).softmax(-1)
    one_hot = torch.eye(S, dtype=torch.float64)
    rows[0, 1, 2] = one_hot[3]
    rows[1, 2, 0] = (3 * one_hot[1] + one_hot[5]) / 4
    return rows


def mask(queries: int) -> Tensor:
    """Return a mask (B, 1, T, S) with a fully masked row and a fully visible one."""
    attend = draw(B, 1, queries, S, seed=9) > -0.3
    attend[1, 0, 2] = False
    attend[0, 0, 1] = True
    return attend
