"""English and Endish, a made-up language with a different word order.

Endish has no articles, and puts the adjective after its noun, the verb at the end and the time word
first. Each Endish word stands for one English word, so the right alignment of a translation is
known.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

NOUNS = {
    "cat": "kato", "dog": "dogra", "fox": "foxu", "horse": "horsu", "bird": "birdi",
    "monk": "monka", "queen": "kwina",
    "king": "kingo", "robot": "roboto", "goat": "gotu", "nun": "nuni", "bee": "biza",
}  # fmt: skip
ADJECTIVES = {
    "grey": "greyem", "old": "oldem", "shy": "shayem", "red": "redem", "rusty": "rustem",
    "proud": "praudem",
    "tiny": "tinem", "loud": "laudem",
}  # fmt: skip
VERBS = {
    "saw": "sawak", "chased": "chesak", "helped": "helpak", "followed": "folak",
    "praised": "prezak", "found": "fondak",
}  # fmt: skip
TIMES = {"yesterday": "yestri", "today": "todri", "often": "oftri"}
SOURCE = ("<pad>", "the", *NOUNS, *ADJECTIVES, *VERBS, *TIMES)
TARGET = (
    "<pad>",
    "<start>",
    "<end>",
    *(w for group in (NOUNS, ADJECTIVES, VERBS, TIMES) for w in group.values()),
)
MAX_SOURCE, MAX_TARGET = 8, 7  # <end> included


@dataclass(frozen=True)
class Pair:
    """One sentence in both languages; ``alignment[t]`` is the source position of target word t."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    alignment: tuple[int, ...]


def pair(rng: random.Random, subject: str, other: str) -> Pair:
    """Make one sentence about two nouns, and its translation.

    Raises: KeyError for an unknown noun.

    >>> made = pair(random.Random(57), "cat", "dog")
    >>> " ".join(made.source), " ".join(made.target)
    ('the grey cat chased the loud dog today', 'todri kato greyem dogra laudem chesak')
    >>> made.alignment
    (7, 2, 1, 6, 5, 3)
    """
    source: list[str] = []

    def translated(word: str, endish: dict[str, str]) -> tuple[str, int]:
        """Append a word to the source; return its translation and its position."""
        source.append(word)
        return endish[word], len(source) - 1

    def noun_phrase(noun: str) -> list[tuple[str, int]]:
        source.append("the")
        adjective = (
            [translated(rng.choice(list(ADJECTIVES)), ADJECTIVES)] if rng.random() < 0.6 else []
        )
        return [translated(noun, NOUNS), *adjective]

    # In the order of the English words, which is also the order of the draws.
    first = noun_phrase(subject)
    verb = translated(rng.choice(list(VERBS)), VERBS)
    second = noun_phrase(other)
    time = [translated(rng.choice(list(TIMES)), TIMES)] if rng.random() < 0.5 else []
    target, alignment = zip(*time, *first, *second, verb, strict=True)
    return Pair(tuple(source), target, alignment)


def noun_pairs(split: str) -> list[tuple[str, str]]:
    """Return the (subject, other) pairs of ``"train"`` or ``"test"``, which share none."""
    pairs = [(subject, other) for subject in NOUNS for other in NOUNS if subject != other]
    random.Random(0).shuffle(pairs)
    fifth = len(pairs) // 5
    return {"test": pairs[:fifth], "train": pairs[fifth:]}[split]


def pairs(count: int, split: str, seed: int) -> list[Pair]:
    """Draw sentences about the noun pairs of one split.

    >>> pairs(3, "test", seed=1) == pairs(3, "test", seed=1)
    True
    """
    rng, nouns = random.Random(seed), noun_pairs(split)
    return [pair(rng, *rng.choice(nouns)) for _ in range(count)]
