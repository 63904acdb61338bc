"""What is stepped through in the browser: a position, and a bar and keys that all players share."""

from __future__ import annotations

from typing import Any

import traitlets

from mha_course.widgets.base import CourseWidget


class Player(CourseWidget):
    """A picture in steps. ``position``, from 0, follows the learner and may be set.

    A subclass gives ``options``; ``last`` in them is the position of the last step.
    """

    position = traitlets.Int(0).tag(sync=True)

    @traitlets.validate("position")
    def _within(self, proposal: dict[str, Any]) -> int:
        return int(max(0, min(proposal["value"], self.options["last"])))
