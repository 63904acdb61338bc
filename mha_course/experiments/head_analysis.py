"""What a trained model's heads attend to, and what they are needed for.

In tables, a column is a head, layer after layer: L·H columns. Axes: N sentences, T = S tokens, L
layers, H heads, D head width.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from mha_course.datasets.grammar import Pairs, Sentence, sentences
from mha_course.example import MASK, encode
from mha_course.models import MaskedWordModel
from mha_course.models.blocks import TokenModel

Head = tuple[int, int]  # a layer and a head in it, counted from 0
AnyModel = TypeVar("AnyModel", bound=TokenModel)


def all_heads(model: TokenModel) -> list[Head]:
    """Return layer and head of every column of a table."""
    return [
        (layer, head)
        for layer, block in enumerate(model.blocks)
        for head in range(block.attention.num_heads)
    ]


@torch.no_grad()
def accuracy(model: MaskedWordModel, texts: Sequence[Sentence], relation: str) -> float:
    """Return how often the model guesses a relation's hidden first word, 0 to 1.

    Args: relation is a key of ``Sentence.pairs``: ``"pronoun"`` hides pronouns, ``"subject"`` was
        and were.
    Raises: ValueError if no sentence has the relation.
    """
    numbers, starts, _ = _pairs("accuracy", texts, relation)
    ids, mask = encode([texts[number].words for number in numbers], device=model.device)
    hidden = (list(range(len(numbers))), list(starts))
    true = ids[hidden]
    ids[hidden] = MASK
    guess = model(ids, mask)[hidden].argmax(-1)
    return int((guess == true).sum()) / len(numbers)


@torch.no_grad()
def all_weights(model: MaskedWordModel, texts: Sequence[Sentence]) -> Tensor:
    """Return the weights of every head for every sentence, (L, N, H, S, S)."""
    return model.attention_weights(*encode([text.words for text in texts], device=model.device))


@torch.no_grad()
def around_attention(
    model: MaskedWordModel, ids: Tensor, mask: Tensor | None, layer: int
) -> tuple[Tensor, Tensor]:
    """Return the stream before and after a layer's attention, (N, S, C) each."""
    x = model.embed(ids)
    for block in model.blocks[:layer]:
        x = block(x, mask)  # (N, S, C)
    block = model.blocks[layer]
    return x, x + block.attention(block.attention_input(x), mask=mask)[0]


def relation_weights(weights: Tensor, texts: Sequence[Sentence], relation: str) -> Tensor:
    """Average each head's weight from the first to the second word of a relation, (L, H).

    Args: weights (L, N, H, S, S) of the same sentences.
    Raises: ValueError if none has the relation.
    """
    rows, starts, ends = _pairs("relation_weights", texts, relation)
    return weights.transpose(1, 2)[:, :, rows, starts, ends].mean(-1)


def _pairs(place: str, texts: Sequence[Sentence], relation: str) -> list[tuple[int, ...]]:
    """Return, for every pair of a relation, its sentence's index and its words' positions."""
    pairs = [
        (number, *pair)
        for number, text in enumerate(texts)
        for pair in text.pairs.get(relation, ())
    ]
    if not pairs:
        raise ValueError(f"{place}: no sentence has the relation {relation!r}")
    return list(zip(*pairs, strict=True))


def position_baseline(weights: Tensor, texts: Sequence[Sentence], relation: str) -> Tensor:
    """Average the weight at the same two positions in sentences where they are unrelated, (L, H).

    A head that attends by position, not by word, would score this. Sentences in which the two words
    are related in another way are left out; a pronoun and the other noun are not related. Arguments
    as for relation_weights.
    """
    total = weights.new_zeros(weights.size(0), weights.size(2))
    count = 0
    for pair in sorted({pair for text in texts for pair in text.pairs.get(relation, ())}):
        related = sum(pair in text.pairs.get(relation, ()) for text in texts)
        unrelated = [n for n, text in enumerate(texts) if _is_unrelated(text, pair, relation)]
        if unrelated:
            total += related * weights[:, unrelated, :, *pair].mean(1)
            count += related
    if count == 0:
        rule = f"the words of {relation!r} are at the same positions everywhere"
        raise ValueError(f"position_baseline: {rule}")
    return total / count


def _is_unrelated(text: Sentence, pair: tuple[int, int], relation: str) -> bool:
    names = ({*text.pairs} - {"distractor"}) | {relation}
    joined = any(pair in text.pairs.get(name, ()) for name in names)
    return len(text.words) > max(pair) and not joined


def ablate_heads(model: AnyModel, heads: Sequence[Head], means: Tensor | None = None) -> AnyModel:
    """Return a copy of a model in which these heads add nothing, or the same vector everywhere.

    Args: heads are pairs of a layer and a head; a layer may be counted from the end, -1 for the
        last. Without means, their context is 0 (their columns of the output projection are); with
        means (L, C), it is the mean.
    Raises: IndexError if the model has no such head or layer.
    """
    ablated = copy.deepcopy(model)
    for layer, head in heads:
        attention = ablated.blocks[layer].attention
        if not 0 <= head < attention.num_heads:
            expected = f"expected 0 to {attention.num_heads - 1}"
            raise IndexError(f"ablate_heads: there is no head {head}, {expected}")
        width = attention.out_proj.in_features // attention.num_heads
        columns = slice(head * width, (head + 1) * width)
        with torch.no_grad():
            if means is not None:
                mean = means[layer, columns].to(attention.out_proj.weight)
                attention.out_proj.bias.add_(attention.out_proj.weight[:, columns] @ mean)
            attention.out_proj.weight[:, columns] = 0.0
    return ablated


def relevant_sentences(texts: Sequence[Sentence], relation: str) -> list[Sentence]:
    """Return the sentences with a relation; for was and were, only those without pronouns."""
    return [
        text
        for text in texts
        if relation in text.pairs and (relation != "subject" or text.kind == "agreement")
    ]


def move_second_word(texts: Sequence[Sentence], relation: str) -> list[Sentence]:
    """Swap the second word of each pair of a relation with the word before it.

    Pairs still start at the first word: "word" leads to the second word's new position, "place" to
    its old one.

    >>> from mha_course.datasets.grammar import Sentence, sentences
    >>> text = Sentence(("the", "grey", "cat", "slept"), "so", {"subject": ((3, 2),)})
    >>> moved = move_second_word([text], "subject")[0]
    >>> moved.words, moved.pairs
    (('the', 'cat', 'grey', 'slept'), {'word': ((3, 1),), 'place': ((3, 2),)})
    """
    moved = []
    for text in texts:
        for start, end in text.pairs.get(relation, ()):
            words = list(text.words)
            words[end - 1], words[end] = words[end], words[end - 1]
            pairs: Pairs = {"word": ((start, end - 1),), "place": ((start, end),)}
            moved.append(replace(text, words=tuple(words), pairs=pairs))
    return moved


@torch.no_grad()
def relation_table(
    model: MaskedWordModel, texts: Sequence[Sentence], relations: Sequence[str]
) -> Tensor:
    """Return every head's mean weight along each relation, (relations, L·H)."""
    rows = []
    for relation in relations:
        chosen = relevant_sentences(texts, relation)
        rows.append(relation_weights(all_weights(model, chosen), chosen, relation).flatten())
    return torch.stack(rows)


def pronoun_report(model: MaskedWordModel) -> dict[str, Any]:
    """Measure a model's pronoun head on pairs of nouns that it was not trained on.

    Returns: every head's ``weights`` from pronoun to noun, ``accuracy`` on hidden pronouns, and the
        accuracy ``without`` the head with the largest weight; nothing is rounded.
    """
    texts = sentences(1000, "test", seed=16)
    weights = relation_table(model, texts, ["pronoun"])[0]
    best = all_heads(model)[int(weights.argmax())]
    ablated = ablate_heads(model, [best])
    return {
        "weights": weights.tolist(),
        "accuracy": accuracy(model, texts, "pronoun"),
        "without": accuracy(ablated, texts, "pronoun"),
    }
