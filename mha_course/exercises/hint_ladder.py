"""A ladder of hints for each exercise, one more at each call."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from html import escape

from mha_course.colours import HINT
from mha_course.exercises.catalogue import EXERCISES, find_exercise
from mha_course.markup import box, heading, prose
from mha_course.sources import with_imports

# environment variables
LECTURER = "MHA_COURSE_LECTURER"
SOLUTIONS = "MHA_COURSE_SOLUTIONS"
_calls: Counter[str] = Counter()  # of hint for each exercise in this session


@dataclass(frozen=True)
class Hint:
    """The hints for an exercise so far, the newest last; displays itself in a notebook."""

    name: str
    levels: tuple[str, ...]

    @property
    def title(self) -> str:
        """How far up the ladder the learner is."""
        return f"Hint {len(self.levels)} of {len(ladder(self.name))}"

    @property
    def more(self) -> str:
        """How to get the next one."""
        if not self.is_last:
            return f'`hint("{self.name}")` again shows the next one.'
        if withheld():
            return "This was the last hint: solutions are off in this class."
        return f'This was the last hint. `print(solution("{self.name}"))` shows the reference.'

    def __repr__(self) -> str:
        lines = []
        for number, level in enumerate(self.levels, start=1):
            first, *rest = level.replace("`", "").split("\n")
            lines += [f"{number}. {first}", *(f"   {line}" for line in rest)]
        return "\n".join([f"{self.title} ({self.name})", *lines, self.more.replace("`", "")])

    @property
    def is_last(self) -> bool:
        """Whether this is the last hint."""
        return len(self.levels) == len(ladder(self.name))

    def steps(self) -> str:
        """Write the hints as a list, in HTML."""
        # The first three are prose, the last is code.
        items = [prose(level) for level in self.levels[:3]]
        pre = '<pre style="margin:0;white-space:pre-wrap">'
        items += [f"{pre}<code>{escape(line)}</code></pre>" for line in self.levels[3:]]
        return '<ol style="margin:4px 0">' + "".join(f"<li>{item}</li>" for item in items) + "</ol>"

    def _repr_html_(self) -> str:
        return box(HINT, heading(self.title, self.name) + self.steps() + prose(self.more))


def hint(name: str) -> Hint:
    """Show the next hint: a question, a pointer, the shape of the line, and the line itself.

    Args: name is an exercise's; each has its own count in this session, and the last hint repeats.
        The line itself is left out if solutions are off (see ``solution``).
    Raises: ShapeError for a name that is not an exercise.
    """
    find_exercise(name, "hint")
    _calls[name] += 1
    return Hint(name, ladder(name)[: _calls[name]])


def ladder(name: str) -> tuple[str, ...]:
    """Return the hints for an exercise; the last one is code, withheld if solutions are."""
    hints = EXERCISES[name].hints
    return hints[:-1] if withheld() else hints


def solution(name: str) -> str:
    """Return the reference's source, and the imports it needs.

    With ``MHA_COURSE_SOLUTIONS=off`` in the environment, for example in a class, it is a comment
    that points to ``hint`` instead; ``MHA_COURSE_LECTURER=1`` overrides this and shows the source.
    Raises: ShapeError for a name that is not an exercise.
    """
    if withheld():
        find_exercise(name, "solution")  # an unknown name is still an error
        off = f"# Solutions are off in this class ({SOLUTIONS}=off)."
        return f'{off} hint("{name}") still helps.\n'
    return with_imports(find_exercise(name, "solution").reference)


def withheld() -> bool:
    """Return True if solutions are off, unless this is the lecturer."""
    lecturer = os.environ.get(LECTURER, "").strip() == "1"
    return os.environ.get(SOLUTIONS, "").strip().lower() == "off" and not lecturer
