"""A ladder of hints for each exercise: every call of ``hint`` shows one rung more."""

from __future__ import annotations

import html
import os
import re
from collections import Counter
from dataclasses import dataclass
from difflib import get_close_matches
from types import FunctionType

from mha_course.errors import ShapeError
from mha_course.exercises.catalogue import HINTS

LECTURER, SOLUTIONS = "MHA_COURSE_LECTURER", "MHA_COURSE_SOLUTIONS"  # switches in the environment
_BOX = "border-left:4px solid #8250df;padding:2px 12px;margin:4px 0"
_STEPS: Counter[str] = Counter()  # how many rungs of each exercise this session has shown


@dataclass(frozen=True)
class Hint:
    """The hints on an exercise so far, the newest last; shows itself in a notebook."""

    name: str
    rungs: tuple[str, ...]

    @property
    def heading(self) -> str:
        """Tell how far up the ladder this is."""
        return f"Hint {len(self.rungs)} of {len(ladder(self.name))}"

    @property
    def more(self) -> str:
        """Tell how to go on from here."""
        if len(self.rungs) < len(ladder(self.name)):
            return f'`hint("{self.name}")` once more shows the next.'
        if withheld():
            return "This was the last: solutions are off in this class."
        return f'This was the last. `print(solution("{self.name}"))` shows the whole reference.'

    def __repr__(self) -> str:
        lines = []
        for number, rung in enumerate(self.rungs, start=1):
            first, *rest = rung.replace("`", "").split("\n")
            lines += [f"{number}. {first}", *(f"   {line}" for line in rest)]
        return "\n".join([f"{self.heading} ({self.name})", *lines, self.more.replace("`", "")])

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{_show(rung, number)}</li>" for number, rung in enumerate(self.rungs, start=1))
        return (
            f'<div style="{_BOX}"><strong>{self.heading}</strong> <code>{html.escape(self.name)}</code>'
            f'<ol style="margin:4px 0">{items}</ol>{_prose(self.more)}</div>'
        )


def hint(name: str) -> Hint:
    """Show one hint more on an exercise: a question, a pointer, the shape of the line, and the line itself.

    Args: name is that of an exercise; each keeps its own count in this session, and the last hint repeats. The line
        itself is left out where solutions are off (see ``solution``).
    Raises: ShapeError for a name that is not an exercise.
    """
    if not isinstance(name, str) or name not in HINTS:
        raise _unknown(name)
    _STEPS[name] += 1
    return Hint(name, ladder(name)[: _STEPS[name]])


def ladder(name: str) -> tuple[str, ...]:
    """Return the hints on an exercise; the last one is code, so it is left out where solutions are withheld."""
    return HINTS[name][:-1] if withheld() else HINTS[name]


def withheld() -> bool:
    """Say whether this class shall not see solutions."""
    lecturer = os.environ.get(LECTURER, "").strip() == "1"
    return os.environ.get(SOLUTIONS, "").strip().lower() == "off" and not lecturer


def reset_hints() -> None:
    """Begin all ladders anew."""
    _STEPS.clear()


def _unknown(name: object) -> ShapeError:
    """Say that there is no such exercise, and which one may be meant: a near name, or that of a function."""
    meant = name.__name__ if isinstance(name, FunctionType | type) else name
    near = get_close_matches(meant, HINTS, n=1) if isinstance(meant, str) else []
    return ShapeError(
        "hint",
        "no exercise has this name",
        expected=", ".join(HINTS),
        got=f"{str(name)!r:.60}" if isinstance(name, str) else type(name).__name__,
        fix=f'hint("{near[0]}")' if near else None,
    )


def _show(rung: str, number: int) -> str:
    """Write a rung as HTML: three are prose, the last is code."""
    if number < 4:
        return _prose(rung)
    return f'<pre style="margin:0;white-space:pre-wrap"><code>{html.escape(rung)}</code></pre>'


def _prose(text: str) -> str:
    """Escape a text, and set as code what stands between backticks."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(text))
