"""The layout of the picture of one whole pass, for its static figure and for the widget.

The scores have q on their left and kᵀ above; the context has the weights on its left and v below;
so a word's row goes straight through the picture. Sizes are in pixels, and y goes down.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any

from matplotlib.path import Path

from mha_course.colours import STREAMS
from mha_course.markup import isolate_word

WIDTH = 972
HEIGHT = 495
TOP = 205  # y of the scores and everything next to them
SIDE = 165  # of the scores
BOTTOM = TOP + SIDE
MIDDLE = TOP + SIDE / 2
LEFT = 76  # of x, behind the words
WIDE = 52  # x and out, which have no heads
BANDS = 123  # q, kᵀ, v and context: the followed head gets the space the others leave
VALUES = 98  # height of v
FOLDED = 6  # each of the other heads
GAP = 3
LOW = BOTTOM + 34  # y of the paths from x to v
AROUND = 8  # y of x on its way around
Part = dict[str, Any]
Point = tuple[float, float]
LETTERS = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE4: "C", Path.CLOSEPOLY: "Z"}  # of SVG


class ScenePlan:
    """The picture as data: matrices (parts), small maps (heads), lines (strokes), texts, bars of
    colours (ramps).

    ``shows`` is the stage at which an item appears; ``head`` is the head it belongs to. A stroke
    without a width is filled. A text ``after`` another begins where that one ends.

    Args:
        tokens: S words.
        H, D: the number of heads, and their width.
        x: whether to draw x.
        masked: whether any key is hidden.
        yours: the stages that a learner's function computed, if not all.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        H: int,
        D: int,
        *,
        x: bool,
        masked: bool,
        yours: Collection[str] = (),
    ) -> None:
        self.S = len(tokens)
        self.H = H
        self.strokes: list[dict[str, Any]] = []
        self.texts: list[dict[str, Any]] = []
        self.parts = self._parts(H * D)
        self._streams()
        self._scaling([f"÷ √{D}", "mask" if masked else "no mask", "softmax"])
        if x:
            self._residual()
        else:
            del self.parts["x"]
        for name, part in self.parts.items():
            shape = "yours" if name in yours else f"{part['rows']}×{part['columns']}"
            self._label(name, part, shape)
        keys = self.parts["k"]
        for i, token in enumerate(tokens):
            word = isolate_word(token, 12)
            middle = (i + 0.5) * SIDE / self.S + 4
            self._write(word, 68, TOP + middle, "words", color="ink", align="right", row=i)
            self._write(word, keys["x"] + middle, keys["y"] - 6, "k", rotated=True, key=i)
        self.heads = self._heads()
        self.ramps = self._ramps()

    def message(self) -> dict[str, Any]:
        """Return the plan as dicts and lists for the browser."""
        size = {"width": WIDTH, "height": HEIGHT, "top": TOP, "side": SIDE, "left": LEFT}
        bars = {"top": LOW + 20, "tall": 32}  # what a number is made of
        strokes = [{**stroke, "path": _svg(stroke["path"])} for stroke in self.strokes]
        drawn = {name: getattr(self, name) for name in ("parts", "heads", "ramps", "texts")}
        return {**size, **drawn, "doors": self.doors, "bars": bars, "strokes": strokes}

    def _parts(self, C: int) -> dict[str, Part]:
        plain = {"rows": self.S, "columns": C, "bands": 1, "w": WIDE, "y": TOP, "h": SIDE}
        banded = {**plain, "bands": self.H, "w": BANDS}
        square = {**plain, "columns": self.S, "w": SIDE, "square": True}
        upright = {"rows": C, "columns": self.S, "w": SIDE, "h": BANDS, "transposed": True}
        q = LEFT + WIDE + 54
        scores = q + BANDS + 18
        weights = scores + SIDE + 62
        context = weights + SIDE + 16
        parts: dict[str, Part] = {
            "x": {**plain, "x": LEFT},
            "q": {**banded, "x": q},
            "k": {**banded, **upright, "x": scores, "y": TOP - 14 - BANDS},
            "v": {**banded, "x": context, "y": HEIGHT - 14 - VALUES, "h": VALUES},
            "scores": {**square, "x": scores},
            "weights": {**square, "x": weights},
            "context": {**banded, "x": context},
            "out": {**plain, "x": context + BANDS + 34},
        }
        for part in parts.values():
            part["whole"] = _boxes(part)
            part["boxes"] = [_boxes(part, followed) for followed in range(self.H)]
        return parts

    def _stroke(
        self, path: Path, color: str, shows: str, width: float = 1.5, head: int = -1
    ) -> None:
        style = {"color": color, "shows": shows, "width": width, "head": head}
        self.strokes.append({"path": path, **style})

    def _write(self, text: str, x: float, y: float, shows: str = "always", **style: Any) -> None:
        drawn = {"color": "muted", "size": 11, "align": "left", **style}
        self.texts.append({"text": text, "x": x, "y": y, "shows": shows, **drawn})

    def _arrow(self, points: Sequence[Point], color: str, shows: str, head: int) -> None:
        """Draw a line from point to point, straight or as an S, and its tip."""
        handles = []
        for (x, y), (to, end) in pairwise(points):
            handles += [((x + to) / 2, y), ((x + to) / 2, end), (to, end)]
        self._stroke(curve([points[0], *handles]), color, shows, head=head)
        x, y = points[-1]
        tip = triangle((x + 5, y), (x - 1, y - 3), (x - 1, y + 3))
        self._stroke(tip, color, shows, 0, head)

    def _streams(self) -> None:
        """Draw a path for each head from x to q, k and v, and from the context to out."""
        q, k, v, context, out = (self.parts[name] for name in ("q", "k", "v", "context", "out"))
        start = LEFT + WIDE + 4
        high = k["y"] + BANDS / 2
        end = v["y"] + VALUES / 2
        leaves = context["x"] + BANDS
        for head in range(self.H):
            shift = 4 * (head - (self.H - 1) / 2)
            bend = v["x"] - 76 - shift
            level, above, low, last = (y + shift for y in (MIDDLE, high, LOW, end))
            turn = (start + 56 + shift, above)
            falls = (start + 44 - shift, low)
            paths = {
                "q": [(start, level), (q["x"] - 9, level)],
                "k": [(start, TOP + 40 + shift), turn, (k["x"] - 9, above)],
                "v": [(start, BOTTOM - 40 + shift), falls, (bend, low), (bend + 60, last)],
            }
            paths["v"].append((v["x"] - 9, last))
            for name, path in paths.items():
                self._arrow(path, name, "projection", head)
            row = TOP + (head + 0.5) * SIDE / self.H
            self._arrow([(leaves + 6, row), (out["x"] - 9, MIDDLE)], "muted", "output", head)
        for name, x, y, color, shows in (
            ("Q", start, MIDDLE - 16, "q", "projection"),
            ("K", start + 40, high - 18, "k", "projection"),
            ("V", start, BOTTOM - 56, "v", "projection"),
            ("O", leaves + 4, TOP + 12, "ink", "output"),
        ):
            self._write("W", x, y, shows, color=color, bold=True, size=13)
            self._write(name, 0, y + 3, shows, color=color, bold=True, after=True)

    def _scaling(self, names: Sequence[str]) -> None:
        """Draw the paths of rows from scores to weights: scaled, through the mask's door, to
        softmax.
        """
        left = self.parts["scores"]["x"] + SIDE + 4
        right = self.parts["weights"]["x"] - 5
        self.doors = [left + 20 + 16 * n for n in range(len(names))]
        cell = SIDE / self.S
        thick = min(3, cell / 4)
        for i in range(self.S):
            y = TOP + (i + 0.5) * cell
            funnel = triangle((left, y - thick), (left + 20, y), (left, y + thick))
            self._stroke(funnel, "line", "scaling", 0)
            self._stroke(Path([(left + 20, y), (right, y)]), "line", "scaling", 1)
        for n, (x, name) in enumerate(zip(self.doors, names, strict=True)):
            high = TOP - 62 + 18 * n
            door = Path([(x, high + 5), (x, BOTTOM)])
            self._stroke(door, "muted", "scaling", 3 if name == "mask" else 1)
            self._write(name, x - 2, high, "scaling")

    def _residual(self) -> None:
        """Draw the residual path, on which x is added to out."""
        end = self.parts["out"]["x"] + WIDE
        centre = LEFT + WIDE / 2
        x = end + 18
        y = MIDDLE
        around = Path([(centre, TOP - 26), (centre, AROUND), (x, AROUND), (x, y - 14)])
        self._stroke(around, "line", "residual")
        self._stroke(Path([(end + 4, y), (x - 8, y)]), "line", "residual")
        tip = triangle((x, y - 9), (x - 3, y - 15), (x + 3, y - 15))
        self._stroke(tip, "muted", "residual", 0)
        plus = Path([(x - 4, y), (x + 4, y)]), Path([(x, y - 4), (x, y + 4)])
        for path in (Path.circle((x, y), 8), *plus):
            self._stroke(path, "muted", "residual")
        self._write("x is added", centre + 12, AROUND + 16, "residual")

    def _label(self, name: str, part: Part, shape: str) -> None:
        """Label a matrix with its name and shape if there is room; kᵀ and v on their left."""
        bold = {"color": name if name in STREAMS else "ink", "bold": True, "size": 13}
        if name in ("k", "v"):
            x = part["x"] - 12
            y = part["y"] - 6 if name == "k" else HEIGHT - 14
            title = "kᵀ" if name == "k" else name
            self._write(title, x, y - 15, name, align="right", **bold)
            self._write(shape, x, y, name, align="right")
        else:
            y = BOTTOM + 18 if name == "scores" else TOP - 10
            self._write(name, part["x"], y, name, **bold)
            self._write(shape, 6, y, name, after=True)

    def _heads(self) -> list[dict[str, float]]:
        """Lay out the weights of all heads, small, above those of the head that is followed."""
        side = min(39, (SIDE + 8) / self.H - 8)
        left = self.parts["weights"]["x"]
        step = (SIDE - side) / max(self.H - 1, 1)
        y = TOP - 60 - side
        heads = [{"x": left + head * step, "y": y, "side": side} for head in range(self.H)]
        for head, box in enumerate(heads):
            self._write(f"{head}", box["x"], y - 6, "weights", head=head)
        self._write("head", left - 6, y - 6, "weights", align="right")
        return heads

    def _ramps(self) -> list[dict[str, Any]]:
        """Lay out what the colours mean."""
        left = self.parts["context"]["x"]
        width = (self.parts["out"]["x"] + WIDE - left - 24) / 2
        ramps = []
        for x, words in ((left, "− numbers +"), (left + width + 24, "0 weights 1")):
            low, name, high = words.split()
            ramps.append({"x": x, "y": 56, "w": width, "weights": name == "weights"})
            self._write(low, x, 78)
            self._write(name, x + width / 2, 78, align="center")
            self._write(high, x + width, 78, align="right")
        return ramps


def triangle(*corners: Point) -> Path:
    """Return the path of a triangle."""
    return Path([*corners, corners[0]], closed=True)


def curve(points: Sequence[Point]) -> Path:
    """Return a Bézier curve through every third point, with two handles before each."""
    return Path(points, [Path.MOVETO, *[Path.CURVE4] * (len(points) - 1)])


def _svg(path: Path) -> str:
    segments = []
    for numbers, code in path.iter_segments(simplify=False):
        segments.append(LETTERS[code])
        if code != Path.CLOSEPOLY:
            segments += map(str, numbers)
    return " ".join(segments)


def _boxes(part: Part, followed: int | None = None) -> list[dict[str, float]]:
    """Return the box of each head's part of a matrix, and its rows and columns: one head enlarged
    between the others, or all alike in one block.
    """
    bands = part["bands"]
    start, length, count = ("y", "h", "rows") if part.get("transposed") else ("x", "w", "columns")
    gap = 0 if followed is None else GAP
    sizes = [part[length] / bands] * bands
    if followed is not None and bands > 1:
        sizes = [FOLDED] * bands
        sizes[followed] = part[length] - (bands - 1) * (FOLDED + GAP)
    box = {key: part[key] for key in ("x", "y", "w", "h", "rows", "columns")}
    box[count] = part[count] // bands
    boxes = []
    for size in sizes:
        boxes.append({**box, length: size})
        box[start] += size + gap
    return boxes
