"""Progress across lessons, in a file next to the notebooks; all else works without it."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock

from mha_course.exercises.catalogue import all_lessons
from mha_course.markup import LEFT, count, table

FILE = ".progress.json"  # in the folder in which the notebook runs
SWITCH = "MHA_COURSE_PROGRESS"
TIMEOUT = 3.0  # seconds to wait for another notebook, which needs milliseconds
LAST_OF_PART_1 = 7  # the number of that lesson
RANKS = ("error", "wrong", "correct")  # what a judged answer can be; the best is kept
_OFF = f"Progress is off, because {SWITCH} is set to off. Everything else works."
_LOCKED = "Progress is off, because this folder cannot be written to. Everything else works."
_AFRESH = f"The file {FILE} could not be read, so progress starts afresh."


@dataclass
class _Session:
    """What went wrong since the kernel started, for ``progress`` to say."""

    unwritable: bool = False  # the last change could not be kept
    restarted: bool = False  # a broken file was laid aside


_session = _Session()


class Entry(NamedTuple):
    """The record of one exercise: the best status so far, and how many answers were judged."""

    status: str
    attempts: int


@dataclass(frozen=True)
class Row:
    """One lesson: how many exercises are done, and the attempts at each that is open."""

    number: int
    title: str
    done: int
    open: Mapping[str, int]


@dataclass(frozen=True)
class Progress:
    """A table of all lessons, or a line on why there is none; shows itself in a notebook."""

    rows: tuple[Row, ...] = ()
    note: str = ""

    @property
    def total(self) -> str:
        """The table in a sentence."""
        done = sum(row.done for row in self.shown)
        total = done + sum(len(row.open) for row in self.shown)
        return f"{done} of {total} exercises are done."

    @property
    def shown(self) -> tuple[Row, ...]:
        """The lessons of Part I, and all once Part II is begun."""
        part_2 = [row for row in self.rows if row.number > LAST_OF_PART_1]
        if any(row.done or any(row.open.values()) for row in part_2):
            return self.rows
        return tuple(row for row in self.rows if row.number <= LAST_OF_PART_1)

    def _cells(self, style: str) -> list[tuple[str, str, str]]:
        """Return the texts of each row; style is a format for the name of an open exercise."""
        cells = []
        for row in self.shown:
            unsolved = []
            for name, attempts in row.open.items():
                tried = f" ({count(attempts, 'attempt')})" if attempts else ""
                unsolved.append(f"{style.format(name)}{tried}")
            done = f"{row.done} of {row.done + len(row.open)}"
            cells.append((f"{row.number} · {row.title}", done, ", ".join(unsolved)))
        return cells

    def __repr__(self) -> str:
        if not self.rows:
            return self.note
        cells = self._cells("{}")
        width = max(len(lesson) for lesson, _, _ in cells)
        lines = [
            f"{lesson:{width}}  {count:7}  {unsolved}".rstrip() for lesson, count, unsolved in cells
        ]
        return "\n".join([*([self.note] if self.note else []), *lines, self.total])

    def _repr_html_(self) -> str:
        note = f"<p>{escape(self.note)}</p>" if self.note else ""
        if not self.rows:
            return note
        body = []
        for lesson, *others in self._cells("<code>{}</code>"):
            cells = "".join(f'<td style="{LEFT}">{cell}</td>' for cell in others)
            body.append(f'<tr><th scope="row" style="{LEFT}">{escape(lesson)}</th>{cells}</tr>')
        return note + table(self.total, ("Lesson", "Done", "Still open"), body)


def progress() -> Progress:
    """Show which exercises are done, lesson by lesson.

    Returns: a Progress; nothing is printed or raised.
    """
    if switched_off():
        return Progress(note=_OFF)
    try:
        content = kept()
    except OSError:
        return Progress(note=_LOCKED)
    entries = None if content is None else _entries(content)
    if _session.unwritable or not os.access(".", os.W_OK):
        return Progress(_table(entries) if entries else (), _LOCKED)
    afresh = entries is None or _session.restarted
    return Progress(_table(entries or {}), _AFRESH if afresh else "")


def remember(name: str, status: str) -> None:
    """Keep that an answer was judged: its best status, and the number of attempts; never raise.

    A status that is not one of RANKS is not kept, so that a lesson that is only run leaves no file.
    """

    def judged(content: dict[str, Any]) -> None:
        entries = _entries(content)
        before = entries.get(name, Entry(status, 0))
        best = max(before.status, status, key=RANKS.index)
        entries[name] = Entry(best, before.attempts + 1)
        content["exercises"] = {each: entry._asdict() for each, entry in sorted(entries.items())}

    if status in RANKS:
        update(judged)


def update(change: Callable[[dict[str, Any]], None]) -> None:
    """Change what is kept where that is possible; never raise.

    A broken file is moved aside: people can repair what a program cannot read.
    """
    if switched_off():
        return
    try:
        # Two notebooks may run in one folder: both would read the same entries, and the second to
        # write undo the first. The lock's file stays: another notebook may wait for it.
        with (
            warnings.catch_warnings(action="ignore"),
            FileLock(f"{FILE}.lock", timeout=TIMEOUT, poll_interval=0.005),
        ):
            content = kept()
            if content is None:
                Path(FILE).replace(f"{FILE}.broken")
                _session.restarted = True
            content = {"exercises": {}} | (content or {})
            change(content)
            _write(content)
        _session.unwritable = False
    except (OSError, NotImplementedError):  # the latter where a file system has no locks
        _session.unwritable = True


def switched_off() -> bool:
    """Return whether the environment turns progress off."""
    return os.environ.get(SWITCH, "").strip().lower() == "off"


def kept() -> dict[str, Any] | None:
    """Return all entries, none if there is no file, and None if the file is broken.

    Raises: OSError.
    """
    try:
        content = json.loads(Path(FILE).read_text(encoding="utf-8"))
        return content if isinstance(content["exercises"], dict) else None
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _entries(content: Mapping[str, Any]) -> dict[str, Entry]:
    """Return what is kept of each exercise."""
    entries = {name: _entry(value) for name, value in content.get("exercises", {}).items()}
    return {name: entry for name, entry in entries.items() if entry}


def _entry(kept: Any) -> Entry | None:
    """Read one entry, or None if it makes no sense."""
    match kept:
        case {"status": str(status), "attempts": int(attempts)} if status in RANKS and attempts > 0:
            return Entry(status, attempts)
    return None


def _write(content: Mapping[str, Any]) -> None:
    """Replace the file in one move: a killed kernel, or a full disk, leaves the old one whole."""
    part = Path(f"{FILE}.part")
    try:
        part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        try:
            part.replace(FILE)
        except PermissionError:  # Windows refuses while another program reads the old file
            time.sleep(0.2)
            part.replace(FILE)
    finally:
        part.unlink(missing_ok=True)


def _table(entries: Mapping[str, Entry]) -> tuple[Row, ...]:
    """Make a row of each lesson that has exercises to check."""
    rows = []
    for lesson in all_lessons():
        unsolved = {}
        for exercise in lesson.exercises:
            entry = entries.get(exercise.name, Entry("error", 0))
            if entry.status != "correct":
                unsolved[exercise.name] = entry.attempts
        if lesson.exercises:
            done = len(lesson.exercises) - len(unsolved)
            rows.append(Row(lesson.number, lesson.title, done, unsolved))
    return tuple(rows)
