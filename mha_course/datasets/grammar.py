"""The sentences of the running example: a small English grammar that knows which words belong together.

Five kinds of sentence, and in each something that can only be worked out from words further away:
whether it is *was* or *were*, which noun a pronoun stands for, what someone hungry did next.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache

# Each pronoun, its nouns, and two adjectives that go with that noun alone.
NOUNS = {
    "he": {"boy": "shy cheeky", "king": "old rich", "uncle": "jolly bald", "monk": "silent pious"},
    "she": {"girl": "clever brave", "queen": "proud stern", "aunt": "kind chatty", "nun": "humble patient"},
    "it": {"cat": "grey sleek", "robot": "rusty shiny", "horse": "lame swift", "fox": "sly red"},
    "they": {"dogs": "loud muddy", "birds": "tiny tuneful", "bees": "busy striped", "goats": "woolly stubborn"},
}
OBJECT_FORMS = {"he": "him", "she": "her", "it": "it", "they": "them"}

# Each state, and what it leads to: a verb with an adverb that goes with that verb alone.
CONSEQUENCES = {
    "hungry": "ate greedily",
    "thirsty": "drank deeply",
    "tired": "slept soundly",
    "scared": "hid quietly",
    "happy": "danced merrily",
    "cold": "shivered violently",
    "late": "hurried onward",
    "lost": "searched everywhere",
    "dirty": "washed carefully",
    "bored": "yawned widely",
    "hurt": "limped slowly",
    "angry": "stomped heavily",
}
FOLLOW_UPS = {"found": "fed", "caught": "freed", "heard": "answered", "met": "greeted", "missed": "visited"}
SUBJECT_VERBS = ("left", "begged", "obeyed", "fooled")  # "… because it was hungry": the subject was
OBJECT_VERBS = ("pitied", "helped", "praised", "scolded")  # "… because it was hungry": the object was
PREPOSITIONS = ("behind", "beside", "near", "with")
RELATIVE_VERBS = ("chased", "saw", "followed", "liked")

TEMPLATES = {
    "agreement": "{one} {link} {two} {be} {state} and {verb} {adverb}",
    "so": "{one} {link} {two} {be} {state} , so {it} {verb} {adverb}",
    "because_subject": "{one} {subject_verb} {two} because {it} {be} {state}",
    "because_object": "{one} {object_verb} {two} because {it} {be} {state}",
    "and": "{one} {first} {two} , and {it} {then} {them}",
}
MAX_WORDS = 15
SPECIAL = ("<pad>", "<mask>")

_ADJECTIVES = {noun: words.split() for group in NOUNS.values() for noun, words in group.items()}
_PRONOUNS = {noun: pronoun for pronoun, group in NOUNS.items() for noun in group}


@dataclass(frozen=True)
class Sentence:
    """One sentence, its kind (a key of TEMPLATES), and which of its words belong together.

    ``pairs[relation]`` holds positions (from, to): ``pronoun`` to the noun it stands for,
    ``distractor`` from the pronoun to the other noun, ``subject`` from was or were to the noun it
    agrees with across a clause, ``noun`` from an adjective to its noun, ``adjective`` back,
    ``state`` from a consequence to the state behind it, ``adverb`` from a verb to its adverb.
    """

    words: tuple[str, ...]
    kind: str
    pairs: dict[str, tuple[tuple[int, int], ...]]


def sentence(rng: random.Random, kind: str, subject: str, other: str) -> Sentence:
    """Make one sentence of a kind about two nouns.

    Raises: KeyError for a kind or a noun that the grammar does not have.

    >>> " ".join(sentence(random.Random(1), "so", "cat", "dogs").words)
    'the grey cat that liked the loud dogs was happy , so it danced merrily'
    """
    one, two = ([rng.choice(_ADJECTIVES[noun]), noun] for noun in (subject, other))
    about = other if kind == "because_object" else subject
    state, first = rng.choice(list(CONSEQUENCES)), rng.choice(list(FOLLOW_UPS))
    verb, adverb = CONSEQUENCES[state].split()
    link = rng.choice([*PREPOSITIONS, *(f"that {verb}" for verb in RELATIVE_VERBS)])
    text = TEMPLATES[kind].format(
        one=" ".join(["the", *one]),
        two=" ".join(["the", *two]),
        link=link,
        be="were" if _PRONOUNS[about] == "they" else "was",
        it=_PRONOUNS[about],
        them=OBJECT_FORMS[_PRONOUNS[other]],
        subject_verb=rng.choice(SUBJECT_VERBS),
        object_verb=rng.choice(OBJECT_VERBS),
        first=first,
        then=FOLLOW_UPS[first],
        state=state,
        verb=verb,
        adverb=adverb,
    )
    words = tuple(text.split())
    return Sentence(words, kind, _pairs(words, kind, one, two))


def _pairs(words: tuple[str, ...], kind: str, one: list[str], two: list[str]) -> dict[str, tuple[tuple[int, int], ...]]:
    """Find the positions of the words that belong together."""
    (adjective, subject), (adjective2, other) = one, two
    about, rest = (other, subject) if kind == "because_object" else (subject, other)
    related = {
        "noun": [(adjective, subject), (adjective2, other)],
        "adjective": [(subject, adjective), (other, adjective2)],
    }
    if kind != "agreement":
        related["pronoun"] = [(_PRONOUNS[about], about)]
        related["distractor"] = [(_PRONOUNS[about], rest)]
    if kind == "and":
        related["pronoun"] += [(OBJECT_FORMS[_PRONOUNS[other]], other)]
        related["distractor"] += [(OBJECT_FORMS[_PRONOUNS[other]], subject)]
    if kind in ("agreement", "so"):
        be, (verb, adverb) = "were" if "were" in words else "was", words[-2:]
        state = words[words.index(be) + 1]
        related |= {"subject": [(be, subject)], "state": [(verb, state)], "adverb": [(verb, adverb)]}
    return {name: tuple((words.index(a), words.index(b)) for a, b in both) for name, both in related.items()}


def noun_pairs(split: str) -> list[tuple[str, str]]:
    """Return the (subject, other) pairs of ``"train"``, ``"validation"`` or ``"test"``, which share none.

    The nouns of a pair never share a pronoun. Raises: KeyError for another split.
    """
    pairs = [(a, b) for a in _PRONOUNS for b in _PRONOUNS if _PRONOUNS[a] != _PRONOUNS[b]]
    random.Random(0).shuffle(pairs)
    tenth = len(pairs) // 10
    return {"validation": pairs[:tenth], "test": pairs[tenth : 2 * tenth], "train": pairs[2 * tenth :]}[split]


def sentences(count: int, split: str, seed: int) -> list[Sentence]:
    """Draw sentences, all kinds equally likely, about the noun pairs of one split.

    >>> len({s.kind for s in sentences(100, "test", seed=1)})
    5
    """
    rng, kinds, pairs = random.Random(seed), list(TEMPLATES), noun_pairs(split)
    return [sentence(rng, rng.choice(kinds), *rng.choice(pairs)) for _ in range(count)]


@cache
def word_classes() -> tuple[tuple[str, ...], ...]:
    """Return all words, grouped so that the words of one class can stand in each other's place."""
    verbs, adverbs = zip(*(words.split() for words in CONSEQUENCES.values()), strict=True)
    subject_forms, object_forms = tuple(NOUNS), tuple(sorted(set(OBJECT_FORMS.values()) - set(NOUNS)))
    adjectives = tuple(word for words in _ADJECTIVES.values() for word in words)
    main_verbs = (*SUBJECT_VERBS, *OBJECT_VERBS, *FOLLOW_UPS)
    open_classes = (tuple(_PRONOUNS), adjectives, tuple(CONSEQUENCES), verbs, adverbs, main_verbs)
    closed = (RELATIVE_VERBS, PREPOSITIONS, tuple(FOLLOW_UPS.values()), ("was", "were"), ("so", "and"))
    return (*open_classes, *closed, subject_forms + object_forms, ("the",), ("that",), (",",), ("because",))


@cache
def vocabulary() -> tuple[str, ...]:
    """Return the special tokens and then all words, sorted."""
    return SPECIAL + tuple(sorted(word for group in word_classes() for word in group))
