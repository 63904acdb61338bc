"""The layout of the picture of one whole pass, for its static figure and for the widget.

The scores have q on their left and kᵀ above; the context has the weights on its left and v below;
so a word's row goes straight through the picture. Sizes are in pixels, and y goes down.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from matplotlib.path import Path

from mha_course.colours import STREAMS
from mha_course.markup import isolate_word

WIDTH = 972
LEFT = 76  # of x, behind the words
WIDE = 52  # x and out, which have no heads
BANDS = 123  # q, kᵀ, v and context: the followed head gets the space the others leave
FOLDED = 6  # each of the other heads
GAP = 3
Part = dict[str, Any]
Point = tuple[float, float]
LETTERS = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE4: "C", Path.CLOSEPOLY: "Z"}  # of SVG


class Sizes(NamedTuple):
    """Heights, and the y of each row of the picture."""

    height: int
    top: int  # y of the scores and their neighbours
    side: int  # of the scores
    keys: int
    values: int
    v_path: int  # the gap from the scores to the paths from x to v
    residual_path: int  # y of the residual path
    bar: int  # of the bars that show how a number is computed


SIZES = Sizes(
    height=495, top=205, side=165, keys=BANDS, values=98, v_path=34, residual_path=8, bar=32
)


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
        self.sizes = SIZES
        self.top = self.sizes.top
        self.side = self.sizes.side
        self.bottom = self.top + self.side
        self.middle = self.top + self.side / 2
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
            self._label(
                name, part, "yours" if name in yours else f"{part['rows']}×{part['columns']}"
            )
        for i, token in enumerate(tokens):
            word = isolate_word(token, 12)
            middle = (i + 0.5) * self.side / self.S + 4
            self._write(word, 68, self.top + middle, "words", color="ink", align="right", row=i)
            self._write(
                word,
                self.parts["k"]["x"] + middle,
                self.parts["k"]["y"] - 6,
                "k",
                rotated=True,
                key=i,
            )
        self.heads = self._heads()
        self.ramps = self._ramps()

    def message(self) -> dict[str, Any]:
        """Return the plan as dicts and lists for the browser."""
        size = {
            "width": WIDTH,
            "height": self.sizes.height,
            "top": self.top,
            "side": self.side,
            "left": LEFT,
            "doors": self.doors,
            "around": self.sizes.residual_path,
            "bars": {"top": self.bottom + self.sizes.v_path + 20, "tall": self.sizes.bar},
        }
        strokes = [{**stroke, "path": _svg(stroke["path"])} for stroke in self.strokes]
        drawn = {name: getattr(self, name) for name in ("parts", "heads", "ramps", "texts")}
        return {**size, **drawn, "strokes": strokes}

    def _parts(self, C: int) -> dict[str, Part]:
        plain = {"rows": self.S, "columns": C, "bands": 1, "w": WIDE, "y": self.top, "h": self.side}
        banded = {**plain, "bands": self.H, "w": BANDS}
        square = {**plain, "columns": self.S, "w": self.side, "square": True}
        q = LEFT + WIDE + 54
        scores = q + BANDS + 18
        weights = scores + self.side + 62
        context = weights + self.side + 16
        keys = {
            "rows": C,
            "columns": self.S,
            "w": self.side,
            "y": self.top - 14 - self.sizes.keys,
            "h": self.sizes.keys,
            "transposed": True,
        }
        parts: dict[str, Part] = {
            "x": {**plain, "x": LEFT},
            "q": {**banded, "x": q},
            "k": {**banded, **keys, "x": scores},
            "v": {
                **banded,
                "x": context,
                "y": self.sizes.height - 14 - self.sizes.values,
                "h": self.sizes.values,
            },
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
        end = v["y"] + v["h"] / 2
        leaves = context["x"] + BANDS
        for head in range(self.H):
            shift = 4 * (head - (self.H - 1) / 2)
            high = k["y"] + k["h"] / 2 + shift
            low = self.bottom + self.sizes.v_path + shift
            bend = v["x"] - 76 - shift
            row = self.top + (head + 0.5) * self.side / self.H
            paths = {
                "q": [(start, self.middle + shift), (q["x"] - 9, self.middle + shift)],
                "k": [
                    (start, self.top + 40 + shift),
                    (start + 56 + shift, high),
                    (k["x"] - 9, high),
                ],
                "v": [
                    (start, self.bottom - 40 + shift),
                    (start + 44 - shift, low),
                    (bend, low),
                    (bend + 60, end + shift),
                ],
            }
            paths["v"].append((v["x"] - 9, end + shift))
            for name, path in paths.items():
                self._arrow(path, name, "projection", head)
            self._arrow([(leaves + 6, row), (out["x"] - 9, self.middle)], "muted", "output", head)
        names = {
            "q": (start, self.middle - 16),
            "k": (start + 40, k["y"] + k["h"] / 2 - 18),
            "v": (start, self.bottom - 56),
            "o": (leaves + 4, self.top + 12),
        }
        for name, (x, y) in names.items():
            color, shows = ("ink", "output") if name == "o" else (name, "projection")
            style: dict[str, Any] = {"shows": shows, "color": color, "bold": True}
            self._write("W", x, y, size=13, **style)
            self._write(name.upper(), 0, y + 3, after=True, **style)

    def _scaling(self, names: Sequence[str]) -> None:
        """Draw the paths of rows from scores to weights: scaled, through the mask's door, to
        softmax.
        """
        left = self.parts["scores"]["x"] + self.side + 4
        right = self.parts["weights"]["x"] - 5
        self.doors = [left + 20 + 16 * n for n in range(len(names))]
        for i in range(self.S):
            y = self.top + (i + 0.5) * self.side / self.S
            thick = min(3, self.side / self.S / 4)
            funnel = triangle((left, y - thick), (left + 20, y), (left, y + thick))
            self._stroke(funnel, "line", "scaling", 0)
            self._stroke(Path([(left + 20, y), (right, y)]), "line", "scaling", 1)
        for n, name in enumerate(names):
            x, high = self.doors[n], self.top - 62 + 18 * n
            door = Path([(x, high + 5), (x, self.bottom)])
            self._stroke(door, "muted", "scaling", 3 if name == "mask" else 1)
            self._write(name, x - 2, high, "scaling")

    def _residual(self) -> None:
        """Draw the residual path, on which x is added to out."""
        end = self.parts["out"]["x"] + WIDE
        centre = LEFT + WIDE / 2
        x = end + 18
        y = self.middle
        above = self.sizes.residual_path
        around = Path([(centre, self.top - 26), (centre, above), (x, above), (x, y - 14)])
        self._stroke(around, "line", "residual")
        self._stroke(Path([(end + 4, y), (x - 8, y)]), "line", "residual")
        tip = triangle((x, y - 9), (x - 3, y - 15), (x + 3, y - 15))
        self._stroke(tip, "muted", "residual", 0)
        for path in (
            Path.circle((x, y), 8),
            Path([(x - 4, y), (x + 4, y)]),
            Path([(x, y - 4), (x, y + 4)]),
        ):
            self._stroke(path, "muted", "residual")
        self._write("x is added", centre + 12, above + 16, "residual")

    def _label(self, name: str, part: Part, shape: str) -> None:
        """Label a matrix with its name and shape if there is room; kᵀ and v on their left."""
        bold = {"color": name if name in STREAMS else "ink", "bold": True}
        if name in ("k", "v"):
            x = part["x"] - 12
            y = part["y"] - 6 if name == "k" else part["y"] + part["h"]
            self._write(
                "kᵀ" if name == "k" else name, x, y - 15, name, size=13, align="right", **bold
            )
            self._write(shape, x, y, name, align="right")
        else:
            y = self.bottom + 18 if name == "scores" else self.top - 10
            self._write(name, part["x"], y, name, size=13, **bold)
            self._write(shape, 6, y, name, after=True)

    def _heads(self) -> list[dict[str, float]]:
        """Lay out small maps of all heads' weights above those of the head in focus."""
        side = min(39, (self.side + 8) / self.H - 8)
        left = self.parts["weights"]["x"]
        step = (self.side - side) / max(self.H - 1, 1)
        heads = [
            {"x": left + head * step, "y": self.top - 60 - side, "side": side}
            for head in range(self.H)
        ]
        for head, box in enumerate(heads):
            self._write(f"{head}", box["x"], box["y"] - 6, "weights", head=head)
        self._write("head", left - 6, self.top - 66 - side, "weights", align="right")
        return heads

    def _ramps(self) -> list[dict[str, Any]]:
        """Lay out what the colours mean."""
        left = self.parts["context"]["x"]
        width = (self.parts["out"]["x"] + WIDE - left - 24) / 2
        ramps = [
            {"x": left, "y": 56, "w": width},
            {"x": left + width + 24, "y": 56, "w": width, "weights": True},
        ]
        words = (("−", "numbers", "+"), ("0", "weights", "1"))
        for ramp, (low, name, high) in zip(ramps, words, strict=True):
            self._write(low, ramp["x"], 78, align="left")
            self._write(name, ramp["x"] + width / 2, 78, align="center")
            self._write(high, ramp["x"] + width, 78, align="right")
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
