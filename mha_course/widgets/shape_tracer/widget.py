"""Step through a trace: the line of code on one side, the tensors that it reads and makes on the other."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import traitlets

from mha_course.tracing.records import Step, color
from mha_course.widgets.base import StaticFallbackWidget, esm

if TYPE_CHECKING:
    from mha_course.tracing import Trace
    from mha_course.tracing.records import Argument, Source

HERE = Path(__file__).parent


class ShapeTracer(StaticFallbackWidget):
    """Show a trace one step at a time: its code, its tensors, what became of the memory, and what went wrong.

    Args: trace is what ``mha_course.tracing.trace`` returned, or the attribute ``trace`` of what it raised.
    ``position``, the step that is shown, from 0, follows the learner and may be set.
    """

    _esm = esm("widget.js", folder=HERE)
    _css = HERE / "shape_tracer.css"
    data = traitlets.Dict().tag(sync=True)
    position = traitlets.Int(0).tag(sync=True)

    def __init__(self, trace: Trace) -> None:
        self.text, self.static = sentence(trace), trace._repr_html_()
        super().__init__(data=payload(trace))

    @traitlets.validate("position")
    def _within(self, proposal: dict[str, Any]) -> int:
        """Keep to the steps that there are."""
        return int(max(0, min(proposal["value"], len(self.data["steps"]) - 1)))


def sentence(trace: Trace) -> str:
    """Say how many steps lead from what to what, and what became of the memory."""
    if not trace.steps:
        return f"{trace.summary()}."
    number, _, memory = trace.summary().partition(": ")
    start = [f" from {given.name} ({_shape(given)})" for given in trace.arguments[:1]]
    last = trace.steps[-1]
    stopped = "" if trace.failure is None else "; then it stopped"
    return f"{number}{''.join(start)} to {last.name or 'out'} ({_shape(last)}): {memory}{stopped}."


def payload(trace: Trace) -> dict[str, Any]:
    """Return what the browser draws from. Shapes and texts that come again are sent once and then meant by number."""
    table = _Table()
    steps = [_step(step, table) for step in trace.steps]
    return {
        "steps": steps,
        "forms": [[list(axes), list(sizes), [_colors(axis) for axis in axes]] for axes, sizes in table.forms],
        "words": list(table.words),
        "sources": [_source(source) for source in trace.sources],
        "notes": list(trace.notes),
        "failure": trace.failure,
    }


class _Table:
    """What was sent already, and its number."""

    def __init__(self) -> None:
        self.forms: dict[tuple[tuple[str, ...], tuple[int, ...]], int] = {}
        self.words: dict[str, int] = {}

    def form(self, axes: tuple[str, ...], sizes: tuple[int, ...]) -> int:
        return self.forms.setdefault((tuple(axes), tuple(sizes)), len(self.forms))

    def word(self, text: str) -> int:
        return self.words.setdefault(text, len(self.words))


def _step(step: Step, table: _Table) -> dict[str, Any]:
    """Return one step; what is empty or as usual is left out."""
    texts = {"stage": step.stage, "name": step.name, "warning": step.warning, "note": step.note}
    numbers = {"scattered": int(not step.contiguous), "flops": step.flops, "hidden": step.hidden_copies}
    return {
        "op": table.word(step.op),
        "inputs": [[operand.source, table.form(operand.axes, operand.shape)] for operand in step.inputs],
        "form": table.form(step.axes, step.shape),
        "strides": list(step.strides),
        "storage": table.word(step.storage),
        "bytes": step.bytes,
        "kind": table.word(f"{str(step.dtype).removeprefix('torch.')} on {step.device}"),
        "source": step.source,
        "lineno": step.lineno,
        **{key: table.word(text) for key, text in texts.items() if text},
        **{key: number for key, number in numbers.items() if number},
        **({"line": table.word(step.line)} if step.source is None else {}),
    }


def _colors(axis: str) -> list[str]:
    """Return the colours of an axis: of a product those of its factors."""
    return ["#ffffff"] if axis == "1" else [color(part) for part in axis.split("*")]


def _source(source: Source) -> dict[str, Any]:
    """Return a piece of code, moved to the left margin."""
    return {"name": source.name, "first": source.first, "code": textwrap.dedent("\n".join(source.lines))}


def _shape(tensor: Argument | Step) -> str:
    """Return names and sizes: B 2, S 5, C 24."""
    pairs = zip(tensor.axes, tensor.shape, strict=True)
    return ", ".join(axis if axis == str(size) else f"{axis} {size}" for axis, size in pairs) or "one number"
