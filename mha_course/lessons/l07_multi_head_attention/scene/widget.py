"""The whole of multi-head attention in one picture: every stage of one pass, where each number
stands.

Axes: S tokens, H heads, D = head_dim, C = H * D.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import traitlets
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import nn

from mha_course import plots
from mha_course.attention import AttentionSteps
from mha_course.errors import require
from mha_course.lessons.l07_multi_head_attention.scene.plan import ScenePlan
from mha_course.lessons.l07_multi_head_attention.scene.static import attention_scene
from mha_course.lessons.l07_multi_head_attention.scene.watch import stages_of
from mha_course.markup import isolate_word
from mha_course.plots.figures import STREAMS
from mha_course.plots.inputs import as_array, as_names, numbered
from mha_course.plots.scales import palettes, signed_on_paper
from mha_course.widgets.base import COURSES, YOURS, RecomputingWidget, esm, style

HERE = Path(__file__).parent
PLACE = "AttentionScene"
NAMES = tuple(field.name for field in fields(AttentionSteps) if field.name != "scaled_scores")
AXES = {**dict.fromkeys(NAMES, "HSS"), **dict.fromkeys(("q", "k", "v", "context"), "HSD")}
AXES |= dict.fromkeys(("x", "merged", "out"), "SC")
LARGEST = {"S": 32, "H": 8, "C": 128}
Arrays = dict[str, NDArray[np.float64]]


class AttentionScene(RecomputingWidget):
    """Show one pass as a whole: follow a word through it, walk through its stages, look into its
    numbers.

    Args:
        steps: what ``MultiHeadAttention.steps(x)`` returned for one sentence: up to 32 words, 8
        heads, width 128. tokens: its S words.
        recompute: called without arguments when the learner asks; it returns steps, or (out,
            weights) as ``MultiHeadAttention`` does: then the other stages are those that were seen
            on its way to them.
        x: what went in, (S, C) or (1, S, C); without it the picture begins with the words.
        out_proj: the Linear that made ``out``; without it nothing says what each head adds.
        follow: the word that is followed at the start.
        head: the head that is lit at the start.
    Raises: ShapeError.
    """

    _esm = esm("widget.js", folder=HERE)
    _css = style(HERE / "attention_scene.css")
    expected = "steps, or (out, weights)"
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
        given = {name: getattr(steps, name) for name in NAMES} | ({} if x is None else {"x": x})
        q = as_array(PLACE, steps.q, ("H", "S", "D"))
        self._sizes = dict(zip("HSD", q.shape, strict=True)) | {"C": q.shape[0] * q.shape[2]}
        for axis, most in LARGEST.items():
            rule = f"the scene shows up to {most} of {axis}"
            got = f"{axis}={self._sizes[axis]}"
            require(self._sizes[axis] <= most, PLACE, rule, expected=f"{axis} <= {most}", got=got)
        self._given = self._shown = self._read(given)
        words = as_names(PLACE, "tokens", "row", tokens, self._sizes["S"])
        self._tokens = numbered(words)
        self._out_proj = out_proj
        self._recompute = recompute
        row = words.index(follow) if follow in words else -1
        options = {
            "colours": {**STREAMS, "accent": plots.ACCENT},
            "asks": recompute is not None,
            "weights": palettes()["plain"],
            "signed": signed_on_paper(),
        }
        self._yours: tuple[str, ...] = ()  # the stages that the learner's function made
        super().__init__(
            packet={**self._message(), "serial": 0}, options=options, row=row, head=head
        )
        self._describe()

    def _read(self, given: Mapping[str, Any]) -> Arrays:
        """Bring stages to arrays of one sentence, or raise ShapeError for one that does not fit."""
        arrays = {}
        for name, tensor in given.items():
            array = as_array(f"{PLACE}: {name}", tensor, tuple(AXES[name]))
            axes = AXES[name]
            want = tuple(self._sizes[axis] for axis in axes)
            expected = f"({', '.join(axes)}) = {want}"
            got = str(array.shape)
            require(
                array.shape == want, PLACE, f"{name} does not fit q", expected=expected, got=got
            )
            arrays[name] = array
        return arrays

    def _message(self) -> dict[str, Any]:
        """Return what the browser draws, with what each head adds to out where the Linear
        is known.
        """
        sent = dict(self._shown)
        yours = self._yours
        if self._out_proj is not None:
            weight = self._out_proj.weight.detach().cpu().double().numpy()  # (C, C) as (out, in)
            cut = (
                np.split(sent["merged"], self._sizes["H"], axis=1),
                np.split(weight, self._sizes["H"], axis=1),
            )
            parts = np.stack(
                [merged @ part.T for merged, part in zip(*cut, strict=True)]
            )  # (H, S, C)
            # a learner may leave the bias out
            bias = self._out_proj.bias
            rest = sent["out"] - parts.sum(0)
            none = bias is None or np.allclose(rest, 0, atol=1e-4)
            sent |= {
                "parts": parts,
                "bias": np.zeros(len(weight)) if none else bias.detach().cpu().double().numpy(),
            }
        numbers = {name: array.astype(np.float32).tobytes() for name, array in sent.items()}
        H, S, D = (self._sizes[axis] for axis in "HSD")
        masked = bool(np.isneginf(sent["masked_scores"]).any())
        some = () if "q" in yours else yours
        plan = ScenePlan(self._tokens, H, D, x="x" in sent, masked=masked, yours=some).message()
        whose = YOURS if {"q", "out"} <= set(yours) else COURSES
        if yours and whose == COURSES:
            whose = f"{', '.join(yours)}: your function's numbers. All others are the course's."
        known = {
            "H": H,
            "S": S,
            "D": D,
            "tokens": self._tokens,
            "plan": plan,
            "masked": masked,
            "whose": whose,
        }
        return {**known, "yours": list(yours), "arrays": numbers}

    def _call(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Call the function, and return the stages that it made."""
        return stages_of(self._recompute)

    def _keep(self, result: dict[str, Any]) -> None:
        """Show the stages that were found, and the course's where none were."""
        yours = self._read({name: result[name] for name in NAMES if result.get(name) is not None})
        if (
            "weights" in yours and "masked_scores" not in yours
        ):  # a softmax of their own: up to a constant a row
            with np.errstate(divide="ignore"):
                yours["masked_scores"] = np.log(yours["weights"])
        self._shown = self._given | yours
        self._yours = tuple(yours)

    @traitlets.observe("row", "head")
    def _describe(self, _: Any = None) -> None:
        """Say in one sentence what is to be seen."""
        H, S, D = (self._sizes[axis] for axis in "HSD")
        head = min(max(self.head, 0), H - 1)
        row = min(self.row, S - 1)
        self.text = f"{S} words on their way through {H} heads of {D} numbers"
        if row >= 0:
            weights = self._shown["weights"][head, row]
            word, best = (isolate_word(self._tokens[i], 14) for i in (row, int(weights.argmax())))
            self.text += f"; in head {head} “{word}” puts {weights.max():.2f} on “{best}”"
        self.text += "."

    def picture(self) -> Figure:
        """Draw the overview, with the word that is followed."""
        head = min(max(self.head, 0), self._sizes["H"] - 1)
        return attention_scene(self._shown, self._tokens, head=head, follow=self.row)
