"""Induction: find an earlier copy of a word, and what followed it; attention-only models of one or
two layers.

Axes: B sequences, S tokens, C width, V words in the vocabulary, H heads, L layers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mha_course.attention import MultiHeadAttention
from mha_course.models import seeded, train
from mha_course.positions import sinusoidal_encoding

WORDS = 32  # in the vocabulary
TOKENS, SHORTEST, LONGEST, PIECE = 24, 6, 12, 3


def repeated_words(count: int, generator: torch.Generator) -> Tensor:
    """Draw 6 to 12 different words for each sequence, and repeat them in order: (B, 24).

    >>> ids = repeated_words(3, torch.Generator().manual_seed(0))
    >>> [any(torch.equal(row[:-n], row[n:]) for n in range(6, 13)) for row in ids]
    [True, True, True]
    """
    dice: dict[str, Any] = {"generator": generator, "device": generator.device}
    words = _different_words(count, generator)
    period = torch.randint(SHORTEST, LONGEST + 1, (count, 1), **dice)  # (B, 1)
    return words.gather(1, torch.arange(TOKENS, device=period.device) % period)


def words_in_pieces(count: int, generator: torch.Generator) -> Tensor:
    """Draw 12 different words, then four runs of three taken from anywhere in them: (B, 24).

    >>> ids = words_in_pieces(1, torch.Generator().manual_seed(0))[0].tolist()
    >>> starts = [ids.index(ids[place]) for place in range(12, 24, 3)]
    >>> [ids[start + 2] for start in starts] == ids[14::3]
    True
    """
    words = _different_words(count, generator)
    dice: dict[str, Any] = {"generator": generator, "device": generator.device}
    starts = torch.randint(LONGEST - PIECE + 1, (count, LONGEST // PIECE, 1), **dice)
    places = starts + torch.arange(PIECE, device=starts.device)  # (B, pieces, 3)
    return torch.cat((words, words.gather(1, places.flatten(1))), 1)


def _different_words(count: int, generator: torch.Generator) -> Tensor:
    dice: dict[str, Any] = {"generator": generator, "device": generator.device}
    return torch.rand(count, WORDS, **dice).argsort(-1)[:, :LONGEST]  # (B, 12)


def is_known(ids: Tensor) -> Tensor:
    """Return which words, from the second on, have followed the same word before, (B, S-1).

    >>> is_known(torch.tensor([[7, 4, 9, 7, 4, 9]])).int().tolist()
    [[0, 0, 0, 1, 1]]
    """
    pairs = torch.stack((ids[:, :-1], ids[:, 1:]), -1)  # (B, S-1, 2)
    same = (pairs[:, :, None] == pairs[:, None]).all(-1)  # (B, S-1, S-1)
    return same.tril(-1).any(-1)


class AttentionOnly(nn.Module):
    """Causal attention layers that add to the stream, without norms or feed-forward parts."""

    def __init__(self, num_layers: int, num_heads: int, d_model: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, d_model)
        self.layers = nn.ModuleList(
            MultiHeadAttention(d_model, num_heads) for _ in range(num_layers)
        )
        self.to_words = nn.Linear(d_model, WORDS)

    def forward(self, ids: Tensor) -> Tensor:
        """Map ids (B, S) to next-word logits (B, S, V)."""
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


def known_loss(model: AttentionOnly, ids: Tensor) -> Tensor:
    """Return the mean cross-entropy of the known words, in nats."""
    losses = F.cross_entropy(model(ids[:, :-1]).mT, ids[:, 1:], reduction="none")  # (B, S-1)
    return losses[is_known(ids)].mean()


def accuracy(logits: Tensor, ids: Tensor) -> float:
    """Return how often logits (B, S, V) guess a known word, 0 to 1."""
    right = logits[:, :-1].argmax(-1) == ids[:, 1:]  # (B, S-1)
    return right[is_known(ids)].float().mean().item()


def accuracy_of_copying(ids: Tensor) -> float:
    """Return how often copying the word L back is right for known words, with each position's best
    L."""
    known = is_known(ids)
    right = torch.zeros(ids.size(1), *known.shape, device=ids.device)  # (L, B, S-1)
    for back in range(1, ids.size(1)):
        right[back, :, back - 1 :] = (ids[:, back:] == ids[:, :-back]) & known[:, back - 1 :]
    return (right.sum(1).amax(0).sum() / known.sum()).item()


@torch.no_grad()
def accuracies(model: AttentionOnly, repeated: Tensor, pieces: Tensor) -> dict[str, float]:
    """Return how often a model guesses a known word, for repeated words and words in pieces."""
    return {
        "repeated": accuracy(model(repeated), repeated),
        "pieces": accuracy(model(pieces), pieces),
    }


class Learned(NamedTuple):
    """A trained model, and what it does on new sequences."""

    model: AttentionOnly
    losses: list[float]  # of every step, in nats
    accuracy: float  # how often it guesses a known word
    previous: Tensor  # (L, H), each head's mean weight on the word before, in the first 12 words
    after: Tensor  # (L, H), from repeated words to what followed them before


def learn(
    num_layers: int, num_heads: int, d_model: int = 64, *, seed: int = 0, steps: int = 300
) -> Learned:
    """Train on repeated random words, and measure on new ones."""
    generator = torch.Generator().manual_seed(seed)
    with seeded(seed):
        model = AttentionOnly(num_layers, num_heads, d_model)
    batches = ((repeated_words(32, generator),) for _ in range(steps))
    losses = train(model, batches, known_loss, steps=steps, lr=1e-2, progress=False)
    ids = repeated_words(500, generator)
    with torch.no_grad():
        weights, logits = model.weights_and_logits(ids)  # (L, B, H, S, S), (B, S, V)
    previous = weights.diagonal(-1, -2, -1)[..., : LONGEST - 1].mean((1, 3))  # (L, H)
    same = ids[:, :, None] == ids[:, None]  # (B, S, S)
    behind = F.pad(same[..., :-1], (1, 0))  # (B, S, S): a key is behind a word like the query
    on_behind = (weights * behind[:, None]).sum(-1)  # (L, B, H, S)
    came_back = same.tril(-1).any(-1)  # (B, S)
    after = on_behind.transpose(1, 2)[:, :, came_back].mean(-1)  # (L, H)
    return Learned(model, losses, accuracy(logits, ids), previous, after)


def one_layer(seed: int) -> dict[str, Any]:
    """Train one layer four times as long as in the lesson, and report on it."""
    model = learn(1, 2, 90, seed=seed, steps=6000).model
    dice = torch.Generator().manual_seed(99)
    repeated, pieces = repeated_words(2000, dice), words_in_pieces(2000, dice)
    return accuracies(model, repeated, pieces)
