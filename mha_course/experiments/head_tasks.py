"""Tasks that tell one head from several with equally many parameters, and the attention that learns them.

Several runs learn at once, each with its own start and its own examples. Axes: runs, N examples, S tokens, C width,
H heads, D = C / H, d numbers of a content, wanted the tokens that a target is made of.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mha_course.errors import require, require_heads
from mha_course.models import one_thread


@dataclass(frozen=True)
class TwoTokenSum:
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
        """Return x (runs, N, 9, C), targets (runs, N, d), and the positions of a and b (runs, N, 2)."""
        contents = torch.randn(runs, count, 8, self.d, generator=generator)  # (runs, N, 8, d)
        chosen = torch.rand(runs, count, 8, generator=generator).argsort(-1)[..., :2]  # (runs, N, 2)
        x = torch.zeros(runs, count, 9, self.width)  # (runs, N, 9, C)
        x[:, :, 1:, : self.d] = contents
        x[:, :, 1:, self.d : self.d + 2].scatter_(2, chosen[:, :, None], 1.0)
        x[:, :, 0, self.d + 2] = 1.0
        c_a, c_b = contents.gather(2, chosen[..., None].expand(-1, -1, -1, self.d)).unbind(2)  # (runs, N, d) each
        return x, c_a + self.sign * c_b, chosen + 1  # behind the query token


@dataclass(frozen=True)
class AssociativeRecall:
    """Fetch the content that stands beside a key: 16 tokens, each with a random key; the query token has one of them.

    Channels: 0 to 15 the key, 16 to 30 the content, 31 the flag of the query token.
    """

    width: int = 32
    variance: float = 1.0

    def draw(self, runs: int, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Return x (runs, N, 17, 32), targets (runs, N, 15), and the position of the key (runs, N, 1)."""
        x = torch.randn(runs, count, 17, self.width, generator=generator)  # (runs, N, 17, C)
        position = torch.randint(16, (runs, count, 1), generator=generator) + 1  # (runs, N, 1)
        found = x.gather(2, position[..., None].expand(-1, -1, -1, self.width))[:, :, 0]  # (runs, N, C)
        x[:, :, 1:, 31] = 0.0
        x[:, :, 0, :16], x[:, :, 0, 16:31], x[:, :, 0, 31] = found[..., :16], 0.0, 1.0
        return x, found[..., 16:31], position


Task = TwoTokenSum | AssociativeRecall


class ParallelAttention(nn.Module):
    """Multi-head attentions side by side, one for each run, in which only the first token has a query.

    Weights are kept head by head. They are drawn as nn.Linear draws, and are the same numbers for every number of
    heads. With identical_heads all heads start as copies of head 0.

    >>> sum(p.numel() for p in ParallelAttention(1, 24, 4, torch.Generator()).parameters())
    2400
    """

    def __init__(
        self, runs: int, width: int, num_heads: int, generator: torch.Generator, *, identical_heads: bool = False
    ) -> None:
        super().__init__()
        require_heads("ParallelAttention", width, num_heads, "width")
        edge, D = 1 / math.sqrt(width), width // num_heads

        def uniform(*shape: int) -> nn.Parameter:
            drawn = (torch.rand(runs, *shape, generator=generator) * 2 - 1) * edge
            copied = identical_heads and len(shape) > 1  # b_o alone has no axis of heads
            return nn.Parameter(drawn[:, :1].expand_as(drawn).clone() if copied else drawn)

        self.w_q = uniform(num_heads, D, width)
        self.w_k = uniform(num_heads, D, width)
        self.w_v = uniform(num_heads, D, width)
        self.b_q = uniform(num_heads, D)
        self.b_k = uniform(num_heads, D)
        self.b_v = uniform(num_heads, D)
        self.w_o = uniform(num_heads, D, width)  # transposed: what each number of a head adds
        self.b_o = uniform(width)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map x (runs, N, S, C) to what the first token gets, (runs, N, C), and its weights, (runs, H, N, S)."""
        runs, N, S, C = x.shape
        H, D = self.w_q.shape[1:3]
        flat = x.reshape(runs, 1, N * S, C)
        q = x[:, None, :, 0] @ self.w_q.mT + self.b_q[:, :, None]  # (runs, H, N, D)
        k = (flat @ self.w_k.mT + self.b_k[:, :, None]).view(runs, H, N, S, D)
        v = (flat @ self.w_v.mT + self.b_v[:, :, None]).view(runs, H, N, S, D)
        # One query for each of N sequences: with its gradients, a product and a sum take 0.4 ms where so many matrix
        # products with one row take 0.65.
        weights = ((k * q[:, :, :, None]).sum(-1) / math.sqrt(D)).softmax(-1)  # (runs, H, N, S)
        context = (weights[..., None] * v).sum(-2)  # (runs, H, N, D)
        return (context @ self.w_o).sum(1) + self.b_o[:, None], weights


class Outcome(NamedTuple):
    """What some runs with H heads learned."""

    parameters: int  # of one run
    r2: Tensor  # (runs,), on new examples
    curve: Tensor  # (runs, steps), R² of every step on its own examples
    weights: Tensor  # (runs, H, wanted), the mean weight of each head on each token that the target is made of
    attention: ParallelAttention  # trained


def learn(
    task: Task, num_heads: int, *, runs: int = 5, seed: int = 0, steps: int = 500, count: int = 64,
    identical_heads: bool = False,
) -> Outcome:  # fmt: skip
    """Train models with Adam (a rate that falls along a cosine from 0.01 to 0), then measure on new examples.

    Args: count is N, the examples of a step; all is drawn from the seed, on the CPU, and computed on one thread.
    Raises: ShapeError unless runs, steps and count are positive and num_heads divides the width of the task.
    """
    rule, got = "runs, steps and count must be positive", f"runs={runs}, steps={steps}, count={count}"
    require(min(runs, steps, count) >= 1, "learn", rule, expected="1 or more", got=got)
    generator = torch.Generator().manual_seed(seed)
    attention = ParallelAttention(runs, task.width, num_heads, generator, identical_heads=identical_heads)
    optimizer = torch.optim.Adam(attention.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    curve = []
    with one_thread():
        for _ in range(steps):
            x, target, _ = task.draw(runs, count, generator)
            errors = _mean_squared_errors(attention(x)[0], target)  # (runs,)
            optimizer.zero_grad()
            errors.sum().backward()  # the runs share no parameter: each gets the gradient of its own error
            optimizer.step()
            schedule.step()
            curve.append(1 - errors.detach() / task.variance)
        r2, weights = measure(attention, task, generator)
    parameters = sum(p.numel() for p in attention.parameters()) // runs
    return Outcome(parameters, r2, torch.stack(curve, -1), weights, attention)


@torch.no_grad()
def measure(attention: ParallelAttention, task: Task, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return R² (runs,) on new examples, and the mean weights on the tokens that are wanted, (runs, H, wanted)."""
    x, target, positions = task.draw(attention.w_q.size(0), 2000, generator)
    guess, weights = attention(x)
    spread = (target - target.mean(1, keepdim=True)).square().mean((1, 2))  # (runs,)
    at = positions[:, None].expand(-1, weights.size(1), -1, -1)  # (runs, H, N, wanted)
    return 1 - _mean_squared_errors(guess, target) / spread, weights.gather(-1, at).mean(2)


def _mean_squared_errors(guess: Tensor, target: Tensor) -> Tensor:
    """Return the mean squared error of each run, (runs,); channels that the target lacks are not judged."""
    return (guess[..., : target.size(-1)] - target).square().mean((1, 2))
