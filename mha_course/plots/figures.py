"""Figures: page and slide, the course's colours, figures that a kernel does not show, PNG, HTML.

``style`` says whether pictures are drawn for a page of a notebook or for a slide of a deck.
"""

from __future__ import annotations

import base64
import io
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from mha_course import markup
from mha_course.errors import ShapeError


@dataclass(frozen=True)
class Style:
    """What a picture is drawn for: its pixels to an inch, and the inches that it may take."""

    dpi: float
    width: float = math.inf
    height: float = math.inf


PAGE = Style(dpi=150)
SLIDE_INCH = 170  # pixels of a slide for an inch of a picture: the smallest letters have 21 then
FINE = 1.5  # pixels of a picture for one of the slide, so that it is sharp on better screens
# Pictures are larger on slides: 1728 by 730 of a slide's 1920 by 1080 pixels are theirs.
SLIDE = Style(dpi=FINE * SLIDE_INCH, width=1728 / SLIDE_INCH, height=730 / SLIDE_INCH)
style = ContextVar("style", default=PAGE)

# points: all type in pictures; the smallest is 11.5 px on a page
SMALL = 9.0
TEXT = 10.0
TITLE = 11.5
LARGE = 15.0
ACCENT = "#d08000"
BAR = "#5b7fb4"
QUIET = "#e8eaee"
INK = "#1f2430"
CARD = (
    "background:#ffffff;border-radius:8px;padding:12px;"
    "max-width:100%;height:auto;box-sizing:border-box"
)
STREAMS = {"q": "#4b2e83", "k": "#00828a", "v": "#d6458f"}  # told apart in grey, too
HEAD_COLOURS = (  # of heads, the first again after the last
    "#c2410c", "#0b7285", "#6741d9", "#2b8a3e", "#c2255c", "#1864ab", "#7f5539", "#5c677d",
)  # fmt: skip
HATCH = {"hatch": "////", "facecolor": "#ffffff", "edgecolor": "#858c99"}

_unregistered = ContextVar("unregistered", default=False)


@contextmanager
def unregistered() -> Iterator[None]:
    """Keep figures out of pyplot's list, from which a kernel shows them even half drawn."""
    token = _unregistered.set(True)
    try:
        yield
    finally:
        _unregistered.reset(token)


def new_figure(width: float, height: float, layout: str = "constrained") -> Figure:
    """Make a figure of so many inches; on a slide it is made smaller where it would not fit."""
    options: dict[str, Any] = {"figsize": _fit(width, height), "layout": layout}
    return Figure(**options) if _unregistered.get() else plt.figure(**options)


def _fit(width: float, height: float) -> tuple[float, float]:
    room = style.get()
    scale = min(room.width / width, room.height / height, 1.0)
    return scale * width, scale * height


def png(picture: Axes | Figure) -> bytes:
    """Return a picture as PNG, and close its figure."""
    figure = picture if isinstance(picture, Figure) else picture.get_figure(root=True)
    if figure is None:
        rule = "picture must belong to a figure"
        raise ShapeError("png", rule, expected="an Axes or Figure", got=repr(picture))
    if style.get() is SLIDE:
        figure.set_size_inches(_fit(*figure.get_size_inches()))
        for text in figure.findobj(Text):
            text.set(fontsize=max(SMALL, text.get_fontsize()))
    file = io.BytesIO()
    box = "tight" if figure.get_layout_engine() else None  # without one, margins are set by hand
    with warnings.catch_warnings():
        # A box stands for a letter that the font lacks.
        warnings.filterwarnings("ignore", "Glyph .* missing")
        figure.savefig(file, dpi=style.get().dpi, bbox_inches=box, facecolor="white")
    plt.close(figure)
    return file.getvalue()


def display_width(data: bytes) -> int:
    """Return the width in which a PNG of ours is shown, in proportion to its text."""
    return round(int.from_bytes(data[16:20], "big") / PAGE.dpi * 92)


def image_html(data: bytes, alt: str) -> str:
    """Write a PNG as HTML, with its alt text.

    The picture is a white card with room around it: no ink can be read on both a light and a dark
    page.
    """
    source = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    look = f'alt="{escape(alt)}" style="{CARD}"'
    return f'<img width="{display_width(data)}" src="{source}" {look} />'


def figure_html(data: bytes, caption: str) -> str:
    """Write a PNG and its caption, which is also its alt text, as HTML; it is read out once."""
    return markup.figure(image_html(data, caption), caption, ' aria-hidden="true"')


def _show_html(html: str, text: str) -> None:
    display({"text/html": html, "text/plain": text}, raw=True)


def show(picture: Axes | Figure, caption: str) -> None:
    """Show a picture with a caption that says the same."""
    _show_html(figure_html(png(picture), caption), f"Picture: {caption}")


def fold_out(title: str, lines: Sequence[str]) -> None:
    """Show a title that unfolds to lines of text."""
    inside = "".join(f"<li>{escape(line)}</li>" for line in lines)
    folded = f"<details><summary>{escape(title)}</summary><ul>{inside}</ul></details>"
    _show_html(folded, "\n".join([title, *lines]))


class Listing(NamedTuple):
    """Code to read: its title, something to find in it, and what there is to be found."""

    title: str
    find: str
    answer: str
    code: str


def listings(*shown: Listing) -> None:
    """Show listings one below the other, each folded, and in it the answer, folded once more."""
    parts = []
    for listing in shown:
        title, find, answer, code = map(escape, listing)
        folded = f"<details><summary>Found it?</summary><p>{answer}</p></details>"
        summary = f"<summary><strong>{title}</strong>. Find: {find}</summary>"
        block = f'<pre style="overflow-x:auto;padding:8px 12px;line-height:1.45">{code}</pre>'
        parts.append(f'<details style="margin:6px 0">{summary}{block}{folded}</details>')
    text = "\n".join(f"{listing.title}. Find: {listing.find}" for listing in shown)
    _show_html("".join(parts), text)
