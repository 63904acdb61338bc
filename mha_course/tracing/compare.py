"""Traces side by side, aligned by stage, and one trace as a short ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from mha_course import markup
from mha_course.tracing import render
from mha_course.tracing.records import Argument, Step

WRAPPED = markup.CELL.replace("nowrap", "normal") + ";padding:3px 5px"


class Part(NamedTuple):
    """One stage in all traces, and in what they differ there."""

    stage: str
    steps: tuple[tuple[Step, ...], ...]
    differs: tuple[str, ...]


class Comparison:
    """What traces have in common and where they differ: axes, their order, shapes and memory.

    Args: traces by the name that heads their column.
    Attributes: ``parts``, one for each stage of any trace; ``differs``, the stages that differ.
    """

    def __init__(self, traces: Mapping[str, render.Reports]) -> None:
        self.traces = dict(traces)
        present = {step.stage for trace in self.traces.values() for step in trace.steps}
        self.parts = tuple(self._part(stage) for stage in render.STAGES if stage in present)
        self.differs = tuple(part.stage for part in self.parts if part.differs)

    def _part(self, stage: str) -> Part:
        traces = self.traces.values()
        steps = tuple(tuple(s for s in trace.steps if s.stage == stage) for trace in traces)
        lacking = [name for name, mine in zip(self.traces, steps, strict=True) if not mine]
        if lacking:
            return Part(stage, steps, (f"not in {', '.join(lacking)}",))
        last = [mine[-1] for mine in steps]
        alike = len({tuple(sorted(step.axes)) for step in last}) == 1
        shapes = {step.shape for step in last}
        checks = {
            "axes": not alike,
            "order of axes": alike and len({step.axes for step in last}) > 1,
            "shape": len(shapes) > 1,
            "strides": len(shapes) == 1 and len({step.strides for step in last}) > 1,
            "memory": len({_filled(mine) for mine in steps}) > 1,
        }
        return Part(stage, steps, tuple(name for name, differs in checks.items() if differs))

    def _rows(self, cell: Callable[[tuple[Step, ...]], str]) -> list[tuple[str, ...]]:
        rows = [(p.stage, *map(cell, p.steps), ", ".join(p.differs)) for p in self.parts]
        return [*rows, ("filled anew", *map(_total, self.traces.values()), "")]

    def __str__(self) -> str:
        rows = [("stage", *self.traces, "differ in"), *self._rows(_last)]
        return f"{markup.columns(rows)}\n{self.summary()}"

    def __repr__(self) -> str:
        return f"Comparison: {self.summary()}"

    def summary(self) -> str:
        """Say in one sentence where the traces part."""
        if not self.differs:
            return "The traces do the same at every stage."
        first = next(part for part in self.parts if part.differs)
        what = ", ".join(first.differs)
        stages = render.count(len(self.differs), "stage")
        return f"The traces part in {stages}, first at {first.stage}: {what}."

    def _repr_html_(self) -> str:
        shown = len(self.traces) + 1 + (len(self.traces) == 2)  # more would not fit a page
        rows = [[*row[:-1], markup.escaped(row[-1])][:shown] for row in self._rows(_html_cell)]
        lines = [markup.row(cells, WRAPPED) for cells in rows[:-1]]
        heads = ("stage", *self.traces, "differ in")[:shown]
        return markup.table(self.summary(), heads, [*lines, markup.row(rows[-1])])


def _last(steps: tuple[Step, ...]) -> str:
    return render.shape_text(steps[-1].shape, steps[-1].axes) if steps else "–"


def _html_cell(steps: tuple[Step, ...]) -> str:
    """Write the shape at the end of a stage, and below it what was done to memory."""
    if not steps:
        return "–"
    memory = ", ".join(dict.fromkeys(map(render.memory_text, steps)))
    return f"{render.chips(steps[-1].shape, steps[-1].axes)}<br>{memory}"


def _filled(steps: Sequence[Step]) -> int:
    return sum((step.storage in ("copy", "new")) + step.hidden_copies for step in steps)


def _total(trace: render.Reports) -> str:
    counted = [step for step in trace.steps if not (step.storage == "copy" and step.hidden_copies)]
    return render.count(_filled(counted), "time")


class Ledger:
    """A short table: names, axes and shapes of some of the tensors of a trace."""

    def __init__(self, rows: Mapping[str, Step | Argument]) -> None:
        self.rows = dict(rows)

    def __repr__(self) -> str:
        rows = self.rows.items()
        return markup.columns([(name, f"({', '.join(t.axes)})", str(t.shape)) for name, t in rows])

    def _repr_html_(self) -> str:
        cells = [
            (markup.escaped(name), render.chips(t.shape, t.axes), str(t.shape))
            for name, t in self.rows.items()
        ]
        return markup.table("", ("step", "axes", "shape"), map(markup.row, cells))
