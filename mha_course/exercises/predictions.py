"""Questions to answer before the reveal, marked immediately, with a reason for every choice.

With a kernel choices are buttons, and other answers are typed into a field. On GitHub, and without
widgets, choices unfold when you click them.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from string import ascii_lowercase
from typing import Any

from torch import Tensor

from mha_course.colours import QUESTION
from mha_course.errors import require
from mha_course.exercises.catalogue import QUESTIONS
from mha_course.exercises.live_card import live_card
from mha_course.exercises.progress_store import update
from mha_course.exercises.reading import has_form, read_answer
from mha_course.markup import box, isolate_text
from mha_course.questions import Question, all_questions, predicted

# A lesson without exercises is done when these are answered.
COUNTED = {name for lesson in all_questions() for name in lesson.needs if name in lesson.page}
VERDICTS = {True: "✔ Right.", False: "✘ Not quite."}


def verdict(question: Question, answer: str) -> str:
    """Write whether an answer is right, and why."""
    right = answer == question.right
    return f"<strong>{VERDICTS[right]}</strong> {escape(question.answers[answer])}"


def buttons(question: Question) -> list[dict[str, Any]]:
    """Describe a button for each choice, and what it shows when pressed."""
    return [
        {"text": choice, "right": choice == question.right, "reason": verdict(question, choice)}
        for choice in question.choices
    ]


@dataclass(frozen=True)
class Prediction:
    """A question, with the learner's answer if given; displays itself in a notebook."""

    name: str
    question: Question
    given: str | None = None

    @property
    def correct(self) -> bool | None:
        """Whether the answer is right; None if it is missing or cannot be read."""
        if self.given is None or not has_form(self.question, self.given):
            return None
        return self.meant == self.question.right

    @property
    def meant(self) -> str | None:
        """The answer that the learner's words mean; None if they mean none."""
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
                text += f"<details>{summary}{verdict(self.question, choice)}</details>"
        else:
            call = escape(f'predict("{self.name}", "your answer")')
            text += f"<br>Type it between the quotes in <code>{call}</code>, then run the cell."
            text += self._fold()
        return box(QUESTION, text)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        # A marked answer needs no buttons, so the HTML is shown, which also survives saving.
        if self.given is not None:
            return {}
        content: dict[str, Any] = {"html": self._asking()}
        if self.question.choices:
            content |= {"choices": buttons(self.question), "sends": self.name in COUNTED}
        else:
            content |= {"field": True, "details": self._fold()}
        return live_card("question", content, self._respond)

    def _respond(self, _: str, typed: str) -> dict[str, Any]:
        """Mark what was typed into the field."""
        marked = predict(self.name, typed)
        return {"right": marked.correct, "reason": marked._marked()}

    def _asking(self) -> str:
        return f"<strong>Predict.</strong> {escape(self.question.text)}"

    def _marked(self) -> str:
        """Write what was typed, which answer it is, and the verdict."""
        typed = isolate_text(self.given or "")
        if self.meant not in (None, self.given):
            typed += f": {self.meant}"
        reason = f"<strong>{self._headline()}</strong> {escape(self._reason())}"
        return f"You said {escape(typed)}. {reason}"

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
        """Return why the answer is right, what a wrong one overlooks, or what answers are
        possible."""
        if self.meant is not None:
            return self.question.answers[self.meant]
        if not self.question.choices:
            return self.question.nudge
        pairs = zip(ascii_lowercase, self.question.choices, strict=False)
        return ", ".join(f"({letter}) {choice}" for letter, choice in pairs)


def predict(name: str, answer: object = None) -> Prediction:
    """Ask a question, or mark an answer.

    Args: name is a key of QUESTIONS; answer a number, a shape such as ``"2, 5, 24"``,
        ``(2, 5, 24)`` or ``"B, S, C"``, or a choice or its letter. Without an answer, the question
        is displayed.
    Raises: ShapeError for an unknown name.
    """
    require(
        name in QUESTIONS,
        "predict",
        "no question has this name",
        expected=", ".join(QUESTIONS),
        got=repr(name),
    )
    # torch.Size, tuples and small tensors are read as they would be typed.
    if isinstance(answer, Tensor):
        answer = answer.tolist()
    if isinstance(answer, list | tuple):
        answer = ", ".join(map(str, answer))
    text = "" if answer is None or answer is Ellipsis else str(answer).strip()
    prediction = Prediction(name, QUESTIONS[name], text or None)
    # Only an answer that could be read counts as an answer.
    if name in COUNTED and prediction.correct is not None:
        update(lambda content: content.update(predicted=sorted({name, *predicted(content)})))
    return prediction
