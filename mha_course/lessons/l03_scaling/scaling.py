"""What scaling does to a softmax and to its gradients.

Axes: N = 400 queries, each with its own 64 keys, D head width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mha_course import example
from mha_course.models import MaskedWordModel, masked_word_loss, seeded, train

QUERIES, KEYS, VALUE_WIDTH = 400, 64, 16


class Saturation(NamedTuple):
    """How the softmax over each of N queries' 64 scores behaves at one width and one scale."""

    weights: Tensor  # (N, 64), each row sorted from large to small
    spread: float  # the standard deviation of the scores
    top: float  # the largest weight, averaged over the rows
    saturated: float  # the fraction of rows whose largest weight is above 0.99


class Draws(NamedTuple):
    """Standard normal numbers for N queries and their keys."""

    q: Tensor  # (N, 1, 1, D)
    k: Tensor  # (N, 1, 64, D)
    v: Tensor  # (N, 1, 64, 16)
    upstream: Tensor  # (N, 1, 1, 16), the gradient at the context


def draw(head_dim: int) -> Draws:
    """Draw queries and keys of width D >= 1, in float64 on the CPU."""
    generator = torch.Generator().manual_seed(0)
    shapes = (1, head_dim), (KEYS, head_dim), (KEYS, VALUE_WIDTH), (1, VALUE_WIDTH)
    return Draws(
        *(
            torch.randn(QUERIES, 1, *shape, generator=generator, dtype=torch.float64, device="cpu")
            for shape in shapes
        )
    )


def draw_fresh(head_dim: int, num_heads: int) -> Draws:
    """Draw the same, with q and k from one head of a new nn.Linear(C, C), applied to unit-normal
    x."""
    width = head_dim * num_heads
    x = draw(width)
    # not x's seed, or both would be drawn from the same numbers
    with seeded(1), torch.no_grad():
        q_proj, k_proj = (nn.Linear(width, width, dtype=torch.float64) for _ in range(2))
        return x._replace(q=q_proj(x.q)[..., :head_dim], k=k_proj(x.k)[..., :head_dim])


def saturation(head_dim: int, divisor: float) -> Saturation:
    """Let unit-normal queries of width D attend to their keys, q · k divided by a number > 0."""
    return by_divisors(draw(head_dim), [divisor])[0]


def by_divisors(drawn: Draws, divisors: Iterable[float]) -> list[Saturation]:
    """Measure each divisor, a positive number, on the same draws."""
    return [measure(drawn, partial(_scores, divisor=divisor)) for divisor in divisors]


def _scores(q: Tensor, k: Tensor, divisor: float) -> Tensor:
    return q @ k.mT / divisor


def measure(drawn: Draws, scale: Callable[[Tensor, Tensor], Tensor]) -> Saturation:
    """Let the queries attend with scores scaled by this function.

    Args: scale maps q (N, 1, 1, D) and k (N, 1, 64, D) to scores (N, 1, 1, 64).
    """
    scores = scale(drawn.q, drawn.k).detach()
    rows = scores.softmax(-1)[:, 0, 0].sort(-1, descending=True).values  # (N, 64)
    saturated = (rows[:, 0] > 0.99).double().mean()
    return Saturation(rows, float(scores.std()), float(rows[:, 0].mean()), float(saturated))


@torch.enable_grad()
def gradients(drawn: Draws, divisor: float) -> tuple[Tensor, Tensor]:
    """Return the length of the gradient at each query's scores, and of that which reaches q.

    Shape: both (N,)
    """
    q = drawn.q.clone().requires_grad_()
    scores = _scores(q, drawn.k, divisor)  # (N, 1, 1, 64)
    gain = (scores.softmax(-1) @ drawn.v * drawn.upstream).sum()
    at_scores, at_q = torch.autograd.grad(gain, [scores, q])
    return at_scores[:, 0, 0].norm(dim=-1), at_q[:, 0, 0].norm(dim=-1)


def train_with(
    divisor: float, seed: int, *, steps: int = 1500
) -> tuple[MaskedWordModel, list[float]]:
    """Train the running example's model with its scores divided by this number, not √D; return it
    and all losses.

    Everything else is equal: the initial weights, the sentences, the hidden words.
    """
    model = example.new_model(seed)
    for block in model.blocks:
        root = math.sqrt(block.attention.d_model / block.attention.num_heads)
        # which √D then undoes
        block.attention.q_proj.register_forward_hook(lambda _, __, q, by=root / divisor: q * by)
    batches = example.training_batches(seed)
    losses = train(
        model, batches, masked_word_loss, steps=steps, lr=example.LEARNING_RATE, progress=False
    )
    return model.eval(), losses


def held_out_loss(model: MaskedWordModel, *, batches: int = 100) -> float:
    """Return the mean loss, in nats per word, on sentences with held-out pairs of nouns."""
    held_out = islice(example.training_batches(0, "test"), batches)
    with torch.no_grad():
        losses = [masked_word_loss(model, *batch) for batch in held_out]
    return float(torch.stack(losses).mean())


def divisors(head_dim: int, num_heads: int) -> dict[str, float]:
    """Return common divisors of scores, right and wrong, by name."""
    root = math.sqrt(head_dim)
    root_of_all = math.sqrt(head_dim * num_heads)
    return {"√D": root, "nothing": 1.0, "D": float(head_dim), "√C": root_of_all}


def divisor_losses(seed: int) -> dict[str, float]:
    """Return the held-out loss after training with each divisor compared."""
    return {
        name: held_out_loss(train_with(divisor, seed)[0])
        for name, divisor in divisors(12, 4).items()
    }
