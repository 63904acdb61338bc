"""Grade a class: judge each learner's notebooks in a sandbox, and write tables and pages."""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import os
import re
import secrets
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from functools import cache
from math import isfinite
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
from tqdm import tqdm

import mha_course
from mha_course.cli import confine
from mha_course.cli.grading_pages import Row, class_page, feedback_page
from mha_course.cli.hand_ins import HandIn, read_class
from mha_course.errors import ShapeError, require
from mha_course.exercises.catalogue import EXERCISES, LESSON_OF, NAMES

CLOSE = 1e-3  # tolerance for numbers that the checker has already compared
MOST_JOBS = 8
STATUSES = ("correct", "wrong", "error", "unattempted")
MISTAKE = re.compile("[a-z0-9-]{0,80}")
NO_EXERCISE = "None of the course's exercises was handed in."
NOT_JUDGED = "It was not judged: another answer of this learner ended the program that judges them."
UNREAD = "This notebook could not be read: the program that reads it stopped."
AGREES = "Its numbers agree with those of the reference on inputs nobody could know in advance."
OTHERWISE = "Its numbers are not those of the reference on inputs nobody could know in advance."
IN_PLACE = " It was judged with the course's own {} in place of yours."
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
FORMULA = re.compile("(^|[;,|])(?= *[=+@＝＋－＠-])")


def grade(
    folder: Path,
    out: Path,
    *,
    confined: bool = True,
    jobs: int | None = None,
) -> list[Row]:
    """Judge all answers in the notebooks of a folder, write the tables and pages, and return the
    rows.

    Args: folder has NAME.ipynb or NAME/*.ipynb; everything is written to out, including the results
        of finished notebooks, so that the next run can go on from there; jobs is how many learners
        are judged in parallel.
    Raises: ShapeError, before anything is judged.
    """
    with tempfile.TemporaryDirectory() as scratch:
        submissions = read_class(folder, Path(scratch))
        inside = folder.resolve() in (out.resolve(), *out.resolve().parents)
        expected = f"a folder outside of {folder}"
        problem = "it lies in the folder of the notebooks"
        require(not inside, "grade: OUT", problem, expected=expected, got=str(out))
        missing = confine.why_not_confined() if confined else ""
        problem = "answers cannot be confined on this machine"
        require(not missing, "grade", problem, expected="bubblewrap", got=missing)
        for name in ("feedback", "finished"):
            (out / name).mkdir(parents=True, exist_ok=True)
        handed_in = sorted(submissions.hand_ins, key=lambda x: x.learner)
        files = {x: out / "finished" / f"{_key(x)}.json" for x in handed_in if not x.trouble}
        pending = defaultdict[str, list[HandIn]](list)
        for hand_in, file in files.items():
            if not file.exists():
                pending[hand_in.learner].append(hand_in)
        _judge(pending, files, confined, jobs or min(MOST_JOBS, os.cpu_count() or 1))
    rows = _collect(handed_in, files)
    strays = [Row(x.name, "", "unreadable", "", x.trouble) for x in submissions.strays]
    numbers = {hand_in.learner: hand_in.number for hand_in in handed_in}
    _write(out, rows, strays, numbers, submissions.notes)
    return rows + strays


def _judge(
    pending: Mapping[str, Sequence[HandIn]], files: Mapping[HandIn, Path], confined: bool, jobs: int
) -> None:
    """Judge learners in parallel, and keep each one's results once they are complete."""
    salt = secrets.token_hex(8)
    stop = Event()

    def judged(learner: str) -> tuple[list[dict[str, Any]], str]:
        notebooks = [hand_in.path.read_bytes() for hand_in in pending[learner]]
        return confine.run_judge(notebooks, salt, confined, stop)

    with ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(judged, learner): learner for learner in pending}
        try:
            for future in tqdm(as_completed(futures), total=len(futures), desc="Learners"):
                lines, trouble = future.result()
                for number, hand_in in enumerate(pending[futures[future]]):
                    rows = rows_of(lines, number, salt, trouble)
                    _save(files[hand_in], json.dumps(rows))
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def rows_of(
    lines: Iterable[Mapping[str, Any]], number: int, salt: str, trouble: str
) -> list[tuple[str, ...]]:
    """Return a row for each answer in a notebook; its lines may be forged.

    The first lines say which answers there are, before any answer has run.
    """
    mine = [line for line in lines if line.get("notebook") == number]
    if not mine:
        return [("", "unreadable", "", trouble or UNREAD)]
    exercises = mine[0].get("exercises")
    if not isinstance(exercises, list):
        return [("", "unreadable", "", _text(mine[0].get("trouble")))]
    rows = {}
    for name in EXERCISES.keys() & {x for x in exercises if isinstance(x, str)}:
        line = next((line for line in mine[1:] if line.get("exercise") == name), None)
        rows[name] = _verdict(name, line, salt, trouble)
    return [rows[name] for name in NAMES if name in rows]


def _verdict(name: str, line: Mapping[str, Any] | None, salt: str, trouble: str) -> tuple[str, ...]:
    """Return one row: a pass counts if its numbers are right, whatever its message."""
    if line is None or line.get("status") not in STATUSES:
        return name, "error", "", trouble or NOT_JUDGED
    status, message = line["status"], _text(line.get("message"))
    uses = ", ".join(_text(x) for x in _list(line.get("uses")))
    if status == "correct":
        if not agrees(name, line.get("numbers"), salt):
            return name, "wrong", "", OTHERWISE, uses
        replaced = [f"`{x}`" for x in _list(line.get("replaced")) if x in NAMES]
        message = f"{EXERCISES[name].done} {AGREES}".strip()
        if replaced:
            message += IN_PLACE.format(", ".join(replaced))
        return name, status, "", message, uses
    mistake = _text(line.get("mistake"))
    return name, status, mistake if MISTAKE.fullmatch(mistake) else "", message, uses


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else ""
    return text.encode("utf-8", "backslashreplace").decode()


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


@cache
def _right_numbers(name: str, salt: str) -> list[list[Any]]:
    # it loads the judge, which needs a system that forks
    from mha_course.cli.judge import numbers_of  # noqa: PLC0415

    return numbers_of(name, EXERCISES[name].reference, salt)


def agrees(name: str, numbers: Any, salt: str) -> bool:
    """Return whether numbers equal the reference's on inputs drawn with the salt."""
    targets = _right_numbers(name, salt)
    lists = [_list(series) for series in _list(numbers)]
    if [len(series) for series in lists] != [len(series) for series in targets]:
        return False
    return all(map(_are_near, lists, targets))


def _are_near(series: Sequence[Any], target: Sequence[Any]) -> bool:
    if not all(isinstance(x, int | float) for x in series):
        return False
    size = max([1.0, *(abs(y) for y in target if isfinite(y))])
    with suppress(OverflowError):  # of an int that is larger than any float
        numbers = np.array(series, float)
        return np.allclose(numbers, target, rtol=0, atol=CLOSE * size, equal_nan=True)
    return False


def _collect(handed_in: Sequence[HandIn], files: Mapping[HandIn, Path]) -> list[Row]:
    """Return the rows of all learners."""
    by_learner: dict[str, list[Row]] = {hand_in.learner: [] for hand_in in handed_in}
    for hand_in in handed_in:
        entries = [("", "unreadable", "", hand_in.trouble)]
        if hand_in in files:
            entries = json.loads(files[hand_in].read_text(encoding="utf-8"))
        for entry in entries or [("", "unreadable", "", NO_EXERCISE)]:
            row = Row(hand_in.learner, *entry)
            named = row if row.exercise else row._replace(message=f"{hand_in.name}: {row.message}")
            by_learner[hand_in.learner].append(named)
    return [row for rows in by_learner.values() for row in _best(rows)]


def _best(rows: Sequence[Row]) -> list[Row]:
    """Return the best row of each exercise in the order of the course, then what was not read."""
    best = dict[str, Row]()
    for row in rows:
        before = best.get(row.exercise, row)
        if row.exercise:
            best[row.exercise] = min(before, row, key=lambda x: STATUSES.index(x.status))
    return [best[name] for name in NAMES if name in best] + [x for x in rows if not x.exercise]


def _save(path: Path, text: str) -> None:
    """Write a file as a whole: an interrupted run leaves no half-written file."""
    temporary = path.with_name("part~")
    try:
        temporary.write_text(text, encoding="utf-8", errors="surrogateescape", newline="")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@cache
def _course() -> bytes:
    """Return a digest of the course: if it changes, everything is judged again."""
    files = sorted(Path(mha_course.__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).digest()


def _key(hand_in: HandIn) -> str:
    return hashlib.sha256(_course() + hand_in.path.read_bytes()).hexdigest()


def _write(
    out: Path,
    rows: Sequence[Row],
    strays: Sequence[Row],
    numbers: Mapping[str, str],
    notes: Sequence[str],
) -> None:
    for learner in dict.fromkeys(row.learner for row in rows):
        try:
            page = feedback_page(learner, [row for row in rows if row.learner == learner])
            _save(out / "feedback" / f"{learner}.html", page)
        except (OSError, ValueError) as error:  # such as a file name that is too long
            print(f"mha_course: no page for {learner!a}: {error}", file=sys.stderr)
    _save(out / "class.html", class_page(rows, strays, notes))
    _save(out / "grades.csv", table(Row._fields[:4], (row[:4] for row in (*rows, *strays))))
    _save(out / "grades_by_lesson.csv", f"\ufeff{wide_table(rows, numbers)}")


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Write a table whose cells no spreadsheet runs, whatever the separator."""
    file = io.StringIO()
    cells = [
        [FORMULA.sub(r"\1'", CONTROL.sub(" ", str(cell))) for cell in row]
        for row in (header, *rows)
    ]
    csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(cells)
    return file.getvalue()


def wide_table(rows: Sequence[Row], numbers: Mapping[str, str]) -> str:
    """Return a table with one line for each learner: by lesson, a point for each correct exercise.

    All lessons count of which anyone in the class has handed in an exercise.
    """
    lessons = sorted({LESSON_OF[row.exercise].number for row in rows if row.exercise})
    points = Counter(
        (row.learner, LESSON_OF[row.exercise].number) for row in rows if row.status == "correct"
    )
    uses = defaultdict[str, list[str]](list)
    for row in rows:
        if row.uses:
            uses[row.learner].append(f"{row.exercise}: {row.uses}")
    header = ("learner", "id", *(f"lesson {x:02}" for x in lessons), "uses of the course")
    lines = (
        (name, numbers[name], *(points[name, lesson] for lesson in lessons), "; ".join(uses[name]))
        for name in dict.fromkeys(row.learner for row in rows)
    )
    return table(header, lines)


def main(argv: Sequence[str]) -> int:
    """Grade a class and print the result; return the exit status."""
    about = "Judge the notebooks of a class, each learner in a sandbox; write tables and pages."
    parser = argparse.ArgumentParser(prog="python3 -m mha_course grade", description=about)
    text = "has NAME.ipynb, or NAME/*.ipynb, for each learner"
    parser.add_argument("folder", metavar="FOLDER", type=Path, help=text)
    text = "where grades.csv, class.html and feedback/NAME.html go"
    parser.add_argument("--out", required=True, type=Path, help=text)
    text = f"how many learners are judged in parallel (processors, at most {MOST_JOBS})"
    parser.add_argument("--jobs", metavar="N", type=int, choices=range(1, 65), help=text)
    text = "run answers with your own permissions: only for notebooks that you trust"
    parser.add_argument("--unconfined", action="store_true", help=text)
    chosen = parser.parse_args(argv)
    folder, out, confined = chosen.folder, chosen.out, not chosen.unconfined
    try:
        rows = grade(folder, out, confined=confined, jobs=chosen.jobs)
    except (ShapeError, OSError) as error:
        print(f"mha_course: {error}", file=sys.stderr)
        if "cannot be confined" in str(error):
            line = confine.CONTAINER.format(folder=folder.resolve(), out=out.resolve())
            print(f"In a container, from a clone of the course:\n  {line}", file=sys.stderr)
            print("For notebooks that you trust: add --unconfined to the command", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        text = "stopped. Finished work is kept: the same command goes on from there."
        print(f"\nmha_course: {text}", file=sys.stderr)
        return 130
    counts = Counter(row.status for row in rows)
    print(f"{', '.join(f'{counts[x]} {x}' for x in (*STATUSES, 'unreadable') if counts[x])}.")
    print(f"The class is in {out / 'class.html'}, the table in {out / 'grades.csv'}.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
