"""Every lesson has its questions, none is answered by its length, and a broken file says where."""

import json
import re
from pathlib import Path

import pytest

from mha_course.errors import ShapeError
from mha_course.exercises import QUESTIONS
from mha_course.exercises.catalogue import LESSONS
from mha_course.exercises.reading import read_answer
from mha_course.exercises.reviews import review_questions
from mha_course.questions import all_questions, read_questions

ROOT = Path(__file__).resolve().parents[2]
REVIEWS = review_questions()


def test_every_lesson_has_its_questions_and_is_done_with_its_core_exercises():
    """What stands in a notebook under Deeper is not needed; 16 and 19 have predictions alone."""
    needed = {}
    for asked in all_questions().values():
        needed.setdefault(asked.needs, []).append(asked.name)
    counts = [len(names) for names in needed.values()]
    assert [count >= 3 + 2 * (at <= 12) for at, count in enumerate(counts)] == [True] * 20
    for lesson, needs in zip(LESSONS, needed, strict=True):
        (file,) = (ROOT / "notebooks").glob(f"{lesson.number:02}_*.ipynb")
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
        core, deeper = [], 0
        for line in "\n".join(texts).splitlines():
            if heading := re.match(r"(#+) (Deeper)?", line):
                level = len(heading[1])
                deeper = level if heading[2] else 0 if level <= deeper else deeper
            core += re.findall(r"\*\*Exercise `(\w+)`", line) if not deeper else []
        assert set(needs) == set(core or lesson.questions), lesson.number


def test_questions_are_their_own_and_not_answered_by_their_length():
    everything = [question.text for question in (*QUESTIONS.values(), *REVIEWS.values())]
    assert len(set(everything)) == len(everything)
    assert not set(QUESTIONS) & set(REVIEWS)
    sizes = [([len(x) for x in each.choices], len(each.right)) for each in REVIEWS.values()]
    assert sum(right == max(all_) > min(all_) for all_, right in sizes) <= len(sizes) / 3
    for question in REVIEWS.values():
        for letter, choice in zip("abcde", question.choices, strict=False):
            assert read_answer(question, choice) == read_answer(question, letter) == choice
    assert max(len(question.text) for question in REVIEWS.values()) < 220, "a quarter of a minute"


ASK = "## a\nWhat?\n- ✔ 1 → so\n- 2 → no\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        (ASK, 1),
        (f"needs: x\nlost\n{ASK}", 1),
        ("needs: x\n\n" + ASK.replace("a\n", "A b\n"), 3),
        ("needs: x\n\n" + ASK.replace("What?\n", ""), 3),
        ("needs: x\n\n" + ASK.replace("✔ ", ""), 3),
        ("needs: x\n\n" + ASK.replace("2", "✔ 2"), 3),
        ("needs: x\n\n" + ASK.replace("2 →", "2,"), 3),
        ("needs: x\n\n" + ASK.replace("2", "1"), 3),
        (f"needs: x\n{ASK}\n{ASK}", 7),
    ],
)
def test_a_file_that_cannot_be_read_says_where(text, line, tmp_path):
    file = tmp_path / "review.md"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ShapeError) as raised:
        read_questions(file)
    assert f"{tmp_path.name}/review.md, line {line}: " in str(raised.value)
