"""Step through a trace: the line of code on one side, the tensors that it reads and makes on the other."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import traitlets

from mha_course.tracing.steps import Step, color
from mha_course.widgets.live import Live

if TYPE_CHECKING:
    from mha_course.tracing import Trace
    from mha_course.tracing.steps import Source


class ShapeTracer(Live):
    """Show a trace one step at a time: its code, its tensors, what became of the memory, and what went wrong.

    Args: trace is what ``mha_course.tracing.trace`` returned. ``position`` is the step that is shown, from 0; it
    follows the learner and may be set.
    """

    _esm = Path(__file__).with_suffix(".js")
    _css = Path(__file__).with_suffix(".css")
    data = traitlets.Dict().tag(sync=True)
    position = traitlets.Int(0).tag(sync=True)

    def __init__(self, trace: Trace) -> None:
        self.text, self.twin = sentence(trace), trace._repr_html_()
        super().__init__(data=payload(trace))

    @traitlets.validate("position")  # type: ignore[untyped-decorator]
    def _within(self, proposal: dict[str, Any]) -> int:
        """Keep to the steps that there are."""
        return int(max(0, min(proposal["value"], len(self.data["steps"]) - 1)))


def sentence(trace: Trace) -> str:
    """Say how many steps lead from what to what, and what became of the memory."""
    steps = trace.steps
    if not steps:
        return "No steps: the code called nothing of torch's that makes a tensor."
    given = [argument for argument in trace.arguments if "." not in argument.name] or list(trace.arguments)
    start = f" from {given[0].name} ({_shape(given[0])})" if given else ""
    kinds = Counter(step.storage for step in steps)
    parts = [_count(kinds["view"], "view"), _count(kinds["copy"], "copy", "copies")]
    parts += [f"{kinds['new']} new"] + [f"{kinds['same']} the same object"] * bool(kinds["same"])
    hidden = sum(step.hidden_copies for step in steps)
    parts += [f"{_count(hidden, 'hidden copy', 'hidden copies')}"] * bool(hidden)
    warnings = sum(step.warning is not None for step in steps)
    end = f"; {_count(warnings, 'warning')}" if warnings else ""
    to = f"{steps[-1].name or 'out'} ({_shape(steps[-1])})"
    return f"{_count(len(steps), 'step')}{start} to {to}: {', '.join(parts)}{end}."


def payload(trace: Trace) -> dict[str, Any]:
    """Return what the browser draws from. Shapes and texts that come again are sent once and then meant by number."""
    forms: dict[tuple[tuple[str, ...], tuple[int, ...]], int] = {}
    words: dict[str, int] = {}
    steps = [_step(step, forms, words) for step in trace.steps]
    names = {part for axes, _ in forms for axis in axes for part in axis.split("*")}
    return {
        "steps": steps,
        "forms": [[list(axes), list(shape)] for axes, shape in forms],
        "words": list(words),
        "colors": {name: color(name) for name in sorted(names)},
        "sources": [_source(source) for source in trace.sources],
        "notes": list(trace.notes),
    }


def _step(
    step: Step, forms: dict[tuple[tuple[str, ...], tuple[int, ...]], int], words: dict[str, int]
) -> dict[str, Any]:
    """Return one step; what is empty or as usual is left out."""

    def word(text: str) -> int:
        return words.setdefault(text, len(words))

    def form(axes: tuple[str, ...], shape: tuple[int, ...]) -> int:
        return forms.setdefault((tuple(axes), tuple(shape)), len(forms))

    warning = re.sub(r"^[\w-]+: ", "", step.warning) if step.warning else None  # without its id
    texts = {"stage": step.stage, "name": step.name, "warning": warning, "note": step.note}
    usual = {
        "source": step.source, "scattered": not step.contiguous, "flops": step.flops, "hidden": step.hidden_copies,
    }  # fmt: skip
    return {
        "op": word(step.op),
        "inputs": [[operand.source, form(operand.axes, operand.shape)] for operand in step.inputs],
        "form": form(step.axes, step.shape),
        "strides": list(step.strides),
        "storage": word(step.storage),
        "bytes": step.bytes,
        "kind": word(f"{str(step.dtype).removeprefix('torch.')} on {step.device}"),
        "lineno": step.lineno,
        **{key: word(text) for key, text in texts.items() if text},
        **{key: value for key, value in usual.items() if value not in (None, 0, False) or key == "source"},
        **({"line": word(step.line)} if step.source is None else {}),
    }


def _source(source: Source) -> dict[str, Any]:
    """Return a piece of code, moved to the left margin."""
    return {"name": source.name, "first": source.first, "code": textwrap.dedent("\n".join(source.lines))}


def _shape(tensor: Any) -> str:
    """Return names and sizes: B 2, S 5, C 24."""
    return ", ".join(f"{axis} {size}" for axis, size in zip(tensor.axes, tensor.shape, strict=True)) or "one number"


def _count(number: int, word: str, many: str | None = None) -> str:
    """Return a number and its noun."""
    return f"{number:,} {word if number == 1 else many or word + 's'}"
