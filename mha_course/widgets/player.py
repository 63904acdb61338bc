"""What is stepped through in the browser: a position, and the bar, the keys and the looks that all
players share.
"""

from __future__ import annotations

from typing import Any

import traitlets

from mha_course.widgets.base import StaticFallbackWidget


class Player(StaticFallbackWidget):
    """A picture in steps. ``position``, the step that is shown, from 0, follows the learner and may
    be set.

    A subclass gives ``data``, from which the browser draws; ``last`` in it is the position of the
    last step.
    """

    data = traitlets.Dict().tag(sync=True)
    position = traitlets.Int(0).tag(sync=True)

    @traitlets.validate("position")
    def _within(self, proposal: dict[str, Any]) -> int:
        """Keep to the steps that there are."""
        return int(max(0, min(proposal["value"], self.data["last"])))
