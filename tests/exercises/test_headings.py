"""Messages and hints name sections that exist, in the words of their headings."""

import re

import lessons
import pytest

from mha_course.exercises.catalogue import LESSONS
from mha_course.mistakes import ROWS


def places(number):
    """Return the headings of a lesson, and the bold words with which its paragraphs begin."""
    text = lessons.prose(lessons.read(lessons.LESSONS[number]))
    headings = re.findall(r"(?m)^##+ (.*?)\s*$", text)
    return headings, re.findall(r"(?m)^\*\*([^*]+?)[.:]?\*\*", text)


@pytest.mark.parametrize("section", sorted({row.section for row in ROWS.values()}))
def test_a_section_is_a_heading_of_its_lesson(section):
    """Written as number, title and heading: ``"3, Scores and scaling: See it"``."""
    assert re.match(r"\d+, [^:]+: ", section), "number, title: heading"
    number, rest = section.split(", ", 1)
    title, heading = rest.split(": ", 1)
    assert title == LESSONS[int(number)].title
    headings, _ = places(int(number))
    assert heading in headings, f"lesson {number} has the headings {headings}"


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.title)
def test_hints_and_questions_name_places_of_their_lesson(lesson):
    headings, bold = places(lesson.number)
    texts = [hint for exercise in lesson.exercises for hint in exercise.hints[:3]]
    for question in lesson.questions.values():
        texts += [question.text, question.nudge, *question.answers.values()]
    for place in re.findall(r"See (?:step \d of )?“([^”]+)”", "\n".join(texts)):
        assert place in [*headings, *bold], f"lesson {lesson.number} has the headings {headings}"
