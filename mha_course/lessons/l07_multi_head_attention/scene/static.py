"""One pass through multi-head attention, each matrix placed next to those it is multiplied with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path
from numpy.typing import NDArray

from mha_course.colours import ACCENT, HATCH, SCENE, STREAMS
from mha_course.lessons.l07_multi_head_attention.scene.plan import (
    BOTTOM,
    HEIGHT,
    SIDE,
    TOP,
    WIDTH,
    ScenePlan,
    curve,
    triangle,
)
from mha_course.plots.figures import SMALL, TEXT, new_figure, signed_colormap
from mha_course.plots.scales import WEIGHTS

Array = NDArray[np.float64]


def attention_scene(
    stages: Mapping[str, Array], tokens: Sequence[str], *, head: int = 0, follow: int = -1
) -> Figure:
    """Draw x, q, kᵀ and v with their heads, one head's scores and weights, all contexts, and out.

    Args:
        stages: those of one sentence, by their names in AttentionSteps; x is drawn if present.
        tokens: S words.
        head: the head whose scores and weights are drawn.
        follow: the index of the followed token; -1 for none.
    """
    H, S, D = stages["q"].shape
    hidden = np.isneginf(stages["masked_scores"][head])
    plan = ScenePlan(tokens, H, D, x="x" in stages, masked=bool(hidden.any()))
    figure = new_figure(WIDTH / 92, HEIGHT / 92, layout="none")
    ax = figure.add_axes((0, 0, 1, 1))
    for stroke in plan.strokes:
        light = 1.0 if stroke["head"] in (-1, head) else 0.5
        _stroke(ax, stroke["path"], stroke["color"], stroke["width"], light)
    for name, part in plan.parts.items():
        _draw_part(ax, name, part, stages[name], head, follow)
    cell = SIDE / S
    for i, j in zip(*hidden.nonzero(), strict=True):
        corner = plan.parts["weights"]["x"] + j * cell, TOP + i * cell
        hatch: Any = HATCH
        ax.add_patch(Rectangle(corner, cell, cell, linewidth=0, **hatch))
    for h, box in enumerate(plan.heads):
        area = {**box, "w": box["side"], "h": box["side"]}
        _image(ax, stages["weights"][h], area, 1 if h == head else 0.55, True)
    for ramp in plan.ramps:
        numbers = np.linspace(0 if ramp["weights"] else -1, 1, 128)[None]
        _image(ax, numbers, {**ramp, "h": 8}, 1, ramp["weights"])
    _write(ax, plan.texts, follow, head)
    if follow >= 0:
        _follow(ax, plan, stages, head, follow)
    ax.set(xlim=(0, WIDTH), ylim=(HEIGHT, 0), aspect="auto")
    ax.axis("off")
    return figure


def _stroke(
    ax: Axes, path: Path, color: str, width: float, alpha: float, zorder: float = 1
) -> None:
    """Draw a path; one without a width is filled."""
    paint = SCENE[color]
    line = {"edgecolor": paint if width else "none", "facecolor": "none" if width else paint}
    ax.add_patch(PathPatch(path, linewidth=0.8 * width, alpha=alpha, zorder=zorder, **line))


def _write(ax: Axes, texts: Sequence[Mapping[str, Any]], follow: int, head: int) -> None:
    drawn: Any = None
    for text in texts:
        followed = text.get("row", -2) == follow
        bold = text.get("bold") or followed or text.get("head") == head
        style: dict[str, Any] = {
            "fontsize": TEXT if text["size"] > 11 else SMALL,
            "fontweight": "bold" if bold else "normal",
            "color": ACCENT if followed else SCENE[text["color"]],
            "parse_math": False,
        }
        x, y, words = text["x"], text["y"], text["text"]
        if text.get("after"):
            style |= {"xycoords": drawn, "textcoords": "offset points", "va": "bottom"}
            drawn = ax.annotate(words, (1, 0), (x, -2 if bold else 0), **style)
        elif text.get("rotated"):
            drawn = ax.text(x, y, words, rotation=90, ha="right", va="bottom", **style)
        else:
            drawn = ax.text(x, y, words, ha=text["align"], va="baseline", **style)


def _image(ax: Axes, numbers: Array, box: Mapping[str, float], alpha: float, weights: bool) -> None:
    extent = (box["x"], box["x"] + box["w"], box["y"] + box["h"], box["y"])
    options: Any = {"extent": extent, "aspect": "auto", "alpha": alpha, "interpolation": "nearest"}
    if weights:
        ax.imshow(numbers, cmap=WEIGHTS.cmap, vmin=WEIGHTS.low, vmax=WEIGHTS.high, **options)
    else:
        largest = np.abs(numbers).max(initial=0.0, where=np.isfinite(numbers)) or 1.0
        ax.imshow(signed_colours(np.nan_to_num(numbers / largest, neginf=0)), **options)


def signed_colours(numbers: Array) -> Array:
    """Return the colours of numbers from -1 to 1, more transparent near 0.

    So 0 shows the page's own colour, on light and dark pages.
    """
    colours = signed_colormap()(np.sign(numbers) / 2 + 0.5)
    colours[..., 3] = np.abs(numbers) ** 0.7
    return np.asarray(colours)


def _draw_part(
    ax: Axes, name: str, part: Mapping[str, Any], numbers: Array, head: int, follow: int
) -> None:
    """Draw a matrix, in bands if it has heads; the head and row in focus are darker."""
    x, y, width, height = (part[key] for key in "xywh")
    square = "square" in part
    bands = numbers[[head]] if square else numbers.reshape(-1, *numbers.shape[-2:])
    for h, (band, box) in enumerate(zip(bands, part["boxes"][head], strict=True)):
        light = 1.0 if h == head or len(bands) == 1 else 0.55
        _image(ax, band.T if "transposed" in part else band, box, light, name == "weights")
        edge: Any = {"edgecolor": STREAMS.get(name, SCENE["line"]), "linewidth": 0.8}
        corner = (box["x"], box["y"])
        ax.add_patch(Rectangle(corner, box["w"], box["h"], fill=False, alpha=light, **edge))
    lines = np.arange(1, part["columns"] if square else 1) * width / part["columns"]
    ax.hlines(y + lines, x, x + width, color="white", linewidth=0.8)
    ax.vlines(x + lines, y, y + height, color="white", linewidth=0.8)
    if follow < 0 or name in ("k", "v"):
        return
    cell = height / part["rows"]
    top, below = follow * cell, (follow + 1) * cell
    for start, end in ((0, top), (below, height)):
        veil: Any = {"color": "white", "alpha": 0.6, "linewidth": 0, "zorder": 3}
        ax.add_patch(Rectangle((x - 1, y + start), width + 2, end - start, **veil))
    frame: Any = {"edgecolor": ACCENT, "linewidth": 1.4, "zorder": 5}
    ax.add_patch(Rectangle((x - 1, y + top - 1), width + 2, cell + 2, fill=False, **frame))


def _follow(ax: Axes, plan: ScenePlan, stages: Mapping[str, Array], head: int, row: int) -> None:
    """Draw lines from q to every key and from the weights to v, as thick as the numbers."""
    scores, weights = stages["scores"][head, row], stages["weights"][head, row]
    parts = plan.parts
    q, v = parts["q"], parts["v"]
    cell = SIDE / plan.S
    y = TOP + (row + 0.5) * cell
    start, key = q["x"] + q["w"] + 3, TOP - 17
    sizes = ((scores - scores.min()) / (np.ptp(scores) or 1.0)) ** 2
    for j, (size, weight) in enumerate(zip(sizes, weights, strict=True)):
        at, middle = parts["scores"]["x"] + (j + 0.5) * cell, (y + key) / 2
        line = curve([(start, y), ((start + at) / 2, middle), (at, middle), (at, key)])
        _stroke(ax, line, "accent", 0.6 + 3 * size, 0.2 + 0.7 * size, 4)
        if weight > 0.005:
            at, end = parts["weights"]["x"] + (j + 0.5) * cell, v["y"] + (j + 0.5) * v["h"] / plan.S
            handles = [(at, BOTTOM + 60), (v["x"] - 60, end)]
            line = curve([(at, y + cell / 2), *handles, (v["x"] - 3, end)])
            _stroke(ax, line, "accent", 0.8 + 5 * weight, 0.3 + 0.6 * weight, 4)
    box = v["boxes"][head][head]
    band, low = box["x"] + box["w"] / 2, y + cell / 2 + 3
    _stroke(ax, Path([(band, v["y"] - 2), (band, low + 5)]), "accent", 3, 1, 4)
    tip = triangle((band, low), (band - 4, low + 7), (band + 4, low + 7))
    _stroke(ax, tip, "accent", 0, 1, 4)
    for source, target in (("x", "q"), ("scores", "weights"), ("context", "out")):
        if source in parts:
            start = parts[source]["x"] + parts[source]["w"] + 3
            _stroke(ax, Path([(start, y), (parts[target]["x"] - 3, y)]), "accent", 1.5, 1, 4)
