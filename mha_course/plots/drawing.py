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
    look: dict[str, Any] = {"fc": color, "ec": edge}
    if not color:
        look = {"fc": "white", "ec": INK, "linestyle": "--"}
    shape = f"round,pad=0,rounding_size={rounding}"
    ax.add_patch(FancyBboxPatch(corner, width, height, boxstyle=shape, zorder=zorder, **look))
    x = corner[0] + width / 2
    y = corner[1] + height / 2
    words: dict[str, Any] = {"fontsize": fontsize, "color": INK, "zorder": zorder + 2}
    ax.text(x, y, text, ha="center", va="center", **words)


def arrow(
    ax: Axes, start: Point, end: Point, *,
    color: Any = INK, width: float = 1.0, bend: float = 0.0, **style: Any,
) -> None:  # fmt: skip
    """Draw an arrow, so many typographic points wide, bent to the left by this part of its length.

    Args: style is what else matplotlib's ``arrowprops`` takes.
    """
    line = {"color": color, "linewidth": width, "connectionstyle": f"arc3,rad={bend}"}
    ax.annotate("", end, start, arrowprops={"arrowstyle": "-|>", **line, **style})
