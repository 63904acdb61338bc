"""The lab of lesson 3: what the scores are divided by."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor

from mha_course.experiments import scaling
from mha_course.experiments.scaling import KEYS, Saturation
from mha_course.widgets.controls import ChoiceControl
from mha_course.widgets.labs.lab import Lab, LearnerFunction
from mha_course.widgets.labs.panels import Panels, bars, lines, table

WIDTHS = (8, 16, 32, 64, 128, 256, 512, 1024)
DIVISORS = ("√D", "nothing", "D", "√C")
YOURS = "yours"
HEADS = 8  # H, for d_model = H · D
SHOWN = 12  # shares of one row that are drawn
GRADIENTS = "gradient at the softmax's input", "gradient at q"
# What can be followed along D: its name, and the lines that it has with what each is of a measurement.
CURVES: dict[str, Callable[[Saturation], dict[str, float]]] = {
    "largest share": lambda found: {"largest share, mean": found.top},
    "spread of the scores": lambda found: {"spread": found.spread},
    "decided rows": lambda found: {"rows with a share above .99": found.saturated},
    GRADIENTS[0]: lambda found: _lengths(found.at_scores),
    GRADIENTS[1]: lambda found: _lengths(found.at_q),
}


def _lengths(gradient: Tensor) -> dict[str, float]:
    return {"median": float(gradient.median()), "mean": float(gradient.mean())}


class ScalingLab(Lab):
    """Divide scores of unit-normal q and k by different numbers, at different widths.

    Args:
        scores: your ``scaled_scores(q, k)``, one more thing to divide by: ``yours``.
    The set-up is that of ``experiments``: 400 queries, each with 64 keys of its own; values of width 16;
    d_model = 8 · D.
    """

    question = "Which divisor makes a row look alike at every width D?"

    def __init__(self, *, scores: Any = None) -> None:
        self._scores = LearnerFunction("ScalingLab", "scaled_scores", scores, _scaled_scores)
        self._found: dict[str, list[Saturation]] = {}
        options = DIVISORS if scores is None else (*DIVISORS, YOURS)
        super().__init__(
            [
                ChoiceControl("head_dim", "D", "slider", WIDTHS, 64),
                ChoiceControl("divide_by", "divide by", "choice", options, "nothing" if scores is None else YOURS),
                ChoiceControl("follow", "follow along D", "menu", tuple(CURVES), next(iter(CURVES))),
            ]
        )

    def draw(self, head_dim: int, divide_by: str, follow: str) -> tuple[Panels, str]:
        """Draw one row's weights, the measurements, and one of them along D."""
        at, along = WIDTHS.index(head_dim), self._measured(divide_by)
        found = along[at]
        row = found.weights[0, :SHOWN]
        names = [f"{n + 1}." for n in range(SHOWN)]
        panels = (
            bars(f"one query: its {SHOWN} largest of {KEYS} shares", names, row, lit=[0]),
            self._table(found, follow),
            self._curve(follow, divide_by, at),
        )
        said = self._scores.caption if divide_by == YOURS else ""
        by = "scaled by your scaled_scores" if divide_by == YOURS else f"divided by {divide_by}"
        gradient = ""
        if follow in GRADIENTS:
            median, mean = CURVES[follow](found).values()
            gradient = f" The {follow}: median {median:.3f}, mean {mean:.3f}."
        return panels, (
            f"D = {head_dim}, {by}: the scores spread by {found.spread:.2f}, the largest of {KEYS} shares is "
            f"{found.top:.2f} on average, and {found.saturated:.0%} of the rows give one key more than .99.{gradient} "
            f"Over 400 queries.{said}"
        )

    def _measured(self, divide_by: str) -> list[Saturation]:
        """Return what was measured at each width. It is measured once: every later move only looks it up."""
        if divide_by not in self._found:
            drawn = [scaling.draw(width) for width in WIDTHS]
            if divide_by == YOURS:
                self._found[YOURS] = [scaling.measure(each, self._yours)[0] for each in drawn]
            else:
                divisors = [list(scaling.divisors(width, HEADS).values()) for width in WIDTHS]
                every = [scaling.by_divisors(each, among) for each, among in zip(drawn, divisors, strict=True)]
                self._found |= {name: [found[i] for found in every] for i, name in enumerate(DIVISORS)}
        return self._found[divide_by]

    def _yours(self, q: Tensor, k: Tensor) -> Tensor:
        return self._scores(q, k, shape=(len(q), 1, 1, KEYS))

    def _table(self, found: Saturation, follow: str) -> dict[str, Any]:
        rows = [
            ["spread of the scores", f"{found.spread:.2f}"],
            ["largest share, mean", f"{found.top:.2f}"],
            ["rows with a share above .99", f"{found.saturated:.0%}"],
        ]
        head, note = ["", ""], "Unit-normal q and k."
        if follow in GRADIENTS:
            head = ["", "median", "mean"]
            rows.append([follow, *(f"{length:.3f}" for length in CURVES[follow](found).values())])
            note = "Unit-normal q and k, values of width 16, a unit-normal gradient at the context."
        return table("over 400 queries", head, rows, note)

    def _curve(self, follow: str, divide_by: str, at: int) -> dict[str, Any]:
        """Follow one measurement along D, and that of √D faintly beside it."""
        measured = [CURVES[follow](found) for found in self._measured(divide_by)]
        names, drawn = list(measured[0]), []
        if divide_by != "√D":
            roots = [CURVES[follow](found)[names[0]] for found in self._measured("√D")]
            drawn.append({"name": f"{names[0]}, ÷ √D", "style": "faint", "values": roots})
        for name, style in zip(names, ("main", "dashed"), strict=False):
            drawn.append({"name": name, "style": style, "values": [each[name] for each in measured]})
        by = YOURS if divide_by == YOURS else f"÷ {divide_by}"
        return lines(f"{follow}, {by}", WIDTHS, drawn, at=at, xlabel="D")


def _scaled_scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT / math.sqrt(q.size(-1))
