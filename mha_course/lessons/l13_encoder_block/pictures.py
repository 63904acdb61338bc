"""Pictures of an encoder block and its wirings, and of what a norm is over.

A block is drawn in the page's own colours where SVG may be shown, and as a PNG elsewhere; its sizes
are pixels, and y goes down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
from IPython.display import display
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from mha_course import markup, plots
from mha_course.plots.diagrams import box
from mha_course.plots.figures import ACCENT, INK, QUIET, SLIDE, SMALL, TEXT, image_html, style

WIDTH = 1000
RISE = 84  # from a stream up to its branches
SUMS = (435, 860)  # x
READ = (75, 500, 905)  # x where a stream is read
PARTS = ((280, 120, "attention"), (705, 120, "feed-forward"))  # x, width and name
# A page that strips SVG and styles shows the PNG, and no word of the drawing: those stand in
# attributes, which are stripped, too.
STYLE = """<style>
.mha-block ~ img { display: none }
.mha-block { position: relative; max-width: 1000px; container-type: inline-size }
.mha-block svg { display: block; width: 100% }
.mha-block rect { fill: var(--jp-layout-color0, Canvas) }
.mha-block i { position: absolute; translate: 0 -50%; font: clamp(11px, 1.5cqw, 15px) sans-serif }
.mha-block .end { translate: -100% -50% }
.mha-block .middle { translate: -50% -50% }
.mha-block i::before { content: attr(data-text) }
</style>"""
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
    image = image_html(plots.png(block_picture(drawing)), caption)
    both = image if style.get() is SLIDE else STYLE + _html(drawing, caption) + image
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


def _html(drawing: Drawing, caption: str) -> str:
    shapes = []
    for points, width, accented in drawing.lines:
        path = " ".join(f"{x},{y}" for x, y in points)
        colour = ACCENT if accented else "currentColor"
        shapes.append(f'<polyline points="{path}" stroke="{colour}" stroke-width="{width}"/>')
    for x, y, width, height, _ in drawing.boxes:
        size = f'y="{y - height // 2}" width="{width}" height="{height}" rx="13"'
        shapes.append(f'<rect x="{x}" {size}/>')
    size = f'viewBox="0 0 {WIDTH} {drawing.height}"'
    box = f'aria-hidden="true" {size} fill="none" stroke="currentColor"'
    named = [(x + width // 2, y, name, "middle") for x, y, width, _, name in drawing.boxes]
    words = []
    for x, y, text, end in [*drawing.texts, *named]:
        place = f"left:{100 * x / WIDTH:g}%;top:{100 * y / drawing.height:.4g}%"
        words.append(f'<i class="{end}" data-text="{escape(text)}" style="{place}"></i>')
    drawn = f"<svg {box}>{''.join(shapes)}</svg>{''.join(words)}"
    return f'<div class="mha-block" role="img" aria-label="{escape(caption)}">{drawn}</div>'


def block_picture(drawing: Drawing) -> Figure:
    """Draw it with matplotlib."""
    figure = plots.new_figure(WIDTH / 92, drawing.height / 92)
    ax = figure.subplots()
    for points, width, accented in drawing.lines:
        colour = ACCENT if accented else INK
        look: dict[str, Any] = {"linewidth": 0.75 * width, "solid_capstyle": "butt", "zorder": 1}
        ax.plot(*zip(*points, strict=True), color=colour, **look)
    for x, y, width, height, name in drawing.boxes:
        place = ((x, y - height / 2), width, height, name)
        box(ax, *place, color="white", edge=INK, rounding=13, zorder=2)
    for x, y, text, end in drawing.texts:
        side = {"end": "right", "start": "left"}[end]
        ax.text(x, y, text, ha=side, va="center", color=INK)
    ax.set(xlim=(0, WIDTH), ylim=(drawing.height, 0))
    ax.axis("off")
    return figure


def norm_groups(ways: Mapping[str, Sequence[int]], shape: tuple[int, int, int]) -> Figure:
    """Draw which numbers of x (B, S, C) share their mean with one of them, for each way to choose
    axes.

    Args: ways maps a title to the axes that the mean is taken over, such as (2,); shape is B, S, C.
    """
    (batch, tokens, width) = shape
    chosen = (0, 1, 2)
    look: dict[str, Any] = {"fontsize": SMALL, "color": INK}
    figure = plots.new_figure(2.7 * len(ways), 0.3 + 0.24 * batch * (tokens + 1.6))
    for ax, (title, dims) in zip(
        figure.subplots(1, len(ways), squeeze=False)[0], ways.items(), strict=True
    ):
        over = {dim % 3 for dim in dims}
        for b, s, c in np.ndindex(shape):
            shares = all(axis in over or (b, s, c)[axis] == chosen[axis] for axis in range(3))
            color = INK if (b, s, c) == chosen else ACCENT if shares else QUIET
            corner = (c, b * (tokens + 1.6) + s)
            ax.add_patch(Rectangle(corner, 1, 1, facecolor=color, edgecolor="white", linewidth=1))
        for b in range(batch):
            top = b * (tokens + 1.6)
            ax.text(0, top - 0.25, f"sentence {b}", **look)
            side = {"rotation": 90, "ha": "right", "va": "center"}
            ax.text(-0.2, top + tokens / 2, "words", **side, **look)
        bottom = batch * (tokens + 1.6) - 1.6
        ax.text(width / 2, bottom + 0.2, "channels", ha="center", va="top", **look)
        axes = ", ".join("BSC"[dim] for dim in sorted(over))
        ax.set_title(f"{title}\nover {axes}", loc="left", fontsize=TEXT)
        ax.set(xlim=(-0.9, width), ylim=(bottom + 1, -1.2), aspect="equal")
        ax.axis("off")
    return figure
