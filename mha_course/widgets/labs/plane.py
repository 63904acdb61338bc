"""The lab of lessons 0 and 1: three arrows in a plane, their scores and contexts."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from mha_course.widgets.base import esm
from mha_course.widgets.controls import Control
from mha_course.widgets.labs.lab import HERE, PageLab
from mha_course.widgets.labs.panels import HEAD_FILLS, Panel, Panels, arrow, arrows, plain, shares

NAMES = "abc"
TOKENS = torch.tensor([[1.0, 0.0], [2.0, 1.0], [0.0, 2.0]], dtype=torch.float64)  # (S, 2)
# the range of lengths, and the extent of the plane
SHORTEST = 0.2
LONGEST = 1.5
REACH = 3.4
TARGET = 0.8  # the weight that a should give to c
START = -45  # W_Q's initial rotation in degrees, so that queries do not cover their keys


class PlaneLab(PageLab):
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
            super().__init__([length, Control("tokens", "", "painted", TOKENS.tolist())])

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
            text = f"a gives {weights[0, 2]:.2f} to c; make it {TARGET}."
            return (self._queries_and_keys(q, k), table), text
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


def rotated(angle: float) -> list[list[float]]:
    """Return the tokens rotated by degrees, counter-clockwise."""
    cos = math.cos(math.radians(angle))
    sin = math.sin(math.radians(angle))
    points: list[list[float]] = (TOKENS @ TOKENS.new_tensor([[cos, sin], [-sin, cos]])).tolist()
    return points


def _matrix_controls(letter: str, name: str, start: int) -> list[Control]:
    """Return a matrix's controls: its angle, its stretch, and the tokens it maps."""
    angle = Control(f"{name}_turn", f"W_{letter} turns by °", "whole", start, low=-180, high=180)
    stretch = Control(
        f"{name}_stretch", f"W_{letter} stretches by", "linear", 1.0, low=SHORTEST, high=LONGEST
    )
    return [
        angle,
        stretch,
        Control(name, "", "painted", rotated(start)),
    ]
