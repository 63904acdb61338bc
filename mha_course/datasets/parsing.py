"""Read a sentence of the grammar back: which choices made it, and how probable it therefore is."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import cache
from typing import Any

from mha_course.datasets.grammar import NOUNS, TEMPLATES, Sentence, noun_pairs, sentence
from mha_course.errors import ShapeError

SPLITS = ("train", "validation", "test")


class _Reader(random.Random):
    """Stand in for chance: choose again what stands in the sentence already, and add up what that cost.

    A choice that leaves no word in the sentence costs nothing: whatever it was, the sentence is the same.
    """

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__(0)
        self.words, self.nats = set(words), 0.0

    def choice(self, options: Any) -> Any:
        """Return the option whose words stand in the sentence, or any where there is none."""
        for option in options:
            if self.words.issuperset(option.split()):
                self.nats += math.log(len(options))
                return option
        return options[0]


def recognise(words: Sequence[str]) -> Sentence | None:
    """Return the sentence that these words are, or None where the grammar cannot make them.

    >>> recognise("the old king left the busy bees because he was late".split()).kind
    'because_subject'
    >>> recognise("the old king left the busy bees because it was late".split())
    """
    found = _read(words)
    return None if found is None else found[0]


def nats(words: Sequence[str], split: str) -> float:
    """Return -ln P of a sentence, when ``grammar.sentences`` draws from a split; it is infinite where it cannot.

    Every choice is uniform and can be read off the sentence: its kind, its pair of nouns, two adjectives, and what
    its kind needs. Args: split is as for ``grammar.noun_pairs``, or ``"any"``: the pairs of all three.
    """
    if split not in (*SPLITS, "any"):
        raise ShapeError("nats", "no split has this name", expected=", ".join((*SPLITS, "any")), got=repr(split))
    found = _read(words)
    if found is None or _nouns(words) not in _pairs(split):
        return math.inf
    return math.log(len(TEMPLATES)) + math.log(len(_pairs(split))) + found[1]


def _read(words: Sequence[str]) -> tuple[Sentence, float] | None:
    """Make the sentence again, and return it with the nats of all choices but kind and nouns."""
    nouns = _nouns(words)
    if nouns not in _pairs("any"):
        return None
    for kind in TEMPLATES:
        reader = _Reader(words)
        made = sentence(reader, kind, *nouns)
        if made.words == tuple(words):
            return made, reader.nats
    return None


def _nouns(words: Sequence[str]) -> tuple[str, ...]:
    """Return the nouns among words."""
    return tuple(word for word in words if any(word in group for group in NOUNS.values()))


@cache
def _pairs(split: str) -> frozenset[tuple[str, ...]]:
    """Return the pairs of nouns of a split, or of all."""
    return frozenset(pair for name in (SPLITS if split == "any" else (split,)) for pair in noun_pairs(name))
