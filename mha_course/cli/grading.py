"""Grade the notebooks of a class: find the answers, judge each in a process of its own, write
tables and pages.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

import mha_course
from mha_course.cli.answers import Answer, judge, read, unpacked
from mha_course.cli.grading_pages import Row, class_page, feedback_page
from mha_course.cli.workers import ENDED, LINUX, Task, run_all, why_not_confined
from mha_course.errors import ShapeError, require
from mha_course.exercises import diagnose
from mha_course.exercises.catalogue import LESSON_OF, NAMES

SECONDS = 30.0  # for one answer, of which each call may take five
LARGEST = 100 << 20  # bytes of a notebook
BEST_FIRST = ("correct", "wrong", "error", "unattempted")
NAME = re.compile("[a-z0-9-]{0,80}")  # of a mistake
# What pictures are made of.
PIECE = re.compile(
    r"</?(?:table|caption|tbody|tr|td)"
    r"""(?: style="(?:(?:border|background|color|font|margin|padding|text)"""
    r"""[a-z-]*:[\w #%(),.-]+(?:;|(?=")))*")?>"""
)
NBGRADER = (
    "assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email",
    "raw_score", "late_submission_penalty", "score", "max_score",
)  # fmt: skip


def grade(folder: Path, out: Path, *, confined: bool = True) -> list[Row]:
    """Judge all answers in the notebooks of a folder, write the tables and pages, and return the
    rows.

    Args: folder has NAME.ipynb or NAME/*.ipynb; out is where all that is written goes, and where
        the results of notebooks that are finished are kept, so that the next run goes on from
        there.
    Raises: ShapeError, before anything is judged.
    """
    handed_in = hand_ins(folder)
    _prepare(folder, out)
    missing = why_not_confined() if confined else ""
    if missing:
        what = "answers cannot be confined on this machine"
        fix = "--unconfined, for notebooks that you trust"
        raise ShapeError("grade", what, "Linux with Landlock and seccomp", missing, fix)
    torch.set_num_threads(1)  # a process that is forked beside threads may stand still
    tqdm.monitor_interval = 0
    kept = {path: out / "finished" / f"{_digest(path)}.json" for _, path in handed_in}
    new = {file: path for path, file in kept.items() if not file.exists()}
    _judge(_read(new, confined), confined)
    by_learner: dict[str, list[Row]] = {learner: [] for learner, _ in sorted(handed_in)}
    for learner, path in handed_in:
        for row in (
            Row(learner, *row) for row in json.loads(kept[path].read_text(encoding="utf-8"))
        ):
            about = "" if row.exercise else f"{path.name}: "
            by_learner[learner].append(row._replace(message=about + row.message))
    everything = [row for learner, rows in by_learner.items() for row in _best(learner, rows)]
    for learner in by_learner:
        try:
            page = feedback_page(learner, [row for row in everything if row.learner == learner])
            _save(out / "feedback" / f"{learner}.html", page)
        except (OSError, ValueError) as error:  # such as a name that is too long for a file
            print(f"mha_course: no page for {learner!a}: {error}", file=sys.stderr)
    _save(out / "class.html", class_page(everything))
    _save(out / "grades.csv", _table(Row._fields[:4], (row[:4] for row in everything)))
    _save(out / "grades_nbgrader.csv", _table(NBGRADER, _scores(everything)))
    return everything


def hand_ins(folder: Path) -> list[tuple[str, Path]]:
    """Return learners and their notebooks; of a learner without one, the folder. Raises: ShapeError
    if none has any.
    """
    place = "grade: FOLDER"
    expected = "NAME.ipynb or NAME/*.ipynb for each learner"
    require(
        folder.is_dir(),
        place,
        "there is no such folder",
        expected=f"a folder with {expected}",
        got=str(folder),
    )
    handed_in = list[tuple[str, Path]]()
    for path in _visible(folder.iterdir(), folder):
        if path.is_dir():
            inside = [file for file in _visible(path.rglob("*"), path) if _is_notebook(file)]
            handed_in += [(path.name, file) for file in inside or [path]]
        elif _is_notebook(path):
            handed_in.append((path.stem, path))
    some = any(_is_notebook(path) for _, path in handed_in)
    require(some, place, "there is no notebook in it", expected=expected, got=str(folder))
    return handed_in


def _visible(paths: Iterable[Path], under: Path) -> list[Path]:
    """Return the paths of which no part below a folder is hidden, in order."""
    return sorted(
        path
        for path in paths
        if not any(part.startswith(".") for part in path.relative_to(under).parts)
    )


def _is_notebook(path: Path) -> bool:
    return path.suffix.lower() == ".ipynb" and not path.is_dir()


def _prepare(folder: Path, out: Path) -> None:
    """Make the folders that are written to. Raises: ShapeError."""
    place = "grade: OUT"
    inside = folder.resolve() in (out.resolve(), *out.resolve().parents)
    expected = f"a folder outside of {folder}"
    require(
        not inside, place, "it lies in the folder of the notebooks", expected=expected, got=str(out)
    )
    try:
        for name in ("feedback", "finished"):
            (out / name).mkdir(parents=True, exist_ok=True)
            _save(out / name / "test", "")
            (out / name / "test").unlink()
    except OSError as error:
        got = f"{out} ({error.strerror})"
        raise ShapeError(place, "it cannot be written to", "a folder of your own", got) from error


def _save(path: Path, text: str) -> None:
    """Write a file as a whole: a run that is interrupted leaves none that is half written."""
    temporary = path.with_name("part~")
    try:
        temporary.write_text(text, encoding="utf-8", errors="surrogateescape", newline="")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@cache
def _course() -> bytes:
    """Return what the course is made of, in short: another course judges anew."""
    files = sorted(Path(mha_course.__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).digest()


def _content(path: Path) -> bytes:
    """Return the content of a notebook; none where it is too large, no file, or not to be read."""
    try:
        return path.read_bytes() if path.is_file() and path.stat().st_size <= LARGEST else b""
    except OSError:
        return b""


def _digest(path: Path) -> str:
    return hashlib.sha256(_course() + _content(path)).hexdigest()


def _read(new: Mapping[Path, Path], confined: bool) -> dict[Path, list[Answer]]:
    """Return the answers of each notebook, by the file in which its results are to be kept."""
    tasks = (Task(file, [_content(path)]) for file, path in new.items())
    answers = {}
    for task in tqdm(run_all(read, tasks, seconds=SECONDS, confined=confined), "Reading", len(new)):
        result = task.results[0]
        if isinstance(result, str):
            _save(task.key, json.dumps([("", "unreadable", "", result, "")]))
        else:
            answers[task.key] = unpacked(*result)
    return answers


def _judge(notebooks: Mapping[Path, list[Answer]], confined: bool) -> None:
    """Judge the answers of all notebooks, and keep the results of each in its file as soon as it is
    finished.
    """
    empty: tuple[str, ...] = ("unattempted", "", "The body is still empty.", "")
    rows = {
        file: {answer.exercise: empty for answer in answers} for file, answers in notebooks.items()
    }
    left = {
        file: [answer for answer in answers if answer.expression]
        for file, answers in notebooks.items()
    }
    tasks = [
        Task((file, [answer.exercise for answer in batch]), batch)
        for file, answers in left.items()
        for batch in ([[answer] for answer in answers] if LINUX else [answers] if answers else [])
    ]
    for file in [file for file, answers in left.items() if not answers]:
        _keep(file, rows[file])
    judged = run_all(judge, map(_prepared, tasks), seconds=SECONDS, confined=confined)
    for task in tqdm(judged, "Judging", len(tasks)):
        file, names = task.key
        for name, result in zip(names, task.results, strict=True):
            rows[file][name] = _verdict(result)
        left[file] = [answer for answer in left[file] if answer.exercise not in names]
        if not left[file]:
            _keep(file, rows[file])


def _verdict(result: Any) -> tuple[str, ...]:
    """Return what a process says of an answer; it may be forged, so only if it has the form of what
    ``judge`` says.
    """
    verdict: tuple[str, ...] = "error", "", ENDED, ""
    match result:
        case str():
            verdict = ("error", "", result, "")
        case [str(status), str(mistake), str(message), str(picture)] if (
            status in BEST_FIRST and NAME.fullmatch(mistake)
        ):
            verdict = (
                status,
                mistake,
                message,
                "" if re.search("[<>]", PIECE.sub("", picture)) else picture,
            )
    return tuple(text.encode("utf-8", "backslashreplace").decode() for text in verdict)


def _keep(file: Path, rows: Mapping[str, tuple[str, ...]]) -> None:
    _save(file, json.dumps([(name, *row) for name, row in rows.items()]))


def _prepared(task: Task) -> Task:
    """Run all known mistakes of an exercise here, once: a process that is forked then has them."""
    if LINUX:
        diagnose.mutants(task.items[0].exercise)
    return task


def _best(learner: str, rows: Sequence[Row]) -> list[Row]:
    """Return one row for each exercise, the best where it was handed in twice, in the order of the
    course.
    """
    unreadable = [row for row in rows if not row.exercise]
    answers = sorted(
        (row for row in rows if row.exercise),
        key=lambda row: BEST_FIRST.index(row.status),
        reverse=True,
    )
    best = {row.exercise: row for row in answers}
    chosen = [best[name] for name in NAMES if name in best] + unreadable
    return chosen or [
        Row(
            learner,
            "",
            "unreadable",
            "",
            "There is no exercise of the course in what was handed in.",
        )
    ]


def _table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    file = io.StringIO()
    # A name that begins so is a formula to a spreadsheet.
    safe = (
        [f"'{cell}" if str(cell).startswith(("=", "+", "-", "@")) else cell for cell in row]
        for row in rows
    )
    csv.writer(file, lineterminator="\n").writerows([header, *safe])
    return file.getvalue()


def _scores(rows: Sequence[Row]) -> Iterator[tuple[Any, ...]]:
    """Yield how many exercises each learner has right in each lesson, as nbgrader exports it.

    All exercises count that somebody in the class has handed in; what a learner has not is not
    right.
    """
    most = Counter(
        LESSON_OF[name].number for name in {row.exercise for row in rows if row.exercise}
    )
    right = Counter(
        (row.learner, LESSON_OF[row.exercise].number) for row in rows if row.status == "correct"
    )
    for learner in dict.fromkeys(row.learner for row in rows):
        for lesson, largest in sorted(most.items()):
            score = right[learner, lesson]
            yield f"lesson {lesson:02}", "", "", learner, "", "", "", score, 0, score, largest


def main(argv: Sequence[str]) -> int:
    """Grade a class and say what was found; return the exit status."""
    about = (
        "Judge all answers in the notebooks of a class, each in a process of its own, and write "
        "tables and pages."
    )
    parser = argparse.ArgumentParser(prog="python3 -m mha_course grade", description=about)
    parser.add_argument(
        "folder", metavar="FOLDER", help="has NAME.ipynb, or NAME/*.ipynb, for each learner"
    )
    parser.add_argument(
        "--out", required=True, help="where grades.csv, class.html and feedback/NAME.html go"
    )
    text = "run answers with all that you may do yourself: only for notebooks that you trust"
    parser.add_argument("--unconfined", action="store_true", help=text)
    parser.add_argument(
        "--beside", default=".", help=argparse.SUPPRESS
    )  # the folder in which the command was given
    chosen = parser.parse_args(argv)
    beside = Path(chosen.beside)
    out = beside / chosen.out
    try:
        rows = grade(beside / chosen.folder, out, confined=not chosen.unconfined)
    except (ShapeError, OSError) as error:
        print(f"mha_course: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "\nmha_course: stopped. What is finished is kept; the same command goes on from there.",
            file=sys.stderr,
        )
        return 130
    counts = Counter(row.status for row in rows)
    print(
        ", ".join(
            f"{counts[status]} {status}" for status in (*BEST_FIRST, "unreadable") if counts[status]
        )
        + "."
    )
    print(f"The class is in {out / 'class.html'}, the table in {out / 'grades.csv'}.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
