"""A small language model that learns the course's own sentences, and writes new ones.

The lesson also imports ``PAD``, ``encode`` and ``language_loss`` from here.

Axes: B sentences, S tokens, V words in the vocabulary, L layers, H heads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from mha_course.datasets.grammar import Sentence, sentences, words_of
from mha_course.lessons.l15_language_model.causal_model import CausalLanguageModel, generate
from mha_course.lessons.l15_language_model.parsing import nats
from mha_course.models import random_batches, seeded, train
from mha_course.models.language import END, LONGEST, PAD, START, WORDS, encode, language_loss

Predictor = Callable[[Tensor], Tensor]  # ids (B, S) to next-word logits (B, S, V)


class SeesAhead(CausalLanguageModel):
    """The same model without its causal mask, as a warning. Do not use it."""

    def forward(self, ids: Tensor, caches: object = None) -> Tensor:
        """Map ids (B, S) to logits (B, S, V); each position sees the word it has to guess."""
        del caches
        return self.to_words(self.encoder(self.embed(ids)))  # (B, S, V)


def new_language_model(seed: int, *, see_ahead: bool = False) -> CausalLanguageModel:
    """Return the untrained model, the same for the same seed."""
    kind = SeesAhead if see_ahead else CausalLanguageModel
    with seeded(seed):
        return kind(len(WORDS), LONGEST, d_model=48, num_heads=4, d_ff=128, num_layers=2)


def prompt(sentence: str) -> Tensor:
    """Turn the words so far into ids, (1, S), adding <start> if it is missing.

    Raises: ShapeError for an unknown word.
    """
    words = words_of(sentence)
    if words[:1] == [WORDS[START]]:
        words = words[1:]
    return encode([words])[:, :-1] if words else torch.tensor([[START]])


def decode(ids: Tensor) -> tuple[str, ...]:
    """Return the words of one sentence's ids (S,): after <start>, up to <end> if present.

    >>> decode(encode([["the", "cat"], ["the"]])[1])
    ('the',)
    """
    numbers = ids.tolist()
    end = numbers.index(END) if END in numbers else len(numbers)
    return tuple(WORDS[number] for number in numbers[:end] if number != START)


def train_language_model(
    seed: int,
    *,
    steps: int = 1000,
    texts: Sequence[Sentence] = (),
    see_ahead: bool = False,
    **options: Any,
) -> tuple[CausalLanguageModel, list[float]]:
    """Train on texts; return the model and every step's loss in nats per word.

    Args: texts default to ``training_texts``; options are ``train``'s ``progress``, ``look`` and
        ``every``.
    """
    model = new_language_model(seed, see_ahead=see_ahead)
    ids = encode([text.words for text in texts or training_texts(seed)])
    losses = train(
        model, random_batches([ids], 64, seed), language_loss, steps=steps, lr=4e-3, **options
    )
    return model.eval().requires_grad_(False), losses


def training_texts(seed: int) -> list[Sentence]:
    """Return the default texts of ``train_language_model``."""
    return sentences(20_000, "train", seed)


def uniform(ids: Tensor) -> Tensor:
    """Make all words, and <end>, equally likely: logits (B, S, V)."""
    logits = torch.zeros(*ids.shape, len(WORDS), device=ids.device)
    logits[..., [PAD, START]] = -torch.inf
    return logits


def bigram(texts: Sequence[Sentence]) -> Predictor:
    """Count which word follows which: a predictor that uses only the newest word.

    0.1 is added to every count, so that no word is impossible.
    """
    ids = encode([text.words for text in texts])
    counts = torch.zeros(len(WORDS), len(WORDS), dtype=torch.float64)
    pairs = torch.stack((ids[:, :-1], ids[:, 1:]))[:, ids[:, 1:] != PAD]  # (2, all tokens)
    counts.index_put_(tuple(pairs), torch.ones(pairs.size(1), dtype=torch.float64), accumulate=True)
    counts[:, END:] += 0.1
    table = (counts / counts.sum(-1, keepdim=True)).log()  # (V, V): the word after each
    return lambda ids: table[ids.to(table.device)]


@torch.no_grad()
def surprisal(predictor: Predictor, ids: Tensor) -> Tensor:
    """Return -ln P of each next word, in nats, 0 for padding, (B, S - 1): entry s is of s + 1.

    It is on the predictor's device.
    """
    log_chances = predictor(ids[:, :-1]).log_softmax(-1)  # (B, S-1, V)
    following = ids[:, 1:].to(log_chances.device)  # (B, S-1)
    surprise = -log_chances.gather(-1, following[..., None]).squeeze(-1)  # (B, S-1)
    return surprise.masked_fill(following == PAD, 0.0)


def perplexity(predictor: Predictor, texts: Sequence[Sentence]) -> float:
    """Return exp of the mean surprisal per word, <end> included.

    A model gets its ids on its own device, any other predictor on the CPU.
    """
    ids = encode([text.words for text in texts]).to(getattr(predictor, "device", "cpu"))
    return math.exp(surprisal(predictor, ids).sum().item() / _tokens(texts))


def surprise_at_nouns(
    predictor: Predictor, *groups: Sequence[Sentence]
) -> list[tuple[str | float, ...]]:
    """Return the mean surprisal at words that reveal the nouns, with a column for each group."""
    rows = {"first adjective": (0, 0), "second adjective": (1, 0), "second noun": (1, 1)}
    means_of: dict[str, list[float]] = {name: [] for name in rows}
    for texts in groups:
        every = surprisal(predictor, encode([text.words for text in texts]))  # (N, S - 1)
        for name, (noun, word) in rows.items():
            at = torch.tensor([text.pairs["noun"][noun][word] for text in texts])
            means_of[name].append(every[torch.arange(len(texts)), at].mean().item())
    return [(name, *means) for name, means in means_of.items()]


def limit(texts: Sequence[Sentence], split: str) -> float:
    """Return the perplexity of a predictor that knows the grammar, on the same sentences.

    Args: split is as for ``nats``: which pairs of nouns are known to occur.
    """
    return math.exp(sum(nats(text.words, split) for text in texts) / _tokens(texts))


def _tokens(texts: Sequence[Sentence]) -> int:
    """Count the tokens to guess: all words, and <end>."""
    return sum(len(text.words) + 1 for text in texts)


def write(
    model: CausalLanguageModel, count: int, *,
    temperature: float = 1.0, top_k: int | None = None, seed: int = 0, start: str = "",
    cached: bool = True,
) -> list[tuple[str, ...]]:  # fmt: skip
    """Let the model write sentences, each until <end> or the maximum length.

    Args: temperature 0 takes the likeliest word; start is the first words; the others are as for
        ``generate``.
    """
    ids = prompt(start).repeat(count, 1).to(model.device)  # (B, S)
    dice = torch.Generator().manual_seed(seed)
    steps = LONGEST - ids.size(1)
    sequences = generate(
        model, ids, steps, temperature=temperature, top_k=top_k, generator=dice, cached=cached
    )
    return [decode(row) for row in sequences]


@torch.no_grad()
def weights(model: CausalLanguageModel, texts: Sequence[Sentence]) -> Tensor:
    """Return every head's weights, (L, B, H, T, S): row t is from guessing word t, column s is word
    s.

    So a word's row is that of the token *before* it, and <start> has no column.
    """
    ids = encode([text.words for text in texts])[:, :-1].to(model.device)
    return model.attention_weights(ids)[..., :-1, 1:]
