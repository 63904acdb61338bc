"""A trace as text, HTML and Markdown, and two traces side by side."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence

from mha_course.tracing.records import Argument, Step, color

STAGES = (
    "projection",
    "split",
    "scores",
    "scaled_scores",
    "masked_scores",
    "weights",
    "context",
    "merged",
    "out",
)
WIDTH = 88  # characters that fit beside JupyterLab's file list
WARN, ASK = "⚠", "?"


def shape_text(shape: Sequence[int], axes: Sequence[str]) -> str:
    """Write a shape with its names: ``B 2 · S 5 · C 24``."""
    pairs = zip(axes, shape, strict=True)
    return (
        " · ".join(f"{size}" if name.isdigit() else f"{name} {size}" for name, size in pairs)
        or "a number"
    )


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


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Write rows of text in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


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
            short = code if len(code) <= room else f"{code[: room - 1]}…"
            lines.append("  ".join([*map(str.ljust, cells, widths), short]).rstrip())
            for sign, text in remarks(step) if step is not None else ():
                lines += textwrap.wrap(
                    f"{sign} {text}", WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 8
                )
        return "\n".join((*lines, *self._closing_lines()))

    def _closing_lines(self) -> list[str]:
        """Return the notes, each once, and why the call stopped."""
        notes = dict.fromkeys(f"{step.op}: {step.note}" for step in self.steps if step.note)
        texts = [
            *self.notes,
            *notes,
            *([f"{WARN} stopped: {self.failure}"] if self.failure else []),
        ]
        return [
            line for text in texts for line in textwrap.wrap(text, WIDTH, subsequent_indent="  ")
        ]

    def __repr__(self) -> str:
        return f"Trace: {self.summary()}"

    def summary(self) -> str:
        """Say in one sentence how many steps there were, and what they did to memory."""
        kinds = [
            (kind, sum(step.storage == kind for step in self.steps))
            for kind in ("new", "view", "copy", "same")
        ]
        words = {"view": "view", "copy": "copy", "same": "same object"}
        made = ", ".join(
            count(n, words[kind]) if kind in words else f"{n} new" for kind, n in kinds if n
        )
        hidden = sum(step.hidden_copies for step in self.steps)
        extra = [count(hidden, "hidden copy")] if hidden else []
        remarks = ((self.warnings, "warning"), (self.questions, "question"))
        extra += [count(len(found), word) for found, word in remarks if found]
        return "; ".join(
            [f"{count(len(self.steps), 'step')}: {made}" if made else "no steps", *extra]
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return all warnings, in order."""
        found = [step.warning for step in self.steps if step.warning]
        return (*found, *([self.failure] if self.failure else []))

    @property
    def questions(self) -> tuple[str, ...]:
        """Return all questions, in order."""
        return tuple(step.question for step in self.steps if step.question)

    def step(self, name: str) -> Step:
        """Return the last step assigned to a variable, or the last of a stage, or the one that a
        variable held.
        """
        for field in ("name", "stage"):
            found = [step for step in self.steps if getattr(step, field) == name]
            if found:
                return found[-1]
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
        rows = [text for step in self.steps for text in _html_rows(step)]
        notes = "".join(f"<p>{escaped(text)}</p>" for text in self._closing_lines())
        return (
            table(self.summary(), ("no.", "line", "step", "shape", "strides", "memory"), rows)
            + notes
        )


def remarks(step: Step) -> list[tuple[str, str]]:
    """Return what is wrong with a step and what is unusual, each behind its sign."""
    return [(sign, text) for sign, text in ((WARN, step.warning), (ASK, step.question)) if text]


def _cells(step: Step) -> tuple[str, str, str, str, str]:
    """Return what a row says: number, name and op, shape, memory, line."""
    called = f"{step.name} = {step.op}" if step.name else step.op
    return (
        str(step.index + 1),
        called,
        shape_text(step.shape, step.axes),
        memory_text(step),
        step.line,
    )


def _cell(text: str) -> str:
    """Make a text fit into a cell of a Markdown table."""
    return written_out(text.replace("\\", "\\\\")).replace("|", "\\|").replace("\n", " ")


CELL = "padding:3px 8px;text-align:left;vertical-align:top;white-space:nowrap"
CODE = "font-family:monospace;white-space:pre-wrap"
CHIP = "color:#1f2430;border:1px solid #8a8f99;border-radius:3px;padding:0 4px"
ALERT = f"{CELL};white-space:normal;border-left:4px solid #d95f02"

# Signs that are not seen, and marks that turn the direction of what follows them, even of words
# that are not theirs.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def written_out(text: str) -> str:
    """Write signs that are not seen as Python does."""
    return _UNSEEN.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)


def escaped(text: str) -> str:
    """Return the HTML of a text that somebody else wrote."""
    return html.escape(written_out(text))


def chips(shape: Sequence[int], axes: Sequence[str]) -> str:
    """Write a shape in colours, a chip for each axis; between chips a line may break."""
    spans = []
    for name, size in zip(axes, shape, strict=True):
        text = str(size) if name.isdigit() else f"{escaped(name)}&nbsp;{size}"
        spans.append(f'<span style="background:{color(name)};{CHIP}">{text}</span>')
    return " ".join(spans) or "a number"


def table(
    caption: str, heads: Iterable[str], rows: Iterable[str], style: str = "border-collapse:collapse"
) -> str:
    """Write a table that needs neither script nor style sheet; rows are HTML."""
    head = "".join(f'<th scope="col" style="{CELL}">{escaped(text)}</th>' for text in heads)
    top = f"<thead><tr>{head}</tr></thead>" if head else ""
    title = f'<caption style="text-align:left">{escaped(caption)}</caption>'
    return f'<table style="{style}">{title}{top}<tbody>{"".join(rows)}</tbody></table>'


def row(cells: Iterable[str], style: str = CELL) -> str:
    """Write a row of a table; cells are HTML."""
    columns = "".join(f'<td style="{style}">{cell}</td>' for cell in cells)
    return f"<tr>{columns}</tr>"


def _html_rows(step: Step) -> list[str]:
    """Write one step, and below it what is wrong or unusual."""
    number, op, _, memory, code = _cells(step)
    line = f'<span style="{CODE}">{escaped(code)}</span>'
    cells = [
        number,
        line,
        escaped(op),
        chips(step.shape, step.axes),
        str(step.strides),
        escaped(memory),
    ]
    alerts = [f"{sign} <strong>{escaped(text)}</strong>" for sign, text in remarks(step)]
    return [
        row(cells),
        *[f'<tr><td></td><td colspan="5" style="{ALERT}">{alert}</td></tr>' for alert in alerts],
    ]
