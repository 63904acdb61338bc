"""The base of players in the browser: a position, with a shared bar and keys."""

from __future__ import annotations

from typing import Any

import traitlets

from mha_course.errors import ShapeError
from mha_course.tracing import Trace
from mha_course.widgets.base import CourseWidget


def require_trace(place: str, value: object) -> None:
    """Raise ShapeError unless this is a trace."""
    if not isinstance(value, Trace):
        got = type(value).__name__
        raise ShapeError(place, "it draws a trace", expected="what trace(fn, …) returns", got=got)


class Player(CourseWidget):
    """A picture in steps. ``position``, from 0, follows the learner and may be set.

    A subclass gives ``options``; ``last`` in them is the position of the last step.
    """

    position = traitlets.Int(0).tag(sync=True)

    @traitlets.validate("position")
    def _within(self, proposal: dict[str, Any]) -> int:
        return int(max(0, min(proposal["value"], self.options["last"])))
