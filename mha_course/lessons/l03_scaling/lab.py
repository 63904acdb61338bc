"""The lab of lesson 3: what the scores are divided by."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from mha_course.lessons.l03_scaling import scaling
from mha_course.lessons.l03_scaling.exercises import scaled_scores
from mha_course.lessons.l03_scaling.scaling import KEYS, Saturation
from mha_course.widgets.controls import Control
from mha_course.widgets.labs.lab import Lab
from mha_course.widgets.labs.panels import Panels, bars, lines, table
from mha_course.widgets.learner_function import LearnerFunction

WIDTHS = (8, 16, 32, 64, 128, 256, 512, 1024)
DIVISORS = ("√D", "nothing", "D", "√C")
YOURS = "yours"
HEADS = 8  # H, for d_model = H · D
SHOWN = 12  # weights of one row to draw
SHARE = "largest share, mean"


class ScalingLab(Lab):
    """Divide scores of unit-normal q and k by different numbers, at different widths.

    Args:
        scores: your ``scaled_scores(q, k)``, which adds ``yours`` to the divisors.
    There are 400 queries, each with its own 64 keys, and d_model = 8 · D.
    """

    question = "Which divisor makes a row look the same at every width D?"

    def __init__(self, *, scores: Any = None) -> None:
        self._scores = LearnerFunction("ScalingLab", "scaled_scores", scores, scaled_scores)
        self._saturations: dict[str, list[Saturation]] = {}
        written = self._scores.function is not None
        options = (*DIVISORS, YOURS) if written else DIVISORS
        super().__init__(
            [
                Control("head_dim", "D", "slider", 64, WIDTHS),
                Control(
                    "divide_by", "divide by", "choice", YOURS if written else "nothing", options
                ),
            ]
        )

    def draw(self, head_dim: int, divide_by: str) -> tuple[Panels, str]:
        """Draw one row's weights, the measurements, and the largest weight against D."""
        at = WIDTHS.index(head_dim)
        along = self._measured(divide_by)
        measured = along[at]
        row = measured.weights[0, :SHOWN]
        names = [f"{n + 1}." for n in range(SHOWN)]
        rows = [
            ["spread of the scores", f"{measured.spread:.2f}"],
            [SHARE, f"{measured.top:.2f}"],
            ["rows with a share above 0.99", f"{measured.saturated:.0%}"],
        ]
        baseline = "nothing" if divide_by == "√D" else "√D"  # to compare with
        compared = [result.top for result in self._measured(baseline)]
        drawn = [
            {"name": f"{SHARE}, ÷ {baseline}", "style": "faint", "values": compared},
            {"name": SHARE, "style": "main", "values": [result.top for result in along]},
        ]
        title = f"largest share, {YOURS if divide_by == YOURS else f'÷ {divide_by}'}"
        panels = (
            bars(f"one query: its {SHOWN} largest of {KEYS} shares", names, row, highlighted=[0]),
            table("over 400 queries", ["", ""], rows, "Unit-normal q and k."),
            lines(title, WIDTHS, drawn, at=at, xlabel="D", low=0, high=1),
        )
        computed_by = self._scores.caption if divide_by == YOURS else ""
        by = YOURS if divide_by == YOURS else f"divided by {divide_by}"
        return panels, (
            f"D = {head_dim}, {by}: the scores have spread {measured.spread:.2f}, the largest of "
            f"{KEYS} shares is {measured.top:.2f} on average, and {measured.saturated:.0%} "
            f"of the rows give one key more than 0.99. Over 400 queries.{computed_by}"
        )

    def _measured(self, divide_by: str) -> list[Saturation]:
        """Return the measurements at each width, computed once and cached."""
        if divide_by not in self._saturations:
            names = (YOURS,) if divide_by == YOURS else DIVISORS
            measured: dict[str, list[Saturation]] = {name: [] for name in names}
            for width in WIDTHS:
                drawn = scaling.draw(width)  # takes most of the time
                if divide_by == YOURS:
                    results = [scaling.measure(drawn, self._yours)]
                else:
                    results = scaling.by_divisors(drawn, scaling.divisors(width, HEADS).values())
                for name, result in zip(names, results, strict=True):
                    measured[name].append(result)
            self._saturations |= measured
        return self._saturations[divide_by]

    def _yours(self, q: Tensor, k: Tensor) -> Tensor:
        return self._scores.tensor(q, k, shape=(len(q), 1, 1, KEYS))
