"""The table of mistakes: that it reads well, that nothing in it is dead, and nothing beside it."""

import ast
import inspect
from collections import Counter
from pathlib import Path

import pytest

import mha_course
from mha_course import mistakes
from mha_course.exercises.catalogue import EXERCISES, MISTAKES
from mha_course.lessons.l04_softmax.exercises import MASKED_SOFTMAX
from mha_course.lessons.l19_bug_hunt.hunt import SAID
from mha_course.mistakes import ROWS
from mha_course.tracing.rules.warnings import QUESTIONS, row_of

PACKAGE = Path(mha_course.__file__).parent
WITH_REGISTRATIONS = [
    PACKAGE / "exercises" / "attention_mistakes.py",
    *sorted(PACKAGE.glob("lessons/*/exercises.py")),
]


def nodes(*files):
    return (node for file in files for node in ast.walk(ast.parse(file.read_text("utf-8"))))


def strings(*files):
    constants = (node.value for node in nodes(*files) if isinstance(node, ast.Constant))
    return {value for value in constants if isinstance(value, str)}


def called(function, *files):
    """Return the first argument of every call of a function, where it is written out."""
    calls = (node for node in nodes(*files) if isinstance(node, ast.Call))
    return [
        call.args[0].value
        for call in calls
        if getattr(call.func, "id", getattr(call.func, "attr", "")) == function
        and call.args
        and isinstance(call.args[0], ast.Constant)
    ]


def constants_beside(function):
    """Return the constants in all functions of a function's module, those in tuples included."""
    for _, beside in inspect.getmembers(inspect.getmodule(function), inspect.isfunction):
        for constant in beside.__code__.co_consts:
            yield from constant if isinstance(constant, tuple) else [constant]


def reached():
    """Return the keys of all rows that somebody registered."""
    exercises = EXERCISES.values()
    changed = {mistake.row.key for mistake in MISTAKES}
    forbidden = {rule.row.key for exercise in exercises for rule in exercise.rules}
    judged = {
        name
        for exercise in exercises
        if exercise.diagnose
        for name in constants_beside(exercise.diagnose)
    }
    methods = {row.key for row in SAID.values()}
    named = strings(*PACKAGE.glob("tracing/**/*.py"))
    traced = {row_of(name).key for name in named if {name, f"{name}/traced"} & ROWS.keys()}
    return changed | forbidden | judged & ROWS.keys() | methods | traced


def test_every_row_is_reached():
    assert not ROWS.keys() - reached()


def test_every_registration_arrives():
    """A mistake that is registered, but left out of MISTAKES, would never be recognised."""
    arrived = Counter(mistake.row.key for mistake in MISTAKES if mistake not in MASKED_SOFTMAX)
    assert not Counter(called("mistake", *WITH_REGISTRATIONS)) - arrived


def test_whatever_is_named_has_a_row():
    rules = [*PACKAGE.glob("tracing/**/*.py")]
    for name in (*QUESTIONS, *called("warn", *rules), *called("ask", *rules)):
        assert row_of(name).id == name
    judged = (node.value for node in nodes(*WITH_REGISTRATIONS) if isinstance(node, ast.Return))
    for value in judged:
        if isinstance(value, ast.Tuple) and isinstance(value.elts[0], ast.Constant):
            assert value.elts[0].value in {None, *ROWS}
    for name, row in SAID.items():
        assert row.id == name


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
    assert row.id == "a"
    assert row.text == "It is 0.5 or more. Why. So."
    assert row.place == "1, “Do it”"
