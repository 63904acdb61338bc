"""Parse words with the grammar: which sentence they form, and its probability."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache

from mha_course.datasets import grammar
from mha_course.datasets.grammar import Sentence
from mha_course.errors import require


def recognise(words: Sequence[str]) -> Sentence | None:
    """Return the sentence these words form, or None if the grammar cannot make it.

    >>> recognise("the old king left the busy bees because he was late".split()).kind
    'because_subject'
    """
    nouns = _nouns(words)
    if nouns not in _noun_pairs("any"):
        return None
    subject, noun2 = nouns
    filled = {name: _standing(options, words) for name, options in grammar.slots(subject, noun2)}
    sentences = (grammar.fill(kind, subject, noun2, filled) for kind in grammar.TEMPLATES)
    return next((sentence for sentence in sentences if sentence.words == tuple(words)), None)


def count_right(texts: Iterable[Sequence[str]]) -> int:
    """Return how many texts the grammar could have made."""
    return sum(recognise(text) is not None for text in texts)


def nats(words: Sequence[str], split: str) -> float:
    """Return -ln P of a sentence drawn by ``sentences`` from a split; inf if impossible.

    Every choice is uniform: its kind, its pair of nouns, and its template's slots.

    Args: split is as for ``noun_pairs``, or ``"any"``: the pairs of all three.
    """
    splits = (*grammar.SPLITS, "any")
    rule = "no split has this name"
    require(split in splits, "nats", rule, expected=", ".join(splits), got=repr(split))
    sentence = recognise(words)
    nouns = _nouns(words)
    pairs = _noun_pairs(split)
    if sentence is None or nouns not in pairs:
        return math.inf
    template = grammar.TEMPLATES[sentence.kind]
    filled = [options for name, options in grammar.slots(*nouns) if f"{{{name}}}" in template]
    choices = [len(grammar.TEMPLATES), len(pairs), *map(len, filled)]
    return sum(map(math.log, choices))


def _nouns(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for word in words if word in grammar.PRONOUNS)


@cache
def _noun_pairs(split: str) -> frozenset[tuple[str, ...]]:
    splits = grammar.SPLITS if split == "any" else (split,)
    return frozenset(pair for name in splits for pair in grammar.noun_pairs(name))


def _standing(options: Sequence[str], words: Sequence[str]) -> str:
    """Return the option whose words are among these, or any option if the slot is missing."""
    return next((option for option in options if set(option.split()) <= set(words)), options[0])
