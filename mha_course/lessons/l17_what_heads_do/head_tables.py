"""Tables of what every head attends to, and what is lost without it.

A column is a head, layer after layer: L·H columns. Axes: L layers, H heads, C width.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from mha_course import example, plots
from mha_course.datasets.grammar import CONSEQUENCES, NOUNS, PRONOUNS, Sentence, vocabulary
from mha_course.experiments.head_analysis import (
    Head,
    ablate_heads,
    accuracy,
    all_heads,
    all_weights,
    position_baseline,
    relation_table,
    relevant_sentences,
)
from mha_course.models import MaskedWordModel

# The words of each relation: from which word to which.
RELATIONS = {
    "pronoun": "pronoun → its noun",
    "distractor": "pronoun → the other noun",
    "subject": "was, were → subject",
    "adjective": "noun → its adjective",
    "noun": "adjective → its noun",
    "state": "consequence → state",
    "adverb": "verb → its adverb",
}
# The word to hide, to see whether a head is needed for the relation.
HIDDEN = {
    "pronoun": "pronoun",
    "subject": "was, were",
    "adjective": "noun",
    "noun": "adjective",
    "state": "consequence",
}


Meant = dict[str, Sequence[str]]  # for each word, the words it may be turned into


def meant_words() -> dict[str, Meant]:
    """Return, for each kind of word, the meaningful words an OV circuit could turn it into.

    >>> meant_words()["noun → its adjectives"]["cat"]
    ['grey', 'sleek']
    """
    adjectives = {noun: words.split() for group in NOUNS.values() for noun, words in group.items()}
    verbs = {state: words.split()[0] for state, words in CONSEQUENCES.items()}
    adverbs = {words.split()[1]: words.split()[0] for words in CONSEQUENCES.values()}
    return {
        "noun → its pronoun": {noun: [pronoun] for noun, pronoun in PRONOUNS.items()},
        "noun → its adjectives": dict(adjectives),
        "adjective → its noun": {word: [noun] for noun in adjectives for word in adjectives[noun]},
        "state → its verb": {state: [verb] for state, verb in verbs.items()},
        "adverb → its verb": {adverb: [verb] for adverb, verb in adverbs.items()},
        "word → itself": {word: [word] for word in vocabulary()},
    }


def meant_share(raised: Tensor, meant: Meant) -> float:
    """Return the fraction of words whose most-raised word is a meant one.

    Args: raised (V, V) is what each word adds to each logit; only words that are meant for some
        word compete.
    """
    index = {word: number for number, word in enumerate(vocabulary())}
    candidates = sorted({word for words in meant.values() for word in words})
    best = raised[:, [index[word] for word in candidates]].argmax(-1)  # (V,)
    return sum(candidates[best[index[word]]] in words for word, words in meant.items()) / len(meant)


def meant_table(raises: Callable[..., Tensor], model: MaskedWordModel) -> Tensor:
    """Return every head's meant_share for each kind of word, (kinds, L·H).

    Args: ``raises(model, layer, head)`` is (V, V), what each word adds to each logit.
    """
    raised = [raises(model, *head) for head in all_heads(model)]
    kinds = meant_words().values()
    return torch.tensor([[meant_share(head, meant) for head in raised] for meant in kinds])


def meant_by_chance(meant: Meant) -> float:
    """Return how often a random candidate is meant."""
    candidates = {word for words in meant.values() for word in words}
    return sum(map(len, meant.values())) / len(meant) / len(candidates)


def head_names(model: MaskedWordModel) -> list[str]:
    """Name every column: layers and heads are counted from 0, as in code."""
    return [f"L{layer} H{head}" for layer, head in all_heads(model)]


def by_head(
    tables: Mapping[str, Tensor], rows: Iterable[str], caption: str, *, unit: str = "mean weight"
) -> None:
    """Show tables of the course's model, (rows, L·H), with their titles."""
    columns = head_names(example.trained_model())
    plots.show(plots.heatmap_tables(tables, list(rows), columns, group=4, unit=unit), caption)


@torch.no_grad()
def mean_contexts(model: MaskedWordModel, texts: Sequence[Sentence]) -> Tensor:
    """Return every layer's mean merged context over all words, (L, C)."""
    ids, mask = example.encode([text.words for text in texts], device=model.device)
    layers = zip(model.blocks, model.attention_inputs(ids, mask), strict=True)
    return torch.stack(
        [block.attention.steps(x, mask=mask).merged[mask[:, 0, 0]].mean(0) for block, x in layers]
    )


def hide_first_word(texts: Sequence[Sentence], relation: str) -> list[Sentence]:
    """Return a sentence for each pair of a relation, with the pair's first word hidden.

    >>> from mha_course.datasets.grammar import sentences
    >>> hidden = hide_first_word(sentences(5, "test", seed=0), "noun")
    >>> {sentence.words.count("<mask>") for sentence in hidden}
    {1}
    """
    return _replace_word(texts, relation, 0, "<mask>")


def _replace_word(
    texts: Sequence[Sentence], relation: str, index: int, word: str
) -> list[Sentence]:
    """Return a sentence for each pair of a relation, with its first or second word replaced."""
    replaced = []
    for text in texts:
        for pair in text.pairs.get(relation, ()):
            words = (*text.words[: pair[index]], word, *text.words[pair[index] + 1 :])
            replaced.append(replace(text, words=words, pairs={relation: (pair,)}))
    return replaced


def with_because(
    model: MaskedWordModel, texts: Sequence[Sentence]
) -> list[tuple[str | float, ...]]:
    """Measure single heads where “because” replaces one of two related words.

    Returns: rows with a head, its relation, its mean weight, its position baseline, and its mean
        weight to and from “because”.
    """
    rows: list[tuple[str | float, ...]] = []
    for relation, heads in {"pronoun": (5,), "subject": (5,), "adjective": (1, 3, 6, 7)}.items():
        changed = [_replace_word(texts, relation, index, "because") for index in (1, 0)]
        measured = [relation_table(model, column, [relation])[0] for column in (texts, *changed)]
        measured.insert(1, baseline_table(model, texts, [relation])[0])
        for head in heads:
            weights = (float(column[head]) for column in measured)
            rows.append((head_names(model)[head], RELATIONS[relation], *weights))
    return rows


@torch.no_grad()
def baseline_table(
    model: MaskedWordModel, texts: Sequence[Sentence], relations: Sequence[str]
) -> Tensor:
    """Return every head's position baseline for each relation, (relations, L·H)."""
    weights = all_weights(model, texts)
    return torch.stack(
        [position_baseline(weights, texts, relation).flatten() for relation in relations]
    )


def accuracies(
    model: MaskedWordModel, texts: Sequence[Sentence], relations: Sequence[str]
) -> Tensor:
    """Return how often each relation's hidden first word is guessed, (relations,)."""
    return torch.tensor(
        [accuracy(model, relevant_sentences(texts, name), name) for name in relations]
    )


def accuracy_lost(
    model: MaskedWordModel, texts: Sequence[Sentence], relations: Sequence[str],
    ablated: Sequence[Sequence[Head]],
    means: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the accuracy lost without each set of heads, (relations, sets).

    Args: ablated are the sets of heads; ``[[head] for head in all_heads(model)]`` tries each one;
        means as for ``ablate_heads``.
    """
    intact = accuracies(model, texts, relations)
    models = [ablate_heads(model, heads, means) for heads in ablated]
    return torch.stack(
        [intact - accuracies(without, texts, relations) for without in models], dim=1
    )


def accuracy_lost_in_pairs(
    model: MaskedWordModel, texts: Sequence[Sentence], relation: str
) -> Tensor:
    """Return the accuracy lost without any two heads, (L·H, L·H); on the diagonal, without one."""
    heads = all_heads(model)
    pairs = list(itertools.combinations_with_replacement(range(len(heads)), 2))
    ablated = [[heads[first], heads[second]] for first, second in pairs]
    lost = accuracy_lost(model, texts, [relation], ablated)[0]
    table = torch.zeros(len(heads), len(heads))
    for (first, second), value in zip(pairs, lost, strict=True):
        table[first, second] = value
        table[second, first] = value
    return table
