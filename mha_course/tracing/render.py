"""A trace as text, HTML and Markdown."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence

from mha_course.markup import CELL, cut, escaped, row, spell_out, table
from mha_course.tracing.records import Argument, Step, color

STAGES = (
    "projection", "split", "scores", "scaled_scores", "masked_scores", "weights", "context",
    "merged", "out",
)  # fmt: skip
WIDTH = 88  # characters that fit beside JupyterLab's file list
WARN, ASK = "⚠", "?"


def shape_text(shape: Sequence[int], axes: Sequence[str]) -> str:
    """Write a shape with its names: ``B 2 · S 5 · C 24``."""
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


def count(number: int, word: str) -> str:
    """Write a number with its word: ``1 copy``, ``2 copies``."""
    plural = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{number} {word if number == 1 else plural}"


class Reports:
    """What every trace can be turned into."""

    steps: tuple[Step, ...]
    arguments: tuple[Argument, ...]
    notes: tuple[str, ...]
    failure: str | None
    aliases: Mapping[str, int]

    def __str__(self) -> str:
        rows = [("", "step", "shape", "memory", "line"), *map(_cells, self.steps)]
        widths = [min(max(map(len, column)), 40) for column in list(zip(*rows, strict=True))[:4]]
        digits = max((len(str(step.lineno)) for step in self.steps), default=0)
        room = max(WIDTH - sum(widths) - digits - 10, 20)
        lines = []
        for (*cells, code), step in zip(rows, (None, *self.steps), strict=True):
            padded = map(str.ljust, cells, widths)
            lines.append("  ".join([*padded, cut(code, room)]).rstrip())
            for sign, text in remarks(step) if step is not None else ():
                lines += textwrap.wrap(
                    f"{sign} {text}", WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 8
                )
        return "\n".join((*lines, *self._closing_lines()))

    def _closing_lines(self) -> list[str]:
        """Return the notes, each once, and why the call stopped."""
        notes = dict.fromkeys(f"{step.op}: {step.note}" for step in self.steps if step.note)
        texts = [*self.notes, *notes]
        if self.failure:
            texts.append(f"{WARN} stopped: {self.failure}")
        wrapped = [textwrap.wrap(text, WIDTH, subsequent_indent="  ") for text in texts]
        return [line for lines in wrapped for line in lines]

    def __repr__(self) -> str:
        return f"Trace: {self.summary()}"

    def summary(self) -> str:
        """Say in one sentence how many steps there were, and what they did to memory."""
        storage = Counter(step.storage for step in self.steps)
        made = [f"{storage['new']} new"] if storage["new"] else []
        for kind, word in (("view", "view"), ("copy", "copy"), ("same", "same object")):
            if storage[kind]:
                made.append(count(storage[kind], word))
        parts = [f"{count(len(self.steps), 'step')}: {', '.join(made)}" if made else "no steps"]
        hidden = sum(step.hidden_copies for step in self.steps)
        notable = {
            "hidden copy": hidden, "warning": len(self.warnings), "question": len(self.questions),
        }  # fmt: skip
        parts += [count(number, word) for word, number in notable.items() if number]
        return "; ".join(parts)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return all warnings, in order."""
        texts = (*(step.warning for step in self.steps), self.failure)
        return tuple(text for text in texts if text)

    @property
    def questions(self) -> tuple[str, ...]:
        """Return all questions, in order."""
        return tuple(step.question for step in self.steps if step.question)

    def step(self, name: str) -> Step:
        """Return the last step of a variable or of a stage, or the step whose result it held."""
        for field in ("name", "stage"):
            steps = [step for step in self.steps if getattr(step, field) == name]
            if steps:
                return steps[-1]
        if name in self.aliases:
            return self.steps[self.aliases[name]]
        raise KeyError(f"no step is called {name!r}; there are {', '.join(self.names())}")

    def names(self) -> tuple[str, ...]:
        """Return the variables that steps were assigned to."""
        return tuple(dict.fromkeys(step.name for step in self.steps if step.name))

    def to_markdown(self) -> str:
        """Return a Markdown table of all steps."""
        lines: list[tuple[str, ...]] = []
        for step in self.steps:
            number, op, shape, memory, code = _cells(step)
            lines.append(
                (number, f"`{_cell(code)}`", _cell(op), _cell(shape), str(step.strides), memory)
            )
            lines += [("", f"{sign} {_cell(text)}", "", "", "", "") for sign, text in remarks(step)]
        head = ("", "line", "step", "shape", "strides", "memory")
        table = [f"| {' | '.join(cells)} |" for cells in (head, *lines)]
        table.insert(1, f"|{'---|' * len(head)}")
        return "\n\n".join(["\n".join(table), *self._closing_lines()])

    def _repr_html_(self) -> str:
        heads = ("no.", "line", "step", "shape", "strides", "memory")
        rows = [text for step in self.steps for text in _html_rows(step)]
        notes = "".join(f"<p>{escaped(text)}</p>" for text in self._closing_lines())
        return table(self.summary(), heads, rows) + notes


def remarks(step: Step) -> list[tuple[str, str]]:
    """Return what is wrong with a step and what is unusual, each behind its sign."""
    return [(sign, text) for sign, text in ((WARN, step.warning), (ASK, step.question)) if text]


def _cells(step: Step) -> tuple[str, str, str, str, str]:
    """Return what a row says: number, name and op, shape, memory, line."""
    called = f"{step.name} = {step.op}" if step.name else step.op
    shape = shape_text(step.shape, step.axes)
    return str(step.index + 1), called, shape, memory_text(step), step.line


def _cell(text: str) -> str:
    """Make a text fit into a cell of a Markdown table."""
    return spell_out(text.replace("\\", "\\\\")).replace("|", "\\|").replace("\n", " ")


CODE = "font-family:monospace;white-space:pre-wrap"
CHIP = "color:#1f2430;border:1px solid #8a8f99;border-radius:3px;padding:0 4px"
ALERT = f"{CELL};white-space:normal;border-left:4px solid #d95f02"


def chips(shape: Sequence[int], axes: Sequence[str]) -> str:
    """Write a shape in colours, a chip for each axis; between chips a line may break."""
    spans = []
    for name, size in zip(axes, shape, strict=True):
        text = str(size) if name.isdigit() else f"{escaped(name)}&nbsp;{size}"
        spans.append(f'<span style="background:{color(name)};{CHIP}">{text}</span>')
    return " ".join(spans) or "a number"


def _html_rows(step: Step) -> list[str]:
    """Write one step, and below it what is wrong or unusual."""
    number, op, _, memory, code = _cells(step)
    line = f'<span style="{CODE}">{escaped(code)}</span>'
    shape = chips(step.shape, step.axes)
    rows = [row((number, line, escaped(op), shape, str(step.strides), escaped(memory)))]
    for sign, text in remarks(step):
        alert = f"{sign} <strong>{escaped(text)}</strong>"
        rows.append(f'<tr><td></td><td colspan="5" style="{ALERT}">{alert}</td></tr>')
    return rows
