"""The running example: one sentence, and the small trained model whose numbers the lessons show.

Axes: B sentences, S tokens, C = d_model width, H heads, L layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mha_course.errors import ShapeError
from mha_course.grammar import MAX_WORDS, SPECIAL, Sentence, sentences, vocabulary, word_classes
from mha_course.models import MaskedWordModel, masked_word_loss, train

SENTENCE = "the grey cat that chased the loud dogs was hungry , so it ate greedily"
WEIGHTS = Path(__file__).parent / "data" / "masked_word_model.npz"
SIZES = {"d_model": 48, "num_heads": 4, "d_ff": 128, "num_layers": 2}
STEPS, BATCH, LEARNING_RATE, POOL = 3000, 128, 3e-3, 40_000


def encode(texts: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
    """Turn words into ids (B, S), padded on the right, and a mask (B, 1, 1, S), True for real words.

    Raises: ShapeError for a word that the model does not know.
    """
    index = {word: i for i, word in enumerate(vocabulary())}
    unknown = sorted({word for words in texts for word in words} - index.keys())
    if unknown:
        raise ShapeError("encode", "every word must be in the vocabulary", expected="words of grammar.vocabulary()", got=", ".join(unknown))
    longest = max(len(words) for words in texts)
    ids = torch.tensor([[index[word] for word in words] + [0] * (longest - len(words)) for words in texts])
    return ids, (ids != 0)[:, None, None]


def build(seed: int = 0) -> MaskedWordModel:
    torch.manual_seed(seed)
    return MaskedWordModel(len(vocabulary()), MAX_WORDS, **SIZES)


def corrupt(ids, generator):
    index = {word: i for i, word in enumerate(vocabulary())}
    other = torch.zeros(len(index), 64, dtype=torch.long)
    size = torch.ones(len(index), dtype=torch.long)
    other[:, 0] = torch.arange(len(index))
    for group in word_classes():
        g = torch.tensor([index[w] for w in group])
        n = max(1, len(g) - 1)
        for i, w in enumerate(g):
            rest = torch.cat([g[:i], g[i+1:]]) if len(g) > 1 else g
            other[w, :n] = rest
            size[w] = n
    while True:
        pick = torch.randint(len(ids), (BATCH,), generator=generator)
        x = ids[pick]
        chosen = (torch.rand(x.shape, generator=generator) < 0.2) & (x != 0)
        swap = torch.rand(x.shape, generator=generator) < 0.5
        r = (torch.rand(x.shape, generator=generator) * size[x]).long()
        noisy = torch.where(swap, other[x, r], torch.ones_like(x))
        yield torch.where(chosen, noisy, x), (x != 0)[:, None, None], torch.where(chosen, x, -100)
