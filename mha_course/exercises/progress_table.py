"""``progress`` shows what is done, lesson by lesson."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from mha_course.exercises import catalogue, progress_store
from mha_course.exercises.progress_store import FILE, SWITCH
from mha_course.markup import LEFT, columns, table

LAST_OF_PART_1 = 7  # the number of that lesson
OFF = f"Progress is off, because {SWITCH} is set to off. Everything else works."
LOCKED = "Progress is off, because this folder cannot be written to. Everything else works."
AFRESH = f"The file {FILE} could not be read, so progress starts afresh."


@dataclass(frozen=True)
class Row:
    """One lesson: how many exercises are done, and the names of the others."""

    number: int
    title: str
    done: int
    open: tuple[str, ...]

    def cells(self, style: str = "{}") -> tuple[str, str, str]:
        """Return its cells in the table; style formats the names of open exercises."""
        done = f"{self.done} of {self.done + len(self.open)}"
        return f"{self.number} · {self.title}", done, ", ".join(map(style.format, self.open))


@dataclass(frozen=True)
class Progress:
    """A table of the lessons, or a line on why there is none; displays itself in a notebook."""

    rows: tuple[Row, ...] = ()
    note: str = ""

    @property
    def total(self) -> str:
        """A sentence on how many of all exercises are done."""
        done = sum(row.done for row in self.rows)
        total = done + sum(len(row.open) for row in self.rows)
        return f"{done} of {total} exercises are done."

    def __repr__(self) -> str:
        if not self.rows:
            return self.note
        cells = (row.cells() for row in self.rows)
        lines = columns([(lesson, f"{done:7}", unsolved) for lesson, done, unsolved in cells])
        return "\n".join(filter(None, (self.note, lines, self.total)))

    def _repr_html_(self) -> str:
        note = f"<p>{escape(self.note)}</p>" if self.note else ""
        if not self.rows:
            return note
        body = []
        for row in self.rows:
            lesson, *values = row.cells("<code>{}</code>")
            cells = "".join(f'<td style="{LEFT}">{cell}</td>' for cell in values)
            body.append(f'<tr><th scope="row" style="{LEFT}">{escape(lesson)}</th>{cells}</tr>')
        return note + table(self.total, ("Lesson", "Done", "Still open"), body)


def progress() -> Progress:
    """Show which exercises are done, lesson by lesson.

    Returns: a Progress; nothing is printed or raised.
    """
    if progress_store.switched_off():
        return Progress(note=OFF)
    try:
        content = progress_store.kept()
    except OSError:
        return Progress(note=LOCKED)
    statuses = {} if content is None else progress_store.statuses_of(content)
    # Old entries may be readable where nothing new can be saved.
    if progress_store.session.unwritable or not os.access(".", os.W_OK):
        return Progress(_rows(statuses) if statuses else (), LOCKED)
    afresh = content is None or progress_store.session.restarted
    return Progress(_rows(statuses), AFRESH if afresh else "")


def _rows(statuses: Mapping[str, str]) -> tuple[Row, ...]:
    """Make a row for each lesson with exercises: only Part I until Part II is begun."""
    rows = []
    begun = 0  # the last lesson in which an answer was judged
    for lesson in catalogue.LESSONS:
        names = [exercise.name for exercise in lesson.exercises]
        unsolved = tuple(name for name in names if statuses.get(name) != "correct")
        if statuses.keys() & names:
            begun = lesson.number
        if names:
            rows.append(Row(lesson.number, lesson.title, len(names) - len(unsolved), unsolved))
    return tuple(row for row in rows if row.number <= LAST_OF_PART_1 or begun > LAST_OF_PART_1)
