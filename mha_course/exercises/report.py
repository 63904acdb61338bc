"""The verdict on an answer, as text, as HTML, and as a card with help buttons."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape, unescape
from typing import Any
from urllib.parse import quote

from mha_course.colours import STATUS
from mha_course.exercises.answer_trace import trace_answer
from mha_course.exercises.catalogue import FOLDERS, find_exercise
from mha_course.exercises.hint_ladder import hint, solution, withheld
from mha_course.exercises.live_card import live_card
from mha_course.exercises.side_by_side import side_by_side
from mha_course.markup import box, heading, prose

_LOOKS = {  # title and sign of each status
    "correct": ("Correct", "✔"),
    "wrong": ("Not yet", "✘"),
    "unattempted": ("Not attempted", "○"),
    "error": ("Stopped with an error", "⚠"),
}
_LESSON = re.compile("See lesson ([0-9]+), “([^”]+)”")
_MANY = 3  # failures before the solution is offered


@dataclass(frozen=True)
class Report:
    """The verdict on an answer: displays itself in a notebook, prints as one line elsewhere.

    ``status`` is ``"correct"``, ``"wrong"``, ``"unattempted"`` or ``"error"``; ``mistake`` is the
    id of a known mistake or None; ``stage`` is where it first differs from the reference, such as
    ``"shape"``, or None. ``because`` is not shown: it says how the verdict was reached, or is None.
    It names the rule that found a fault and, if a mistake was recognised, the replaced steps and
    the number of inputs on which that equals the answer; for a right answer it says what was tried.
    """

    name: str
    status: str
    message: str
    stage: str | None = None
    mistake: str | None = None
    because: str | None = None
    kept: str = field(default="", compare=False)  # whether it is now in ``my_attention.py``
    failures: int = field(default=0, compare=False)  # since the last pass
    answer: Any = field(default=None, compare=False)
    # of the last call, if there was one
    arguments: Sequence[Any] | None = field(default=None, compare=False)
    # The first wrong result of this call, and what it should be, if numbers are wrong.
    result: Any = field(default=None, compare=False)
    target: Any = field(default=None, compare=False)

    @property
    def offer(self) -> str:
        """An offer of help after a second failure; empty before."""
        return f'Stuck? hint("{self.name}") goes one step further.' if self.failures > 1 else ""

    @property
    def picture(self) -> str:
        """The HTML of the result next to the target, if matrices differ."""
        return side_by_side(self.result, self.target)

    def __repr__(self) -> str:
        title, _ = _LOOKS[self.status]
        text = " ".join(filter(None, (self.message, self.kept, self.offer)))
        return f"{self.name}: {title}. {text}".rstrip()

    def _repr_html_(self) -> str:
        offer = f"<div>{escape(self.offer)}</div>" if self.offer else ""
        return box(STATUS[self.status], self.content() + self.picture + offer)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        helper = _Helper(self)
        content = {"html": self.content() + self.picture, "buttons": helper.buttons()}
        return live_card(self.status, content, helper.respond)

    def content(self) -> str:
        """Write a headline and the message, in HTML."""
        title, sign = _LOOKS[self.status]
        message = _LESSON.sub(_link, prose(self.message))
        if self.kept:
            message += f"<br><small>{prose(self.kept)}</small>"
        return f"{heading(f'{sign} {title}', self.name)}<br>{message}"


def _link(place: re.Match[str]) -> str:
    """Turn a message's reference to a lesson's section into a link."""
    if "google.colab" in sys.modules:  # if no other pages are next to it
        return place[0]
    number, section = place.groups()
    file = f"{[*FOLDERS][int(number)].removeprefix('l')}.ipynb"
    anchor = quote(unescape(section).replace(" ", "-"))  # Jupyter's anchor for a heading
    return f'See <a class="lesson" href="{file}#{anchor}">lesson {number}, “{section}”</a>'


class _Helper:
    """The buttons of one report, and what they have shown."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.parts = dict[str, str]()
        self.done = set[str]()  # actions that are used up

    def buttons(self) -> list[dict[str, Any]]:
        """Return the buttons available now, and those used up."""
        passed = self.report.status == "correct"
        labels = {}
        if not passed:
            labels["hint"] = "Next hint" if "hint" in self.parts else "Hint"
        if self.report.arguments is not None:
            labels["trace"] = "Trace my code"
        if (passed or "hint" in self.done or self.report.failures >= _MANY) and not withheld():
            labels["solution"] = "Show the solution"
        return [
            {"action": action, "label": label, "done": action in self.done}
            for action, label in labels.items()
        ]

    def respond(self, action: str, _: str) -> dict[str, Any]:
        """Open a hint, the solution or a trace; return the card's new content."""
        widgets = getattr(self, f"_{action}")()
        parts = [self.parts[name] for name in ("hint", "solution", "trace") if name in self.parts]
        extra = {"widgets": widgets} if widgets else {}
        return {"parts": parts, "buttons": self.buttons()} | extra

    def _hint(self) -> None:
        ladder = hint(self.report.name)
        if ladder.is_last:
            self.done.add("hint")
        self.parts["hint"] = _part(ladder.title, ladder.steps())

    def _solution(self) -> None:
        self.done.add("solution")
        source = escape(solution(self.report.name).rstrip())
        self.parts["solution"] = _part("The solution", f"<pre><code>{source}</code></pre>")

    def _trace(self) -> list[Any]:
        from mha_course.widgets import ShapeTracer  # noqa: PLC0415 (slow to load, and here it is loaded)

        self.done.add("trace")
        report = self.report
        exercise = find_exercise(report.name)
        trace, stopped = trace_answer(exercise, report.answer, report.arguments or ())
        if stopped or trace is None:
            steps = "Your code stops after these steps."
            if trace is None:
                steps = "Your code makes no tensor, so there are no steps to show."
            reason = "" if stopped in report.message else stopped
            self.parts["trace"] = _part("Your code", prose(f"{steps} {reason}"))
        if trace is None:
            return []
        tracer = ShapeTracer(trace)
        tracer.position = len(trace.steps) if stopped else 0
        return [tracer]


def _part(title: str, content: str) -> str:
    """Show a button's content, under a title that folds it."""
    summary = f"<summary><strong>{escape(title)}</strong></summary>"
    return f'<details open class="part">{summary}{content}</details>'
