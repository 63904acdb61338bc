"""The inventory: right answers that are computed, no key before the second time, and the gain."""

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from mha_course.cli.gain import find_calls, write_gain
from mha_course.cli.grading import grade
from mha_course.exercises import inventory, progress_store
from mha_course.exercises.concept_inventory import items, read_letters
from mha_course.mistakes import ROWS

KEY = "".join(item.right for item in items())
FILE = Path(progress_store.FILE)


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(progress_store.SWITCH, raising=False)


def test_no_question_is_answered_by_its_form():
    assert Counter(KEY) == dict.fromkeys("abcde", 3)
    assert set(Counter(item.concept for item in items()).values()) == {3}
    for item in items():
        lengths = sorted(map(len, item.question.choices))
        assert len(lengths) == 5
        assert lengths[-1] - lengths[0] <= 7, item.question.text
        assert set(item.mistakes.values()) <= set(ROWS)
        assert set(item.mistakes) <= set(item.question.choices) - {item.question.right}


@pytest.mark.parametrize("answers", [*"-3", "a" * 14, "a" * 16, "f" * 15, "", 3, [1] * 15, object])
def test_anything_else_gets_one_message_and_is_not_kept(answers):
    shown = inventory("before", answers)
    assert len(shown.paragraphs) == 1
    assert "nothing was kept. expected 15 letters a to e" in repr(shown)
    assert not FILE.exists()


@pytest.mark.parametrize("when", ["", "Before", None, 3, []])
def test_when_is_before_or_after(when):
    assert 'expected "before" or "after"' in repr(inventory(when, KEY))
    assert not FILE.exists()


@pytest.mark.parametrize("given", [KEY, KEY.upper(), " ".join(KEY), ", ".join(KEY), [*KEY]])
def test_letters_may_be_written_in_any_way(given):
    assert read_letters(given) == KEY
    assert read_letters("-" * 15) == "-" * 15


def test_no_key_before_the_second_time_and_then_the_own_gain():
    reasons = [item.question.answers[item.question.right] for item in items()]
    first = [inventory("before"), inventory("after"), inventory("before", "-" * 15)]
    first += [inventory("before", KEY[:3] + "-" * 12), inventory("before", "a" * 15)]
    for shown in first:
        assert not any(reason in shown._repr_html_() for reason in reasons)
        assert not any(concept in repr(shown) for concept in ("projections", "scores: "))
    asked = repr(first[0])
    assert all(choice in asked for item in items() for choice in item.question.choices)
    wrong = "b" if KEY[0] != "b" else "c"
    shown = inventory("after", wrong + KEY[1:])
    assert "20% were right before, 93% are right now." in repr(shown)
    assert "projections: 1 before, 2 now" in repr(shown)
    assert [reason in repr(shown) for reason in reasons] == [True] + [False] * 14
    belief = items()[0].question.answers[items()[0].question.choices["abcde".index(wrong)]]
    assert belief in repr(shown)
    inventory("before", KEY)  # known by now
    assert json.loads(FILE.read_text())["inventory"]["before"] == "a" * 15


def test_a_second_time_alone_shows_no_key():
    assert len(inventory("after", "a" * 15).paragraphs) == 1
    assert len(inventory("before", "b" * 15).paragraphs) == 1


def test_answers_that_cannot_be_kept_are_said_to_be_in_the_notebook_alone(monkeypatch):
    monkeypatch.setenv(progress_store.SWITCH, "off")
    assert "in this notebook alone" in repr(inventory("before", KEY))


def notebook(*sources):
    cells = [{"cell_type": "code", "source": source, "metadata": {}} for source in sources]
    return json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5, "metadata": {}})


def gains(out):
    with (out / "gain.csv").open(encoding="utf-8", newline="") as file:
        return {line["concept"]: line for line in csv.DictReader(file)}


@pytest.mark.slow
def test_grade_reads_both_calls_and_writes_what_was_gained(tmp_path):
    hand_ins, out = tmp_path / "in", tmp_path / "out"
    low = KEY[:3] + "-" * 12  # projections are full before
    half = "-" * 3 + KEY[3:]
    never = "".join("ab"[letter == "a"] for letter in KEY)
    files = {
        "ada/00.ipynb": [f'inventory("before", "{low}")', f'# inventory("after", "{low}")'],
        "ada/07.ipynb": [
            "%matplotlib inline\nx = 1",
            f'm.inventory(answers="{KEY}", when="after")',
        ],
        "bob.ipynb": [
            f'inventory("before", "{KEY}")\ninventory("before", "{low}")',  # the last one counts
            f'inventory("after", "a b")\ninventory("after", "{KEY[:3]}{half[3:6]}{never[6:]}")',
        ],
        "eve.ipynb": [f'inventory("before", "{low}")', "def (", "inventory()", "inventory(x, y)"],
    }
    for name, sources in files.items():
        (hand_ins / name).parent.mkdir(parents=True, exist_ok=True)
        (hand_ins / name).write_text(notebook(*sources))
    grade(hand_ins, out, confined=False)
    found = gains(out)
    assert {line["learners"] for line in found.values()} == {"2"}
    assert [found["projections"][x] for x in ("before", "after", "gain")] == ["1.000", "1.000", ""]
    assert [found["heads"][x] for x in ("before", "after", "gain")] == ["0.000", "1.000", "1.000"]
    assert [found["scores"][x] for x in ("before", "after", "gain")] == ["0.000", "0.500", "0.500"]
    page = (out / "class.html").read_text(encoding="utf-8")
    assert "2 answered twice: 20% right before, 70% after." in page
    assert "is 0.62. Single learners gained from 0.25 to 1.00, with a standard deviation of" in page
    chosen = items()[6].question
    assert chosen.answers[chosen.choices["abcde".index(never[6])]] in page
    assert page.count("<h2>What the class has gained") == 1


@pytest.mark.slow
def test_without_a_second_time_there_is_no_gain_and_without_a_call_no_table(tmp_path):
    (tmp_path / "class.html").write_text("<main>\n</main>")
    for content in (b"inventory", b"\xff inventory", b'{"cells": 3}', notebook("1").encode()):
        assert find_calls(content) == []
    for line in ("if x: {}", "def f(): {}", "class A: y = {}", "'{}'", "# {}"):
        source = line.format(f'inventory("after", "{KEY}")')
        assert find_calls(notebook(source).encode()) == [], line
    old = notebook(f'x = !ls @\ninventory("after", "{KEY}")').encode().replace(b"@", b"\xe9")
    assert find_calls(old) == [("after", KEY)]  # of an old Windows, with a line of IPython's
    (tmp_path / "gain.csv").write_text("of an earlier run")
    write_gain(tmp_path, [("a", notebook("import inventory").encode())], confined=False)
    assert not (tmp_path / "gain.csv").exists()
    one = notebook(f'inventory("after", "{KEY}")').encode()
    write_gain(tmp_path, [("a", one), ("b", b"[inventory")], confined=False)
    assert gains(tmp_path) == {}
    assert "Nobody has answered" in (tmp_path / "class.html").read_text()
