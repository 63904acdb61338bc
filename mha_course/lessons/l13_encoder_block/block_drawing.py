"""An encoder block as a drawing: in the page's own colours where SVG may be shown, else as a PNG.

All sizes are pixels, and y goes down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from IPython.display import display
from matplotlib.figure import Figure

from mha_course import markup, plots
from mha_course.plots.diagrams import box
from mha_course.plots.figures import image_html

WIDTH = 1000
RISE = 84  # from a stream up to its branches
SUMS = (435, 860)  # x
READ = (75, 500, 905)  # x where a stream is read
PARTS = ((280, 120, "attention"), (705, 120, "feed-forward"))  # x, width and name
NORMS = {True: (170, 595), False: (475, 885)}  # x: pre-norm's on the branches, post-norm's not


class Drawing(NamedTuple):
    """What is drawn: lines, boxes over them, and texts."""

    height: int
    lines: list[tuple[list[tuple[int, int]], int, bool]]  # points, width, and whether accented
    boxes: list[tuple[int, int, int, int, str]]  # x, y of the middle, width, height, words
    texts: list[tuple[int, int, str, str]]  # x, y, words, and which of their ends is there


def block_wirings() -> Drawing:
    """Draw both wirings: what stands on the thick line, the stream, all must pass."""
    both = Drawing(360, [], [], [])
    _add_block(both, 145, pre_norm=True)
    _add_block(both, 330, pre_norm=False)
    titles = ("pre-norm: no norm on the stream", "post-norm: both norms on the stream")
    both.texts.extend((8, y, title, "start") for y, title in zip((18, 203), titles, strict=True))
    return both


def block_readings(readings: Sequence[Mapping[str, float]]) -> Drawing:
    """Draw a pre-norm block, and what is read at three places: names and shares from 0 to 1."""
    drawing = Drawing(234, [], [], [])
    stream = 110
    _add_block(drawing, stream, pre_norm=True)
    for x, shares in zip(READ, readings, strict=True):
        drawing.lines.append(([(x, stream), (x, stream + 28)], 2, False))
        for n, (name, share) in enumerate(shares.items()):
            y = stream + 46 + 21 * n
            drawing.lines.append(([(x, y), (round(x + 50 * share), y)], 11, n == 0))
            drawing.texts.append((x - 8, y, name, "end"))
            drawing.texts.append((x + 56, y, f"{share:.2f}", "start"))
    return drawing


def show(drawing: Drawing, caption: str) -> None:
    """Show a drawing with a caption that says the same."""
    # A front end that strips SVG strips this rule as well, and shows the PNG.
    rule = "<style>.mha-block ~ img { display: none }</style>"
    both = rule + _svg(drawing, caption) + image_html(plots.png(picture(drawing)), caption)
    html = markup.figure(both, caption, ' aria-hidden="true"')
    display({"text/html": html, "text/plain": f"Picture: {caption}"}, raw=True)


def _add_block(drawing: Drawing, y: int, *, pre_norm: bool) -> None:
    branch = y - RISE
    drawing.lines.append(([(40, y), (960, y)], 9, True))
    for number, (x, width, name) in enumerate(PARTS):
        start, end, norm = (125, 550)[number], SUMS[number], NORMS[pre_norm][number]
        drawing.lines.append(([(start, y), (start, branch), (end, branch), (end, y)], 2, False))
        drawing.boxes.append((x, branch, width, 44, name))
        drawing.boxes.append((end - 13, y, 26, 26, "+"))
        norm_y, height = (branch, 44) if pre_norm else (y, 36)
        drawing.boxes.append((norm, norm_y, 64, height, f"norm{number + 1}"))
    drawing.texts.extend([(28, y, "x", "end"), (968, y, "out", "start")])


def _svg(drawing: Drawing, caption: str) -> str:
    shapes = []
    for points, width, accented in drawing.lines:
        path = " ".join(f"{x},{y}" for x, y in points)
        colour = plots.ACCENT if accented else "currentColor"
        shapes.append(f'<polyline points="{path}" stroke="{colour}" stroke-width="{width}"/>')
    for x, y, width, height, _ in drawing.boxes:
        size = f'y="{y - height // 2}" width="{width}" height="{height}" rx="{min(13, width // 2)}"'
        shapes.append(f'<rect x="{x}" {size} style="fill:var(--jp-layout-color0,Canvas)"/>')
    words = [(x + width // 2, y, name, "middle") for x, y, width, _, name in drawing.boxes]
    for x, y, text, anchor in [*drawing.texts, *words]:
        look = f'text-anchor="{anchor}" fill="currentColor" stroke="none"'
        shapes.append(f'<text x="{x}" y="{y + 5}" {look}>{escape(text)}</text>')
    page = f'class="mha-block" role="img" aria-label="{escape(caption)}" width="{WIDTH}"'
    look = 'style="max-width:100%;height:auto;font-size:15px" fill="none" stroke="currentColor"'
    return f'<svg {page} viewBox="0 0 {WIDTH} {drawing.height}" {look}>{"".join(shapes)}</svg>'


def picture(drawing: Drawing) -> Figure:
    """Draw it with matplotlib."""
    figure = plots.new_figure(WIDTH / 92, drawing.height / 92)
    ax = figure.subplots()
    for points, width, accented in drawing.lines:
        colour = plots.ACCENT if accented else plots.INK
        look: dict[str, Any] = {"linewidth": 0.75 * width, "solid_capstyle": "butt", "zorder": 1}
        ax.plot(*zip(*points, strict=True), color=colour, **look)
    for x, y, width, height, name in drawing.boxes:
        place = ((x, y - height / 2), width, height, name)
        box(ax, *place, color="white", edge=plots.INK, rounding=min(13, width // 2), zorder=2)
    for x, y, text, end in drawing.texts:
        side = {"end": "right", "start": "left"}[end]
        ax.text(x, y, text, ha=side, va="center", color=plots.INK)
    ax.set(xlim=(0, WIDTH), ylim=(drawing.height, 0))
    ax.axis("off")
    return figure
