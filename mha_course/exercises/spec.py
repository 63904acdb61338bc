"""What a mistake is: the right answer with a step replaced, and what to say about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mha_course.exercises.attention_steps import COMPOSED, Steps

Change = Callable[..., Any]


@dataclass(frozen=True)
class Mistake:
    """One mistake.

    Args: name is its id; says tells what was found in the numbers, why matters, mend what to do; lesson is the
        section to go back to; changes are the steps that are replaced: one alone, or several that belong together.
        A step may be changed in several ways. only and but restrict it to exercises, or except some. same_as names
        those which may come out alike.
    """

    name: str
    says: str
    why: str
    lesson: str
    changes: tuple[dict[str, Change], ...]
    only: tuple[str, ...] = ()
    but: tuple[str, ...] = ()
    same_as: tuple[str, ...] = ()  # those which may come out alike, as two products that crash on the same sizes

    def applies(self, exercise: str) -> list[dict[str, Change]]:
        """Return the ways in which this mistake can be made in an exercise."""
        if exercise in self.but or exercise not in (self.only or COMPOSED):
            return []
        steps = set(COMPOSED[exercise][0])
        return [change for change in self.changes if set(change) <= steps]


def implementation(exercise: str, *changes: dict[str, Change]) -> Change:
    """Return the right answer with these steps replaced."""
    together = {name: step for change in changes for name, step in change.items()}
    return COMPOSED[exercise][1](Steps(**together))


@dataclass
class Book:
    """Collects the entries in the order in which they are written."""

    entries: list[Mistake] = field(default_factory=list)

    def __call__(self, name: str, says: str, why: str, lesson: str, *changes: dict[str, Change], **rest: Any) -> None:
        """Write an entry."""
        self.entries.append(Mistake(name, says, why, lesson, changes, **rest))
