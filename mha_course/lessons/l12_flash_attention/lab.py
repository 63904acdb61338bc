"""The lab of lesson 12: attention tile by tile, with each row's running maximum and sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from mha_course import flash, plots
from mha_course.colours import FADED, HATCH, PAPER
from mha_course.lessons.l12_flash_attention.online_softmax import Running, running
from mha_course.markup import isolate_word
from mha_course.plots.figures import SMALL
from mha_course.plots.scales import signed
from mha_course.widgets.base import esm
from mha_course.widgets.controls import Control
from mha_course.widgets.labs.inputs import scores_and_tokens
from mha_course.widgets.labs.lab import Lab
from mha_course.widgets.labs.panels import Panels, bars, matrix, table

HERE = Path(__file__).parent
SIZES = (4, 3, 5, 8)  # the sides of a tile to choose from
COMING = {"hatch": "..", "facecolor": PAPER, "edgecolor": FADED, "linewidth": 0}


class TilingLab(Lab):
    """Step through the tiles of a score matrix: which one is loaded, and what each row keeps.

    Args:
        scores: scaled scores (T, S) with T = S, of one head; axes of size 1 in front are dropped.
        tokens: the S words.
    """

    _esm = esm("lab.js", folder=HERE)
    _css = f"{Lab._css}\n{(HERE / 'lab.css').read_text(encoding='utf-8')}"
    question = "What must you keep of a tile before you throw it away?"

    def __init__(self, scores: Any, tokens: Sequence[str]) -> None:
        self._scores, self._tokens = scores_and_tokens("TilingLab", scores, tokens)
        most = max(len(self._tiles(size, causal=False)) for size in SIZES)
        words = tuple(f"{size} × {size}" for size in SIZES)
        super().__init__(
            [
                Control("tile", "tile", "slider", 1, tuple(range(1, most + 1))),
                Control("size", "tiles of", "choice", SIZES[0], SIZES, words),
                Control("causal", "causal mask", "toggle", False),
            ]
        )

    def reconcile(self, values: dict[str, Any], moved: Mapping[str, Any]) -> dict[str, Any]:
        """Stay at the last tile if there are no more, and restart if the tiles change."""
        anew = "tile" not in moved and {"size", "causal"} & moved.keys()
        last = len(self._tiles(values["size"], values["causal"]))
        return {**values, "tile": 1 if anew else min(values["tile"], last)}

    def draw(self, tile: int, size: int, causal: bool) -> tuple[Panels, str]:
        """Draw the current tile, its position, and the running numbers of all rows."""
        tiles = self._tiles(size, causal)
        rows, columns = tiles[tile - 1]
        hidden = torch.ones_like(self._scores).triu(1).bool() & causal  # (T, S)
        history = [running(row, size) for row in self._scores.masked_fill(hidden, -torch.inf)]
        steps = [history[t][columns.start // size] for t in range(rows.start, rows.stop)]
        totals = [
            *[steps[-1].total for steps in history[: rows.start]],
            *[step.total for step in steps],
        ]
        num_held = (rows.stop - rows.start) * (columns.stop - columns.start)
        every = self._scores.numel()
        sums = [*totals, *[0.0] * (len(history) - rows.stop)]
        top = max(step.total for steps in history for step in steps)
        panels = (
            self._table(tiles, tile, hidden, f"scores: {num_held} of {every} are held"),
            bars(
                "running sum of each row",
                self._tokens,
                sums,
                high=top,
                highlighted=range(rows.start, rows.stop),
            ),
            self._changes(rows, steps, first=columns.start == 0),
        )
        place = (
            f"queries {rows.start + 1} to {rows.stop}, keys {columns.start + 1} to {columns.stop}"
        )
        return panels, (
            f"Tile {tile} of {len(tiles)}: {place}; {num_held} of {every} scores are held. "
            f"{self._reading(rows, steps, first=columns.start == 0)}"
        )

    def _tiles(self, size: int, causal: bool) -> list[tuple[slice, slice]]:
        return flash.blocks(len(self._tokens), len(self._tokens), size, causal=causal)

    def picture(self) -> Figure:
        """Draw the panels, and which tiles are done, current, to come and hidden."""
        figure = super().picture()
        ax = figure.axes[0]
        scores = self._panels[0]
        at = scores["at"]
        past: dict[str, Any] = {"facecolor": FADED, "edgecolor": PAPER, "label": "gone"}
        coming: dict[str, Any] = {**COMING, "label": "to come"}
        hidden: dict[str, Any] = {**HATCH, "linewidth": 0, "label": "hidden by the mask"}
        held: dict[str, Any] = {"fill": False, "edgecolor": plots.ACCENT, "linewidth": 2}
        for number, (row, column, height, width) in enumerate(scores["tiles"]):
            if number != at:
                ax.add_patch(
                    Rectangle((column, row), width, height, **(past if number < at else coming))
                )
        if scores["causal"]:
            for row in range(len(self._tokens)):
                ax.add_patch(Rectangle((row + 1, row), len(self._tokens), 1, **hidden))
        row, column, height, width = scores["tiles"][at]
        ax.add_patch(Rectangle((column, row), width, height, **held, label="held"))
        by_name = {patch.get_label(): patch for patch in ax.patches}
        place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0, 0), "frameon": False}
        ax.legend(handles=by_name.values(), fontsize=SMALL, ncols=len(by_name), **place)
        return figure

    def _table(
        self, tiles: Sequence[tuple[slice, slice]], tile: int, hidden: Tensor, title: str
    ) -> dict[str, Any]:
        covered = torch.ones_like(hidden)  # (T, S): not held
        covered[tiles[tile - 1]] = False
        covered |= hidden
        scale = signed(float(self._scores.abs().max()) or 1.0)
        boxes = [
            [rows.start, columns.start, rows.stop - rows.start, columns.stop - columns.start]
            for rows, columns in tiles
        ]
        drawing: dict[str, Any] = {"hidden": covered.tolist(), "scale": scale}
        drawing |= {"tiles": boxes, "at": tile - 1, "causal": bool(hidden.any())}
        scores = self._scores.masked_fill(covered, 0.0)
        return matrix(title, self._tokens, self._tokens, scores, **drawing)

    def _changes(self, rows: slice, steps: Sequence[Running], *, first: bool) -> dict[str, Any]:
        lines = [
            [
                isolate_word(self._tokens[t]),
                f"{step.maximum:.1f}",
                "first" if first else f"× {step.shrink:.3f}",
                f"+ {step.added:.2f}",
            ]
            for t, step in zip(range(rows.start, rows.stop), steps, strict=True)
        ]
        note = "new sum = old sum × factor + the exponentials of this tile, relative to the maximum"
        title, head = "what this tile does to its rows", ("query", "max", "factor", "added")
        return table(title, head, lines, note, most_rows=max(SIZES))

    def _reading(self, rows: slice, steps: Sequence[Running], *, first: bool) -> str:
        """Describe the row whose sum shrinks most."""
        if first:
            return "The first tile of these rows: each begins with the maximum that it finds."
        t, step = min(
            zip(range(rows.start, rows.stop), steps, strict=True), key=lambda pair: pair[1].shrink
        )
        if step.shrink == 1:
            return "No row meets a larger score than before: nothing shrinks."
        word = isolate_word(self._tokens[t])
        return (
            f"“{word}” meets a larger score, {step.maximum:.1f}: its sum shrinks by the factor "
            f"{step.shrink:.3f}: {step.before:.2f} × {step.shrink:.3f} + {step.added:.2f} = "
            f"{step.total:.2f}."
        )
