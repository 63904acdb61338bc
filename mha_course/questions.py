"""Questions that lessons ask, on their pages and in reviews, and when each is due again.

It needs only the standard library, so that reviews can be announced before PyTorch is loaded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from mha_course.errors import ShapeError

INTERVALS = (1, 3, 8, 21, 60)  # days
DAY = 86_400.0
ON_A_CARD = 8  # two minutes, at a quarter of a minute each
IN_A_WEEK = 40  # ten minutes
SIGHTS = 3  # views after which others go first
LESSONS = Path(__file__).with_name("lessons")
ID = re.compile(r"## ([a-z0-9-]+)")
REVIEW = re.compile(r"# Review after (\S.*)")
ANSWER = re.compile(r"- (✔ )?(\S.*?) → (\S.*)")
FIELD = re.compile(r"- (nudge|also|letters|units|tolerance(?=: \d+(?:\.\d+)?$)): (\S.*)")
RUN = "from mha_course.exercises import review; review()"
History = list[tuple[float, bool]]  # seconds since 1970, and whether the answer was right
ITEM = "- answer → reason, or one of - nudge, also, letters, units, tolerance with : and its text"


@dataclass(frozen=True)
class Question:
    """A question, with its answers.

    Args:
        text: the question.
        answers: for the right one, why it is right; for each wrong one, what it overlooks.
        right: the right answer.
        nudge: what to say about any other answer. With a nudge, the answer is typed, otherwise
        chosen.
        also: other ways to write the right answer.
        letters: the axes of a shape, which may also be typed.
        units: words that may follow a number; with ``%`` it may be given in percent.
        tolerance: how close a number must be.
    """

    text: str
    answers: Mapping[str, str]
    right: str
    nudge: str = ""
    also: tuple[str, ...] = ()
    letters: str = ""
    units: str = ""
    tolerance: float = 0.0

    @property
    def choices(self) -> list[str]:
        """The answers to choose from; none if the answer is typed."""
        return [] if self.nudge else list(self.answers)


@dataclass(frozen=True)
class LessonQuestions:
    """A lesson's questions by id: on its page, and in reviews once needs are done."""

    page: Mapping[str, Question]
    review: Mapping[str, Question]
    needs: tuple[str, ...]


class Line(NamedTuple):
    """A line of a file with its position, such as ``"l03_scaling/questions.md, line 7"``."""

    place: str
    text: str

    def unreadable(self, expected: str, got: str = "") -> ShapeError:
        """Return an error saying what is wrong with this line."""
        return ShapeError(self.place, "this cannot be read", expected, got or self.text[:60])


def read_questions(path: Path) -> LessonQuestions:
    """Read a file of questions: those of a page, then those of reviews.

    Raises: ShapeError, naming the file and the unreadable line.
    """
    page, review = dict[str, Question](), dict[str, Question]()
    needs: tuple[str, ...] = ()
    (start, *lines), *blocks = _blocks(path)
    if start.text != "# Page":
        raise start.unreadable("# Page")
    if lines:
        raise lines[0].unreadable("## and an id")
    for heading, *lines in blocks:
        name, reviewed = ID.fullmatch(heading.text), REVIEW.fullmatch(heading.text)
        if name and name[1] not in (*page, *review):
            questions = review if needs else page
            questions[name[1]] = _question(heading, lines)
        elif reviewed and not needs and not lines:
            needs = tuple(reviewed[1].split())
        else:
            expected = "## and an id of its own, or once # Review after …, with nothing else below"
            raise heading.unreadable(expected)
    return LessonQuestions(page, review, needs)


def _blocks(path: Path) -> list[list[Line]]:
    """Split a file at its headings, dropping empty lines."""
    blocks = list[list[Line]]()
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        line = Line(f"{path.parent.name}/{path.name}, line {number}", text)
        if text.startswith("#") or (text and not blocks):
            blocks.append([line])
        elif text:
            blocks[-1].append(line)
    return blocks or [[Line(f"{path.parent.name}/{path.name}, line 1", "an empty file")]]


def _question(heading: Line, lines: list[Line]) -> Question:
    """Read a question: a line of text, with answers and fields below it."""
    if not lines or lines[0].text.startswith("- "):
        raise heading.unreadable("the text of the question in the next line", "none")
    answers, fields = dict[str, str](), dict[str, Any]()
    right = []
    for line in lines[1:]:
        field, answer = FIELD.fullmatch(line.text), ANSWER.fullmatch(line.text)
        if field:
            fields[field[1]] = field[2]
        elif answer and answer[2] not in answers:
            answers[answer[2]] = answer[3]
            if answer[1]:
                right.append(answer[2])
        else:
            raise line.unreadable(ITEM)
    if len(right) != 1 or len(answers) == 1:
        got = f"{len(right)} of {len(answers)} with ✔"
        raise heading.unreadable("two answers or more, one of them with ✔", got)
    if "also" in fields:
        fields["also"] = tuple(fields["also"].split("; "))
    fields["tolerance"] = float(fields.get("tolerance", 0))
    return Question(lines[0].text, answers, right[0], **fields)


@cache
def all_questions() -> tuple[LessonQuestions, ...]:
    """Return the questions of all lessons, in order. Raises: ShapeError."""
    return tuple(map(read_questions, sorted(LESSONS.glob("l*/questions.md"))))


@cache
def page_questions() -> Mapping[str, Question]:
    """Return the questions on pages, by id. Raises: ShapeError."""
    return {name: x for lesson in all_questions() for name, x in lesson.page.items()}


@cache
def review_questions() -> Mapping[str, Question]:
    """Return the questions in reviews, by id. Raises: ShapeError."""
    return {name: x for lesson in all_questions() for name, x in lesson.review.items()}


def histories(content: Mapping[str, Any]) -> dict[str, History]:
    """Return the saved answers to each question, without invalid entries."""
    reviews = content.get("review")
    if not isinstance(reviews, dict):
        return {}
    answered = dict[str, History]()
    for name, answers in reviews.items():
        for answer in answers if isinstance(answers, list) else ():
            match answer:
                case [int() | float() as time, bool(right)]:
                    answered.setdefault(name, []).append((time, right))
    return answered


def is_due(history: History, now: float) -> bool:
    """Return True if a question was never answered, or its interval is over.

    The interval grows with each right answer after the first, and a wrong one resets it.
    """
    if not history:
        return True
    wrong = [at for at, (_, right) in enumerate(history) if not right]
    step = len(history) - 1 - max(wrong, default=0)
    interval = INTERVALS[min(step, len(INTERVALS) - 1)] * DAY
    elapsed = now - history[-1][0]
    # An answer from the future comes from a wrong clock.
    return elapsed < 0 or elapsed >= interval


def due(content: Mapping[str, Any], now: float) -> list[str]:
    """Return the questions for a card: those that are due, from lessons that are done."""
    done = predicted(content)
    for name, entry in content["exercises"].items():
        if isinstance(entry, dict) and entry.get("status") == "correct":
            done.add(name)
    answered = histories(content)
    waiting = []
    for lesson in all_questions():
        if not done.issuperset(lesson.needs):
            continue
        for name in lesson.review:
            history = answered.get(name, [])
            if is_due(history, now):
                last = history[-1][0] if history else 0.0
                waiting.append((min(len(history), SIGHTS), last, name))
    times = [time for history in answered.values() for time, _ in history]
    in_a_week = sum(0 <= now - time < 7 * DAY for time in times)
    count = max(0, min(ON_A_CARD, IN_A_WEEK - in_a_week))
    return [name for *_, name in sorted(waiting)[:count]]


def predicted(content: Mapping[str, Any]) -> set[str]:
    """Return the saved predictions that were answered."""
    names = content.get("predicted")
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()


def due_line(file: Path, now: float) -> str:
    """Say in one line how many questions are due; "" if none."""
    try:
        count = len(due(json.loads(file.read_text(encoding="utf-8")), now))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return ""  # progress() reports the problem
    questions = "question is" if count == 1 else "questions are"
    return f"{count} review {questions} due. In a lesson: {RUN}\n" if count else ""
