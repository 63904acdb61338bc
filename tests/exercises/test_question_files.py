"""Every lesson has questions, no answer is given away by its length, and errors name the line."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from mha_course.errors import ShapeError
from mha_course.exercises import QUESTIONS
from mha_course.exercises.catalogue import LESSONS
from mha_course.exercises.reading import read_answer
from mha_course.questions import (
    LessonQuestions,
    Question,
    all_questions,
    read_questions,
    review_questions,
)

ROOT = Path(__file__).resolve().parents[2]
REVIEWS = review_questions()


def core_exercises(number):
    """Return the exercises of a notebook that are not under a heading that begins with Deeper."""
    (file,) = (ROOT / "notebooks").glob(f"{number:02}_*.ipynb")
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    core, deeper = set(), 0
    for line in "\n".join(texts).splitlines():
        if heading := re.match(r"(#+) (Deeper)?", line):
            level = len(heading[1])
            deeper = level if heading[2] else 0 if level <= deeper else deeper
        core.update(re.findall(r"\*\*Exercise `(\w+)`", line) if not deeper else [])
    return core


@pytest.mark.parametrize("number", range(len(LESSONS)))
def test_a_lesson_is_reviewed_after_its_core_exercises_or_else_its_predictions(number):
    asked = all_questions()[number]
    assert len(asked.review) >= (5 if number <= 12 else 3)
    assert set(asked.needs) == (core_exercises(number) or set(asked.page))


def test_questions_are_their_own_and_not_answered_by_their_length():
    everything = [question.text for question in (*QUESTIONS.values(), *REVIEWS.values())]
    assert len(set(everything)) == len(everything)
    names = [name for each in all_questions() for name in (*each.page, *each.review)]
    assert len(set(names)) == len(names) == len(everything)
    sizes = [([len(x) for x in each.choices], len(each.right)) for each in REVIEWS.values()]
    assert sum(right == max(all_) > min(all_) for all_, right in sizes) <= len(sizes) / 3
    for question in REVIEWS.values():
        for letter, choice in zip("abcde", question.choices, strict=False):
            assert read_answer(question, choice) == read_answer(question, letter) == choice
    assert max(len(question.text) for question in REVIEWS.values()) < 220, "a quarter of a minute"


FILE = """# Page

## typed
How many?
- ✔ 2.5 → so
- 3 → no
- nudge: Count.
- also: 5/2; two and a half
- letters: B
- units: pages %
- tolerance: 0.25

# Review after one other

## chosen
What?
- nothing: none → no
- ✔ all → so
"""


@pytest.fixture
def read(tmp_path):
    def read_text(text):
        path = tmp_path / "questions.md"
        path.write_text(text, encoding="utf-8")
        return read_questions(path)

    return read_text


def test_a_file_is_read(read):
    typed = Question("How many?", {"2.5": "so", "3": "no"}, "2.5", "Count.")
    typed = replace(typed, also=("5/2", "two and a half"), letters="B", units="pages %")
    chosen = Question("What?", {"nothing: none": "no", "all": "so"}, "all")
    page, review = {"typed": replace(typed, tolerance=0.25)}, {"chosen": chosen}
    assert read(FILE) == LessonQuestions(page, review, ("one", "other"))
    assert (page["typed"].choices, chosen.choices) == ([], ["nothing: none", "all"])


@pytest.mark.parametrize(
    ("old", "new", "line", "got"),
    [
        (FILE, "", 1, "an empty file"),
        ("# Page\n", "", 2, "## typed"),
        ("# Page\n", "# Page\nlost\n", 2, "lost"),
        ("## typed", "## a name", 3, "## a name"),
        ("How many?\n", "", 3, "none"),
        ("✔ 2.5", "2.5", 3, "0 of 2 with ✔"),
        ("- 3", "- ✔ 3", 3, "2 of 2 with ✔"),
        ("- 3 → no\n", "", 3, "1 of 1 with ✔"),
        ("3 →", "3,", 6, "- 3, no"),
        ("3 →", "2.5 →", 6, "- 2.5 → no"),
        ("- nudge", "nudge", 7, "nudge: Count."),
        ("also", "or", 8, "- or: 5/2; two and a half"),
        ("0.25", "a little", 11, "- tolerance: a little"),
        (" one other", "", 13, "# Review after"),
        ("other\n", "other\nlost\n", 13, "# Review after one other"),
        ("## chosen", "# Review after that\n\n## chosen", 15, "# Review after that"),
        ("## chosen", "## typed", 15, "## typed"),
    ],
)
def test_a_file_that_cannot_be_read_says_where(old, new, line, got, read, tmp_path):
    assert old in FILE
    with pytest.raises(ShapeError, match=f"{tmp_path.name}/questions.md, line {line}: ") as raised:
        read(FILE.replace(old, new, 1))
    assert (raised.value.rule, raised.value.got) == ("this cannot be read", got)
