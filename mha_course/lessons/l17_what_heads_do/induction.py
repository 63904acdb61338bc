"""Induction: a word that stood here before, and what came after it then; attention alone, in one
layer or two.

Axes: B sequences, S tokens, C width, V words in the vocabulary, H heads, L layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mha_course.attention import MultiHeadAttention
from mha_course.models import seeded, train
from mha_course.positions import sinusoidal_encoding

WORDS, TOKENS, SHORTEST, LONGEST = 32, 24, 6, 12


def repeated_words(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw 6 to 12 different words for each of B sequences, and repeat them until there are 24.

    Returns: ids (B, 24), and how many different words they are, (B, 1).


    >>> ids, period = repeated_words(3, torch.Generator().manual_seed(0))
    >>> all(torch.equal(row[:-n], row[n:]) for row, n in zip(ids, period.flatten(), strict=True))
    True
    """
    dice: dict[str, Any] = {"generator": generator, "device": generator.device}
    words = torch.rand(count, WORDS, **dice).argsort(-1)[:, :LONGEST]
    period = torch.randint(SHORTEST, LONGEST + 1, (count, 1), **dice)  # (B, 1)
    return words.gather(1, torch.arange(TOKENS, device=period.device) % period), period


class AttentionOnly(nn.Module):
    """Causal attention layers that add to the stream, without norm or feed-forward part."""

    def __init__(self, num_layers: int, num_heads: int, d_model: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, d_model)
        self.layers = nn.ModuleList(
            MultiHeadAttention(d_model, num_heads) for _ in range(num_layers)
        )
        self.to_words = nn.Linear(d_model, WORDS)

    def forward(self, ids: Tensor) -> Tensor:
        """Map ids (B, S) to logits of the next words (B, S, V)."""
        return self.weights_and_logits(ids)[1]

    def embed(self, ids: Tensor) -> Tensor:
        """Map ids (B, S) to the stream that enters the first layer, (B, S, C)."""
        width = self.words.embedding_dim
        return self.words(ids) + sinusoidal_encoding(ids.size(1), width, device=ids.device)

    def weights_and_logits(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weights of every head (L, B, H, S, S), and the logits (B, S, V)."""
        x = self.embed(ids)
        weights_of_layers = []
        for layer in self.layers:
            out, weights = layer(x, is_causal=True)
            x = x + out  # (B, S, C)
            weights_of_layers.append(weights)
        return torch.stack(weights_of_layers), self.to_words(x)


def repeated_loss(model: AttentionOnly, ids: Tensor, period: Tensor) -> Tensor:
    """Return the mean cross-entropy of the words behind one that has come back, in nats."""
    losses = F.cross_entropy(model(ids[:, :-1]).mT, ids[:, 1:], reduction="none")  # (B, S-1)
    return losses[torch.arange(1, TOKENS, device=period.device) > period].mean()


def accuracy(logits: Tensor, ids: Tensor, period: Tensor) -> float:
    """Return how often logits (B, S, V) guess a word behind one that has come back, 0 to 1."""
    right = logits[:, :-1].argmax(-1) == ids[:, 1:]  # (B, S-1)
    return right[torch.arange(1, TOKENS, device=period.device) > period].float().mean().item()


class Learned(NamedTuple):
    """A trained model, and what it does on new sequences."""

    model: AttentionOnly
    losses: list[float]  # of every step, in nats
    accuracy: float  # how often it guesses a word behind one that has come back
    previous: (
        Tensor  # (L, H), each head's mean weight on the word before, from those that are all new
    )
    after: Tensor  # (L, H), on the words that came after this one, from those that came back


def learn(num_layers: int, num_heads: int, *, seed: int = 0, steps: int = 300) -> Learned:
    """Train on repeated random words, and measure on others."""
    generator = torch.Generator().manual_seed(seed)
    with seeded(seed):
        model = AttentionOnly(num_layers, num_heads)
    losses = train(model, _batches(generator), repeated_loss, steps=steps, lr=1e-2, progress=False)
    ids, period = repeated_words(500, generator)
    with torch.no_grad():
        weights, logits = model.weights_and_logits(ids)  # (L, B, H, S, S), (B, S, V)
    previous = weights.diagonal(-1, -2, -1)[..., : LONGEST - 1].mean((1, 3))  # (L, H)
    places = torch.arange(TOKENS, device=ids.device)
    behind = (places[:, None] - places + 1) % period[
        ..., None
    ] == 0  # (B, S, S): key is behind a word like the query
    on_behind = (weights * behind[:, None]).sum(
        -1
    )  # (L, B, H, S); what has not come yet has weight 0
    after = on_behind.transpose(1, 2)[:, :, places >= period].mean(-1)  # (L, H)
    return Learned(model, losses, accuracy(logits, ids, period), previous, after)


def _batches(generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    while True:
        yield repeated_words(32, generator)
