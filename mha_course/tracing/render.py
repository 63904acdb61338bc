"""Show a trace as text and HTML, compared with other traces, or as a short table."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from mha_course.colours import CHIP_EDGE, INK, WARNING, axis_colour
from mha_course.errors import ShapeError
from mha_course.markup import CELL, columns, count, escaped, row, table
from mha_course.tracing.records import Argument, Source, Step
from mha_course.tracing.repeats import WARN, folded, remarks

_STAGES = "projection split scores scaled_scores masked_scores weights context merged out"
STAGES = tuple(_STAGES.split())
WIDTH = 88  # characters that fit next to JupyterLab's file list
HEADS = ("no.", "step", "shape", "memory", "FLOPs")


def shape_text(shape: Sequence[int], axes: Sequence[str]) -> str:
    """Write a shape with its axis names: ``B 2 · S 5 · C 24``."""
    pairs = zip(axes, shape, strict=True)
    sizes = [f"{size}" if name.isdigit() else f"{name} {size}" for name, size in pairs]
    return " · ".join(sizes) or "a number"


def memory_text(step: Step) -> str:
    """Say in words what a step did to memory."""
    words = "same object" if step.storage == "same" else step.storage
    if not step.hidden_copies:
        return words
    if step.storage == "copy":
        return f"{words} (not asked for)"
    return f"{words} + {count(step.hidden_copies, 'hidden copy')}"


class Line(NamedTuple):
    """A report line that is not a step: a statement, a remark, or folded steps."""

    text: str
    code: str = ""
    sign: str = ""  # of a remark


@dataclass(frozen=True, repr=False)
class Trace:
    """What happened in one call, step by step.

    Attributes: steps (one for each tensor made), result (of the call), arguments (tensors that
        existed before), sources (the code that ran), sizes (of each name), notes (what stayed out
        of sight), failure (why the call stopped), aliases (other variables with a step's result).
    """

    steps: tuple[Step, ...]
    result: Any
    arguments: tuple[Argument, ...]
    sources: tuple[Source, ...]
    sizes: dict[str, int]
    notes: tuple[str, ...] = ()
    failure: str | None = None
    aliases: Mapping[str, int] = field(default_factory=dict)

    def compare(self, other: Trace) -> Comparison:
        """Compare another trace with this one, stage by stage."""
        return Comparison({"left": self, "right": other})

    def ledger(self, *names: str) -> Ledger:
        """Return a short table of variables, stages or arguments by name; all stages if none.

        >>> import torch
        >>> from mha_course.attention import split_heads
        >>> from mha_course.tracing import trace
        >>> trace(split_heads, torch.zeros(2, 5, 24), 4, axes="B S C").ledger("x", "split")
        x      (B, S, C)     (2, 5, 24)
        split  (B, H, S, D)  (2, 4, 5, 6)
        """
        rows: dict[str, Step | Argument] = {a.name: a for a in self.arguments if a.name in names}
        names = names or tuple(dict.fromkeys(step.stage for step in self.steps if step.stage))
        pairs = [(n, rows[n]) if n in rows else (self._which(n), self.step(n)) for n in names]
        return Ledger(dict(pairs))

    def _which(self, name: str) -> str:
        """Say that a row is the last of several: layers, or q, k and v."""
        steps = [step for step in self.steps if name in (step.name, step.stage)]
        same = [step for step in steps if (step.op, step.name) == (steps[-1].op, steps[-1].name)]
        return f"{name} (last of {len(same)})" if len(same) > 1 else name

    def __str__(self) -> str:
        lines = [self.summary()]
        rows = {step.index: _cells(step) for step in self.steps}
        # One very long cell must not push all columns to the right.
        widths = [min(max(map(len, column)), 40) for column in zip(*rows.values(), strict=True)]
        for entry in self._layout():
            if isinstance(entry, Step):
                cells = map(str.ljust, rows[entry.index], widths)
                lines.append(f"  {'  '.join(cells)}".rstrip())
                continue
            if entry.sign:
                text, first, later = f"{entry.sign} {entry.text}", " " * 6, " " * 8
            else:
                text, first, later = entry.text, "", " " * 6
            text = f"{text}: {entry.code}" if entry.code else text
            lines += textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=later)
        for text in self._closing():
            lines += textwrap.wrap(text, WIDTH, subsequent_indent="  ")
        return "\n".join(lines)

    def _layout(self) -> Iterator[Line | Step]:
        """Yield each statement before its steps, and repeated layers as one line."""
        first_step_of: dict[Line, int] = {}
        now = None
        begun = self._begun()
        for steps, of in folded(self.steps):
            if of:
                same = f"the same {len(steps) // len(of)} steps"
                if len(of) > 1:
                    yield Line(f"{of[0]} to {of[-1]}: {same} each, not shown again")
                else:
                    yield Line(f"{of[0]}: {same}, not shown again")
                now = None
                continue
            for step in steps:
                line = Line(self.place(step), step.line)
                if line != now:
                    if line.code and line in first_step_of:
                        yield Line(f"{line.text}, as in step {first_step_of[line] + 1}")
                    else:
                        yield line
                    first_step_of.setdefault(line, step.index)
                now = line
                yield step
                first = begun.get(step.index, step.index)
                for sign, text in remarks(step):
                    after = f": this may only follow from step {first + 1}"
                    may_follow = first < step.index
                    yield Line(f"{text.partition(':')[0]}{after}" if may_follow else text, "", sign)

    def _begun(self) -> dict[int, int]:
        """Return, for steps after a warning, the first warned step, which may cause later ones."""
        begun: dict[int | str, int] = {}
        for step in self.steps:
            before = [begun[i.source] for i in step.inputs if i.source in begun]
            if before or step.warning:
                begun[step.index] = min([*before, step.index])
        return {index: first for index, first in begun.items() if isinstance(index, int)}

    def place(self, step: Step) -> str:
        """Say where a step's code is: ``attention.py:31 in split_heads``."""
        if step.source is None:
            return f"line {step.lineno}" if step.line else "code that cannot be shown"
        source = self.sources[step.source]
        file = Path(source.file)
        if file.is_file():  # not for a notebook cell
            return f"{file.name}:{step.lineno} in {source.name}"
        return f"{source.name}, line {step.lineno}"

    def _closing(self) -> list[str]:
        notes = dict.fromkeys(f"{step.op}: {step.note}" for step in self.steps if step.note)
        texts = [*self.notes, *notes]
        if self.failure:
            texts.append(f"{WARN} stopped: {self.failure}")
        return texts

    def __repr__(self) -> str:
        return f"Trace: {self.summary()}"

    def summary(self) -> str:
        """Say in one sentence how many steps there were, and what they did to memory."""
        storage = Counter(step.storage for step in self.steps)
        words = {"view": "view", "copy": "copy", "same": "same object"}
        storages = [f"{storage['new']} new"] if storage["new"] else []
        storages += [count(storage[kind], word) for kind, word in words.items() if storage[kind]]
        steps = count(len(self.steps), "step")
        clauses = [f"{steps}: {', '.join(storages)}" if storages else "no steps"]
        hidden = sum(step.hidden_copies for step in self.steps)
        flops = sum(step.flops for step in self.steps)
        notable = {
            "hidden copy": hidden, "FLOP": flops, "warning": len(self.warnings),
            "question": len(self.questions),
        }  # fmt: skip
        clauses += [count(number, word) for word, number in notable.items() if number]
        clauses += ["stopped"] if self.failure else []
        return "; ".join(clauses)

    @property
    def warnings(self) -> tuple[Step, ...]:
        """Return the steps with a warning, in order; ``failure`` has what stopped the call."""
        return tuple(step for step in self.steps if step.warning)

    @property
    def questions(self) -> tuple[Step, ...]:
        """Return the steps with a question, in order."""
        return tuple(step for step in self.steps if step.question)

    def step(self, name: str) -> Step:
        """Return the last step of a variable or stage, or the step whose result it was bound to."""
        for attribute in ("name", "stage"):
            steps = [step for step in self.steps if getattr(step, attribute) == name]
            if steps:
                return steps[-1]
        if name in self.aliases:
            return self.steps[self.aliases[name]]
        raise KeyError(f"no step is called {name!r}; there are {', '.join(self.names())}")

    def names(self) -> tuple[str, ...]:
        """Return the variables that steps were assigned to."""
        return tuple(dict.fromkeys(step.name for step in self.steps if step.name))

    def expect(self, name: str, axes: str) -> Step:
        """Check the axes of a variable or stage against a pattern, for your own tests.

        Args: ``axes`` such as ``"B H T S"``; ``"?"`` stands for any axis.
        Returns: the step, as ``step`` finds it.
        Raises: ShapeError, naming the line, if an axis differs.
        """
        step = self.step(name)
        words = tuple(axes.split())
        pairs = zip(words, step.axes, strict=False)
        if len(words) != len(step.axes) or any(word not in ("?", axis) for word, axis in pairs):
            place = f"{self.place(step)}: {step.line}"
            raise ShapeError(place, f"the axes of {name}", expected=axes, got=" ".join(step.axes))
        return step

    def _repr_html_(self) -> str:
        computes = any(step.flops for step in self.steps)
        heads = HEADS if computes else HEADS[:-1]
        rows = []
        for entry in self._layout():
            if isinstance(entry, Step):
                number, called, _, *rest = map(escaped, _cells(entry)[: len(heads)])
                rows.append(row((number, called, chips(entry.shape, entry.axes), *rest)))
                continue
            text = f'<span style="{QUIET}">{escaped(entry.text)}</span>'
            if entry.code:
                text = f'<span style="{CODE}">{escaped(entry.code)}</span> {text}'
            elif entry.sign:
                text = f"{entry.sign} <strong>{escaped(entry.text)}</strong>"
            style = ALERT if entry.sign else PLACE
            wide = f'<td colspan="{len(heads) - 1}" style="{style}">{text}</td>'
            rows.append(f"<tr><td></td>{wide}</tr>")
        notes = "".join(f"<p>{escaped(text)}</p>" for text in self._closing())
        return table(self.summary(), heads, rows) + notes


def _cells(step: Step) -> tuple[str, ...]:
    """Return a row's cells: number, name and op, shape, memory, FLOPs."""
    called = f"{step.name} = {step.op}" if step.name else step.op
    shape = shape_text(step.shape, step.axes)
    flops = f"{step.flops:,}" if step.flops else ""
    return str(step.index + 1), called, shape, memory_text(step), flops


CODE = "font-family:monospace;white-space:pre-wrap"
CHIP = f"color:{INK};border:1px solid {CHIP_EDGE};border-radius:3px;padding:0 4px"
ALERT = f"{CELL};white-space:normal;border-left:4px solid {WARNING}"
QUIET = "opacity:0.75;font-size:90%"
WRAPPED = CELL.replace("nowrap", "normal") + ";padding:3px 5px"
PLACE = f"{CELL};white-space:normal;border-top:1px solid {CHIP_EDGE}"


def chips(shape: Sequence[int], axes: Sequence[str]) -> str:
    """Write a shape as coloured chips, one per axis; lines may break between chips."""
    spans = []
    for name, size in zip(axes, shape, strict=True):
        text = str(size) if name.isdigit() else f"{escaped(name)}&nbsp;{size}"
        spans.append(f'<span style="background:{axis_colour(name)};{CHIP}">{text}</span>')
    return " ".join(spans) or "a number"


class Part(NamedTuple):
    """One stage in all traces, and how they differ in it."""

    stage: str
    steps: tuple[tuple[Step, ...], ...]
    differs: tuple[str, ...]


class Comparison:
    """What traces share and where they differ: axes, their order, shapes and memory.

    Args: traces, by column heading.
    Attributes: ``parts``, one for each stage of any trace; ``differs``, the stages that differ.
    """

    def __init__(self, traces: Mapping[str, Trace]) -> None:
        self.traces = dict(traces)
        present = {step.stage for trace in self.traces.values() for step in trace.steps}
        self.parts = tuple(self._part(stage) for stage in STAGES if stage in present)
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
        return f"{columns(rows)}\n{self.summary()}"

    def __repr__(self) -> str:
        return f"Comparison: {self.summary()}"

    def summary(self) -> str:
        """Say in one sentence where the traces diverge."""
        if not self.differs:
            return "The traces do the same at every stage."
        first = next(part for part in self.parts if part.differs)
        what = ", ".join(first.differs)
        stages = count(len(self.differs), "stage")
        return f"The traces differ in {stages}, first at {first.stage}: {what}."

    def _repr_html_(self) -> str:
        shown = len(self.traces) + 1 + (len(self.traces) == 2)  # more would not fit on a page
        rows = [[*row[:-1], escaped(row[-1])][:shown] for row in self._rows(_html_cell)]
        lines = [row(cells, WRAPPED) for cells in rows[:-1]]
        heads = ("stage", *self.traces, "differ in")[:shown]
        return table(self.summary(), heads, [*lines, row(rows[-1])])


def _last(steps: tuple[Step, ...]) -> str:
    return shape_text(steps[-1].shape, steps[-1].axes) if steps else "–"


def _html_cell(steps: tuple[Step, ...]) -> str:
    """Write the shape at the end of a stage, with its effect on memory below."""
    if not steps:
        return "–"
    memory = ", ".join(dict.fromkeys(map(memory_text, steps)))
    return f"{chips(steps[-1].shape, steps[-1].axes)}<br>{memory}"


def _filled(steps: Sequence[Step]) -> int:
    return sum((step.storage in ("copy", "new")) + step.hidden_copies for step in steps)


def _total(trace: Trace) -> str:
    counted = [step for step in trace.steps if not (step.storage == "copy" and step.hidden_copies)]
    return count(_filled(counted), "time")


class Ledger:
    """A short table: names, axes and shapes of some of a trace's tensors."""

    def __init__(self, rows: Mapping[str, Step | Argument]) -> None:
        self.rows = dict(rows)

    def __repr__(self) -> str:
        rows = self.rows.items()
        return columns([(name, f"({', '.join(t.axes)})", str(t.shape)) for name, t in rows])

    def _repr_html_(self) -> str:
        cells = [
            (escaped(name), chips(t.shape, t.axes), str(t.shape)) for name, t in self.rows.items()
        ]
        return table("", ("step", "axes", "shape"), map(row, cells))
