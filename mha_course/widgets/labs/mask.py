"""The lab of lessons 4 and 8: paint a mask, see it in every convention, and its weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mha_course.attention import masked_softmax
from mha_course.errors import ShapeError, require_mask
from mha_course.markup import isolate_word
from mha_course.masks import additive_mask, causal_mask, combine_masks, padding_mask
from mha_course.plots.scales import BOOL
from mha_course.widgets.base import answer_script
from mha_course.widgets.controls import Control
from mha_course.widgets.labs.inputs import scores_and_tokens
from mha_course.widgets.labs.lab import HERE, Lab
from mha_course.widgets.labs.panels import Panel, Panels, matrix

PAINTED = "painted"
PRESETS = ("none", "causal", "padding", "left padding, causal", "window", PAINTED)
COURSE = "0 (this course)"
BY_HAND = "-inf by hand"
FINITE = "-1e9"
FILLS = (COURSE, BY_HAND, FINITE)


class MaskLab(Lab):
    """Paint which word may attend to which, and see the weights that result.

    Args:
        scores: scaled scores (T, S) with T = S, of one head; axes of size 1 in front are dropped.
        tokens: the S words. mask: the initial mask, (T, S) bool, True = may attend; by default
        causal.
        conventions: whether to show the mask in other libraries' conventions.
    ``mask`` is the painted mask.
    """

    question = "Who may attend to whom, and what happens to a row that sees nothing?"
    hint = "Press a cell to paint it, or drag over several."
    keys_hint = "By keyboard: arrow keys walk, space paints, shift + arrow paints on."

    def __init__(
        self, scores: Any, tokens: Sequence[str], *, mask: Any = None, conventions: bool = True
    ) -> None:
        self._conventions = conventions
        self._scores, self._tokens = scores_and_tokens("MaskLab", scores, tokens)
        size = len(self._tokens)
        start = causal_mask(size).int().tolist() if mask is None else self._checked(mask)
        preset = "causal" if mask is None else PAINTED
        counts = tuple(range(size))
        super().__init__([
            Control("preset", "mask", "menu", preset, PRESETS),
            Control("n", "n, of padding and window", "slider", min(2, size - 1), counts),
            Control("fill", "a row that sees nothing", "choice", COURSE, FILLS),
            Control("mask", "", "painted", start, check=self._checked),
        ])  # fmt: skip

    @property
    def mask(self) -> Tensor:
        """The painted mask, (T, S), bool, True = may attend."""
        return torch.tensor(self.values["mask"], dtype=torch.bool)

    def _painted(self, mask: Any) -> Tensor:
        """Return a mask that was set, or painted cells 0 and 1, as bool (T, S)."""
        size = len(self._tokens)
        if isinstance(mask, list):
            try:
                mask = torch.tensor(mask).bool()
            except (TypeError, ValueError) as error:
                rule = "mask must be a table of 0 and 1"
                expected = f"{size} rows of {size}"
                raise ShapeError("MaskLab", rule, expected=expected, got=str(error)) from None
        require_mask("MaskLab", mask, {"B": 1, "H": 1, "T": size, "S": size})
        return mask.detach().cpu().expand(1, 1, size, size)[0, 0]

    def _checked(self, mask: Any) -> list[list[int]]:
        cells: list[list[int]] = self._painted(mask).int().tolist()
        return cells

    def reconcile(self, values: dict[str, Any], moved: Mapping[str, Any]) -> dict[str, Any]:
        """Switch to a painted mask when a cell is painted; let a preset or its n paint all
        cells."""
        if "mask" in moved and "preset" not in moved:
            return {**values, "preset": PAINTED}
        if {"preset", "n"} & moved.keys() and values["preset"] != PAINTED:
            painted = preset(values["preset"], len(self._tokens), values["n"])
            return {**values, "mask": painted.int().tolist()}
        return values

    def without_kernel(self) -> dict[str, Any] | None:
        """Return the script that answers without a kernel, and its data."""
        script = answer_script("mask_answer.js", folder=HERE)
        data = {
            "scores": self._scores.tolist(),
            "words": list(map(isolate_word, self._tokens)),
            "presets": PRESETS,
            "fills": FILLS,
        }
        return {"answerer": {"script": script, "data": data}}

    def draw(self, preset: str, n: int, fill: str, mask: list[list[int]]) -> tuple[Panels, str]:
        """Draw the mask, the resulting weights, and the mask in other conventions."""
        tokens = self._tokens
        allowed = torch.tensor(mask, dtype=torch.bool)
        cells = allowed.int()
        hidden = (~allowed).int()
        weights = filled(self._scores, allowed, fill)
        style: dict[str, Any] = {"scale": BOOL, "on": "may attend", "off": "hidden"}
        note = "Hatched: hidden. Red edge: a weight where there must be none."
        panels = [
            matrix("the mask", tokens, tokens, cells, paint="mask", hidden=hidden, **style),
            matrix("weights after softmax", tokens, tokens, weights, hidden=hidden, note=note),
        ]
        if self._conventions:
            panels += _as_others_write_it(allowed, tokens)
        return tuple(panels), _sentence(allowed, weights, tokens, fill)


def _as_others_write_it(allowed: Tensor, tokens: Sequence[str]) -> list[Panel]:
    """Draw a small mask (T, S) in each convention."""
    ignored = ~allowed  # the polarity of nn.MultiheadAttention and seaborn
    additive = additive_mask(allowed, torch.float32).isneginf()
    group = "the same mask, as other libraries write it"
    style: dict[str, Any] = {"size": "small", "scale": BOOL, "group": group}
    return [
        matrix(title, tokens, tokens, cells.int(), on=on, off=off, **style)
        for title, cells, on, off in (
            ("this course, and SDPA", allowed, "True = may attend", "False"),
            ("nn.MultiheadAttention", ignored, "True = ignore", "False"),
            ("seaborn.heatmap", ignored, "True = do not draw", "False"),
            ("additive", additive, "-inf", "0 = may attend"),
        )
    ]


def preset(name: str, size: int, n: int) -> Tensor:
    """Return a mask (S, S) by name; n is the number of padding tokens, or a window's reach.

    >>> preset("window", 3, 1).int().tolist()
    [[1, 1, 0], [1, 1, 1], [0, 1, 1]]
    """
    places = torch.arange(size)
    causal = causal_mask(size)
    padding = padding_mask([size - n], size)
    return {
        "none": torch.ones(size, size, dtype=torch.bool),
        "causal": causal,
        "padding": padding[0, 0].expand(size, size),
        "left padding, causal": combine_masks(causal, padding.flip(-1))[0, 0],
        "window": (places[:, None] - places).abs() <= n,
    }[name]


def filled(scores: Tensor, allowed: Tensor, fill: str) -> Tensor:
    """Return the weights (T, S) of masked scores, as in this course or in a wrong way."""
    if fill == COURSE:
        return masked_softmax(scores, allowed)
    return scores.masked_fill(~allowed, -math.inf if fill == BY_HAND else -1e9).softmax(-1)


def _sentence(allowed: Tensor, weights: Tensor, tokens: Sequence[str], fill: str) -> str:
    """Count the visible keys, and say what happens to fully masked rows."""
    size = len(tokens)
    blind = [tokens[row] for row in (~allowed.any(-1)).nonzero().flatten().tolist()]
    counted = f"{int(allowed.sum())} of {size * size} pairs may attend."
    if not blind:
        fewest = f"{int(allowed.sum(-1).min())} of {size} {'word' if size == 1 else 'words'}"
        return f"{counted} Every word sees something: the fewest see {fewest}."
    examples = ", ".join(f"“{isolate_word(word)}”" for word in blind[:3])
    examples += " …" if len(blind) > 3 else ""
    rows = f"{len(blind)} {'row sees' if len(blind) == 1 else 'rows see'} nothing ({examples})"
    alike = f"the weights there are all equal, {1 / size:.2f}"
    does = {
        COURSE: "the weights there are all 0",
        BY_HAND: "softmax gives NaN there, and NaN spreads",
        FINITE: f"{alike}: a row that may see nothing sees everything",
    }
    return f"{counted} {rows}: {does[fill]}."
