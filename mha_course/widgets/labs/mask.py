"""The lab of lessons 4 and 8: paint a mask, see it in every convention, and its weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mha_course.attention import masked_softmax
from mha_course.errors import require_mask
from mha_course.markup import isolate_word
from mha_course.masks import additive_mask, causal_mask
from mha_course.plots.scales import BOOL
from mha_course.widgets.base import esm
from mha_course.widgets.controls import Control
from mha_course.widgets.labs.inputs import scores_and_tokens
from mha_course.widgets.labs.lab import HERE, PageLab
from mha_course.widgets.labs.panels import Panel, Panels, matrix

# in the order of those in mask_lab.js
PRESETS = ("none", "causal", "padding", "left padding, causal", "window", "painted")
FILLS = ("0 (this course)", "-inf by hand", "-1e9")


class MaskLab(PageLab):
    """Paint which word may attend to which, and see the weights that result.

    Args:
        scores: scaled scores (T, S) with T = S, of one head; axes of size 1 in front are dropped.
        tokens: the S words. mask: the initial mask, (T, S) bool, True = may attend; by default
        causal.
        conventions: whether to show the mask in other libraries' conventions.
    ``mask`` is the painted mask.
    """

    _esm = esm("mask_lab.js", folder=HERE)
    question = "Who may attend to whom, and what happens to a row that sees nothing?"
    hint = "Press a cell to paint it, or drag over several."
    keys_hint = "By keyboard: arrow keys walk, space paints, shift + arrow keeps painting."

    def __init__(
        self, scores: Any, tokens: Sequence[str], *, mask: Any = None, conventions: bool = True
    ) -> None:
        self._conventions = conventions
        self._scores, self._tokens = scores_and_tokens("MaskLab", scores, tokens)
        size = len(self._tokens)
        preset = "causal" if mask is None else "painted"
        start = causal_mask(size) if mask is None else mask
        require_mask("MaskLab", start, {"B": 1, "H": 1, "T": size, "S": size})
        cells = start.detach().cpu().expand(1, 1, size, size)[0, 0].int().tolist()
        counts = tuple(range(size))
        super().__init__([
            Control("preset", "mask", "menu", preset, PRESETS),
            Control("n", "n, of padding and window", "slider", min(2, size - 1), counts),
            Control("fill", "a row that sees nothing", "choice", FILLS[0], FILLS),
            Control("mask", "", "painted", cells),
        ])  # fmt: skip

    @property
    def mask(self) -> Tensor:
        """The painted mask, (T, S), bool, True = may attend."""
        values: Any = self.state["values"]
        return torch.tensor(values["mask"], dtype=torch.bool)

    def draw(self, mask: list[list[int]], **_: Any) -> tuple[Panels, str]:
        """Draw the mask, the resulting weights, and the mask in other conventions."""
        tokens = self._tokens
        allowed = torch.tensor(mask, dtype=torch.bool)
        cells = allowed.int()
        hidden = (~allowed).int()
        weights = masked_softmax(self._scores, allowed)
        style: dict[str, Any] = {"scale": BOOL, "on": "may attend", "off": "hidden"}
        note = "Hatched: hidden. Red edge: a weight where there must be none."
        given: dict[str, Any] = {"hidden": hidden, "note": note, "scores": self._scores.tolist()}
        panels = [
            matrix("the mask", tokens, tokens, cells, paint="mask", hidden=hidden, **style),
            matrix("weights after softmax", tokens, tokens, weights, **given),
        ]
        if self._conventions:
            panels += _as_others_write_it(allowed, tokens)
        return tuple(panels), _sentence(allowed, tokens)


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


def _sentence(allowed: Tensor, tokens: Sequence[str]) -> str:
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
    return f"{counted} {rows}: the weights there are all 0."
