"""``review`` asks again what earlier lessons taught, at growing intervals."""

from __future__ import annotations

from datetime import datetime
from html import escape
from typing import Any

from mha_course.colours import QUESTION
from mha_course.errors import ShapeError
from mha_course.exercises.predictions import buttons
from mha_course.exercises.progress_store import kept, update
from mha_course.exercises.reading import read_answer
from mha_course.markup import box
from mha_course.questions import due, histories, is_due, review_questions

NONE_DUE = (
    "Nothing to review now. Questions on a lesson come when you have done its exercises, and "
    "again later. Expect ten minutes a week at most."
)


class Review:
    """At most eight questions that are due; displays itself in a notebook."""

    def __init__(self, now: datetime | None) -> None:
        self._now = now
        try:
            content = kept() or {}
        except OSError:  # progress() says so
            content = {}
        self.due = due({"exercises": {}} | content, self._seconds())
        self._right = list[bool]()

    def _seconds(self) -> float:
        return (self._now or datetime.now().astimezone()).timestamp()

    def answer(self, name: str, choice: object) -> bool:
        """Save the answer to a question, and return whether it is right.

        Only the first answer counts, until the question is due again.
        Args: name is its id; choice is a choice, or its letter.
        Raises: ShapeError.
        """
        place = "Review.answer"
        question = review_questions().get(str(name))
        if question is None:
            known = ", ".join(self.due or review_questions())
            raise ShapeError(place, "no review question has this id", known, repr(name))
        meant = read_answer(question, str(choice))
        if meant is None:
            choices = " / ".join(question.choices)
            raise ShapeError(place, f"{name} has no such choice", choices, repr(choice))
        right = meant == question.right

        def record(content: dict[str, Any]) -> None:
            now = self._seconds()
            history = histories(content).get(name, [])
            if is_due(history, now):  # else another notebook has asked it in the meantime
                reviewed = content.get("review")
                reviews = reviewed if isinstance(reviewed, dict) else {}
                content["review"] = reviews | {name: [*history, (now, right)]}

        update(record)
        if name in self.due:
            self.due = [key for key in self.due if key != name]
            self._right.append(right)
        return right

    def __repr__(self) -> str:
        lines = []
        for name in self.due:
            question = review_questions()[name]
            choices = zip("abcde", question.choices, strict=False)
            lines += [question.text, *(f"  ({letter}) {choice}" for letter, choice in choices)]
            lines.append(f'Answer with review().answer("{name}", "a").')
        return "\n".join(lines or [NONE_DUE])

    def _repr_html_(self) -> str:
        return box(QUESTION, f'<div style="white-space:pre-wrap">{escape(repr(self))}</div>')

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        try:
            return self._card(len(self.due)).view() if self.due else {}
        except ImportError:  # there are no widgets
            return {}

    def _card(self, count: int) -> Any:
        """Make the card of the next question; answering it shows the one after."""
        from mha_course.widgets.card import Card  # noqa: PLC0415 (slow to load, seldom needed)

        name = self.due[0]
        question = review_questions()[name]

        def respond(_: str, choice: str) -> dict[str, Any]:
            if name not in self.due:  # only the first click counts
                return {}
            self.answer(name, choice)
            if self.due:
                return {"widgets": [self._card(count)]}
            return {"parts": [f"<p>Done: {sum(self._right)} of {count} are right.</p>"]}

        place = f"Review {count - len(self.due) + 1} of {count}."
        html = f"<strong>{place}</strong> {escape(question.text)}"
        content = {"html": html, "choices": buttons(question), "sends": True}
        return Card("question", content, respond)


def review(now: datetime | None = None) -> Review:
    """Ask about lessons that are done, each question again after 1, 3, 8, 21 and 60 days.

    A wrong answer restarts the intervals. A card takes two minutes, a week at most ten.

    Args: now replaces the current time; without a time zone it is local.
    Raises: ShapeError.
    """
    if now is not None and not isinstance(now, datetime):
        raise ShapeError("review", "now must be a time", "a datetime, or nothing", repr(now)[:60])
    return Review(now)
