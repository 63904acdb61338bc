"""The lab of lesson 5: the context among the values, and the hull that it stays in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mha_course import plots
from mha_course.widgets.base import esm
from mha_course.widgets.controls import Control
from mha_course.widgets.labs.inputs import dragged_numbers
from mha_course.widgets.labs.lab import Lab
from mha_course.widgets.labs.panels import Panels, arrow, arrows, bars, plain

HERE = Path(__file__).parent
# The corners of their hull, counter-clockwise.
VALUES = torch.tensor(
    [[2.0, 0.5], [0.6, 2.1], [-1.7, 1.3], [-1.2, -1.5], [1.3, -1.4]], dtype=torch.float64
)  # (S, 2)
TOKENS = ("cat", "hungry", "ate", "chased", "dogs")
FIRST = 0.4  # the weight of the first token at the start
FREE = (-1.0, 1.5)  # weights that need not sum to 1
OUTSIDE = "#e0453a"


class WeightedSumLab(Lab):
    """Drag weights, and see the context move among the values."""

    _esm = esm("lab.js", folder=HERE)
    _css = f"{Lab._css}\n{(HERE / 'lab.css').read_text(encoding='utf-8')}"
    question = "Where can the context go if the weights sum to 1?"
    hint = "Drag a bar, or go to it with Tab and press ← and →. The other weights make room."

    def __init__(self) -> None:
        rest = (1 - FIRST) / (len(VALUES) - 1)
        start = [FIRST, *[rest] * (len(VALUES) - 1)]
        free = Control("free", "let weights be negative, or not sum to 1", "toggle", False)
        super().__init__([free, Control("weights", "", "painted", start, check=_checked)])

    def reconcile(self, values: dict[str, Any], moved: Mapping[str, Any]) -> dict[str, Any]:
        """Keep the weights within their bounds, and let the others make room for one that is
        dragged.
        """
        weights = values["weights"]
        if not values["free"]:
            return {**values, "weights": shared(weights, self.values["weights"])}
        low, high = FREE
        return {**values, "weights": [max(low, min(high, x)) for x in weights]}

    def without_kernel(self) -> dict[str, Any]:
        """Return nothing: compute.js computes all states."""
        return {}

    def draw(self, free: bool, weights: list[float]) -> tuple[Panels, str]:
        """Draw the bars that can be dragged, and the plane."""
        shares = torch.tensor(weights, dtype=torch.float64)
        context = shares @ VALUES  # (2,)
        low, high = FREE if free else (0.0, 1.0)
        bar = bars(
            f"weights, sum {sum(weights):.2f}", TOKENS, weights, low=low, high=high, drag="weights"
        )
        holds = inside(context, VALUES)
        color = plots.ACCENT if holds else OUTSIDE
        drawn = [
            arrow(word, value, plots.BAR, thick=1 + 4 * min(1.0, abs(share)))
            for word, value, share in zip(TOKENS, VALUES, weights, strict=True)
        ]
        steps = (shares[:, None] * VALUES).cumsum(
            0
        )  # (S, 2): each value times its weight, head to tail
        picture = arrows(
            "values, and the context they make",
            [*drawn, arrow("context", context, color, thick=3)],
            reach=1.15 * float(VALUES.abs().max()),
            hull=len(VALUES),
            dots=[{"name": "context", "at": plain(context), "color": color, "tie": None}],
            paths=[[(0.0, 0.0), *steps.tolist()]],
            colors=[plots.ACCENT, OUTSIDE],
            note="Dashed: each value times its weight, head to tail. Shaded: the hull.",
        )
        away = (VALUES - context).norm(dim=-1)
        near = int(away.argmin())
        listed = ", ".join(
            f"{word} {share:.2f}" for word, share in zip(TOKENS, weights, strict=True)
        )
        return (bar, picture), (
            f"Weights {listed}: the context is ({context[0]:.2f}, {context[1]:.2f}), "
            f"{'inside' if holds else 'outside'} the hull of the values. The nearest value is "
            f"that of “{TOKENS[near]}”, {away[near]:.2f} away."
        )


def _checked(sent: Any) -> list[float]:
    return dragged_numbers("WeightedSumLab", sent, (len(TOKENS),), "a number")


def shared(weights: Sequence[float], before: Sequence[float]) -> list[float]:
    """Return weights from 0 to 1 that sum to 1: the one that moved keeps its size, the others make
    room.

    >>> shared([0.5, 0.25, 0.5], before=[0.25, 0.25, 0.5])
    [0.5, 0.16666666666666666, 0.3333333333333333]
    """
    kept = [min(1.0, max(0.0, x)) for x in weights]
    moved = [i for i, (now, then) in enumerate(zip(weights, before, strict=True)) if now != then]
    fixed = moved if len(moved) == 1 else []
    others = [i for i in range(len(kept)) if i not in fixed]
    total = sum(kept[i] for i in others)
    room = 1 - sum(kept[i] for i in fixed)
    for i in others:
        kept[i] = kept[i] * room / total if total > 0 else room / len(others)
    return kept


def inside(point: Tensor, corners: Tensor) -> bool:
    """Return whether a point lies in the hull of its corners (S, 2), counter-clockwise, or on its
    edge.

    >>> square = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> inside(torch.tensor([0.5, 1.0]), square), inside(torch.tensor([0.5, 1.1]), square)
    (True, False)
    """
    edges = corners.roll(-1, 0) - corners  # (S, 2) each
    offsets = point - corners  # (S, 2) each
    cross_products = (
        edges[:, 0] * offsets[:, 1] - edges[:, 1] * offsets[:, 0]
    )  # (S,): positive where the point lies to the left
    return bool((cross_products >= -1e-9).all())
