"""A small model that learns in seconds to translate English into Endish with cross-attention.

Axes: B sentences, T target words, S source words, C = d_model width, H heads, V words of Endish.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from mha_course.attention import MultiHeadAttention
from mha_course.datasets.grammar import words_of
from mha_course.errors import SentenceError, require, require_device, require_words
from mha_course.lessons.l09_cross_attention.toy_language import (
    MAX_SOURCE,
    MAX_TARGET,
    SOURCE,
    TARGET,
    Pair,
    pairs,
)
from mha_course.masks import causal_mask
from mha_course.models import random_batches, seeded, train

PAD, START, END = 0, 1, 2


class Batch(NamedTuple):
    """Sentences as ids, padded on the right: the source, the target so far, and the next words."""

    source: Tensor  # (B, S)
    written: Tensor  # (B, T), the target one position later: <start> first
    target: Tensor  # (B, T), with <end> last; -100 where there is none
    alignment: Tensor  # (B, T), -1 where the target is no word


def encode(texts: Sequence[Pair]) -> Batch:
    """Turn sentences into ids.

    Raises: ShapeError if there is no sentence, or for an unknown word.
    """
    require(
        len(texts) > 0, "encode", "there must be a sentence", expected="one or more", got="none"
    )
    sources = [_ids("source", text.source, SOURCE) for text in texts]
    targets = [_ids("target", text.target, TARGET) for text in texts]
    return Batch(
        _padded(sources, PAD),
        _padded([[START, *ids] for ids in targets], PAD),
        _padded([[*ids, END] for ids in targets], -100),
        _padded([[*text.alignment, -1] for text in texts], -1),
    )


def _ids(name: str, words: Sequence[str], vocabulary: Sequence[str]) -> list[int]:
    named = f"toy_language.{name.upper()}"
    allowed = [word for word in vocabulary if not word.startswith("<")]
    require_words("encode", words, allowed, named)
    return [vocabulary.index(word) for word in words]


def _padded(rows: Sequence[Sequence[int]], fill: int) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=fill)


class Translator(nn.Module):
    """Write a sentence in Endish: causal self-attention over the words so far, cross-attention to
    the source.

    Source words do not attend to each other, so a memory vector holds only one word and its
    position: cross-attention weights are about words.
    """

    def __init__(self) -> None:
        super().__init__()
        d_model = 48
        # The order of these lines fixes the random draws: a different order gives a different
        # untrained model.
        self.source_words = nn.Embedding(len(SOURCE), d_model)
        self.source_positions = nn.Embedding(MAX_SOURCE, d_model)
        self.target_words = nn.Embedding(len(TARGET), d_model)
        self.target_positions = nn.Embedding(MAX_TARGET, d_model)
        self.source_feed_forward = _feed_forward(d_model)
        self.feed_forward = _feed_forward(d_model)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(5))
        self.self_attention = MultiHeadAttention(d_model, 4)
        self.cross_attention = MultiHeadAttention(d_model, 2)
        self.to_words = nn.Linear(d_model, len(TARGET))

    @property
    def device(self) -> torch.device:
        """The model's device, where its ids belong."""
        return self.to_words.weight.device

    def encode(self, source: Tensor) -> Tensor:
        """Read the source (B, S), once: the memory (B, S, C)."""
        require_device("Translator", "source", source, self.device, "the model")
        x = self.source_words(source) + self.source_positions.weight[: source.size(1)]  # (B, S, C)
        return self.norms[0](x + self.source_feed_forward(x))  # (B, S, C)

    def decode(self, written: Tensor, memory: Tensor, memory_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Map the words so far (B, T) to next-word logits (B, T, V) and weights (B, H, T, S).

        Args: memory (B, S, C), from encode; memory_mask (B, 1, 1, S), True = a word.
        """
        require_device("Translator", "written", written, self.device, "the model")
        length = written.size(1)
        x = self.target_words(written) + self.target_positions.weight[:length]  # (B, T, C)
        mask = causal_mask(length, device=x.device)  # (T, T)
        attended, _ = self.self_attention(self.norms[1](x), mask=mask)  # (B, T, C)
        x = x + attended  # (B, T, C)
        crossed, weights = self.cross_attention(self.norms[2](x), memory, mask=memory_mask)
        x = x + crossed  # (B, T, C)
        x = x + self.feed_forward(self.norms[3](x))  # (B, T, C)
        return self.to_words(self.norms[4](x)), weights

    def forward(self, source: Tensor, written: Tensor) -> tuple[Tensor, Tensor]:
        """Map ids (B, S) and (B, T) to logits (B, T, V) and weights (B, H, T, S)."""
        return self.decode(written, self.encode(source), (source != PAD)[:, None, None])


def _feed_forward(d_model: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(d_model, 2 * d_model), nn.GELU(), nn.Linear(2 * d_model, d_model)
    )


def translation_loss(model: nn.Module, source: Tensor, written: Tensor, target: Tensor) -> Tensor:
    """Return the next word's mean cross-entropy."""
    logits, _ = model(source, written)
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=-100)


def new_translator(seed: int) -> Translator:
    """Return the untrained model, the same for the same seed."""
    with seeded(seed):
        return Translator()


def train_translator(
    seed: int, *, steps: int = 400, progress: bool = True
) -> tuple[Translator, list[float]]:
    """Train on the training split; return the model and every step's loss, in nats per word."""
    model = new_translator(seed)
    source, written, target, _ = encode(pairs(4000, "train", seed))
    batches = random_batches([source, written, target], 32, seed)
    losses = train(model, batches, translation_loss, steps=steps, lr=4e-3, progress=progress)
    return model.eval().requires_grad_(False), losses


@torch.no_grad()
def translate(model: Translator, sentence: str) -> tuple[Tensor, list[str], list[str]]:
    """Translate a sentence greedily: return weights (H, T, S) as each word is written, target words
    and source words.

    Raises: SentenceError for an unknown word, or for more than 8 words.
    """
    words = words_of(sentence)
    source = torch.tensor([_ids("source", words, SOURCE)], device=model.device)  # (1, S)
    if len(words) > MAX_SOURCE:
        rule = f"the sentence has {len(words)} words, more than the {MAX_SOURCE} that can be read"
        expected = f"at most {MAX_SOURCE} words"
        raise SentenceError("translate", rule, expected=expected, got=str(len(words)))
    memory = model.encode(source)
    memory_mask = (source != PAD)[:, None, None]  # (1, 1, 1, S)
    written = [START]
    while True:
        logits, weights = model.decode(source.new_tensor([written]), memory, memory_mask)
        following = int(logits[0, -1].argmax())
        if following == END or len(written) == MAX_TARGET:
            break
        written.append(following)
    return weights[0, :, : len(written) - 1], [TARGET[number] for number in written[1:]], words


def alignment_accuracy(weights: Tensor, texts: Sequence[Pair]) -> Tensor:
    """Return how often each head's largest weight is on the translated word, (B, H, T, S) ->
    (H,)."""
    right = encode(texts).alignment.cpu()  # (B, T)
    aligned = weights.argmax(-1).cpu() == right[:, None]  # (B, H, T)
    return aligned.transpose(1, 2)[right >= 0].double().mean(0)


@torch.no_grad()
def alignment_report(model: Translator, texts: Sequence[Pair]) -> dict[str, Any]:
    """Return fractions: words whose largest weight is on the translated word, for each of ``heads``
    and their ``mean``; right ``words``; and weight on ``articles``, which mean nothing in Endish.
    """
    batch = Batch(*(ids.to(model.device) for ids in encode(texts)))
    logits, weights = model(batch.source, batch.written)  # weights (B, H, T, S)
    right_words = (logits.argmax(-1) == batch.target)[batch.target != -100]
    on_articles = (weights * (batch.source == SOURCE.index("the"))[:, None, None]).sum(-1).mean(1)
    return {
        "heads": alignment_accuracy(weights, texts).tolist(),
        "mean": alignment_accuracy(weights.mean(1, keepdim=True), texts).item(),
        "words": right_words.float().mean().item(),
        "articles": on_articles[batch.alignment >= 0].mean().item(),
    }


def diagonal(texts: Sequence[Pair]) -> Tensor:
    """Return weights (B, 1, T, S) on the same relative position, as if word order were kept."""
    rows = []
    for text in texts:
        source, target = len(text.source), len(text.target)
        rows.append([*(round(t * (source - 1) / (target - 1)) for t in range(target)), 0])
    return F.one_hot(_padded(rows, 0))[:, None].float()


def alignment(seed: int) -> dict[str, Any]:
    """Train a model from one seed, and measure it on 500 held-out sentences."""
    model, _ = train_translator(seed, progress=False)
    return alignment_report(model, pairs(500, "test", seed=2))
