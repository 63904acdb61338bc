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

from mha_course.colours import ACCENT, HATCH, INK, STREAMS
from mha_course.lessons.l07_multi_head_attention.scene.plan import WIDTH, ScenePlan, curve, triangle
from mha_course.plots.figures import SMALL, TEXT, new_figure, signed_colormap
from mha_course.plots.scales import WEIGHTS

COLORS = {**STREAMS, "ink": INK, "muted": "#667085", "line": "#c6cad2", "accent": ACCENT}
Stages = Mapping[str, NDArray[np.float64]]


def attention_scene(
    stages: Stages, tokens: Sequence[str], *, head: int = 0, follow: int = -1
) -> Figure:
    """Draw x, q, kᵀ and v with their heads, one head's scores and weights, all contexts, and out.

    Args:
        stages: those of one sentence, by their names in AttentionSteps; x is drawn if present.
        tokens: S words.
        head: the head whose scores and weights are drawn.
        follow: the index of the followed token; -1 for none.
    """
    H, _, D = stages["q"].shape
    hidden = np.isneginf(stages["masked_scores"][head])
    plan = ScenePlan(tokens, H, D, x="x" in stages, masked=bool(hidden.any()))
    figure = new_figure(WIDTH / 92, plan.sizes.height / 92, layout="none")
    ax = figure.add_axes((0, 0, 1, 1))
    for stroke in plan.strokes:
        light = 1.0 if stroke["head"] in (-1, head) else 0.5
        _stroke(ax, stroke["path"], COLORS[stroke["color"]], stroke["width"], light)
    for name, part in plan.parts.items():
        _draw_part(ax, name, part, stages[name], head, follow)
    cell = plan.side / len(tokens)
    hatch: dict[str, Any] = {"linewidth": 0, **HATCH}
    for i, j in zip(*hidden.nonzero(), strict=True):
        corner = plan.parts["weights"]["x"] + j * cell, plan.top + i * cell
        ax.add_patch(Rectangle(corner, cell, cell, **hatch))
    for h, box in enumerate(plan.heads):
        area = (box["x"], box["y"], box["side"], box["side"])
        _image(ax, stages["weights"][h], area, 1 if h == head else 0.55, True)
    for ramp in plan.ramps:
        low = 0 if ramp.get("weights") else -1
        area = (ramp["x"], ramp["y"], ramp["w"], 8)
        _image(ax, np.linspace(low, 1, 128)[None], area, 1, low == 0)
    _write(ax, plan.texts, follow, head)
    if follow >= 0:
        _follow(ax, plan, stages, head, follow)
    ax.set(xlim=(0, WIDTH), ylim=(plan.sizes.height, 0), aspect="auto")
    ax.axis("off")
    return figure


def _stroke(
    ax: Axes, path: Path, color: str, width: float, alpha: float, zorder: float = 1
) -> None:
    """Draw a path; one without a width is filled."""
    line = {"edgecolor": color if width else "none", "facecolor": "none" if width else color}
    ax.add_patch(PathPatch(path, linewidth=0.8 * width, alpha=alpha, zorder=zorder, **line))


def _write(ax: Axes, texts: Sequence[Mapping[str, Any]], follow: int, head: int) -> None:
    previous: Any = None
    for text in texts:
        followed = text.get("row", -2) == follow
        bold = text.get("bold") or followed or text.get("head") == head
        style: dict[str, Any] = {
            "fontsize": TEXT if text["size"] > 11 else SMALL,
            "fontweight": "bold" if bold else "normal",
        }
        style |= {"color": ACCENT if followed else COLORS[text["color"]], "parse_math": False}
        if text.get("after"):
            drop = (text["x"], -2 if text["y"] != previous.get_position()[1] else 0)
            previous = ax.annotate(
                text["text"],
                (1, 0),
                drop,
                xycoords=previous,
                textcoords="offset points",
                va="bottom",
                **style,
            )
        else:
            placement = (
                {"rotation": 90, "ha": "right", "va": "bottom"}
                if text.get("rotated")
                else {"ha": text["align"]}
            )
            previous = ax.text(
                text["x"], text["y"], text["text"], **({"va": "baseline"} | placement), **style
            )


def _image(
    ax: Axes, numbers: NDArray[np.float64], box: tuple[float, ...], alpha: float, weights: bool
) -> None:
    x, y, width, height = box
    extent = (x, x + width, y + height, y)
    options: Any = {"extent": extent, "aspect": "auto", "alpha": alpha, "interpolation": "nearest"}
    if weights:
        ax.imshow(numbers, cmap=WEIGHTS.cmap, vmin=WEIGHTS.low, vmax=WEIGHTS.high, **options)
    else:
        sizes = np.abs(numbers)
        largest = sizes.max(initial=0.0, where=np.isfinite(sizes)) or 1.0
        ax.imshow(signed_colours(np.nan_to_num(numbers / largest, neginf=0)), **options)


def signed_colours(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the colours of numbers from -1 to 1, more transparent near 0.

    So 0 shows the page's own colour, on light and dark pages.
    """
    colours = signed_colormap()(np.sign(numbers) / 2 + 0.5)
    colours[..., 3] = np.abs(numbers) ** 0.7
    return np.asarray(colours)


def _draw_part(
    ax: Axes,
    name: str,
    part: Mapping[str, Any],
    numbers: NDArray[np.float64],
    head: int,
    follow: int,
) -> None:
    """Draw a matrix, in bands if it has heads; the head and row in focus are darker."""
    x, y, width, height = (part[key] for key in "xywh")
    bands = (
        [numbers[head]] if "square" in part else list(numbers) if numbers.ndim == 3 else [numbers]
    )
    for h, (band, box) in enumerate(zip(bands, part["boxes"][head], strict=False)):
        area = (box["x"], box["y"], box["w"], box["h"])
        light = 1.0 if h == head or len(bands) == 1 else 0.55
        _image(ax, band.T if part.get("transposed") else band, area, light, name == "weights")
        color = STREAMS.get(name, COLORS["line"])
        ax.add_patch(
            Rectangle(area[:2], *area[2:], fill=False, edgecolor=color, linewidth=0.8, alpha=light)
        )
    edges = (
        np.arange(1, part["columns"]) * width / part["columns"] if "square" in part else np.zeros(0)
    )
    ax.hlines(y + edges, x, x + width, color="white", linewidth=0.8)
    ax.vlines(x + edges, y, y + height, color="white", linewidth=0.8)
    if follow >= 0 and name not in ("k", "v"):
        cell = height / part["rows"]
        below = y + (follow + 1) * cell
        veil: dict[str, Any] = {"color": "white", "alpha": 0.6, "linewidth": 0, "zorder": 3}
        ax.add_patch(Rectangle((x - 1, y), width + 2, follow * cell, **veil))
        ax.add_patch(Rectangle((x - 1, below), width + 2, y + height - below, **veil))
        row = (x - 1, y + follow * cell - 1)
        frame: dict[str, Any] = {"edgecolor": ACCENT, "linewidth": 1.4, "zorder": 5}
        ax.add_patch(Rectangle(row, width + 2, cell + 2, fill=False, **frame))


def _follow(ax: Axes, plan: ScenePlan, stages: Stages, head: int, row: int) -> None:
    """Draw lines from q to every key and from the weights to v, as thick as the numbers."""
    numbers = stages["scores"][head, row]
    weights = stages["weights"][head, row]
    parts = plan.parts
    q = parts["q"]
    v = parts["v"]
    cell = plan.side / len(numbers)
    y = plan.top + (row + 0.5) * cell
    start = q["x"] + q["w"] + 3
    key = plan.top - 17
    below = plan.bottom + 60
    sizes = ((numbers - numbers.min()) / (np.ptp(numbers) or 1.0)) ** 2
    for j, (size, weight) in enumerate(zip(sizes, weights, strict=True)):
        at = parts["scores"]["x"] + (j + 0.5) * cell
        middle = (y + key) / 2
        line = curve([(start, y), ((start + at) / 2, middle), (at, middle), (at, key)])
        _stroke(ax, line, ACCENT, 0.6 + 3 * size, 0.2 + 0.7 * size, 4)
        at = parts["weights"]["x"] + (j + 0.5) * cell
        end = v["y"] + (j + 0.5) * v["h"] / len(numbers)
        line = curve([(at, y + cell / 2), (at, below), (v["x"] - 60, end), (v["x"] - 3, end)])
        if weight > 0.005:
            _stroke(ax, line, ACCENT, 0.8 + 5 * weight, 0.3 + 0.6 * weight, 4)
    box = v["boxes"][head][head]
    band = box["x"] + box["w"] / 2
    low = y + cell / 2 + 3
    _stroke(ax, Path([(band, v["y"] - 2), (band, low + 5)]), ACCENT, 3, 1, 4)
    tip = triangle((band, low), (band - 4, low + 7), (band + 4, low + 7))
    _stroke(ax, tip, ACCENT, 0, 1, 4)
    for source, target in (("x", "q"), ("scores", "weights"), ("context", "out")):
        if source in parts:
            start = parts[source]["x"] + parts[source]["w"] + 3
            _stroke(ax, Path([(start, y), (parts[target]["x"] - 3, y)]), ACCENT, 1.5, 1, 4)
