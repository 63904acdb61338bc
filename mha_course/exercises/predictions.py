"""Questions to answer before the reveal, marked at once, with a reason for every choice.

They need no widget: choices unfold where they are clicked, on GitHub and without a kernel too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape

from mha_course.errors import require
from mha_course.exercises.catalogue import QUESTIONS
from mha_course.exercises.html import box
from mha_course.exercises.spec import Question

_VERDICTS = {True: "✔ Right", False: "✘ Not quite"}


@dataclass(frozen=True)
class Prediction:
    """A question, with the learner's answer where one was given; shows itself in a notebook."""

    name: str
    question: Question
    given: str | None = None

    @property
    def correct(self) -> bool | None:
        """Whether the answer is right; None without one."""
        return None if self.given is None else matches(self.question, self.given)

    def __repr__(self) -> str:
        if self.given is None:
            lines = [self.question.text, *(f"  ( ) {choice}" for choice in self.question.choices)]
            return "\n".join([*lines, f'Answer with predict("{self.name}", "…").'])
        return f"{'Right' if self.correct else 'Not quite'}. {self._reason()}"

    def _repr_html_(self) -> str:
        text = f"<strong>Predict.</strong> {escape(self.question.text)}"
        if self.given is not None:
            verdict = f"<strong>{_VERDICTS[bool(self.correct)]}.</strong> {escape(self._reason())}"
            text += f"<br>You said {escape(self.given)}. {verdict}"
        elif self.question.choices:
            for choice in self.question.choices:
                verdict = f"<strong>{_VERDICTS[choice == self.question.right]}.</strong>"
                summary = f'<summary style="cursor:pointer">{escape(choice)}</summary>'
                text += f"<details>{summary}{verdict} {escape(self.question.answers[choice])}</details>"
        else:
            call = escape(f'predict("{self.name}", "your answer")')
            text += f"<br>Type it between the quotes: <code>{call}</code>, and run the cell."
            answer = escape(f"{self.question.right}. {self.question.answers[self.question.right]}")
            text += f"<details><summary>Show the answer</summary>{answer}</details>"
        return box("#2f6fdb", text)

    def _reason(self) -> str:
        """Return why the answer is right, or what the wrong one overlooks."""
        reasons = {_plain(answer): reason for answer, reason in self.question.answers.items()}
        given = self.question.right if self.correct else self.given or ""
        return reasons.get(_plain(given), self.question.nudge)


def predict(name: str, answer: object = None) -> Prediction:
    """Ask a question, or mark an answer to it.

    Args: name is a key of QUESTIONS; answer a choice, a shape such as ``"2, 5, 24"``, ``(2, 5, 24)`` or
        ``"B, S, C"``, or a number. Without an answer the question shows itself.
    Raises: ShapeError for a name that is not a question.
    """
    require(name in QUESTIONS, "predict", "no question has this name", expected=", ".join(QUESTIONS), got=repr(name))
    if isinstance(answer, list | tuple):
        answer = ", ".join(map(str, answer))
    return Prediction(name, QUESTIONS[name], None if answer in (None, "", Ellipsis) else str(answer))


def matches(question: Question, given: str) -> bool:
    """Compare an answer: a number within the tolerance, all else but for brackets, spaces and case."""
    want = question.right
    if _axes(given) and _axes(given) == _axes(question.letters):
        return True
    try:
        return abs(float(given.replace(",", "")) - float(want)) <= question.tolerance
    except ValueError:
        return _plain(given) == _plain(want)


def _axes(text: str) -> list[str]:
    """Read axes such as ``B, H, S, D`` or ``(B H S D)``."""
    return re.findall(r"[a-z_]+", text.lower()) if not re.search(r"\d", text) else []


def _plain(text: str) -> str:
    """Drop brackets, spaces and case, and write a shape with commas."""
    text = re.sub(r"[\s()\[\]]", "", text.lower().replace("torch.size", ""))
    return re.sub(r"(?<=\d)[x×*](?=\d)", ",", text).rstrip(",")
