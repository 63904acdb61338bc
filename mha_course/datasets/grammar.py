"""The sentences of the running example: a small English grammar that knows which words belong
together.

In each sentence, something can only be inferred from words further away: whether it is *was* or
*were*, which noun a pronoun stands for, what someone hungry did next. A sentence is a template
whose slots are filled, each with one of its options, all equally likely. So it can be parsed, and
its probability is known.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from mha_course.errors import require

# Each pronoun, its nouns, and two adjectives that go only with that noun.
NOUNS = {
    "he": {"boy": "shy cheeky", "king": "old rich", "uncle": "jolly bald", "monk": "silent pious"},
    "she": {
        "girl": "clever brave",
        "queen": "proud stern",
        "aunt": "kind chatty",
        "nun": "humble patient",
    },
    "it": {"cat": "grey sleek", "robot": "rusty shiny", "horse": "lame swift", "fox": "sly red"},
    "they": {
        "dogs": "loud muddy",
        "birds": "tiny tuneful",
        "bees": "busy striped",
        "goats": "woolly stubborn",
    },
}
OBJECT_FORMS = {"he": "him", "she": "her", "it": "it", "they": "them"}

# Each state and its consequence: a verb, with an adverb that goes only with that verb.
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
FOLLOW_UPS = {
    "found": "fed",
    "caught": "freed",
    "heard": "answered",
    "met": "greeted",
    "missed": "visited",
}
SUBJECT_VERBS = ("left", "begged", "obeyed", "fooled")  # "it" is the subject in "because it …"
OBJECT_VERBS = ("pitied", "helped", "praised", "scolded")  # here "it" is the object
PREPOSITIONS = ("behind", "beside", "near", "with")
RELATIVE_VERBS = ("chased", "saw", "followed", "liked")

TEMPLATES = {
    "agreement": "the {adjective} {noun} {link} the {adjective2} {noun2} {be} {state} and {verb} "
    "{adverb}",
    "so": "the {adjective} {noun} {link} the {adjective2} {noun2} {be} {state} , so {it} {verb} "
    "{adverb}",
    "because_subject": "the {adjective} {noun} {subject_verb} the {adjective2} {noun2} because "
    "{it} {be} {state}",
    "because_object": "the {adjective} {noun} {object_verb} the {adjective2} {noun2} because {it} "
    "{be} {state}",
    "and": "the {adjective} {noun} {first} the {adjective2} {noun2} , and {it} {then} {them}",
}
MAX_WORDS = 15
SPECIAL = ("<pad>", "<mask>")
SPLITS = ("train", "validation", "test")

_ADJECTIVES = {noun: words.split() for group in NOUNS.values() for noun, words in group.items()}
PRONOUNS = {noun: pronoun for pronoun, group in NOUNS.items() for noun in group}
Pairs = dict[str, tuple[tuple[int, int], ...]]


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
    pairs: Pairs


def sentence(rng: random.Random, kind: str, subject: str, noun2: str) -> Sentence:
    """Make one sentence of some kind about two nouns.

    Raises: KeyError for a kind or a noun that the grammar does not have.

    >>> " ".join(sentence(random.Random(1), "so", "cat", "dogs").words)
    'the grey cat that liked the loud dogs was happy , so it danced merrily'
    """
    chosen = {name: rng.choice(options) for name, options in slots(subject, noun2)}
    return fill(kind, subject, noun2, chosen)


def slots(subject: str, noun2: str) -> list[tuple[str, Sequence[str]]]:
    """Return the slots of all templates about two nouns, each with its options."""
    # All are drawn, in this order, whether the template has them or not: the shipped weights and
    # the lessons depend on the sentences that each seed gives.
    return [
        ("adjective", _ADJECTIVES[subject]),
        ("adjective2", _ADJECTIVES[noun2]),
        ("state", list(CONSEQUENCES)),
        ("first", list(FOLLOW_UPS)),
        ("link", [*PREPOSITIONS, *(f"that {verb}" for verb in RELATIVE_VERBS)]),
        ("subject_verb", SUBJECT_VERBS),
        ("object_verb", OBJECT_VERBS),
    ]


def fill(kind: str, subject: str, noun2: str, chosen: Mapping[str, str]) -> Sentence:
    """Make a sentence about two nouns, with an option chosen for every slot."""
    about, rest = (noun2, subject) if kind == "because_object" else (subject, noun2)
    it = PRONOUNS[about]
    them = OBJECT_FORMS[PRONOUNS[noun2]]
    be = "were" if it == "they" else "was"
    state = chosen["state"]
    adjective = chosen["adjective"]
    adjective2 = chosen["adjective2"]
    verb, adverb = CONSEQUENCES[state].split()
    then = FOLLOW_UPS[chosen["first"]]
    agreed = {"be": be, "it": it, "them": them, "verb": verb, "adverb": adverb, "then": then}
    words = tuple(TEMPLATES[kind].format(noun=subject, noun2=noun2, **chosen, **agreed).split())

    related = {
        "noun": [(adjective, subject), (adjective2, noun2)],
        "adjective": [(subject, adjective), (noun2, adjective2)],
    }
    if kind != "agreement":
        related["pronoun"] = [(it, about)]
        related["distractor"] = [(it, rest)]
    if kind == "and":
        related["pronoun"] += [(them, noun2)]
        related["distractor"] += [(them, subject)]
    if kind in ("agreement", "so"):
        related["subject"] = [(be, subject)]
        related["state"] = [(verb, state)]
        related["adverb"] = [(verb, adverb)]
    pairs = {
        relation: tuple((words.index(a), words.index(b)) for a, b in both)
        for relation, both in related.items()
    }
    return Sentence(words, kind, pairs)


def noun_pairs(split: str) -> list[tuple[str, str]]:
    """Return the noun pairs, with two different pronouns, of one of SPLITS, which share none."""
    pairs = [(a, b) for a in PRONOUNS for b in PRONOUNS if PRONOUNS[a] != PRONOUNS[b]]
    random.Random(0).shuffle(pairs)
    tenth = len(pairs) // 10
    return {
        "validation": pairs[:tenth],
        "test": pairs[tenth : 2 * tenth],
        "train": pairs[2 * tenth :],
    }[split]


def sentences(count: int, split: str, seed: int) -> list[Sentence]:
    """Draw sentences, all kinds equally likely, about the noun pairs of one split.

    >>> len({s.kind for s in sentences(100, "test", seed=1)})
    5
    """
    rng = random.Random(seed)
    kinds = list(TEMPLATES)
    pairs = noun_pairs(split)
    return [sentence(rng, rng.choice(kinds), *rng.choice(pairs)) for _ in range(count)]


_WORD = re.compile(r"<\w+>|,|[^\s,.;:!?“”\"]+")


def words_of(text: str) -> list[str]:
    """Read a sentence as typed: commas become words; capitals and the full stop are dropped.

    Raises: ShapeError if it is not a str.

    >>> words_of("The grey cat was hungry, so it ate.")[4:]
    ['hungry', ',', 'so', 'it', 'ate']
    """
    rule = "the sentence must be text"
    expected = "words with spaces between"
    require(isinstance(text, str), "words_of", rule, expected=expected, got=repr(text)[:60])
    return _WORD.findall(text.lower())


@cache
def word_classes() -> tuple[tuple[str, ...], ...]:
    """Return all words, grouped so that the words of one class can replace each other."""
    verbs, adverbs = zip(*(words.split() for words in CONSEQUENCES.values()), strict=True)
    object_forms = sorted(set(OBJECT_FORMS.values()) - set(NOUNS))
    adjectives = tuple(word for words in _ADJECTIVES.values() for word in words)
    return (
        tuple(PRONOUNS), adjectives, tuple(CONSEQUENCES), verbs, adverbs,
        (*SUBJECT_VERBS, *OBJECT_VERBS, *FOLLOW_UPS), RELATIVE_VERBS, PREPOSITIONS,
        tuple(FOLLOW_UPS.values()), ("was", "were"), ("so", "and"),
        (*NOUNS, *object_forms), ("the",), ("that",), (",",), ("because",),
    )  # fmt: skip


@cache
def vocabulary() -> tuple[str, ...]:
    """Return the special tokens and then all words, sorted."""
    return SPECIAL + tuple(sorted(word for group in word_classes() for word in group))
