"""The whole of multi-head attention in one picture: every stage of one pass, number by number.

Axes: S tokens, H heads, D = head_dim, C = H * D.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import traitlets
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import nn

from mha_course.attention import AttentionSteps, head_contributions, split_heads
from mha_course.datasets.grammar import words_of
from mha_course.errors import require
from mha_course.lessons.l07_multi_head_attention.scene.plan import ScenePlan
from mha_course.lessons.l07_multi_head_attention.scene.static import attention_scene, signed_colours
from mha_course.lessons.l07_multi_head_attention.scene.watch import stages_of
from mha_course.markup import isolate_word
from mha_course.plots.inputs import as_array, as_names, numbered
from mha_course.plots.scales import as_bytes, palettes
from mha_course.widgets.base import CourseWidget, esm, style
from mha_course.widgets.controls import Control
from mha_course.widgets.learner_function import COURSES, YOURS, LearnerFunction

HERE = Path(__file__).parent
PLACE = "AttentionScene"
NAMES = tuple(field.name for field in fields(AttentionSteps) if field.name != "scaled_scores")
AXES = {**dict.fromkeys(NAMES, "HSS"), **dict.fromkeys(("q", "k", "v", "context"), "HSD")}
AXES |= dict.fromkeys(("x", "merged", "out"), "SC")
LARGEST = {"S": 32, "H": 8, "C": 128}
Arrays = dict[str, NDArray[np.float64]]


class AttentionScene(CourseWidget):
    """Show a whole pass: follow a word, walk through the stages, inspect numbers.

    Args:
        steps: the result of ``MultiHeadAttention.steps(x)`` for one sentence: up to 32 words, 8
        heads, width 128. tokens: its S words.
        recompute: called when the learner asks; it returns steps, or (out, weights) as
        ``MultiHeadAttention`` does; then the other stages are found by watching it. With a
        parameter ``sentence`` it gets the words the learner types, and may return their (steps, x),
        which count as the course's.
        x: the input, (S, C) or (1, S, C); without it the picture begins with the words.
        out_proj: the Linear that made ``out``; without it, what each head adds is not shown.
        follow: the word followed at first.
        head: the head highlighted at first.
    Raises: ShapeError.
    """

    _esm = esm("widget.js", folder=HERE)
    _css = style(HERE / "attention_scene.css")
    stage = traitlets.Int(-1).tag(sync=True)
    row = traitlets.Int(-1).tag(sync=True)
    head = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        steps: AttentionSteps,
        *,
        tokens: Sequence[str],
        recompute: Callable[[], Any] | None = None,
        x: Any = None,
        out_proj: nn.Linear | None = None,
        follow: str | None = None,
        head: int = 0,
    ) -> None:
        stages = {name: getattr(steps, name) for name in NAMES} | ({} if x is None else {"x": x})
        q = as_array(PLACE, steps.q, ("H", "S", "D"))
        self._sizes = dict(zip("HSD", q.shape, strict=True)) | {"C": q.shape[0] * q.shape[2]}
        self._given = self._shown = self._read(stages, self._sizes)
        words = as_names(PLACE, "tokens", "row", tokens, self._sizes["S"])
        self._words = self._given_words = words
        self._out_proj = out_proj
        self._function = LearnerFunction(
            PLACE, "function", recompute and partial(stages_of, recompute)
        )
        types = recompute is not None and "sentence" in inspect.signature(recompute).parameters
        controls = [Control("sentence", "Sentence", "text", " ".join(words))] if types else []
        row = words.index(follow) if follow in words else -1
        options = {
            "asks": recompute is not None,
            "controls": [control.spec() for control in controls],
            "palettes": _palettes(),
        }
        self._yours: tuple[str, ...] = ()  # the stages that the learner's function computed
        super().__init__(controls, options=options, row=row, head=head)
        self.state = self._state_after({})
        self._describe()

    def _read(self, stages: Mapping[str, Any], sizes: dict[str, int]) -> Arrays:
        """Convert stages to arrays of one sentence, or raise ShapeError if one does not fit."""
        for axis, limit in LARGEST.items():
            rule = f"the scene shows up to {limit} of {axis}"
            got = f"{axis}={sizes[axis]}"
            require(sizes[axis] <= limit, PLACE, rule, expected=f"{axis} <= {limit}", got=got)
        arrays = {}
        for name, tensor in stages.items():
            array = as_array(f"{PLACE}: {name}", tensor, tuple(AXES[name]))
            axes = AXES[name]
            shape = tuple(sizes[axis] for axis in axes)
            expected = f"({', '.join(axes)}) = {shape}"
            got = str(array.shape)
            require(
                array.shape == shape, PLACE, f"{name} does not fit q", expected=expected, got=got
            )
            arrays[name] = array
        return arrays

    def _drawn(self) -> dict[str, Any]:
        """Return all stages, and what each head adds to out if the Linear is known."""
        H, S, D = (self._sizes[axis] for axis in "HSD")
        arrays = self._shown if self._out_proj is None else self._shown | self._parts_of_out()
        masked = bool(np.isneginf(arrays["masked_scores"]).any())
        tagged = () if "q" in self._yours else self._yours
        tokens = numbered(self._words)
        plan = ScenePlan(tokens, H, D, x="x" in arrays, masked=masked, yours=tagged)
        return {
            "H": H,
            "S": S,
            "D": D,
            "tokens": tokens,
            "words": self._words,
            "plan": plan.message(),
            "masked": masked,
            "source": self._source(),
            "yours": list(self._yours),
            "arrays": {name: array.astype("<f4").tobytes() for name, array in arrays.items()},
        }

    def _parts_of_out(self) -> Arrays:
        """Return what each head adds to out, (H, S, C), and the bias, (C,), if these make out."""
        assert self._out_proj is not None
        weight = self._out_proj.weight.detach().cpu().double()  # (C, C)
        merged = split_heads(torch.from_numpy(self._shown["merged"])[None], self._sizes["H"])
        added = head_contributions(merged, weight)[0].numpy()  # (H, S, C)
        remainder = self._shown["out"] - added.sum(0)  # (S, C), of each word the bias
        if not np.allclose(remainder, remainder[0], atol=1e-4):
            return {}
        return {"parts": added, "bias": remainder[0].round(6)}

    def _source(self) -> str:
        if not self._yours:
            return COURSES
        if {"q", "out"} <= set(self._yours):
            return YOURS
        return f"{', '.join(self._yours)}: your function's numbers. All others are the course's."

    def _receive(self, event: Mapping[str, Any]) -> None:
        moved = event.get("moved", {})
        for name, control in self._controls.items():
            self.values[name] = control.read(PLACE, moved.get(name, self.values[name]))
        expected = "steps, or (out, weights)"
        self._function.result_to(self._keep, expected, **self.values)
        self._describe()

    def _keep(self, result: dict[str, Any]) -> None:
        """Show the stages found, or else the course's for the given sentence."""
        words = words_of(self.values["sentence"]) if self.values else self._given_words
        given = self._given if words == self._given_words else {}
        stages = {name: result[name] for name in (*NAMES, "x") if result.get(name) is not None}
        if given:  # and so is x
            stages.pop("x", None)
        sizes = self._sizes | {"S": len(words)}
        read = self._read(stages, sizes)
        computed = {"masked_scores"} if "weights" in read else set()
        missing = ", ".join(self._given.keys() - given.keys() - read.keys() - computed)
        rule = "another sentence needs all stages"
        require(not missing, PLACE, rule, expected="none missing", got=f"no {missing}")
        self._sizes = sizes
        self._shown = given | read
        if "weights" in read and "masked_scores" not in read:
            self._shown["masked_scores"] = _masked_scores(self._shown)
        self._yours = () if result.get("given") else tuple(name for name in read if name != "x")
        self._words = words

    @traitlets.observe("row", "head")
    def _describe(self, _: Any = None) -> None:
        """Describe in one sentence what is shown."""
        H, S, D = (self._sizes[axis] for axis in "HSD")
        head = min(max(self.head, 0), H - 1)
        row = min(self.row, S - 1)
        self.text = f"{S} words on their way through {H} heads of {D} numbers"
        if row >= 0:
            weights = self._shown["weights"][head, row]
            tokens = numbered(self._words)
            word, best = (isolate_word(tokens[i], 14) for i in (row, int(weights.argmax())))
            self.text += f"; in head {head} “{word}” puts {weights.max():.2f} on “{best}”"
        self.text += "."

    def picture(self) -> Figure:
        """Draw the overview with the followed word."""
        head = min(max(self.head, 0), self._sizes["H"] - 1)
        row = min(self.row, self._sizes["S"] - 1)
        return attention_scene(self._shown, numbered(self._words), head=head, follow=row)


def _masked_scores(stages: Arrays) -> NDArray[np.float64]:
    """Compute the input of a softmax that was not recorded; NaN if no such scores give the weights.

    Try the scores, scaled and unscaled, with -inf where a weight is exactly 0: their softmax must
    give the weights. Weights do not determine scores, since a row's constant is lost.
    """
    scores, weights = stages["scores"], stages["weights"]
    for candidate in (scores / np.sqrt(stages["q"].shape[2]), scores):
        for masked in (candidate, np.where(weights == 0, -np.inf, candidate)):
            softmax = torch.from_numpy(masked).softmax(-1).nan_to_num(0.0).numpy()
            if np.allclose(softmax, weights, atol=1e-5):
                return masked
    return np.full_like(scores, np.nan)


def _palettes() -> dict[str, bytes]:
    """Return the palettes; the signed ones fade towards 0, which is the page's colour."""
    numbers = np.linspace(-1, 1, 256)
    colours = signed_colours(numbers)
    on_dark = np.minimum(colours * (1.5, 1.5, 1.5, 1), 1)
    signed = {"signed": as_bytes(colours), "signed_on_dark": as_bytes(on_dark)}
    return {"weights": palettes()["plain"], **signed}
