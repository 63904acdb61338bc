"""Figures: the course's colours, figures hidden from pyplot, images, HTML."""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from html import escape
from typing import Any, NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import Colormap, LinearSegmentedColormap, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from mha_course import markup
from mha_course.colours import DARK, DARK_ON_CELL, PAPER, SIGNED, SIGNED_ON_DARK, WHITE_ON_CELL

SITE = "MHA_COURSE_SITE"  # set when lessons are executed for the reading site
DPI = 150

# points, for all text in pictures; the smallest is 11.5 px on a page
SMALL = 9.0
TEXT = 10.0
TITLE = 11.5
LARGE = 15.0
IMAGE = "max-width:100%;height:auto"
# Cells that are drawn as shapes; more are an image with a pixel a cell, which is a thousand times
# smaller. Signed ones are shapes for longer, because only those change colour on a dark page.
MOST_CELLS = 150
MOST_SIGNED = 64 * 64
_COLOR = re.compile(r'(?<=[" ])#[0-9a-f]{6}(?=[";])')

_unregistered = ContextVar("unregistered", default=False)


@contextmanager
def unregistered() -> Iterator[None]:
    """Keep figures out of pyplot's list, which a kernel displays even half drawn."""
    token = _unregistered.set(True)
    try:
        yield
    finally:
        _unregistered.reset(token)


def new_figure(width: float, height: float, layout: str = "constrained") -> Figure:
    """Make a figure, with its size in inches."""
    options: dict[str, Any] = {"figsize": (width, height), "layout": layout}
    return Figure(**options) if _unregistered.get() else plt.figure(**options)


@cache
def signed_colormap(dark: bool = False) -> Colormap:
    """Return the palette for numbers on both sides of 0, with the page's colour at 0."""
    return LinearSegmentedColormap.from_list("signed", SIGNED_ON_DARK if dark else SIGNED)


@cache
def _palette_on_dark(signed: bool) -> dict[str, str]:
    """Map each colour of a palette to that of a dark page; weights and greys keep theirs."""
    steps = np.linspace(0, 1, 256)
    light = signed_colormap() if signed else mpl.colormaps["cividis"]
    dark = signed_colormap(dark=True) if signed else light
    return dict(zip(map(to_hex, light(steps)), map(to_hex, dark(steps)), strict=True))


def _on_dark(color: str) -> str:
    """Return a colour's counterpart on a dark page."""
    if color in DARK:
        return DARK[color]
    red, green, blue = to_rgb(color)
    if max(red, green, blue) - min(red, green, blue) > 0.06:
        return color
    return to_hex((0.9 - 0.83 * red, 0.9 - 0.83 * green, 0.9 - 0.83 * blue))


def figure_of(picture: Axes | Figure) -> Figure:
    """Return a picture's figure."""
    figure = picture if isinstance(picture, Figure) else picture.get_figure(root=True)
    assert figure is not None
    return figure


def _save(figure: Figure) -> str:
    file = io.BytesIO()
    box = "tight" if figure.get_layout_engine() else None  # without one, margins are set by hand
    with warnings.catch_warnings():
        # A letter that the font lacks is drawn as a box.
        warnings.filterwarnings("ignore", "Glyph .* missing")
        metadata = {"Date": None, "Creator": None}
        options: dict[str, Any] = {"format": "svg", "bbox_inches": box, "metadata": metadata}
        figure.savefig(file, dpi=DPI, facecolor="white", **options)
    plt.close(figure)
    return file.getvalue().decode()


def svg(picture: Axes | Figure) -> bytes:
    """Return a picture as SVG for light and dark pages, and close its figure.

    JupyterLab and GitHub remove SVGs and style sheets from HTML, but keep images. An image does not
    know the page's variables, only its colour scheme, which custom.css sets to that of JupyterLab's
    theme, and which is the system's elsewhere. The image has its own background, so that it can be
    read if the two differ.
    """
    figure = figure_of(picture)
    drawn = [artist for ax in figure.axes for artist in ax.collections]  # findobj is slow
    meshes = [artist for artist in drawn if isinstance(artist, QuadMesh)]
    cells = {mesh: np.asarray(mesh.get_array()).size for mesh in meshes}
    many = max(cells.values(), default=0) > MOST_SIGNED
    signed = not many and any(mesh.get_cmap().name == "signed" for mesh in meshes)
    for mesh in meshes:
        mesh.set_rasterized(False)  # as matplotlib does with colour bars, which would stay light
        if not signed and cells[mesh] > MOST_CELLS:
            _draw_as_image(mesh)
    with mpl.rc_context({"svg.hashsalt": "mha", "svg.fonttype": "none"}):
        text = _save(figure)
    text = re.sub("<[^>]+>", _rounded, text[text.index("<svg") :])
    return _themed(text, signed).encode()


def _draw_as_image(mesh: QuadMesh) -> None:
    """Draw cells of one size as an image instead of shapes."""
    axes: Any = mesh.axes
    corners: Any = mesh.get_coordinates()
    (left, bottom), (right, top) = corners[0, 0], corners[-1, -1]
    # Without interpolation the file holds a pixel a cell, and the browser enlarges it as it is.
    style: dict[str, Any] = {"cmap": mesh.get_cmap(), "norm": mesh.norm, "interpolation": "none"}
    image = AxesImage(axes, extent=(left, right, bottom, top), origin="lower", **style)
    image.set_data(mesh.get_array())
    if mesh.get_cmap().name == "signed":
        image.set_gid("signed")  # for _themed
    axes.add_image(image)
    mesh.remove()


def _rounded(tag: re.Match[str]) -> str:
    """Round the coordinates in a tag to a hundredth of a point, leaving text alone."""
    return re.sub(r"(\d\.\d\d)\d+", r"\1", tag[0])


def _themed(text: str, signed: bool) -> str:
    """Replace each colour of an SVG with a variable, which changes on dark pages.

    Text in white, or in the black of light cells, is on a coloured cell.
    """
    on_cell = {DARK_ON_CELL: "#f0f2f5" if signed else DARK_ON_CELL}
    palette = _palette_on_dark(signed)
    text = re.sub(f"(<text style=[^>]*fill: ){PAPER}", rf"\1{WHITE_ON_CELL}", text)
    paper_and_ink = {PAPER: DARK[PAPER], "#000000": DARK["#000000"]}
    dark = {WHITE_ON_CELL: WHITE_ON_CELL, **on_cell, **paper_and_ink}
    for color in dict.fromkeys(_COLOR.findall(text)):
        dark.setdefault(color, palette.get(color) or _on_dark(color))
    changed = {color: paint for color, paint in dark.items() if color != paint}
    text = _COLOR.sub(lambda m: f"var(--c{m[0][1:]})" if m[0] in changed else m[0], text)
    unchanged = {color: color for color in changed}
    on_dark = f"svg{{{_variables(changed)}}}"
    if 'id="signed"' in text:  # an image has no variables: white becomes black, and hues stay
        on_dark += "#signed{filter:invert(.88) hue-rotate(180deg)}"
    rules = (
        f"svg{{{_variables(unchanged)};fill:var(--c000000)}}"
        f"@media(prefers-color-scheme:dark){{{on_dark}}}"
        "text{font-family:'DejaVu Sans',Verdana,sans-serif}"
    )
    return re.sub("(<svg[^>]*>)", rf"\1<style>{rules}</style>", text, count=1)


def _variables(colors: dict[str, str]) -> str:
    return ";".join(f"--c{color[1:]}:{value}" for color, value in colors.items())


def display_width(data: bytes) -> int:
    """Return the width at which an SVG of ours is displayed, 92 pixels an inch."""
    match = re.search(rb'width="([0-9.]+)pt"', data)
    assert match is not None
    return round(float(match[1]) / 72 * 92)


def image_html(data: bytes, alt: str) -> str:
    """Write an SVG of ours as HTML, with its alt text."""
    source = f"data:image/svg+xml;base64,{base64.b64encode(data).decode()}"
    attributes = f'alt="{escape(alt)}" style="{IMAGE}"'
    return f'<img width="{display_width(data)}" src="{source}" {attributes} />'


def figure_html(data: bytes, caption: str) -> str:
    """Write an image and its caption, also its alt text, as HTML that is read aloud once."""
    return markup.figure(image_html(data, caption), caption, ' aria-hidden="true"')


def show_html(html: str, text: str) -> None:
    """Display HTML, or text if there is none."""
    display({"text/html": html, "text/plain": text}, raw=True)


def show(picture: Axes | Figure, caption: str) -> None:
    """Display a picture with a caption, which is also its alt text."""
    show_html(figure_html(svg(picture), caption), f"Picture: {caption}")


def fold_out(title: str, lines: Sequence[str]) -> None:
    """Display a title that unfolds into lines of text."""
    inside = "".join(f"<li>{escape(line)}</li>" for line in lines)
    folded = f"<details><summary>{escape(title)}</summary><ul>{inside}</ul></details>"
    show_html(folded, "\n".join([title, *lines]))


class Listing(NamedTuple):
    """Code to read: its title, what to find in it, and the answer."""

    title: str
    find: str
    answer: str
    code: str


def listings(*shown: Listing) -> None:
    """Display listings below each other, each folded, with the answer folded inside."""
    blocks = []
    for listing in shown:
        title, find, answer, code = map(escape, listing)
        folded = f"<details><summary>Found it?</summary><p>{answer}</p></details>"
        summary = f"<summary><strong>{title}</strong>. Find: {find}</summary>"
        block = f'<pre style="overflow-x:auto;padding:8px 12px;line-height:1.45">{code}</pre>'
        blocks.append(f'<details style="margin:6px 0">{summary}{block}{folded}</details>')
    text = "\n".join(f"{listing.title}. Find: {listing.find}" for listing in shown)
    show_html("".join(blocks), text)
