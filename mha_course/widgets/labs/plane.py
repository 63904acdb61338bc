"""The lab of lessons 0 and 1: three arrows in a plane, their scores and contexts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from mha_course.widgets.base import esm
from mha_course.widgets.controls import Control
from mha_course.widgets.labs.inputs import dragged_numbers
from mha_course.widgets.labs.lab import HERE, Lab
from mha_course.widgets.labs.panels import HEAD_FILLS, Panel, Panels, arrow, arrows, plain, shares

NAMES = "abc"
TOKENS = torch.tensor([[1.0, 0.0], [2.0, 1.0], [0.0, 2.0]], dtype=torch.float64)  # (S, 2)
# the range of lengths, and the extent of the plane
SHORTEST = 0.2
LONGEST = 1.5
REACH = 3.4
TARGET = 0.8  # the weight that a should give to c
START = -45  # W_Q's initial rotation in degrees, so that queries do not cover their keys


class PlaneLab(Lab):
    """Drag three arrows, and see the scores, weights and contexts follow.

    Args: projections: the arrows stay fixed; instead you move W_Q and W_K, which rotate and stretch
        them into queries and keys.
    """

    _esm = esm("plane_lab.js", folder=HERE)
    question = "Three tokens are compared and mixed. What do length and direction do?"
    hint = "Drag a tip."
    keys_hint = "Or go to it with Tab and press the arrow keys."

    def __init__(self, *, projections: bool = False) -> None:
        self._projections = projections
        if projections:
            self.question = (
                f"Turn and stretch W_Q and W_K until a gives c a share of {TARGET} or more."
            )
            self.hint = "Drag a query or a key, and the others turn with it."
            super().__init__(
                [*_matrix_controls("Q", "queries", START), *_matrix_controls("K", "keys", 0)]
            )
        else:
            length = Control(
                "length", "length of all three", "linear", 1.0, low=SHORTEST, high=LONGEST
            )
            super().__init__(
                [length, Control("tokens", "", "painted", TOKENS.tolist(), check=_points)]
            )

    def reconcile(self, values: dict[str, Any], moved: Mapping[str, Any]) -> dict[str, Any]:
        """Keep the arrows in step with the controls and inside the plane."""
        if self._projections:
            queries = self._rotated("queries", values, moved)
            return {**values, **queries, **self._rotated("keys", values, moved)}
        tokens = torch.tensor(values["tokens"], dtype=torch.float64)
        length = _length(values["length"])
        if "tokens" not in moved:
            most = REACH / max(float(tokens.abs().max()), 1e-9)
            factor = min(length / self.values["length"], most)
            tokens = tokens * factor
            length = self.values["length"] * factor
        return {**values, "length": length, "tokens": tokens.clamp(-REACH, REACH).tolist()}

    def _rotated(
        self, name: str, values: Mapping[str, Any], moved: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return a matrix and its arrows; a dragged arrow sets the angle and stretch."""
        angle = values[f"{name}_turn"]
        stretch = values[f"{name}_stretch"]
        pairs = zip(TOKENS.tolist(), values[name], self.values[name], strict=True)
        dragged = [(token, tip) for token, tip, before in pairs if tip != before]
        if name in moved and dragged:
            (token, tip), *_ = dragged
            angle = math.degrees(math.atan2(tip[1], tip[0]) - math.atan2(token[1], token[0]))
            angle = round((angle + 180) % 360 - 180)
            stretch = math.hypot(*tip) / math.hypot(*token)
        stretch = _length(stretch)
        arrows = TOKENS @ rotation(angle, stretch).T
        return {f"{name}_turn": angle, f"{name}_stretch": stretch, name: arrows.tolist()}

    def without_kernel(self) -> dict[str, Any]:
        """Return nothing: plane_lab.js computes all states."""
        return {}

    def draw(self, **values: Any) -> tuple[Panels, str]:
        """Draw the plane, and a row of scores and weights for each token."""
        sources = ("queries", "keys") if self._projections else ("tokens", "tokens")
        q, k = (torch.tensor(values[name], dtype=torch.float64) for name in sources)
        scores = q @ k.T  # (T, S)
        weights = (scores / 2**0.5).softmax(-1)
        rows = []
        for name, numbers, row in zip(NAMES, plain(scores), plain(weights), strict=True):
            segments = [
                {"name": key, "value": weight, "color": color}
                for key, weight, color in zip(NAMES, row, HEAD_FILLS, strict=False)
            ]
            rows.append({"name": name, "numbers": numbers, "parts": segments, "mark": None})
        scored = [f"score with\u00a0{name}" for name in NAMES]
        columns = ["", *scored, "shares: softmax of the scores / √2"]
        table = shares("who gives how much to whom", rows, columns=columns)
        if self._projections:
            return (self._queries_and_keys(q, k), table), _aim(float(weights[0, 2]))
        most = ", ".join(
            f"{name} to {NAMES[row.argmax()]} {row.max():.2f}"
            for name, row in zip(NAMES, weights, strict=True)
        )
        mean = weights.max(-1).values.mean()
        text = f"Largest shares: {most}. The largest share of a row is {mean:.2f} on average."
        return (self._tokens_and_contexts(q, weights @ q), table), text

    def _tokens_and_contexts(self, tokens: Tensor, contexts: Tensor) -> Panel:
        tips = zip(NAMES, tokens, HEAD_FILLS, strict=False)
        drawn = [arrow(name, tip, color, control="tokens") for name, tip, color in tips]
        dots = [
            {
                "name": f"context of {name}",
                "at": plain(contexts[i]),
                "color": HEAD_FILLS[i],
                "tie": i,
            }
            for i, name in enumerate(NAMES)
        ]
        note = "Dots: the context of each token."
        return arrows(
            "tokens and their contexts", drawn, reach=REACH, hull=len(drawn), dots=dots, note=note
        )

    def _queries_and_keys(self, q: Tensor, k: Tensor) -> Panel:
        drawn = [
            arrow(letter, tip, color, of=name, style=control, thick=thick, control=control)
            for letter, tips, control, thick in (("k", k, "keys", 4), ("q", q, "queries", 6))
            for name, tip, color in zip(NAMES, tips, HEAD_FILLS, strict=False)
        ]
        note = "Hollow: queries. Filled: keys. Under them, dashed: the tokens."
        paths = [[(0.0, 0.0), token] for token in TOKENS.tolist()]
        return arrows("queries and keys", drawn, reach=REACH, paths=paths, note=note)


def rotation(angle: float, stretch: float) -> Tensor:
    """Return the matrix (2, 2) that rotates by degrees, counter-clockwise, and stretches.

    >>> (rotation(90, 2) @ torch.tensor([1.0, 0.0]).double()).round().tolist()
    [0.0, 2.0]
    """
    cos = math.cos(math.radians(angle))
    sin = math.sin(math.radians(angle))
    return stretch * torch.tensor([[cos, -sin], [sin, cos]], dtype=torch.float64)


def _matrix_controls(letter: str, name: str, start: int) -> list[Control]:
    """Return a matrix's controls: its angle, its stretch, and the tokens it maps."""
    angle = Control(f"{name}_turn", f"W_{letter} turns by °", "whole", start, low=-180, high=180)
    stretch = Control(
        f"{name}_stretch", f"W_{letter} stretches by", "linear", 1.0, low=SHORTEST, high=LONGEST
    )
    return [
        angle,
        stretch,
        Control(name, "", "painted", (TOKENS @ rotation(start, 1).T).tolist(), check=_points),
    ]


def _points(sent: Any) -> list[list[float]]:
    return dragged_numbers("PlaneLab", sent, (len(NAMES), 2), "a point")


def _length(number: float) -> float:
    return min(max(number, SHORTEST), LONGEST)


def _aim(weight: float) -> str:
    if weight >= TARGET:
        return f"✓ Reached: a gives {weight:.2f} to c."
    return f"a gives {weight:.2f} to c; make it {TARGET}."
