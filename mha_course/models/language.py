"""The course's sentences as ids, for next-word models.

Axes: B sentences, S tokens, V words in the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from mha_course.datasets import grammar
from mha_course.datasets.grammar import MAX_WORDS, vocabulary
from mha_course.errors import require, require_words

SPECIAL = ("<pad>", "<start>", "<end>")
WORDS = SPECIAL + vocabulary()[len(grammar.SPECIAL) :]
PAD, START, END = 0, 1, 2
LONGEST = MAX_WORDS + 2  # a sentence with its <start> and its <end>
_INDEX = {word: number for number, word in enumerate(WORDS)}


def encode(texts: Sequence[Sequence[str]]) -> Tensor:
    """Turn sentences into ids with <start> before and <end> after, padded on the right: (B, S).

    Raises: ShapeError if there are no sentences or no words, or for an unknown word.

    >>> cat = WORDS.index("cat")
    >>> encode([["the", "cat"], ["the"]])[:, -2:].tolist() == [[cat, END], [END, PAD]]
    True
    """
    rule = "there must be a sentence"
    require(len(texts) > 0, "encode", rule, expected="one or more", got="none")
    for words in texts:
        require_words("encode", words, WORDS[len(SPECIAL) :], "language.WORDS")
    rows = [torch.tensor([START, *(_INDEX[word] for word in words), END]) for words in texts]
    return pad_sequence(rows, batch_first=True, padding_value=PAD)


def language_loss(model: nn.Module, ids: Tensor) -> Tensor:
    """Return the mean next-word cross-entropy of ids (B, S), in nats, without padding."""
    targets = ids[:, 1:].masked_fill(ids[:, 1:] == PAD, -100)  # (B, S-1)
    return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), targets.flatten(), ignore_index=-100)
