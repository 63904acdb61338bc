"""The lab of lesson 5: the context among the values, and the hull that it stays in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mha_course.errors import require, require_float, require_shape
from mha_course.widgets.controls import ChoiceControl, PaintedControl, ToggleControl
from mha_course.widgets.labs.lab import Lab
from mha_course.widgets.labs.panels import Panels, bars, plain, plane

VALUES = ((2.0, 0.5), (0.6, 2.1), (-1.7, 1.3), (-1.2, -1.5), (1.3, -1.4))
WORDS = ("cat", "hungry", "ate", "chased", "dogs")
STEEPEST = 4.0  # the largest score that can be dragged
FREE = (-1.0, 1.5)  # weights that need not sum to 1
SHARES, SCORES = "the weights", "the scores"


class WeightedSumLab(Lab):
    """Drag weights, and see the context move among the values.

    Args: v, 3 to 6 values in the plane, (S, 2); tokens, their words.
    """

    question = "Where can the context go, if all you have are weights that sum to 1?"
    hint = "Drag a bar, or go to it with Tab and press ← and →. The other weights make room."

    def __init__(self, v: Any = None, tokens: Sequence[str] | None = None) -> None:
        self._v = torch.tensor(VALUES, dtype=torch.float64) if v is None else v
        require_float("WeightedSumLab", {"v": self._v})
        require_shape("WeightedSumLab", "v", self._v, {"S": None, "2": 2})
        count = len(self._v)
        names = (WORDS if v is None else [f"v{n}" for n in range(count)]) if tokens is None else tokens
        self._tokens = [str(name) for name in names]
        rule, got = "every value needs its token", f"{count} values, {len(self._tokens)} tokens"
        alike = 3 <= count <= 6 and len(self._tokens) == count
        require(alike, "WeightedSumLab", rule, expected="3 to 6 of both", got=got)
        finite = bool(self._v.isfinite().all())
        require(finite, "WeightedSumLab", "v must be finite", expected="finite numbers", got="inf or NaN")
        self._v = self._v.detach().cpu().double()
        start = [0.4, *[0.6 / (count - 1)] * (count - 1)]
        super().__init__(
            [
                ChoiceControl("drag", "drag", "choice", (SHARES, SCORES), SHARES),
                ToggleControl("free", "let weights be negative, or not sum to 1"),
                PaintedControl("weights", start, self._checked),
                PaintedControl("scores", [math.log(share / start[0]) for share in start], self._checked),
            ]
        )

    def _checked(self, sent: Any) -> list[float | None]:
        """Return a finite number for every token; None, for what stays as it is, comes from a bar that is dragged."""
        count = len(self._tokens)
        numbers = sent.tolist() if isinstance(sent, Tensor) else sent
        whole = isinstance(numbers, list | tuple) and len(numbers) == count
        finite = whole and all(x is None or (isinstance(x, int | float) and math.isfinite(x)) for x in numbers)
        rule, expected = "every token needs a number", f"{count} finite numbers"
        require(finite, "WeightedSumLab", rule, expected=expected, got=repr(numbers))
        return [None if x is None else float(x) for x in numbers]

    def reconcile(self, values: dict[str, Any], moved: Mapping[str, Any]) -> dict[str, Any]:
        """Keep weights, scores and the two switches in step: only weights that are dragged can be free."""
        if moved.get("free") or "weights" in moved:
            values = {**values, "drag": SHARES}
        elif moved.get("drag") == SCORES or "scores" in moved:
            values = {**values, "drag": SCORES, "free": False}
        (low, high), weights = FREE, _kept(values["weights"], self.values["weights"])
        scores = [max(-STEEPEST, min(STEEPEST, x)) for x in _kept(values["scores"], self.values["scores"])]
        if values["drag"] == SCORES and "drag" not in moved:
            weights = torch.tensor(scores, dtype=torch.float64).softmax(-1).tolist()
        elif values["free"]:
            weights = [max(low, min(high, x)) for x in weights]
        else:
            weights = shared(weights, self.values["weights"])
        if values["drag"] == SHARES or "drag" in moved:
            top = max(weights)
            scores = [max(-STEEPEST, math.log(x / top)) if x > 0 else -STEEPEST for x in weights]
        return {**values, "weights": weights, "scores": scores}

    def draw(self, drag: str, free: bool, weights: list[float], scores: list[float]) -> tuple[Panels, str]:
        """Draw the bars that can be dragged, and the plane."""
        shares = torch.tensor(weights, dtype=torch.float64)
        context = shares @ self._v  # (2,)
        low, high = FREE if free else (0.0, 1.0)
        total = f"sum {sum(weights):.2f}"
        if drag == SCORES:
            left = [
                bars("scores", self._tokens, scores, low=-STEEPEST, high=STEEPEST, drag="scores"),
                bars(f"weights that softmax makes, {total}", self._tokens, weights),
            ]
        else:
            left = [bars(f"weights, {total}", self._tokens, weights, low=low, high=high, drag="weights")]
        holds = inside(context, self._v)
        reach = 1.15 * float(self._v.abs().max()) or 1.0
        picture = plane("values, and the context they make", self._tokens, self._v, context, hull(self._v),
                        reach=plain(reach), inside=holds, weights=plain(shares),
                        note="Dashed: each value times its weight, head to tail. Shaded: the hull.")  # fmt: skip
        away = (self._v - context).norm(dim=-1)
        near = int(away.argmin())
        told = ", ".join(f"{word} {share:.2f}" for word, share in zip(self._tokens, weights, strict=True))
        return (*left, picture), (
            f"Weights {told}: the context is ({context[0]:.2f}, {context[1]:.2f}), {'inside' if holds else 'outside'} "
            f"the hull of the values. The nearest value is that of “{self._tokens[near]}”, {away[near]:.2f} away."
        )


def _kept(numbers: Sequence[float | None], before: Sequence[float]) -> list[float]:
    return [then if now is None else now for now, then in zip(numbers, before, strict=True)]


def shared(weights: Sequence[float], before: Sequence[float]) -> list[float]:
    """Return weights from 0 to 1 that sum to 1: the one that moved keeps its size, the others make room.

    >>> shared([0.5, 0.25, 0.5], before=[0.25, 0.25, 0.5])
    [0.5, 0.16666666666666666, 0.3333333333333333]
    """
    kept = [min(1.0, max(0.0, x)) for x in weights]
    moved = [i for i, (now, then) in enumerate(zip(weights, before, strict=True)) if now != then]
    if len(moved) == 1:
        one = moved[0]
        rest, room = sum(kept) - kept[one], 1 - kept[one]
        even = room / (len(kept) - 1)
        return [kept[i] if i == one else kept[i] * room / rest if rest > 0 else even for i in range(len(kept))]
    total = sum(kept)
    return [x / total if total > 0 else 1 / len(kept) for x in kept]


def inside(point: Tensor, points: Tensor) -> bool:
    """Return whether a point lies in the hull of points (S, 2) or on its edge, but for rounding.

    It does if in no direction it lies beyond all of them. The edges of a hull run along the way from one of its points
    to another, so it is enough to look across these ways; the other directions are for points in a line.

    >>> square = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> inside(torch.tensor([0.5, 1.0]), square), inside(torch.tensor([0.5, 1.1]), square)
    (True, False)
    """
    along = (points[:, None] - points).flatten(0, 1)  # (S * S, 2)
    across = torch.stack([-along[:, 1], along[:, 0]], dim=-1)  # (S * S, 2)
    axes = torch.eye(2, dtype=points.dtype)
    directions = torch.cat([along, across, axes, -axes])  # (N, 2)
    slack = 1e-9 * (1 + float(points.abs().max()) ** 2)
    return bool((directions @ point <= (directions @ points.mT).amax(-1) + slack).all())


def hull(points: Tensor) -> Tensor:
    """Return the corners of the hull of points (S, 2), counter-clockwise; of points in a line its two ends.

    >>> hull(torch.tensor([[0.0, 0.0], [2.0, 0.0], [1.0, 0.5], [0.0, 2.0]])).tolist()
    [[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]
    """
    corners = points.unique(dim=0)
    for point in corners:
        others = corners[(corners != point).any(-1)]
        if len(others) and inside(point, others):
            corners = others
    x, y = (corners - corners.mean(0)).unbind(-1)
    return corners[torch.atan2(y, x).argsort()]
