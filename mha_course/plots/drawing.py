"""Boxes and arrows, of which the drawings that explain are made."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from mha_course.plots.figures import INK, TEXT

Point = tuple[float, float]


def box(
    ax: Axes, corner: Point, width: float, height: float, text: str = "", *,
    color: str | None, edge: str = "none", rounding: float = 0.06, fontsize: float = TEXT,
    zorder: float = 1,
) -> None:  # fmt: skip
    """Draw a box with round corners from its lower left one, with words in its middle.

    One without a colour is white with a dashed edge: what it stands for does not last.
    """
    look: dict[str, Any] = (
        {"fc": color, "ec": edge} if color else {"fc": "white", "ec": INK, "linestyle": "--"}
    )
    shape = f"round,pad=0,rounding_size={rounding}"
    ax.add_patch(FancyBboxPatch(corner, width, height, boxstyle=shape, zorder=zorder, **look))
    centre = corner[0] + width / 2, corner[1] + height / 2
    ax.text(
        *centre, text, ha="center", va="center", fontsize=fontsize, color=INK, zorder=zorder + 2
    )


def arrow(
    ax: Axes,
    start: Point,
    end: Point,
    *,
    color: Any = INK,
    width: float = 1.0,
    bend: float = 0.0,
    **style: Any,
) -> None:
    """Draw an arrow from a point to a point, so many typographic points wide, and bent to the left
    by this share.

    Args: style is what else matplotlib's ``arrowprops`` takes.
    """
    look = {
        "arrowstyle": "-|>",
        "color": color,
        "linewidth": width,
        "connectionstyle": f"arc3,rad={bend}",
    }
    ax.annotate("", end, start, arrowprops={**look, **style})
