"""Two traces side by side, aligned by stage."""

from __future__ import annotations

import html
from typing import NamedTuple

from mha_course.tracing.reports import STAGES, Reports, chips, count, moved, row, table, written
from mha_course.tracing.steps import Step


class Part(NamedTuple):
    """One stage in both traces, and what differs."""

    stage: str
    left: tuple[Step, ...]
    right: tuple[Step, ...]
    differs: tuple[str, ...]


def _last(steps: tuple[Step, ...]) -> str:
    """Write the shape that a stage ends with."""
    return written(steps[-1].shape, steps[-1].axes) if steps else "–"


def _memory(steps: tuple[Step, ...]) -> str:
    """Say what a stage did to memory."""
    return ", ".join(dict.fromkeys(moved(step) for step in steps)) if steps else "–"


def _written(steps: tuple[Step, ...]) -> int:
    """Count how often a stage fills new memory."""
    return sum(step.storage in ("copy", "new") for step in steps) + sum(step.hidden_copies for step in steps)


class Comparison:
    """What two traces do alike and where they part: in shape, in the order of axes, in memory.

    ``parts`` has one entry for each stage that is in either; ``differs`` names those with a difference.
    """

    def __init__(self, left: Reports, right: Reports) -> None:
        self.left, self.right = left, right
        self.parts = tuple(
            self._part(stage) for stage in STAGES if self._steps(left, stage) or self._steps(right, stage)
        )

    @property
    def differs(self) -> tuple[str, ...]:
        """Return the stages at which the traces part."""
        return tuple(part.stage for part in self.parts if part.differs)

    def _steps(self, trace: Reports, stage: str) -> tuple[Step, ...]:
        """Return the steps of a stage."""
        return tuple(step for step in trace.steps if step.stage == stage)

    def _part(self, stage: str) -> Part:
        """Compare one stage: what it ends with, and what it did to memory on the way."""
        left, right = self._steps(self.left, stage), self._steps(self.right, stage)
        if not left or not right:
            return Part(stage, left, right, (f"only {'left' if left else 'right'}",))
        one, two = left[-1], right[-1]
        checks = {
            "order of axes": one.axes != two.axes and sorted(one.axes) == sorted(two.axes),
            "axes": sorted(one.axes) != sorted(two.axes),
            "shape": one.shape != two.shape,
            "order in memory": one.shape == two.shape and one.strides != two.strides,
            "memory": _written(left) != _written(right),
        }
        return Part(stage, left, right, tuple(name for name, found in checks.items() if found))

    def __str__(self) -> str:
        rows = [("stage", "left", "right", "differs in")]
        rows += [(p.stage, _last(p.left), _last(p.right), ", ".join(p.differs)) for p in self.parts]
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join((*table, self.summary()))

    def __repr__(self) -> str:
        return f"Comparison: {self.summary()}"

    def summary(self) -> str:
        """Say in one sentence where the traces part."""
        if not self.differs:
            return "The traces do the same at every stage."
        first = next(part for part in self.parts if part.differs)
        what = ", ".join(first.differs)
        return f"The traces part in {count(len(self.differs), 'stage')}, first at {first.stage}: {what}."

    def _repr_html_(self) -> str:
        heads = ("stage", "left", "right", "left memory", "right memory", "differs in")
        return table(self.summary(), heads, [self._row(part) for part in self.parts])

    def _row(self, part: Part) -> str:
        """Write one stage."""
        sides = [chips(s[-1].shape, s[-1].axes) if s else "–" for s in (part.left, part.right)]
        memory = [html.escape(_memory(steps)) for steps in (part.left, part.right)]
        return row([html.escape(part.stage), *sides, *memory, html.escape(", ".join(part.differs) or "nothing")])
