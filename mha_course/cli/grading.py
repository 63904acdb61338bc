"""Grade a class: find the answers, judge each in its own process, write the tables."""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import re
import sys
import unicodedata
import zipfile
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from tqdm import tqdm

import mha_course
from mha_course.cli.answers import Answer, judge, read
from mha_course.cli.grading_pages import BEGINNING, Row, class_page, feedback_page
from mha_course.cli.workers import ENDED, Task, run_all, why_not_confined
from mha_course.errors import ShapeError, require
from mha_course.exercises.catalogue import LESSON_OF, NAMES

SECONDS = 30.0  # for one answer
LARGEST = 100 << 20  # bytes of a notebook
BEST_FIRST = ("correct", "wrong", "error", "unattempted")
NAME = re.compile("[a-z0-9-]{0,80}")  # of a mistake, or a digest
# What pictures are made of.
PIECE = re.compile(
    r"</?(?:table|caption|tbody|tr|td)"
    r"""(?: style="(?:(?:border|background|color|font|margin|padding|text)"""
    r"""[a-z-]*:[\w #%(),.-]+(?:;|(?=")))*")?>"""
)
# What systems leave beside files.
LEFT_THERE = re.compile(r"\.ipynb_checkpoints$|__MACOSX$|\._|\.DS_Store$|Thumbs\.db$|desktop\.ini$")
# How Moodle and Canvas name what they let one download.
MOODLE = re.compile(r"(.+?)()_(\d+)_assignsubmission_")
CANVAS = re.compile(r"([^_]+)(_LATE)?_(\d{3,})_\d{3,}_.")
NOTHING = "Nothing was handed in."
NO_EXERCISE = "There is no exercise of the course in what was handed in."
NO_NOTEBOOK = "This is no notebook (.ipynb), so nothing in it was judged."
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
FORMULA = re.compile("(^|[;,|])(?= *[=+@＝＋－＠-])")


class HandIn(NamedTuple):
    """One notebook that a learner handed in, or why what was handed in is none."""

    learner: str
    path: Path
    member: str = ""  # of a zip
    trouble: str = ""
    number: str = ""  # of the learner, in Canvas or Moodle
    late: bool = False


def grade(
    folder: Path,
    out: Path,
    *,
    confined: bool = True,
    roster: Path | None = None,
    again: Sequence[str] = (),
) -> list[Row]:
    """Judge all answers in the notebooks of a folder, write the tables and pages, and return the
    rows.

    Args: folder has NAME.ipynb or NAME/*.ipynb; out is where all that is written goes, and where
        the results of notebooks that are finished are kept, so that the next run goes on from
        there; roster is a table with the names of the class; again are learners whose answers are
        judged anew, whatever is kept.
    Raises: ShapeError, before anything is judged.
    """
    names = _names(roster) if roster else {}
    handed_in = sorted(x._replace(learner=_in_class(x, names)) for x in hand_ins(folder))
    unknown = set(again) - {each.learner for each in handed_in if not each.trouble}
    what = "nobody of this name has handed in a notebook"
    expected = "a name as it stands in grades.csv"
    require(not unknown, "grade: --again", what, expected=expected, got=", ".join(sorted(unknown)))
    _prepare(folder, out)
    missing = why_not_confined() if confined else ""
    if missing:
        what = "answers cannot be confined on this machine"
        fix = "--unconfined, for notebooks that you trust"
        raise ShapeError("grade", what, "Linux with Landlock and seccomp", missing, fix)
    kept = {
        each: out / "finished" / f"{_digest(each)}.json" for each in handed_in if not each.trouble
    }
    new = {file: each for each, file in kept.items() if not file.exists() or each.learner in again}
    _judge(_read(new, confined), new, confined)
    everything = _collect(handed_in, kept, names.values())
    _write(out, everything, handed_in)
    return everything


def _collect(
    handed_in: Sequence[HandIn], kept: Mapping[HandIn, Path], names: Iterable[str]
) -> list[Row]:
    """Return the rows of all learners, those of the roster who handed in nothing included."""
    by_learner: dict[str, list[Row]] = {
        name: [] for name in sorted({*names, *(each.learner for each in handed_in)})
    }
    for each in handed_in:
        found = [("", "unreadable", "", each.trouble)]
        if each in kept:
            found = json.loads(kept[each].read_text(encoding="utf-8"))
        for row in (Row(each.learner, *part) for part in found):
            about = "" if row.exercise else f"{each.path.name}: "
            by_learner[each.learner].append(row._replace(message=about + row.message))
    for learner in by_learner.keys() - {each.learner for each in handed_in}:
        by_learner[learner] = [Row(learner, "", "unreadable", "", NOTHING)]
    return [row for learner, rows in by_learner.items() for row in _best(learner, rows)]


def _write(out: Path, everything: Sequence[Row], handed_in: Sequence[HandIn]) -> None:
    for old in (out / "feedback").glob("*.html"):  # of an earlier run
        if old.read_bytes().startswith(BEGINNING.encode()):
            old.unlink()
    for learner in dict.fromkeys(row.learner for row in everything):
        try:
            page = feedback_page(learner, [row for row in everything if row.learner == learner])
            _save(out / "feedback" / f"{learner}.html", page)
        except (OSError, ValueError) as error:  # such as a name that is too long for a file
            print(f"mha_course: no page for {learner!a}: {error}", file=sys.stderr)
    late = {each.learner for each in handed_in if each.late}
    numbers = {each.learner: each.number for each in handed_in}
    by_lesson = _wide(everything, numbers, late, lambda x: f"lesson {LESSON_OF[x].number:02}", int)
    by_exercise = _wide(everything, numbers, late, str, float)
    _save(out / "class.html", class_page(everything, late))
    _save(out / "grades.csv", _table(Row._fields[:4], (row[:4] for row in everything)))
    _save(out / "grades_by_lesson.csv", f"\ufeff{by_lesson}")
    _save(out / "grades_by_exercise.csv", f"\ufeff{by_exercise}")


def hand_ins(folder: Path) -> list[HandIn]:
    """Return the notebooks of all learners, those in zips too, and a line on everything else.

    Raises: ShapeError where there is no notebook.
    """
    place, here = "grade: FOLDER", str(folder)
    expected = "a folder with NAME.ipynb or NAME/*.ipynb for each learner"
    require(folder.is_dir(), place, "there is no such folder", expected=expected, got=here)
    handed_in = list[HandIn]()
    paths = _visible(folder.iterdir(), folder)
    canvas = [match for path in paths if (match := CANVAS.match(path.name))]
    # hw_2026_1101_ada and hw_2026_1102_ben are not of one learner called hw.
    alike = len(canvas) > 1 == len({match.group(1, 3) for match in canvas})
    for path in paths:
        is_folder = path.is_dir() and not path.is_symlink()
        whose = HandIn(path.name if is_folder else path.stem, path)
        if known := MOODLE.match(path.name) or (not alike and CANVAS.match(path.name)):
            whose = HandIn(known[1], path, number=known[3], late=bool(known[2]))
        files = _visible(path.rglob("*"), path) if is_folder else [path]
        found = [each for file in files if not file.is_dir() for each in _opened(whose, file)]
        if any(not each.trouble for each in found):
            found = [each for each in found if each.trouble != NO_NOTEBOOK]
        handed_in += found[:100] or [whose._replace(trouble="There is no notebook in this folder.")]
    some = any(not each.trouble for each in handed_in)
    require(some, place, "there is no notebook in it", expected=expected, got=here)
    shared = Counter(name for name, _ in {(each.learner, each.number) for each in handed_in})
    names = {x: x.learner + f" {x.number}" * (shared[x.learner] > 1) for x in handed_in}
    return [each._replace(learner=name.strip()) for each, name in names.items()]


def _visible(paths: Iterable[Path], under: Path) -> list[Path]:
    """Return the paths below a folder that are not what systems leave there, in order."""
    return sorted(
        path
        for path in paths
        if not any(map(LEFT_THERE.match, path.relative_to(under).parts))
        and not any(re.match(r"\.+[^.]", part) for part in path.relative_to(under).parts[:-1])
        and (not path.name.startswith(".") or _is_notebook(path))
    )


def _is_notebook(path: PurePath) -> bool:
    return path.name.lower().endswith(".ipynb")


def _opened(whose: HandIn, path: Path) -> list[HandIn]:
    """Return a file of a learner, or the notebooks in a zip."""
    trouble, members = "", [""]
    if path.is_symlink():
        trouble = "This is a link to another file. Links are not followed."
    elif path.suffix.lower() == ".zip":
        try:
            members = _members(path)
            trouble = "" if members else "There is no notebook in this zip."
        except Exception as error:  # of whatever is no zip, or one that cannot be read
            trouble = f"This zip cannot be opened ({error})."
    elif not _is_notebook(path):
        trouble = NO_NOTEBOOK
    each = whose._replace(path=path, trouble=trouble)
    return [each] if trouble else [each._replace(member=member) for member in members]


def _members(path: Path) -> list[str]:
    """Return the names of the notebooks in a zip. Raises: ValueError where it is too large."""
    if path.is_file() and path.stat().st_size <= LARGEST // 2:
        with zipfile.ZipFile(path) as archive:
            inside = [each for each in archive.infolist() if not each.is_dir()]
        names = [Path("/", each.filename) for each in inside]
        chosen = {str(name)[1:] for name in _visible(names, Path("/")) if _is_notebook(name)}
        found = [each for each in inside if each.filename in chosen]
        if len(found) <= 100 and sum(each.file_size for each in found) <= LARGEST:
            return [each.filename for each in found]
    raise ValueError("it is no file of up to 50 MB with up to 100 notebooks of together 100 MB")


def _names(roster: Path) -> dict[str, str]:
    """Return the names of a class, by their numbers and by all that their files may be called.

    Raises: ShapeError where it is no table with a column of names.
    """
    try:
        with roster.open(encoding="utf-8-sig", newline="") as file:
            lines = [{str(k).lower(): v for k, v in line.items()} for line in csv.DictReader(file)]
        pairs = [(line["name"].strip(), (line.get("id") or "").strip()) for line in lines]
    except (OSError, ValueError, KeyError, AttributeError, csv.Error) as error:
        expected = "a table in UTF-8 with a column name, and a column id if you like"
        raise ShapeError("grade: --roster", "it cannot be read", expected, str(roster)) from error
    kinds: list[dict[str, set[str]]] = [defaultdict(set), defaultdict(set), defaultdict(set)]
    many = Counter(name for name, _ in pairs)
    for name, number in pairs:
        words = name.split()
        shown = f"{name} ({number})" if many[name] > 1 else name
        for order in (words, words[-1:] + words[:-1], words[1:] + words[:1]):  # Byron Ada
            kinds[0][_letters("".join(order))].add(shown)
        kinds[1][_joined(name)].add(shown)
        kinds[2][number].add(shown)
    found = dict[str, str]()
    for kind in kinds:  # what two people share counts for neither, unless more is known of it
        found |= {key: "".join(people) if len(people) == 1 else "" for key, people in kind.items()}
    return {key: name for key, name in found.items() if key and name}


def _in_class(each: HandIn, names: Mapping[str, str]) -> str:
    """Return the name of a learner in the roster, where it is there."""
    learner = each.learner
    known = names.get(each.number) or names.get(_joined(learner)) or names.get(_letters(learner))
    return known or learner


def _joined(text: str) -> str:
    return "".join(unicodedata.normalize("NFC", text).casefold().split())


def _letters(text: str) -> str:
    return re.sub(r"[\W_]", "", unicodedata.normalize("NFKD", text).casefold())


def _prepare(folder: Path, out: Path) -> None:
    place = "grade: OUT"
    inside = folder.resolve() in (out.resolve(), *out.resolve().parents)
    expected = f"a folder outside of {folder}"
    what = "it lies in the folder of the notebooks"
    require(not inside, place, what, expected=expected, got=str(out))
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


def _content(each: HandIn) -> bytes:
    """Return the content of a notebook; none where it is too large, no file, or not to be read."""
    path = each.path
    try:
        if each.member:
            with zipfile.ZipFile(path) as archive, archive.open(each.member) as file:
                return file.read(LARGEST)
        return path.read_bytes() if path.is_file() and path.stat().st_size <= LARGEST else b""
    except Exception:  # a zip can be broken in many ways
        return b""


def _digest(each: HandIn) -> str:
    return hashlib.sha256(_course() + _content(each)).hexdigest()


def _read(new: Mapping[Path, HandIn], confined: bool) -> dict[Path, list[Answer]]:
    """Return the answers of each notebook, by the file in which its results are to be kept."""
    tasks = (Task(file, _content(each), each.learner) for file, each in new.items())
    answers = {}
    done = run_all(read, partial(next, tasks, None), seconds=SECONDS, confined=confined)
    for task in tqdm(done, "Reading", len(new)):
        if isinstance(task.result, str):
            _save(task.key, json.dumps([("", "unreadable", "", task.result)]))
        else:
            answers[task.key] = [Answer(*fields) for fields in task.result]
    return answers


def _judge(
    notebooks: Mapping[Path, list[Answer]], new: Mapping[Path, HandIn], confined: bool
) -> None:
    """Judge the answers, and keep the results of a notebook once it is finished."""
    empty = ("unattempted", "", "The body is still empty.")
    rows = {
        file: {x.exercise: Row("", x.exercise, *empty) for x in answers}
        for file, answers in notebooks.items()
    }
    left, waiting = Counter[Path](), deque[Task]()

    def add(file: Path, answers: Sequence[Answer]) -> None:
        waiting.extend(Task((file, answer), answer, new[file].learner) for answer in answers)
        left[file] += len(answers)
        if not left[file]:
            _save(file, json.dumps([row[1:] for row in rows[file].values()]))

    for file, answers in notebooks.items():
        first = {answer.exercise: answer for answer in reversed(answers) if answer.expression}
        add(file, [*first.values()][::-1])
    again = dict(notebooks)
    judged = run_all(
        judge, lambda: waiting.popleft() if waiting else None, seconds=SECONDS, confined=confined
    )
    for task in tqdm(judged, "Judging", len(waiting)):
        file, answer = task.key
        row = Row("", answer.exercise, *_verdict(task.result))
        rows[file][answer.exercise] = min(rows[file][answer.exercise], row, key=_rank)
        left[file] -= 1
        if not left[file]:
            add(file, [*_other_ways(again.pop(file, []), rows[file])])


def _other_ways(answers: Sequence[Answer], rows: Mapping[str, Row]) -> Iterator[Answer]:
    """Yield what may still be right of the answers that failed: others to the same exercise, and
    all of them with the course's own in place of failed exercises that they call.
    """
    failed = {name for name, row in rows.items() if row.status != "correct"}
    seen = set[str]()
    for answer in answers:
        if answer.exercise in failed and answer.expression:
            if answer.exercise in seen:
                yield answer
            replaced = [name for name in answer.calls if name in failed]
            if replaced:
                yield replace(answer, replaced=replaced)
            seen.add(answer.exercise)


def _rank(row: Row) -> tuple[int, bool]:
    return BEST_FIRST.index(row.status), not row.half


def _verdict(result: Any) -> tuple[str, ...]:
    """Return what a process says, which may be forged, if it has the form of ``judge``."""
    verdict: tuple[str, ...] = "error", "", ENDED
    match result:
        case str():
            verdict = ("error", "", result)
        case [str(status), str(mistake), str(message), str(picture), str(half), str(code)] if (
            status in BEST_FIRST and all(map(NAME.fullmatch, (mistake, half, code)))
        ) and not (status == "correct" and (mistake or half)):
            shown = "" if re.search("[<>]", PIECE.sub("", picture)) else picture
            verdict = (status, mistake, message, shown, half, code)
    return tuple(text.encode("utf-8", "backslashreplace").decode() for text in verdict)


def _best(learner: str, rows: Sequence[Row]) -> list[Row]:
    """Return the best row of each exercise, in the order of the course."""
    unreadable = [row for row in rows if not row.exercise]
    answers = [row for row in rows if row.exercise]
    answers.sort(key=_rank, reverse=True)
    best = {row.exercise: row for row in answers}
    chosen = [best[name] for name in NAMES if name in best] + unreadable
    return chosen or [Row(learner, "", "unreadable", "", NO_EXERCISE)]


def _table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    file = io.StringIO()
    table = [[_cell(str(cell)) for cell in row] for row in (header, *rows)]
    csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(table)
    return file.getvalue()


def _cell(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula, whatever separates its cells."""
    return FORMULA.sub(r"\1'", CONTROL.sub(" ", text))


def _wide(
    rows: Sequence[Row],
    numbers: Mapping[str, str],
    late: Container[str],
    column_of: Callable[[str], str],
    kind: Callable[[float], float],
) -> str:
    """Return a table with one line for each learner: points, whole ones where kind is int.

    All exercises count that somebody in the class has handed in.
    """
    handed_in = {row.exercise for row in rows}
    columns = dict.fromkeys(column_of(name) for name in NAMES if name in handed_in)
    points = defaultdict[tuple[str, str], float](float)
    for row in rows:
        if row.exercise:
            points[row.learner, column_of(row.exercise)] += kind(row.points)
    lines = (
        (
            name,
            numbers.get(name, ""),
            "late" * (name in late),
            *(f"{points[name, x]:g}" for x in columns),
        )
        for name in dict.fromkeys(row.learner for row in rows)
    )
    return _table(("learner", "id", "late", *columns), lines)


def main(argv: Sequence[str]) -> int:
    """Grade a class and say what was found; return the exit status."""
    about = (
        "Judge all answers in the notebooks of a class, each in a process of its own, and write "
        "tables and pages."
    )
    parser = argparse.ArgumentParser(prog="python3 -m mha_course grade", description=about)
    text = "has NAME.ipynb, or NAME/*.ipynb, for each learner"
    parser.add_argument("folder", metavar="FOLDER", help=text)
    text = "where grades.csv, class.html and feedback/NAME.html go"
    parser.add_argument("--out", required=True, help=text)
    text = "a .csv with a column name, and one id if you like, for the whole class"
    parser.add_argument("--roster", metavar="TABLE", help=text)
    text = "judge the answers of this learner anew; may be given several times"
    parser.add_argument("--again", metavar="NAME", action="append", default=[], help=text)
    text = "run answers with all that you may do yourself: only for notebooks that you trust"
    parser.add_argument("--unconfined", action="store_true", help=text)
    # the folder in which the command was given
    parser.add_argument("--beside", default=".", help=argparse.SUPPRESS)
    chosen = parser.parse_args(argv)
    beside = Path(chosen.beside)
    out = beside / chosen.out
    try:
        roster = beside / chosen.roster if chosen.roster else None
        confined = not chosen.unconfined
        rows = grade(
            beside / chosen.folder, out, confined=confined, roster=roster, again=chosen.again
        )
    except (ShapeError, OSError) as error:
        print(f"mha_course: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        text = "stopped. What is finished is kept; the same command goes on from there."
        print(f"\nmha_course: {text}", file=sys.stderr)
        return 130
    counts = Counter(row.status for row in rows)
    order = (*BEST_FIRST, "unreadable")
    print(f"{', '.join(f'{counts[x]} {x}' for x in order if counts[x])}.")
    print(f"The class is in {out / 'class.html'}, the table in {out / 'grades.csv'}.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
