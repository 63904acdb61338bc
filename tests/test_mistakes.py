"""The table of mistakes: it reads well, all of it is used, and no mistake is missing."""

import re
from collections import Counter
from pathlib import Path

import pytest

import mha_course
from mha_course import mistakes
from mha_course.exercises.catalogue import MISTAKES
from mha_course.lessons.l04_softmax.exercises import MASKED_SOFTMAX
from mha_course.lessons.l19_bug_hunt.hunt import SENTENCES
from mha_course.mistakes import ROWS

PACKAGE = Path(mha_course.__file__).parent
WITH_REGISTRATIONS = [
    *sorted(PACKAGE.glob("exercises/attention_mistakes/*.py")),
    *sorted(PACKAGE.glob("lessons/*/exercises.py")),
]


def test_every_row_is_reached():
    """By a mistake that is registered, a menu of the hunt, or its name in the code."""
    code = "".join(file.read_text("utf-8") for file in PACKAGE.rglob("*.py"))
    named = set(re.findall('"([^"\n]+)"', code))
    registered = {mistake.row.key for mistake in MISTAKES} | {row.key for row in SENTENCES.values()}
    assert not ROWS.keys() - named - registered - {f"{name}/traced" for name in named}


def test_every_registration_arrives():
    """A mistake that is registered but not in MISTAKES would never be recognised."""
    code = "".join(file.read_text("utf-8") for file in WITH_REGISTRATIONS)
    registered = Counter(re.findall(r'\bmistake\(\s*"([^"]+)"', code))
    assert registered.total() > 200
    arrived = Counter(mistake.row.key for mistake in MISTAKES if mistake not in MASKED_SOFTMAX)
    assert not registered - arrived


def test_titles_and_reasons_are_short_sentences():
    texts = [text for row in ROWS.values() for text in (row.title, row.why) if text]
    assert [text for text in texts if not text.endswith(".") or len(text) >= 230] == []


def test_two_rows_cannot_have_one_key():
    with pytest.raises(ValueError, match="two mistakes have the key a"):
        mistakes._rows("# 1, Projection: Do it\na: One.\n    Why.\na: Other.\n")


def test_a_title_ends_where_a_line_ends_with_a_full_stop():
    row = mistakes._rows("# 1, Projection: Do it\na/b: It is 0.5 or\n    more.\n    Why. So.\n")[
        "a/b"
    ]
    assert row == ("a/b", "It is 0.5 or more.", "Why. So.", "1, Projection: Do it")
    assert (row.id, row.text, row.place) == ("a", "It is 0.5 or more. Why. So.", "1, “Do it”")
