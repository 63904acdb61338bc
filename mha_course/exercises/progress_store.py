"""What is done across lessons, kept in one small file beside the notebooks.

The file is a convenience: without it, or without the right to write it, everything else works as before.
"""

from __future__ import annotations

import contextlib
import html
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mha_course.exercises.catalogue import LESSONS

FILE = ".progress.json"  # in the folder in which the notebook runs
SWITCH = "MHA_COURSE_PROGRESS"
RANKS = {"error": 0, "wrong": 1, "correct": 2}  # what a judged answer can be; the best is kept
PATIENCE = 3.0  # seconds to wait for another notebook, which needs milliseconds
_OFF = f"Progress is off, because {SWITCH} is set to off. Everything else works."
_LOCKED = "Progress is off, because this folder cannot be written to. Everything else works."
_AFRESH = f"The file {FILE} could not be read, so progress starts afresh."
_SAID: set[str] = set()  # what went wrong in this session, to be told by progress()


class Entry(NamedTuple):
    """What is kept of one exercise: the best status so far, and how many answers were judged."""

    status: str
    attempts: int


@dataclass(frozen=True)
class Row:
    """One lesson: how many of its exercises are done, and which are open, with the attempts at each."""

    number: int
    title: str
    done: int
    open: Mapping[str, int]

    @property
    def cells(self) -> tuple[str, str]:
        """Give the lesson and the count as text."""
        return f"{self.number} · {self.title}", f"{self.done} of {self.done + len(self.open)}"


@dataclass(frozen=True)
class Progress:
    """A table of all lessons, or one line that says why there is none; shows itself in a notebook."""

    rows: tuple[Row, ...] = ()
    note: str = ""

    @property
    def total(self) -> str:
        """Sum up the table in a sentence."""
        done = sum(row.done for row in self.rows)
        return f"{done} of {done + sum(len(row.open) for row in self.rows)} exercises are done."

    def __repr__(self) -> str:
        if not self.rows:
            return self.note
        wide = max(len(row.cells[0]) for row in self.rows)
        lines = [
            f"{row.cells[0]:{wide}}  {row.cells[1]:7}  {', '.join(_tell(*item) for item in row.open.items())}".rstrip()
            for row in self.rows
        ]
        return "\n".join([*filter(None, [self.note]), *lines, self.total])

    def _repr_html_(self) -> str:
        note = f"<p>{html.escape(self.note)}</p>" if self.note else ""
        if not self.rows:
            return note
        heads = "".join(
            f'<th scope="col" style="text-align:left">{head}</th>' for head in ("Lesson", "Done", "Still open")
        )
        body = "".join(_row(row) for row in self.rows)
        return (
            f'{note}<table><caption style="text-align:left">{self.total}</caption>'
            f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
        )


def progress() -> Progress:
    """Show which exercises are done, lesson by lesson. Returns: a Progress; nothing is printed or raised."""
    if _switched_off():
        return Progress(note=_OFF)
    try:
        entries = _read()
    except OSError:
        return Progress(note=_LOCKED)
    if _LOCKED in _SAID or not os.access(".", os.W_OK):
        return Progress(_table(entries) if entries else (), _LOCKED)
    return Progress(_table(entries or {}), _AFRESH if entries is None or _AFRESH in _SAID else "")


def remember(name: str, status: str) -> None:
    """Keep that an answer was judged: the best status ever, and the number of attempts. Never raises.

    Args: name is that of an exercise; status is ``"correct"``, ``"wrong"`` or ``"error"``. All else, above all
        ``"unattempted"``, is not written, so that a lesson that is only run leaves no file.
    """
    if not (isinstance(name, str) and isinstance(status, str) and status in RANKS) or _switched_off():
        return
    try:
        with _turn():
            entries = _read()
            if entries is None:
                _SAID.add(_AFRESH)
                entries = {}
            before = entries.get(name, Entry(status, 0))
            best = max(before.status, status, key=RANKS.__getitem__)
            _write(entries | {name: Entry(best, before.attempts + 1)})
        _SAID.discard(_LOCKED)
    except OSError:
        _SAID.add(_LOCKED)


def _switched_off() -> bool:
    """Say whether whoever runs the course wants no progress kept."""
    return os.environ.get(SWITCH, "").strip().lower() == "off"


def _read() -> dict[str, Entry] | None:
    """Return what is kept, nothing where there is no file, and None where the file is broken. Raises: OSError."""
    try:
        found = json.loads(Path(FILE).read_text(encoding="utf-8"))
        return {name: entry for name, kept in found["exercises"].items() if (entry := _entry(kept))}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _entry(kept: Any) -> Entry | None:
    """Read one entry, or None where it makes no sense."""
    match kept:
        case {"status": str(status), "attempts": int(attempts)} if status in RANKS and attempts > 0:
            return Entry(status, attempts)
    return None


def _write(entries: Mapping[str, Entry]) -> None:
    """Replace the file in one move, so that nobody ever sees half of it."""
    part = Path(f"{FILE}.{os.getpid()}")
    content = {"exercises": {name: entry._asdict() for name, entry in sorted(entries.items())}}
    try:
        part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        _replace(part)
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def _replace(part: Path) -> None:
    """Put the new file in the place of the old one; Windows refuses while someone reads that, so try again."""
    for _ in range(9):
        with contextlib.suppress(PermissionError):
            part.replace(FILE)
            return
        time.sleep(0.02)
    part.replace(FILE)


@contextlib.contextmanager
def _turn() -> Iterator[None]:
    """Wait while another notebook writes, but not for one that broke off and left its lock behind."""
    lock, start, refused = f"{FILE}.lock", time.monotonic(), 0
    while time.monotonic() - start < PATIENCE:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            break
        except FileExistsError:
            pass
        except PermissionError:  # for good, or on Windows while a lock is being removed
            refused += 1
            if refused > 9:
                raise
        time.sleep(0.005)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(lock)


def _table(entries: Mapping[str, Entry]) -> tuple[Row, ...]:
    """Make a row of each lesson that has exercises to check."""
    rows = []
    for lesson in LESSONS:
        kept = {exercise.name: entries.get(exercise.name, Entry("error", 0)) for exercise in lesson.exercises}
        unsolved = {name: entry.attempts for name, entry in kept.items() if entry.status != "correct"}
        if kept:
            rows.append(Row(lesson.number, lesson.title, len(kept) - len(unsolved), unsolved))
    return tuple(rows)


def _tell(name: str, attempts: int) -> str:
    """Name an open exercise, with the attempts where there were any."""
    return f"{name} ({attempts} {'attempt' if attempts == 1 else 'attempts'})" if attempts else name


def _row(row: Row) -> str:
    """Write a lesson as a row of HTML."""
    lesson, count = map(html.escape, row.cells)
    unsolved = ", ".join(
        f"<code>{html.escape(name)}</code>{html.escape(_tell(name, tries).removeprefix(name))}"
        for name, tries in row.open.items()
    )
    cell = '<td style="text-align:left">'
    return f'<tr><th scope="row" style="text-align:left">{lesson}</th>{cell}{count}</td>{cell}{unsolved}</td></tr>'
