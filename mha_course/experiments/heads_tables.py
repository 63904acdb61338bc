"""Tables of heads: what each looks at, and what is lost without it, for each relation of the grammar.

A column is a head, layer after layer: L·H of them. Axes: L layers, H heads, K relations, B sentences, T = S tokens.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from mha_course.datasets.grammar import Sentence
from mha_course.experiments import head_analysis
from mha_course.models import MaskedWordModel

# What is asked of a head for each relation: from which word to which.
RELATIONS = {
    "pronoun": "pronoun → its noun",
    "distractor": "pronoun → the other noun",
    "subject": "was, were → subject",
    "adjective": "noun → its adjective",
    "noun": "adjective → its noun",
    "state": "consequence → state",
    "adverb": "verb → its adverb",
}
# Which word is hidden, to see whether a head is needed for the relation.
HIDDEN = {
    "pronoun": "pronoun",
    "subject": "was, were",
    "adjective": "noun",
    "noun": "adjective",
    "state": "consequence",
}
Place = tuple[int, int]  # a layer, counted from 0, and a head of it


def places(model: MaskedWordModel) -> list[Place]:
    """Return layer and head of every column."""
    return [(layer, head) for layer, block in enumerate(model.blocks) for head in range(block.attention.num_heads)]


def names(model: MaskedWordModel) -> list[str]:
    """Name every column: layers and heads are counted from 0, as in code."""
    return [f"L{layer} H{head}" for layer, head in places(model)]


def measured_in(texts: Sequence[Sentence], relation: str) -> list[Sentence]:
    """Return the sentences that tell about a relation.

    For was and were those alone in which no pronoun gives the number away.
    """
    return [text for text in texts if relation in text.pairs and (relation != "subject" or text.kind == "agreement")]


@torch.no_grad()
def looks(model: MaskedWordModel, texts: Sequence[Sentence], relations: Sequence[str]) -> Tensor:
    """Return the mean weight of every head along each relation, (K, L·H)."""
    rows = []
    for relation in relations:
        chosen = measured_in(texts, relation)
        rows.append(
            head_analysis.relation_weights(head_analysis.all_weights(model, chosen), chosen, relation).flatten()
        )
    return torch.stack(rows)


@torch.no_grad()
def same_places(model: MaskedWordModel, texts: Sequence[Sentence], relations: Sequence[str]) -> Tensor:
    """Return the mean weight between the same places of sentences in which they are not related, (K, L·H)."""
    weights = head_analysis.all_weights(model, texts)
    return torch.stack([head_analysis.position_baseline(weights, texts, relation).flatten() for relation in relations])


def hide(texts: Sequence[Sentence], relation: str) -> list[Sentence]:
    """Return a sentence for each pair of a relation, with the first word of the pair hidden.

    >>> from mha_course.datasets.grammar import sentences
    >>> {sentence.words.count("<mask>") for sentence in hide(sentences(5, "test", seed=0), "noun")}
    {1}
    """
    return [
        replace(
            text, words=(*text.words[:start], "<mask>", *text.words[start + 1 :]), pairs={relation: ((start, end),)}
        )
        for text in texts
        for start, end in text.pairs.get(relation, ())
    ]


def accuracies(model: MaskedWordModel, texts: Sequence[Sentence], relations: Sequence[str]) -> Tensor:
    """Return how often the hidden first word of each relation is guessed, (K,)."""
    return torch.tensor([head_analysis.accuracy(model, measured_in(texts, name), name) for name in relations])


def lost(
    model: MaskedWordModel, texts: Sequence[Sentence], relations: Sequence[str], silenced: Sequence[Sequence[Place]]
) -> Tensor:
    """Return which part of the guesses is lost without each set of heads, (K, number of sets).

    Args: silenced are sets of heads; ``[[place] for place in places(model)]`` tries each alone.
    """
    with_all = accuracies(model, texts, relations)
    return torch.stack([with_all - accuracies(without(model, heads), texts, relations) for heads in silenced], dim=1)


def lost_in_pairs(model: MaskedWordModel, texts: Sequence[Sentence], relation: str) -> Tensor:
    """Return what is lost without any two heads, (L·H, L·H), and without one alone on the diagonal."""
    columns = range(len(places(model)))
    couples = list(itertools.combinations_with_replacement(columns, 2))
    silenced = [[places(model)[n] for n in {one, other}] for one, other in couples]
    found = torch.zeros(len(columns), len(columns))
    for (one, other), value in zip(couples, lost(model, texts, [relation], silenced)[0], strict=True):
        found[one, other] = found[other, one] = value
    return found


def without(model: MaskedWordModel, heads: Sequence[Place]) -> MaskedWordModel:
    """Return a copy in which these heads add nothing."""
    for layer, head in heads:
        model = head_analysis.without_head(model, layer, head)
    return model
