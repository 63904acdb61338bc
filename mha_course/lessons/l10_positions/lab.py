"""The lab of lesson 10: channel pairs rotate with position, and the dot product stays the same."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import torch
from torch import Tensor

from mha_course import plots, positions
from mha_course.widgets.controls import Control
from mha_course.widgets.labs.lab import Lab
from mha_course.widgets.labs.panels import Panels, arrow, arrows, bars, lines
from mha_course.widgets.learner_function import LearnerFunction

# Few positions, so that a page without a kernel can carry all states.
POSITIONS = (0, 1, 2, 3, 5, 10, 20, 40, 80, 120)
FURTHEST = 40
BASES = (100.0, 10_000.0, 500_000.0)
COLORS = {"q": plots.ACCENT, "k": plots.BAR}
# One query and one key of 6 pairs each, (D,), drawn once.
QUERY = torch.tensor((1.0, 0.7, -0.8, 0.9, 0.5, 1.1, 0.3, -0.8, 0.6, 0.5, -0.9, 0.2)).double()
KEY = torch.tensor((0.8, 0.9, -0.3, 0.4, 0.9, 0.7, -0.5, -0.4, 0.9, 0.8, -0.2, 0.6)).double()


class RotaryLab(Lab):
    """Move a query and a key, and see their pairs rotate while their dot product stays the same.

    Args:
        rope: the learner's own function, used for rotating; until it is written, the course's is
            used.
    Raises: ShapeError.
    """

    question = "Both tokens move on, and every arrow rotates. What happens to q · k?"
    hint = "Dashed: before the rotation. Pair i is made of the channels i and i + D/2."

    def __init__(self, *, rope: Any = None) -> None:
        self._rope = LearnerFunction("RotaryLab", "rope", rope, positions.rope)
        names = tuple(f"{base:,.0f}" for base in BASES)
        controls = [
            Control("position", "key at", "slider", 0, POSITIONS),
            Control("distance", "query further by", "slider", 3, tuple(range(FURTHEST + 1))),
            Control("base", "base", "choice", 10_000.0, BASES, names),
        ]
        super().__init__(controls)

    def rotated(self, vector: Tensor, at: Tensor, base: float) -> Tensor:
        """Return a vector (D,) rotated by each of S positions, (S, D)."""
        x = vector.expand(1, 1, at.numel(), -1)
        exact = torch.tensor(base, dtype=torch.float64)
        return self._rope.tensor(x, at, exact, shape=x.shape)[0, 0]

    def draw(self, position: int, distance: int, base: float) -> tuple[Panels, str]:
        """Draw the pairs, their parts of the dot product, and the dot product by distance."""
        starts = torch.tensor([0, position])  # the key at 0 and at its position
        q = self.rotated(QUERY, starts + distance, base)  # (2, D)
        k = self.rotated(KEY, starts, base)  # (2, D)
        start, dot = (q * k).sum(-1).tolist()
        pairs = _pairs(q[1] * k[1]).sum(-1)  # (D/2,)
        waves = self.rotated(QUERY, torch.arange(FURTHEST + 1), base) @ k[0]  # (41,)
        limit = float(_pairs(QUERY).norm(dim=-1).mul(_pairs(KEY).norm(dim=-1)).max())
        names = [f"pair {i}" for i in range(len(pairs))]
        added = bars(f"what each pair adds; sum {dot:.2f}", names, pairs, low=-limit, high=limit)
        line = {"name": "q · k", "style": "main", "values": waves}
        axis: dict[str, Any] = {"at": distance, "xlabel": "distance from key to query"}
        title = "q · k by distance, wherever both are"
        by_distance = lines(title, range(FURTHEST + 1), [line], **axis)
        alike = "the same as" if math.isclose(start, dot, abs_tol=1e-6) else "not the same as"
        return (*_dials(q[1], k[1], base), added, by_distance), (
            f"Key at position {position}, query at {position + distance}: q · k = {dot:.2f}, "
            f"{alike} at positions 0 and {distance}, where it is {start:.2f}.{self._rope.caption}"
        )


def _pairs(vector: Tensor) -> Tensor:
    """Return the pairs of a vector (D,), (D/2, 2): channels i and i + D/2."""
    return torch.stack(vector.chunk(2), dim=-1)


def _dials(q: Tensor, k: Tensor, base: float) -> Panels:
    """Draw each pair of q and k (D,), rotated, and dashed before rotation."""
    start = {"q": _pairs(QUERY), "k": _pairs(KEY)}  # (D/2, 2) each
    rotated = {"q": _pairs(q), "k": _pairs(k)}  # (D/2, 2) each
    speeds = [base ** (-i / len(start["q"])) for i in range(len(start["q"]))]
    longest = max(float(p.norm(dim=-1).max()) for p in (*start.values(), *rotated.values()))
    group = "each pair of channels, rotated by its position"
    style: dict[str, Any] = {"size": "small", "group": group, "reach": 1.2 * longest}
    dials = []
    for i, speed in enumerate(speeds):
        key = arrow("k", rotated["k"][i], COLORS["k"], thick=2)
        query = arrow("q", rotated["q"][i], COLORS["q"], thick=3.5)
        paths = [[(0.0, 0.0), pairs[i].tolist()] for pairs in start.values()]
        note = f"{Decimal(f'{speed:.2g}'):f} rad a token"
        dials.append(arrows(f"pair {i}", [key, query], paths=paths, note=note, **style))
    return tuple(dials)
