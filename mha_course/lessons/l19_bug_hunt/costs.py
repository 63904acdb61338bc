"""What a mistake in attention costs small language models, in training and in use."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from mha_course.caching import KVCache
from mha_course.datasets.grammar import sentences
from mha_course.errors import ShapeError
from mha_course.experiments import precomputed
from mha_course.experiments.faulty_attention import MADE, PAIRS, CausalAttention, faulty
from mha_course.models import WordModel, random_batches, seeded, train
from mha_course.models.language import LONGEST, PAD, WORDS, encode, language_loss

RIGHT = "right"
CASES = (RIGHT, *MADE, *map("+".join, PAIRS))  # by their mistakes' names
STEPS, EVERY = 300, 10
SEEDS = (0, 1, 2)
BATCH = 64  # sentences, in training and measuring alike: one mistake mixes a batch's sentences
PREFIX = 5  # tokens read together before the rest follow one by one


Losses = list[float | None]  # of each run; None if it is NaN, or if the model crashes


class Record(NamedTuple):
    """Measurements of one attention; losses in nats per word, on 500 sentences with held-out pairs
    of nouns.
    """

    losses: list[float]  # training losses of the first run, averaged over 10 steps
    at_once: Losses  # each sentence in one pass, as in training
    in_use: Losses  # padded on the left, five tokens together, then one by one, with a cache
    loaded: Losses  # in one pass, with the right attention's parameters


class LanguageModel(WordModel):
    """A two-layer language model on any attention that encodes positions itself."""

    def __init__(self, attention: type[CausalAttention]) -> None:
        super().__init__(len(WORDS), LONGEST, d_model=48, num_heads=4, d_ff=128, num_layers=2)
        del self.position_embedding
        for block in self.blocks:
            block.attention = attention(48, 4, 2)  # type: ignore[assignment]

    def forward(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        caches: tuple[KVCache | None, ...] = (None, None),
    ) -> Tensor:
        """Map ids (B, T) to next-word logits (B, T, V); mask and caches as for CausalAttention."""
        x = self.token_embedding(ids)  # (B, T, C)
        for block, layer_cache in zip(self.blocks, caches, strict=True):
            x = x + block.attention(block.norm1(x), mask, layer_cache)  # (B, T, C)
            x = x + block.feed_forward(block.norm2(x))  # (B, T, C)
        return self.to_words(self.encoder.norm(x))  # (B, T, V)


def new_model(*mistakes: str, seed: int = 0) -> LanguageModel:
    """Return the untrained model with these mistakes, always with the same parameters."""
    with seeded(seed):
        return LanguageModel(faulty(*mistakes))


def train_model(
    *mistakes: str, seed: int = 0, steps: int = STEPS
) -> tuple[LanguageModel, list[float]]:
    """Train a language model with these mistakes; return it and every step's loss."""
    model = new_model(*mistakes, seed=seed)
    ids = encode([text.words for text in sentences(4000, "train", seed=seed)])
    batches = random_batches([ids], BATCH, seed)
    with seeded(seed):
        losses = train(model, batches, language_loss, steps=steps, lr=4e-3, progress=False)
    return model.eval().requires_grad_(False), losses


def fresh() -> Tensor:
    """Return ids (500, S) of sentences with held-out pairs of nouns, padded on the right."""
    return encode([text.words for text in sentences(500, "test", seed=0)])


def loss_at_once(model: LanguageModel, ids: Tensor) -> float | None:
    """Return the mean next-word loss of ids (B, S), each sentence in one pass, in batches as in
    training.
    """
    return _mean(lambda batch: language_loss(model, batch), ids)


def loss_in_use(model: LanguageModel, ids: Tensor) -> float | None:
    """Return the same loss, reading as in generation: padding in front, the first tokens together,
    then with a cache.
    """
    try:
        return _mean(lambda batch: _in_use(model, batch), ids)
    except (RuntimeError, ShapeError):
        return None


def _in_use(model: LanguageModel, ids: Tensor) -> Tensor:
    order = (ids != PAD).int().argsort(dim=1, stable=True)  # padding first
    ids = ids.gather(1, order)
    mask = ids != PAD
    caches = (KVCache(), KVCache())
    ends = [0, *range(PREFIX, ids.size(1))]  # nothing follows the last token
    logits = [model(ids[:, a:b], mask[:, :b], caches) for a, b in itertools.pairwise(ends)]
    targets = ids[:, 1:].masked_fill(~mask[:, :-1], -100)  # what follows padding does not count
    return F.cross_entropy(
        torch.cat(logits, dim=1).flatten(0, 1), targets.flatten(), ignore_index=-100
    )


def _mean(loss: Callable[[Tensor], Tensor], ids: Tensor) -> float | None:
    """Return the mean over all next words, in batches; None if it is NaN."""
    batches = ids.split(BATCH)
    counts = [(batch[:, 1:] != PAD).sum() for batch in batches]
    total = sum(loss(batch) * count for batch, count in zip(batches, counts, strict=True)) / sum(
        counts
    )
    return round(total.item(), 3) if total.isfinite() else None


def measure(case: str) -> Record:
    """Train one of CASES from each seed, and measure what its mistakes cost."""
    mistakes = () if case == RIGHT else case.split("+")
    ids, curves, rows = fresh(), [], []
    for seed in SEEDS:
        model, losses = train_model(*mistakes, seed=seed)
        repaired = new_model(*mistakes).eval()
        repaired.load_state_dict(_right_parameters(seed))
        with torch.no_grad(), seeded(seed):
            at_once, in_use = loss_at_once(model, ids), loss_in_use(model, ids)
            rows.append((at_once, in_use, loss_at_once(repaired, ids)))
        curves.append(losses)
    windows = [curves[0][at : at + EVERY] for at in range(0, STEPS, EVERY)]
    means = [round(math.fsum(window) / EVERY, 2) for window in windows]
    return Record(means, *map(list, zip(*rows, strict=True)))


@cache
def _right_parameters(seed: int) -> dict[str, Tensor]:
    return train_model(seed=seed)[0].state_dict()


@cache
def load() -> dict[str, Record]:
    """Return the shipped records, by names joined with +; ``right`` is right attention."""
    return {name: Record(*record) for name, record in precomputed.load().bug_hunt.items()}
