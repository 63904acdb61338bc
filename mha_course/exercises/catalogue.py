"""All lessons of the course in their order, and by name what is asked in them."""

from __future__ import annotations

import importlib
import pkgutil
from difflib import get_close_matches
from pathlib import Path
from types import FunctionType
from typing import Any

from mha_course.errors import ShapeError
from mha_course.exercises.attention_mistakes import STEP_MISTAKES
from mha_course.exercises.spec import Exercise, Lesson, Mistake
from mha_course.questions import page_questions

# The one arrow that goes up: l00_start_here, l01_projection, … are above this room, and are loaded
# by name.
_FOUND = pkgutil.iter_modules([str(Path(__file__).parents[1] / "lessons")])
_FOLDERS = sorted(module.name for module in _FOUND if module.ispkg)
_MODULES = [
    importlib.import_module(f"mha_course.lessons.{folder}.exercises") for folder in _FOLDERS
]
LESSONS: tuple[Lesson, ...] = tuple(module.LESSON for module in _MODULES)
EXERCISES: dict[str, Exercise] = {
    exercise.name: exercise for lesson in LESSONS for exercise in lesson.exercises
}
LESSON_OF = {each.name: lesson for lesson in LESSONS for each in lesson.exercises}
NAMES = tuple(EXERCISES)
HINTS = {name: exercise.hints for name, exercise in EXERCISES.items()}
QUESTIONS = page_questions()
MISTAKES: tuple[Mistake, ...] = (
    *STEP_MISTAKES,
    *(known for module in _MODULES for known in getattr(module, "MISTAKES", ())),
)


def find_exercise(name: Any, place: str = "check") -> Exercise:
    """Return the exercise of a name.

    Raises: ShapeError, in the name of place, for a name that is not one.
    """
    if isinstance(name, str) and name in EXERCISES:
        return EXERCISES[name]
    meant = name.__name__ if isinstance(name, FunctionType | type) else name
    near = get_close_matches(meant, NAMES, n=1) if isinstance(meant, str) else []
    answer = ", answer" if place == "check" else ""
    raise ShapeError(
        place,
        "no exercise has this name",
        expected=", ".join(NAMES),
        got=f"{name!r:.60}" if isinstance(name, str) else type(name).__name__,
        fix=f'{place}("{near[0]}"{answer})' if near else None,
    )
