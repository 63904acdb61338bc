"""Figures: the course's colours, figures that a kernel does not show by itself, PNG, and
alt text.
"""

from __future__ import annotations

import base64
import html
import io
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from mha_course.errors import ShapeError

ON_SLIDES = (
    os.environ.get("MHA_COURSE_FIGURES") == "slide"
)  # the decks have all that is shown drawn anew
SLIDE_WIDTH, SLIDE_HEIGHT = 1728, 730  # pixels of a slide of 1920 by 1080 that a picture may take
SLIDE_INCH = 170  # pixels of a slide for an inch of a picture: the smallest letters have 21 then
FINE = 1.5  # pixels of a picture for one of the slide, so that it is sharp on better screens
LINE = 88  # characters that fit beside JupyterLab's file list
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
CAPTION = "max-width:44em;margin-top:6px;line-height:1.45"
STREAMS = {"q": "#4b2e83", "k": "#00828a", "v": "#d6458f"}  # told apart in grey, too
HATCH = {"hatch": "////", "facecolor": "#ffffff", "edgecolor": "#858c99"}

_unregistered = ContextVar("unregistered", default=False)


@contextmanager
def unregistered() -> Iterator[None]:
    """Keep figures made meanwhile out of pyplot's list, from which a kernel shows what is open,
    even half drawn.
    """
    token = _unregistered.set(True)
    try:
        yield
    finally:
        _unregistered.reset(token)


def new_figure(width: float, height: float, layout: str = "constrained") -> Figure:
    """Make a figure of so many inches; for a slide, in which letters must stay as large, it may
    become smaller.
    """
    options: dict[str, Any] = {"figsize": _sized(width, height), "layout": layout}
    return Figure(**options) if _unregistered.get() else plt.figure(**options)


def _sized(width: float, height: float) -> tuple[float, float]:
    """Return the inches that a picture of this shape has on a page, or at most on a slide."""
    share = min(SLIDE_WIDTH / width, SLIDE_HEIGHT / height) / SLIDE_INCH if ON_SLIDES else 1.0
    return min(share, 1.0) * width, min(share, 1.0) * height


def png(picture: Axes | Figure) -> bytes:
    """Return a picture as PNG, and close its figure."""
    figure = picture if isinstance(picture, Figure) else picture.get_figure(root=True)
    if figure is None:
        raise ShapeError(
            "png",
            "picture must belong to a figure",
            expected="an Axes or Figure",
            got=repr(picture),
        )
    file = io.BytesIO()
    dpi = 150.0
    if ON_SLIDES:
        dpi = FINE * SLIDE_INCH
        figure.set_size_inches(_sized(*figure.get_size_inches()))
        for text in figure.findobj(Text):
            text.set(fontsize=max(SMALL, text.get_fontsize()))
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "Glyph .* missing"
        )  # a box stands for a letter that the font lacks
        box = (
            "tight" if figure.get_layout_engine() else None
        )  # what is laid out by hand has its margins
        figure.savefig(file, dpi=dpi, bbox_inches=box, facecolor="white")
    plt.close(figure)
    return file.getvalue()


def display_width(data: bytes) -> int:
    """Return the width in which a PNG of ours is shown: sharp on fine screens, in proportion to its
    text.
    """
    return round(int.from_bytes(data[16:20], "big") / 150 * 92)


def image_html(data: bytes, alt: str) -> str:
    """Write a PNG as HTML, with its alt text.

    The picture is a white card with room around it: no ink can be read on both a light and a dark
    page. Only styles that JupyterLab keeps in a notebook which is not trusted.
    """
    source = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    return (
        f'<img width="{display_width(data)}" src="{source}" alt="{html.escape(alt)}" '
        f'style="{CARD}" />'
    )


def figure_html(data: bytes, caption: str) -> str:
    """Write a PNG and its caption as one HTML figure; the caption is its alt text, too, and not
    read out twice.
    """
    return frame_html(image_html(data, caption), caption, ' aria-hidden="true"')


def frame_html(content: str, caption: str, attributes: str = "") -> str:
    """Write content that is HTML, and its caption, as one HTML figure."""
    words = f'<figcaption{attributes} style="{CAPTION}">{html.escape(caption)}</figcaption>'
    return f'<figure style="margin:8px 0 16px">{content}{words}</figure>'


def show(picture: Axes | Figure, caption: str) -> None:
    """Show a picture with a caption that says the same."""
    display(
        {"text/html": figure_html(png(picture), caption), "text/plain": f"Picture: {caption}"},
        raw=True,
    )


def fold_out(title: str, lines: Sequence[str]) -> None:
    """Show a title that unfolds to lines of text."""
    inside = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    folded = f"<details><summary>{html.escape(title)}</summary><ul>{inside}</ul></details>"
    display({"text/html": folded, "text/plain": "\n".join([title, *lines])}, raw=True)


class Listing(NamedTuple):
    """Code to read: its title, something to find in it, and what there is to be found."""

    title: str
    find: str
    found: str
    code: str


def listings(*shown: Listing) -> None:
    """Show listings one below the other, each folded, with what there is to be found folded once
    more.
    """
    parts = []
    for one in shown:
        title, find, found, code = map(html.escape, one)
        answer = f"<details><summary>Found it?</summary><p>{found}</p></details>"
        summary = f"<summary><strong>{title}</strong>. Find: {find}</summary>"
        block = f'<pre style="overflow-x:auto;padding:8px 12px;line-height:1.45">{code}</pre>'
        parts.append(f'<details style="margin:6px 0">{summary}{block}{answer}</details>')
    text = "\n".join(f"{one.title}. Find: {one.find}" for one in shown)
    display({"text/html": "".join(parts), "text/plain": text}, raw=True)


def page(name: str) -> None:
    """Show what stands in the body of a page of data/, which can be opened and printed by itself as
    well.
    """
    file = Path(__file__).parents[1] / "data" / f"{name}.html"
    body = file.read_text(encoding="utf-8").partition("<body>")[2].partition("</body>")[0]
    left = re.sub(
        "<(t[hd])>", r'<\1 style="text-align:left">', body
    )  # JupyterLab sets tables right
    display({"text/html": left.strip(), "text/plain": f"The page {file.name}"}, raw=True)
