"""The lab of lesson 19: every probe on every case of the lesson's sheet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mha_course.lessons.l19_bug_hunt.hunt import sheet
from mha_course.lessons.l19_bug_hunt.probes import CALLS, READINGS
from mha_course.models import seeded
from mha_course.widgets.controls import Control
from mha_course.widgets.labs.lab import Lab
from mha_course.widgets.labs.panels import Panels, table


class ProbeLab(Lab):
    """Choose a case and a probe, and read what the probe returns."""

    question = "What does a probe say about a case?"
    hint = "Two mistakes can give the same number. Look for a probe that separates them."

    def __init__(self) -> None:
        self._cases = {case.number: case for case in sheet()}
        calls = tuple(CALLS)
        super().__init__([
            # A menu, since a slider would probe every case it passes.
            Control("case", "case", "menu", 1, tuple(self._cases)),
            Control("call", "call", "menu", "leaks(module)", calls),
        ])  # fmt: skip

    def draw(self, case: int, call: str) -> tuple[Panels, str]:
        """Call the probe on the case."""
        with seeded(0):
            reading = CALLS[call](self._cases[case].uncounted())
        rows = [("a right module", reading.expected), (f"case {case}", reading.written)]
        verdict = (
            "No right module gives this number."
            if reading.finds
            else "A right module also gives this number: this probe finds nothing here."
        )
        panel = table(reading.label, ("", call), rows)
        return (panel,), f"For case {case}, {call} returns {reading.written}. {verdict}"

    def _receive(self, event: Mapping[str, Any]) -> None:
        super()._receive(event)
        if event["moved"]:  # not the initial one
            READINGS[0, self.values["case"]] += 1
