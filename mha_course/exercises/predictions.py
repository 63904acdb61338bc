"""Questions to answer before the reveal, marked at once, with a reason for every choice.

With a kernel choices are buttons, and other answers are typed into a field. On GitHub, and where
there are no widgets, choices unfold where they are clicked.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from string import ascii_lowercase
from typing import Any

from torch import Tensor

from mha_course.errors import require
from mha_course.exercises.catalogue import all_lessons, all_questions
from mha_course.exercises.live_card import live_card
from mha_course.exercises.progress_store import update
from mha_course.exercises.reading import has_form, read_answer
from mha_course.exercises.spec import Question
from mha_course.markup import box, isolate_text
from mha_course.questions import predicted

VERDICTS = {True: "✔ Right.", False: "✘ Not quite."}


@dataclass(frozen=True)
class Prediction:
    """A question, with the learner's answer where one was given; shows itself in a notebook."""

    name: str
    question: Question
    given: str | None = None

    @property
    def correct(self) -> bool | None:
        """Whether the answer is right; None without one, and where it cannot be read."""
        if self.given is None or not has_form(self.question, self.given):
            return None
        return self.meant == self.question.right

    @property
    def meant(self) -> str | None:
        """The answer of the question that was given in other words; None if none was."""
        return read_answer(self.question, self.given or "")

    def __repr__(self) -> str:
        if self.given is None:
            lines = [self.question.text, *(f"  ( ) {choice}" for choice in self.question.choices)]
            return "\n".join([*lines, f'Answer with predict("{self.name}", "…").'])
        return f"{self._headline().lstrip('✔✘ ')} {self._reason()}"

    def _repr_html_(self) -> str:
        text = self._asking()
        if self.given is not None:
            text += f"<br>{self._marked()}"
        elif self.question.choices:
            for choice in self.question.choices:
                summary = f'<summary style="cursor:pointer">{escape(choice)}</summary>'
                text += f"<details>{summary}{self._verdict(choice)}</details>"
        else:
            call = escape(f'predict("{self.name}", "your answer")')
            text += f"<br>Type it between the quotes in <code>{call}</code>, then run the cell."
            text += self._fold()
        return box("#2f6fdb", text)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        if self.given is not None:
            return {}
        content: dict[str, Any] = {"html": self._asking()}
        if self.question.choices:
            right = self.question.right
            content["choices"] = [
                {"text": choice, "right": choice == right, "reason": self._verdict(choice)}
                for choice in self.question.choices
            ]
            content["sends"] = _counts(self.name)
        else:
            content |= {"field": True, "details": self._fold()}
        return live_card("question", content, self._respond)

    def _respond(self, _: str, typed: str) -> dict[str, Any]:
        """Mark what was typed into the field."""
        marked = predict(self.name, typed)
        return {"right": marked.correct, "reason": marked._marked()}

    def _asking(self) -> str:
        return f"<strong>Predict.</strong> {escape(self.question.text)}"

    def _verdict(self, answer: str) -> str:
        """Write whether an answer is right, and why."""
        right = answer == self.question.right
        return f"<strong>{VERDICTS[right]}</strong> {escape(self.question.answers[answer])}"

    def _marked(self) -> str:
        """Write what was typed, which answer it is, and the verdict."""
        typed = isolate_text(self.given or "")
        if self.meant not in (None, self.given):
            typed += f": {self.meant}"
        verdict = f"<strong>{self._headline()}</strong> {escape(self._reason())}"
        return f"You said {escape(typed)}. {verdict}"

    def _fold(self) -> str:
        """Write the answer below a line that unfolds."""
        answer = escape(f"{self.question.right}. {self.question.answers[self.question.right]}")
        return f"<details><summary>Show the answer</summary>{answer}</details>"

    def _headline(self) -> str:
        """Return the verdict, or a question where the answer cannot be read."""
        if self.correct is not None:
            return VERDICTS[self.correct]
        if self.question.choices:
            return "Which of the choices do you mean?"
        return f"Which {'shape' if ',' in self.question.right else 'number'} do you mean?"

    def _reason(self) -> str:
        """Return why the answer is right, what a wrong one overlooks, or what can be answered."""
        if self.meant is not None:
            return self.question.answers[self.meant]
        if not self.question.choices:
            return self.question.nudge
        pairs = zip(ascii_lowercase, self.question.choices, strict=False)
        return ", ".join(f"({letter}) {choice}" for letter, choice in pairs)


def _counts(name: str) -> bool:
    """Return True for a question that says its lesson is done, since that has no exercises."""
    return any(name in lesson.questions for lesson in all_lessons() if not lesson.exercises)


def predict(name: str, answer: object = None) -> Prediction:
    """Ask a question, or mark an answer to it.

    Args: name is a key of QUESTIONS; answer a number, a shape such as ``"2, 5, 24"``,
        ``(2, 5, 24)`` or ``"B, S, C"``, or a choice or its letter. Without an answer the question
        shows itself.
    Raises: ShapeError for a name that is not a question.
    """
    questions = all_questions()
    require(
        name in questions,
        "predict",
        "no question has this name",
        expected=", ".join(questions),
        got=repr(name),
    )
    if isinstance(answer, Tensor):
        answer = answer.tolist()
    if isinstance(answer, list | tuple):
        answer = ", ".join(map(str, answer))
    given = "" if answer is None or answer is Ellipsis else str(answer).strip()
    prediction = Prediction(name, questions[name], given or None)
    if _counts(name) and prediction.correct is not None:
        update(lambda content: content.update(predicted=sorted({name, *predicted(content)})))
    return prediction
