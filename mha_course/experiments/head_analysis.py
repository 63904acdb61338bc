"""What the heads of a trained model look at, what they are needed for, and what chance would give.

Axes: N sentences, S tokens, L layers, H heads.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from mha_course.datasets.grammar import Sentence
from mha_course.example import MASK, encode
from mha_course.models import MaskedWordModel


@torch.no_grad()
def accuracy(model: MaskedWordModel, texts: Sequence[Sentence], relation: str) -> float:
    """Return how often the model guesses the first word of a relation when that word is hidden, 0 to 1.

    Args: relation is a key of ``Sentence.pairs``: ``"pronoun"`` hides pronouns, ``"subject"`` was and were.
    Raises: ValueError when no sentence has the relation.
    """
    found = [(text, start) for text in texts for start, _ in text.pairs.get(relation, ())]
    if not found:
        raise ValueError(f"accuracy: no sentence has the relation {relation!r}")
    ids, mask = encode([text.words for text, _ in found])
    rows, hidden = torch.arange(len(found)), torch.tensor([start for _, start in found])
    true = ids[rows, hidden]
    ids[rows, hidden] = MASK
    guess = model(ids, mask)[rows, hidden].argmax(-1)
    return (guess == true).double().mean().item()


@torch.no_grad()
def all_weights(model: MaskedWordModel, texts: Sequence[Sentence]) -> Tensor:
    """Return the weights of every head for every sentence, (L, N, H, S, S)."""
    return model.attention_weights(*encode([text.words for text in texts]))


def relation_weights(weights: Tensor, texts: Sequence[Sentence], relation: str) -> Tensor:
    """Average each head's weight from the first to the second word of a relation, (L, H).

    Args: weights (L, N, H, S, S) of the same sentences. Raises: ValueError when none has the relation.
    """
    found = [(n, *pair) for n, text in enumerate(texts) for pair in text.pairs.get(relation, ())]
    if not found:
        raise ValueError(f"relation_weights: no sentence has the relation {relation!r}")
    rows, starts, ends = torch.tensor(found).T
    return weights.transpose(1, 2)[:, :, rows, starts, ends].mean(-1)


def position_baseline(weights: Tensor, texts: Sequence[Sentence], relation: str) -> Tensor:
    """Average the weight at the same two positions of sentences in which they are not related at all, (L, H).

    What a head would score that looks at places and not at words. A sentence in which the two words belong together in
    another way is left out, too; a pronoun and the other noun do not. Arguments as for relation_weights.
    """
    lengths = torch.tensor([len(text.words) for text in texts])
    known = {pair for text in texts for pair in text.pairs.get(relation, ())}
    total, count = torch.zeros(weights.size(0), weights.size(2)), 0
    for start, end in sorted(known):
        related = torch.tensor([(start, end) in text.pairs.get(relation, ()) for text in texts])
        joined = torch.tensor([_joined(text, (start, end)) for text in texts])
        unrelated = ~related & ~joined & (lengths > max(start, end))
        if unrelated.any():
            total += int(related.sum()) * weights[:, unrelated, :, start, end].mean(1)
            count += int(related.sum())
    if count == 0:
        raise ValueError(f"position_baseline: the words of {relation!r} stand at the same places everywhere")
    return total / count


def _joined(text: Sentence, pair: tuple[int, int]) -> bool:
    """Say whether the words at two positions belong together in any way."""
    return any(pair in pairs for relation, pairs in text.pairs.items() if relation != "distractor")


def without_head(model: MaskedWordModel, layer: int, head: int) -> MaskedWordModel:
    """Return a copy in which one head adds nothing: its columns of the output projection are 0.

    Raises: IndexError for a head or layer that the model does not have.
    """
    heads = model.blocks[layer].attention.num_heads
    if not 0 <= head < heads:
        raise IndexError(f"without_head: there is no head {head}, expected 0 to {heads - 1}")
    silenced = copy.deepcopy(model)
    attention = silenced.blocks[layer].attention
    width = attention.d_model // heads
    with torch.no_grad():
        attention.out_proj.weight[:, head * width : (head + 1) * width] = 0.0
    return silenced
