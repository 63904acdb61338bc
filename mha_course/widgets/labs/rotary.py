"""The lab of lesson 10: pairs of channels that turn with the place, and a dot product that does not notice."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.patches import Circle
from torch import Tensor

from mha_course import plots, positions
from mha_course.plots.figures import SMALL
from mha_course.widgets.base import esm
from mha_course.widgets.controls import ChoiceControl
from mha_course.widgets.labs import static
from mha_course.widgets.labs.lab import HERE, Lab, LearnerFunction
from mha_course.widgets.labs.panels import Panels, bars, lines, plain

PLACES, FURTHEST = 121, 40
BASES = (100.0, 10_000.0, 500_000.0)
Q = "#c27800"  # as in lab.css
# One query and one key of 6 pairs, drawn once, (D,) each.
QUERY = torch.tensor((1.0, 0.7, -0.8, 0.9, 0.5, 1.1, 0.3, -0.8, 0.6, 0.5, -0.9, 0.2)).double()
KEY = torch.tensor((0.8, 0.9, -0.3, 0.4, 0.9, 0.7, -0.5, -0.4, 0.9, 0.8, -0.2, 0.6)).double()


class RotaryLab(Lab):
    """Move a query and a key along, and see their pairs turn and their dot product stay.

    Args:
        rope: the learner's own function, which then turns them; until it is written, the course's does.
    Raises: ShapeError.
    """

    question = "Both tokens move on, and every arrow turns. What becomes of q · k?"
    hint = "Dashed: before the turn. Pair i is made of the channels i and i + D/2."
    _esm = esm("rotary.js", folder=HERE)

    def __init__(self, *, rope: Any = None) -> None:
        self._rope = LearnerFunction("RotaryLab", "rope", rope, positions.rope)
        super().__init__(
            [
                ChoiceControl("position", "place of the key", "slider", tuple(range(PLACES)), 0),
                ChoiceControl("distance", "the query stands further on by", "slider", tuple(range(FURTHEST + 1)), 3),
                ChoiceControl("base", "base", "choice", BASES, 10_000.0, tuple(f"{base:,.0f}" for base in BASES)),
            ]
        )

    def turned(self, vector: Tensor, places: Tensor, base: float) -> Tensor:
        """Return a vector (D,) turned by each of S places, (S, D)."""
        x = vector.expand(1, 1, places.numel(), -1)
        return self._rope(x, places, torch.tensor(base, dtype=torch.float64), shape=x.shape)[0, 0]

    def draw(self, position: int, distance: int, base: float) -> tuple[Panels, str]:
        """Draw the pairs, what each adds to the dot product, and the dot product by distance."""
        q = self.turned(QUERY, torch.tensor([distance, position + distance]), base)  # (2, D): the key at 0, and here
        k = self.turned(KEY, torch.tensor([0, position]), base)
        start, now = (q * k).sum(-1).tolist()
        parts = _pairs(q[1] * k[1]).sum(-1)  # (D/2,)
        waves = self.turned(QUERY, torch.arange(FURTHEST + 1), base) @ k[0]  # (41,)
        limit = float(_pairs(QUERY).norm(dim=-1).mul(_pairs(KEY).norm(dim=-1)).max())
        names = [f"pair {i}" for i in range(len(parts))]
        line = {"name": "q · k", "style": "main", "values": waves}
        xlabel = "distance from key to query"
        panels: Panels = (
            self._dials(q[1], k[1], base),
            bars(f"what each pair adds; sum {now:.2f}", names, parts, low=-limit, high=limit),
            lines("q · k by distance, wherever both stand", range(FURTHEST + 1), [line], at=distance, xlabel=xlabel),
        )
        alike = "the same as" if math.isclose(start, now, abs_tol=1e-6) else "not the same as"
        return panels, (
            f"Key at place {position}, query at {position + distance}: q · k = {now:.2f}, {alike} at places 0 and "
            f"{distance}, where it is {start:.2f}.{self._rope.caption}"
        )

    def _dials(self, q: Tensor, k: Tensor, base: float) -> dict[str, Any]:
        turned, start = {"q": _pairs(q), "k": _pairs(k)}, {"q": _pairs(QUERY), "k": _pairs(KEY)}  # (D/2, 2) each
        count = len(turned["q"])
        pairs = [
            {
                "name": f"pair {i}",
                "turn": f"{base ** (-i / count):.2g}",  # radians a token
                **{name: plain(vectors[i]) for name, vectors in turned.items()},
                "start": {name: plain(vectors[i]) for name, vectors in start.items()},
            }
            for i in range(count)
        ]
        reach = max(math.hypot(*vector) for pair in pairs for vector in (pair["q"], pair["k"], *pair["start"].values()))
        title = "each pair of channels: query (q) and key (k), turned by their places"
        return {"kind": "dials", "title": title, "pairs": pairs, "reach": reach, "places": PLACES, "note": ""}


def _pairs(vector: Tensor) -> Tensor:
    """Return the pairs of a vector (D,), (D/2, 2): channels i and i + D/2."""
    return torch.stack(vector.chunk(2), dim=-1)


def _dials(ax: Axes, panel: Mapping[str, Any]) -> None:
    """Draw the dials beside each other: each has a square of the side 1, its circle in the middle."""
    scale = 0.36 / panel["reach"]
    for n, pair in enumerate(panel["pairs"]):
        x, y = n + 0.5, 0.5
        for name, color in (("q", Q), ("k", plots.BAR)):
            (right, up), (start_right, start_up) = pair[name], pair["start"][name]
            start, end = (x + scale * start_right, y - scale * start_up), (x + scale * right, y - scale * up)
            ax.plot((x, start[0]), (y, start[1]), ":", color=color, linewidth=1.2)
            ax.annotate("", end, (x, y), arrowprops={"arrowstyle": "-|>", "color": color, "linewidth": 1.8})
            beside = (x + 1.14 * (end[0] - x), y + 1.14 * (end[1] - y))
            ax.annotate(name, beside, ha="center", va="center", fontsize=SMALL, color=plots.INK)
        ax.add_patch(Circle((x, y), 0.36, fill=False, edgecolor=plots.QUIET))
        words = f"{pair['name']}\n{pair['turn']} rad/token"
        ax.text(x, y - 0.4, words, ha="center", va="bottom", fontsize=SMALL)
    ax.set(xlim=(0, len(panel["pairs"])), ylim=(0.95, -0.2), aspect="equal", anchor="W")
    ax.axis("off")


static.KINDS["dials"] = static.Kind(_dials, row=lambda _: 2.4)
