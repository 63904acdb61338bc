"""Step through a trace: code on one side, the tensors it reads and makes on the other."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mha_course.colours import PAPER, axis_colour
from mha_course.markup import visible
from mha_course.tracing.records import Step
from mha_course.widgets.base import esm, style
from mha_course.widgets.player import Player, require_trace

if TYPE_CHECKING:
    from mha_course.tracing import Trace
    from mha_course.tracing.records import Argument, Source

HERE = Path(__file__).parent
FACTS = ("storage", "bytes", "flops", "contiguous", "lineno", "source", "hidden_copies")
TEXTS = ("op", "name", "stage", "line", "warning", "question", "note")


class ShapeTracer(Player):
    """Show a trace one step at a time: code, tensors, memory, and what went wrong.

    It opens at the first warning, else the first question, else the first step.

    Args: trace is the result of ``mha_course.tracing.trace``, or the attribute ``trace`` of its
        exception.
    """

    _esm = esm("widget.js", folder=HERE)
    _css = style(HERE / "shape_tracer.css")

    def __init__(self, trace: Trace) -> None:
        require_trace("ShapeTracer", trace)
        self.text = sentence(trace)
        self.static = trace._repr_html_()
        remarked = [step.index for step in (*trace.warnings, *trace.questions)]
        super().__init__(options=payload(trace), position=next(iter(remarked), 0))


def sentence(trace: Trace) -> str:
    """Summarise the steps, and what happened to memory."""
    if not trace.steps:
        return f"{trace.summary()}."
    number, _, memory = trace.summary().partition(": ")
    start = [f" from {argument.name} ({_shape(argument)})" for argument in trace.arguments[:1]]
    last = trace.steps[-1]
    stopped = "" if trace.failure is None else "; then it stopped"
    return f"{number}{''.join(start)} to {last.name or 'out'} ({_shape(last)}): {memory}{stopped}."


def payload(trace: Trace) -> dict[str, Any]:
    """Return the data that the browser draws."""
    return {
        "last": len(trace.steps) - 1,
        "steps": [_step(step) for step in trace.steps],
        "sources": [_source(source) for source in trace.sources],
        "notes": [_line(note) for note in trace.notes],
        "failure": trace.failure and _line(trace.failure),
    }


def _step(step: Step) -> dict[str, Any]:
    texts = {name: getattr(step, name) for name in TEXTS}
    return {
        **{name: getattr(step, name) for name in FACTS},
        **{name: text and _line(text) for name, text in texts.items()},
        "inputs": [[operand.source, _form(operand.axes, operand.shape)] for operand in step.inputs],
        "form": _form(step.axes, step.shape),
        "strides": list(step.strides),
        "kind": f"{str(step.dtype).removeprefix('torch.')} on {step.device}",
    }


def _form(axes: tuple[str, ...], sizes: tuple[int, ...]) -> list[list[Any]]:
    """Return axis names, sizes and colours; a product has those of its factors."""
    factors = [axis.split("*") for axis in axes]
    colors = [[PAPER] if names == ["1"] else list(map(axis_colour, names)) for names in factors]
    return [list(axes), list(sizes), colors]


def _source(source: Source) -> dict[str, Any]:
    """Return a piece of code without its indentation."""
    code = textwrap.dedent("\n".join(source.lines)).expandtabs()
    lines = map(visible, code.split("\n"))
    return {"name": visible(source.name), "first": source.first, "code": "\n".join(lines)}


def _line(text: str) -> str:
    return visible(" ".join(text.split()))


def _shape(tensor: Argument | Step) -> str:
    """Return names and sizes: B 2, S 5, C 24."""
    pairs = zip(tensor.axes, tensor.shape, strict=True)
    words = [axis if axis == str(size) else f"{axis} {size}" for axis, size in pairs]
    return ", ".join(words) or "one number"
