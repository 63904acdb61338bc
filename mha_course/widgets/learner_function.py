"""Call the learner's own function behind a widget, and show its errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from mha_course.errors import SentenceError, ShapeError, require
from mha_course.markup import cut, visible
from mha_course.plots.figures import SITE

INTERRUPTED = "your function was interrupted; move a control to call it again"
COURSES = "These numbers are the course's."
YOURS = "These numbers are your function's."
MOST = 300  # letters of an error


class LearnerFunctionError(Exception):
    """An error in a learner's function; the text names the function."""


def error_line(error: Exception) -> str:
    """Say in one line what went wrong; the course's errors appear without their class."""
    words = " ".join(str(error).split())
    if isinstance(error, SentenceError):
        words = f"{error.rule}; near ones: {error.fix}" if error.fix else error.rule
    elif not isinstance(error, ShapeError | LearnerFunctionError):
        words = f"{type(error).__name__}: {words}"
    return visible(cut(words, MOST))


class LearnerFunction:
    """A function that the learner wrote; labs fall back on the course's.

    ``caption`` ends a lab's sentence: it says whose function computed the numbers.
    """

    def __init__(
        self, place: str, name: str, function: Any, reference: Callable[..., Tensor] | None = None
    ) -> None:
        rule = f"{name} must be a function"
        got = type(function).__name__
        require(function is None or callable(function), place, rule, expected="a callable", got=got)
        if SITE in os.environ and reference:  # a reader of the site has written nothing
            function = None
        self.place = place
        self.name = name
        self.function = function
        self.reference = reference
        self.caption = "" if function is None else f" Computed by your {name}."

    def call(self, *args: Any, **values: Any) -> Any:
        """Return the function's result; raise LearnerFunctionError if it raises."""
        try:
            return self.function(*args, **values)
        except SentenceError:  # about the typed words, not the function
            raise
        except Exception as error:
            raise LearnerFunctionError(f"your {self.name}: {error_line(error)}") from error

    def result_to(self, keep: Callable[[Any], None], expected: str, **values: Any) -> None:
        """Call the function, and pass its result to ``keep``, or raise LearnerFunctionError."""
        result = self.call(**values)
        if result is None:
            rule = f"your {self.name} returns nothing yet (None): expected {expected}"
            raise LearnerFunctionError(rule)
        try:
            keep(result)
        except Exception as error:
            reason = error_line(error).removeprefix(f"{self.place}: ")
            rule = f"your {self.name} returned something else: {reason}"
            raise LearnerFunctionError(rule) from error

    def tensor(self, *tensors: Tensor, shape: Sequence[int]) -> Tensor:
        """Return a tensor of this shape, from the course's function if nothing is written yet."""
        assert self.reference is not None
        if self.function is None:
            return self.reference(*tensors)
        result = self.call(*tensors)
        if result is None:
            self.caption = f" Your {self.name} returns nothing yet, so the course's was used."
            return self.reference(*tensors)
        self.caption = f" Computed by your {self.name}."
        if not isinstance(result, Tensor) or tuple(result.shape) != tuple(shape):
            got = tuple(result.shape) if isinstance(result, Tensor) else type(result).__name__
            rule = "the result must be a tensor of the right shape"
            raise ShapeError(f"your {self.name}", rule, expected=str(tuple(shape)), got=str(got))
        return result
