"""The one rule for a matrix's colours: its palette, and the numbers at its ends.

Pictures use it directly; a browser is sent the result, and the palettes as bytes.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import Colormap, ListedColormap
from numpy.typing import NDArray

from mha_course.colours import BAR, PAPER
from mha_course.plots.figures import signed_colormap

HALF_TOLERANCE = 0.02  # how far weights in half precision may exceed 1, and their sum differ from 1
ROUNDING = 1e-6  # how far below 0 rounding may take a nonnegative number
SLANT = 50  # slant of column names in degrees, here and in widgets/matrix.js


class Scale(NamedTuple):
    """The numbers at the two ends of a palette."""

    kind: Literal["weights", "signed", "plain", "bool"]
    low: float
    high: float

    @property
    def cmap(self) -> Colormap:
        """Return matplotlib's palette."""
        return colormap(self.palette)

    @property
    def palette(self) -> str:
        """Return the palette's name: weights and other nonnegative numbers share one."""
        return self.kind if self.kind in ("signed", "bool") else "plain"

    def message(self) -> dict[str, Any]:
        """Return the data for the browser, which decides nothing itself."""
        return {**self._asdict(), "palette": self.palette}


WEIGHTS = Scale("weights", 0.0, 1.0)
BOOL = Scale("bool", 0.0, 1.0)  # full or empty


def signed(reach: float) -> Scale:
    """Return a scale symmetric around 0."""
    return Scale("signed", -reach, reach)


def scale_of(numbers: Any, hidden: Any = None) -> Scale:
    """Return the scale for numbers, ignoring hidden and infinite ones and NaN.

    It runs from 0 to 1; if one is larger, from 0 to the largest; if one is negative, symmetrically
    around 0.

    >>> scale_of([0.25, 1.015])
    Scale(kind='weights', low=0.0, high=1.0)
    >>> scale_of([-0.5, 2.0])
    Scale(kind='signed', low=-2.0, high=2.0)
    """
    low, high = _ends(numbers, hidden)
    if low < -ROUNDING * max(1.0, high):
        return signed(max(-low, high))
    return WEIGHTS if high <= 1 + HALF_TOLERANCE else Scale("plain", 0.0, high)


def stretched(numbers: Any, hidden: Any = None) -> Scale:
    """Return the scale that gives the largest number the last colour, even a weight below 1.

    >>> stretched([0.1, 0.4])
    Scale(kind='weights', low=0.0, high=0.4)
    """
    scale = scale_of(numbers, hidden)
    if scale.kind != "weights":
        return scale
    return scale._replace(high=_ends(numbers, hidden)[1] or 1.0)


def _ends(numbers: Any, hidden: Any) -> tuple[float, float]:
    """Return the smallest and largest visible number, extended to 0."""
    array = np.asarray(numbers)
    mask = np.isfinite(array) if hidden is None else np.isfinite(array) & ~np.asarray(hidden, bool)
    seen = np.where(mask, array, 0)  # a masked minimum takes three times as long
    return float(seen.min(initial=0.0)), float(seen.max(initial=0.0))


@cache
def colormap(palette: str) -> Colormap:
    """Return a palette: plain, signed (white at 0), or bool (empty and full)."""
    if palette == "bool":
        return ListedColormap([PAPER, BAR], name="bool")
    named = {"plain": colormaps["cividis"], "signed": signed_colormap()}
    return named[palette]


@cache
def palettes() -> dict[str, bytes]:
    """Return the palettes for a browser: each colour's red, green, blue and alpha as bytes."""
    ramps = {
        "plain": colormap("plain"),
        "signed": colormap("signed"),
        "signed_on_dark": signed_colormap(dark=True),
    }
    empty_and_full = colormap("bool")([0, 1])
    empty_and_full[0, 3] = 0  # the page's own background
    colours = {name: ramp(np.arange(256)) for name, ramp in ramps.items()}
    return {name: as_bytes(colors) for name, colors in (colours | {"bool": empty_and_full}).items()}


def as_bytes(colours: NDArray[np.float64]) -> bytes:
    """Write red, green, blue and alpha, from 0 to 1, as one byte each."""
    return (colours * 255).round().astype("u1").tobytes()
