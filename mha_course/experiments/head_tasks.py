"""A task that one head cannot do and two can, with equally many parameters; several runs learn at once.

Axes: R runs, each with its own start and its own examples, N examples, S tokens, C width, H heads, D = C / H,
d numbers of a content.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from mha_course.errors import ShapeError, require_heads

ATTEMPTS = 5  # runs, where nothing else is said


class Task(Protocol):
    """Examples without end, for R runs at once, and how much the target varies."""

    @property
    def width(self) -> int:
        """C, the width of the tokens."""

    @property
    def variance(self) -> float:
        """The variance of each number of the target."""

    def draw(self, runs: int, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Return tokens x (R, N, S, C), the asking one first, targets (R, N, d), and places to look at (R, N, P)."""


@dataclass(frozen=True)
class TwoPlaces:
    """Fetch ``c_a + sign · c_b`` from two of 8 tokens, flagged a and b; contents are d unit-normal numbers.

    Channels: 0 to d - 1 the content, d the flag a, d + 1 the flag b, d + 2 that of the query token, the rest 0.
    """

    d: int = 6
    sign: int = -1
    width: int = 24
    variance: float = 2.0  # of each number of the target

    @property
    def bound(self) -> float:
        """What no single head can pass in R², whatever follows it: ½ + 1/(2d) for a difference, 1 for a sum."""
        return 0.5 + 0.5 / self.d if self.sign < 0 else 1.0

    def draw(self, runs: int, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Return x (R, N, 9, C), targets (R, N, d), and the places of a and b (R, N, 2)."""
        contents = torch.randn(runs, count, 8, self.d, generator=generator)  # (R, N, 8, d)
        places = torch.rand(runs, count, 8, generator=generator).argsort(-1)[..., :2]  # (R, N, 2)
        x = torch.zeros(runs, count, 9, self.width)  # (R, N, 9, C)
        x[:, :, 1:, : self.d] = contents
        x[:, :, 1:, self.d : self.d + 2].scatter_(2, places[:, :, None], 1.0)
        x[:, :, 0, self.d + 2] = 1.0
        c_a, c_b = contents.gather(2, places[..., None].expand(-1, -1, -1, self.d)).unbind(2)  # (R, N, d) each
        return x, c_a + self.sign * c_b, places + 1


@dataclass(frozen=True)
class LookUp:
    """Fetch the content that stands beside a key: 16 tokens, each with a random key; the query token has one of them.

    Channels: 0 to 15 the key, 16 to 30 the content, 31 the flag of the query token.
    """

    width: int = 32
    variance: float = 1.0

    def draw(self, runs: int, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Return x (R, N, 17, 32), targets (R, N, 15), and the place to find (R, N, 1)."""
        x = torch.randn(runs, count, 17, self.width, generator=generator)  # (R, N, 17, C)
        place = torch.randint(16, (runs, count, 1), generator=generator) + 1  # (R, N, 1)
        found = x.gather(2, place[..., None].expand(-1, -1, -1, self.width))[:, :, 0]  # (R, N, C)
        x[:, :, 1:, 31] = 0.0
        x[:, :, 0, :16], x[:, :, 0, 16:31], x[:, :, 0, 31] = found[..., :16], 0.0, 1.0
        return x, found[..., 16:31], place


class Readers(nn.Module):
    """R multi-head attentions side by side, of which only the first token asks; weights are kept head by head.

    Drawn as nn.Linear draws; the same numbers for every number of heads. With twins all heads start as copies of
    head 0.

    >>> sum(p.numel() for p in Readers(1, 24, 4, torch.Generator()).parameters())
    2400
    """

    def __init__(self, runs: int, width: int, num_heads: int, generator: torch.Generator, *, twins: bool = False):
        super().__init__()
        require_heads("Readers", width, num_heads, "width")
        edge, D = 1 / math.sqrt(width), width // num_heads

        def uniform(*shape: int) -> Tensor:
            drawn = (torch.rand(runs, *shape, generator=generator) * 2 - 1) * edge
            return drawn[:, :1].expand_as(drawn).clone() if twins and len(shape) > 1 else drawn

        self.w_q, self.w_k, self.w_v = (nn.Parameter(uniform(num_heads, D, width)) for _ in range(3))
        self.b_q, self.b_k, self.b_v = (nn.Parameter(uniform(num_heads, D)) for _ in range(3))
        self.w_o = nn.Parameter(uniform(num_heads, D, width))  # transposed: what each number of a head adds
        self.b_o = nn.Parameter(uniform(width))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map x (R, N, S, C) to what the first token gets, (R, N, C), and its weights, (R, H, N, S)."""
        R, N, S, C = x.shape
        H, D = self.w_q.shape[1:3]
        flat = x.reshape(R, 1, N * S, C)
        q = x[:, None, :, 0] @ self.w_q.mT + self.b_q[:, :, None]  # (R, H, N, D)
        k, v = (
            (flat @ w.mT + b[:, :, None]).view(R, H, N, S, D) for w, b in ((self.w_k, self.b_k), (self.w_v, self.b_v))
        )
        weights = ((k * q[:, :, :, None]).sum(-1) / math.sqrt(D)).softmax(-1)  # (R, H, N, S)
        context = (weights[..., None] * v).sum(-2)  # (R, H, N, D)
        return (context @ self.w_o).sum(1) + self.b_o[:, None], weights


@dataclass(frozen=True)
class Outcome:
    """What R runs with H heads learned.

    ``parameters`` of one run; ``r2`` (R,) on new examples; ``curve`` (R, steps) the R² of every step on its own
    examples; ``looks`` (R, H, P) the mean weight of each head on each place of the task.
    """

    parameters: int
    r2: Tensor
    curve: Tensor
    looks: Tensor
    readers: Readers


def learn(
    task: Task, num_heads: int, *, runs: int = ATTEMPTS, seed: int = 0, steps: int = 500, count: int = 64,
    twins: bool = False, lr: float = 1e-2,
) -> Outcome:  # fmt: skip
    """Train R models with Adam (a rate that falls along a cosine from lr to 0), then measure on new examples.

    Args: count is N, the examples of a step; all is drawn from the seed, on the CPU, and computed on one thread.
    Raises: ShapeError unless runs, steps and count are positive and num_heads divides the width of the task.
    """
    if min(runs, steps, count) < 1:
        got = f"runs={runs}, steps={steps}, count={count}"
        raise ShapeError("learn", "runs, steps and count must be positive", expected="1 or more", got=got)
    generator, threads = torch.Generator().manual_seed(seed), torch.get_num_threads()
    readers, curve = Readers(runs, task.width, num_heads, generator, twins=twins), []
    optimizer = torch.optim.Adam(readers.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    torch.set_num_threads(1)
    try:
        for _ in range(steps):
            x, target, _ = task.draw(runs, count, generator)
            errors = _errors(readers(x)[0], target)  # (R,)
            optimizer.zero_grad()
            errors.sum().backward()
            optimizer.step()
            schedule.step()
            curve.append(1 - errors.detach() / task.variance)
        r2, looks = measure(readers, task, generator)
    finally:
        torch.set_num_threads(threads)
    return Outcome(sum(p.numel() for p in readers.parameters()) // runs, r2, torch.stack(curve, -1), looks, readers)


@torch.no_grad()
def measure(readers: Readers, task: Task, generator: torch.Generator, count: int = 2000) -> tuple[Tensor, Tensor]:
    """Return R² (R,) on new examples, the share of the target's variance that is explained, and looks (R, H, P)."""
    x, target, places = task.draw(readers.w_q.size(0), count, generator)
    guess, weights = readers(x)
    spread = (target - target.mean(1, keepdim=True)).square().mean((1, 2))  # (R,)
    at = places[:, None].expand(-1, weights.size(1), -1, -1)  # (R, H, N, P)
    return 1 - _errors(guess, target) / spread, weights.gather(-1, at).mean(2)


def _errors(guess: Tensor, target: Tensor) -> Tensor:
    """Return the mean squared error of each run, (R,); what is not asked for is not judged."""
    return (guess[..., : target.size(-1)] - target).square().mean((1, 2))
