"""Tasks that separate one head from several with as many parameters, and models for them.

Several runs train together, each with its own initial weights and examples. Axes: runs, N examples,
S tokens, C width, H heads, D numbers of q and k in a head (D_v of v), d numbers of a content.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from mha_course.errors import require, require_heads
from mha_course.models.training import threads


class Task:
    """Something to retrieve from a sentence whose first token asks for it."""

    width: int

    def draw(self, runs: int, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return x (runs, N, S, C) and targets (runs, N, numbers)."""
        raise NotImplementedError


@dataclass(frozen=True)
class TwoTokens(Task):
    """Read two of 8 tokens, flagged a and b: return ``c_a - c_b``, or the pair side by side.

    Channels: 0 to d - 1 the content, which is unit normal, d the flag a, d + 1 the flag b, d + 2
    that of the query token, the rest 0.
    """

    target: Literal["difference", "pair"] = "difference"
    d: int = 6
    width: int = 24

    @property
    def bound(self) -> float:
        """The upper bound on R² for one head with one softmax, on either target: ½ + 1/(2d)."""
        return 0.5 + 0.5 / self.d

    def draw(self, runs: int, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return x (runs, N, 9, C) and targets, (runs, N, d) or, for the pair, (runs, N, 2d)."""
        contents = torch.randn(runs, count, 8, self.d, generator=generator, device="cpu")
        order = torch.rand(runs, count, 8, generator=generator, device="cpu").argsort(-1)
        chosen = order[..., :2]  # (runs, N, 2)
        x = contents.new_zeros(runs, count, 9, self.width)  # (runs, N, 9, C)
        x[:, :, 1:, : self.d] = contents
        x[:, :, 1:, self.d : self.d + 2].scatter_(2, chosen[:, :, None], 1.0)
        x[:, :, 0, self.d + 2] = 1.0
        flagged = contents.gather(2, chosen[..., None].expand(-1, -1, -1, self.d))
        c_a, c_b = flagged.unbind(2)  # (runs, N, d) each
        return x, c_a - c_b if self.target == "difference" else flagged.flatten(2)


def softmax_weights(q: Tensor, k: Tensor) -> Tensor:
    """Return the weights of an ordinary head, (..., T, S), from its q (..., T, D) and k."""
    return (q @ k.mT / math.sqrt(q.size(-1))).softmax(-1)


class ParallelAttention(nn.Module):
    """Multi-head attentions side by side, one for each run.

    Weights are stored per head. They are initialised like nn.Linear's, with the same numbers for
    every number of heads. With identical_heads, all heads start as copies of head 0. score_dim is D
    and value_dim is D_v if they are not width / num_heads; weigh makes weights from q and k.

    >>> sum(p.numel() for p in ParallelAttention(1, 24, 4, torch.Generator()).parameters())
    2400
    """

    def __init__(
        self, runs: int, width: int, num_heads: int, generator: torch.Generator, *,
        identical_heads: bool = False, score_dim: int | None = None, value_dim: int | None = None,
        weigh: Callable[[Tensor, Tensor], Tensor] = softmax_weights,
    ) -> None:  # fmt: skip
        super().__init__()
        require_heads("ParallelAttention", width, num_heads, "width")
        edge = 1 / math.sqrt(width)
        self.weigh = weigh
        D = score_dim or width // num_heads
        D_v = value_dim or width // num_heads

        def uniform(*shape: int) -> nn.Parameter:
            drawn = edge * (2 * torch.rand(runs, *shape, generator=generator, device="cpu") - 1)
            copied = identical_heads and len(shape) > 1  # only b_o has no head axis
            return nn.Parameter(drawn[:, :1].expand_as(drawn).clone() if copied else drawn)

        self.w_q = uniform(num_heads, D, width)
        self.w_k = uniform(num_heads, D, width)
        self.w_v = uniform(num_heads, D_v, width)
        self.b_q = uniform(num_heads, D)
        self.b_k = uniform(num_heads, D)
        self.b_v = uniform(num_heads, D_v)
        self.w_o = uniform(num_heads, D_v, width)  # transposed: what each channel of a head adds
        self.b_o = uniform(width)

    def forward(self, query: Tensor, x: Tensor) -> Tensor:
        """Let query (runs, N, T, C) attend to x (runs, N, S, C); return out (runs, N, T, C)."""
        q = self._project(query, "q")  # (runs, H, N, T, D)
        k = self._project(x, "k")
        v = self._project(x, "v")  # (runs, H, N, S, D_v)
        context = self.weigh(q, k) @ v  # (runs, H, N, T, D_v)
        out = (context.flatten(2, 3) @ self.w_o).sum(1) + self.b_o[:, None]  # (runs, N·T, C)
        return out.view_as(query)

    def _project(self, x: Tensor, name: str) -> Tensor:
        """Return q, k or v of all heads, (runs, H, N, S, D)."""
        flat = x.flatten(1, 2)[:, None]  # (runs, 1, N·S, C)
        projected = (
            flat @ self.get_parameter(f"w_{name}").mT + self.get_parameter(f"b_{name}")[:, :, None]
        )
        return projected.unflatten(2, x.shape[1:3])


def read(layers: nn.ModuleList, x: Tensor) -> Tensor:
    """Send x (runs, N, S, C) through the layers, each of which adds its heads' output.

    Returns: what was added to the first token, (runs, N, C).
    """
    stream = x
    for layer in layers[:-1]:
        stream = stream + layer(stream, stream)  # (runs, N, S, C)
    added = layers[-1](stream[:, :, :1], stream)  # only this is read from the last layer
    return (stream - x)[:, :, 0] + added[:, :, 0]


class Outcome(NamedTuple):
    """The trained runs: how well they solve new examples, and their layers."""

    parameters: int  # of one run
    r2: Tensor  # (runs,), on new examples
    layers: nn.ModuleList  # of ParallelAttention, trained


def learn(
    task: Task, num_heads: int, *, num_layers: int = 1, runs: int = 5, seed: int = 0,
    steps: int = 500, **options: Any,
) -> Outcome:  # fmt: skip
    """Train with Adam on 64 examples a step, with cosine decay, then measure on new ones.

    Args: seed determines everything, drawn on the CPU and computed on one thread; options go to
        every layer, a ``ParallelAttention``.
    Raises: ShapeError unless runs and steps are positive and num_heads divides the width of the
        task.
    """
    rule = "runs and steps must be positive"
    got = f"runs={runs}, steps={steps}"
    require(min(runs, steps) >= 1, "learn", rule, expected="1 or more", got=got)
    generator = torch.Generator().manual_seed(seed)
    layers = nn.ModuleList(
        ParallelAttention(runs, task.width, num_heads, generator, **options)
        for _ in range(num_layers)
    )
    optimizer = torch.optim.Adam(layers.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    with threads(1):
        for _ in range(steps):
            x, target = task.draw(runs, 64, generator)
            # the runs share no parameter: each gets the gradient of its own error
            loss = _mean_squared_errors(read(layers, x), target).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        r2 = measure(layers, task, generator)
    return Outcome(sum(p.numel() for p in layers.parameters()) // runs, r2, layers)


@torch.no_grad()
def measure(layers: nn.ModuleList, task: Task, generator: torch.Generator) -> Tensor:
    """Return each run's R², 1 - errors / variance, on new examples, (runs,)."""
    x, target = task.draw(layers[0].get_parameter("w_q").size(0), 2000, generator)
    spread = (target - target.mean(1, keepdim=True)).square().mean((1, 2))  # (runs,)
    return 1 - _mean_squared_errors(read(layers, x), target) / spread


def _mean_squared_errors(guess: Tensor, target: Tensor) -> Tensor:
    """Return each run's mean squared error on the target's channels, (runs,)."""
    return (guess[..., : target.size(-1)] - target).square().mean((1, 2))
