"""Sort a class's folder by learner, zips included."""

from __future__ import annotations

import re
import tempfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from mha_course.errors import require
from mha_course.exercises.catalogue import EXERCISES, LESSON_OF, LESSONS

LARGEST = 100 << 20  # bytes of a notebook, or of the notebooks in a zip
DEEPEST = 2  # zips in zips
DEEPEST_FOLDER = 50  # in a zip
# What operating systems, and the course itself, leave next to notebooks.
LEFT_THERE = re.compile(
    r"\.ipynb_checkpoints$|__MACOSX$|__pycache__$|\._|\.DS_Store$|Thumbs\.db$|desktop\.ini$"
    r"|my_attention\.py$"
)
# How Moodle and Canvas name downloads.
MOODLE = re.compile(r"(.+?)_(\d+)_assignsubmission_")
CANVAS = re.compile(r"([^_]+)(?:_LATE)?_(\d{3,})_\d{3,}_.")
CHECKED = re.compile(rb"(?:check\(\s*\\?[\"']|def |class )(\w+)")
OF_LESSONS = {word for x in LESSONS for word in re.findall(r"\w+", x.title.lower())}
OF_COPIES = {
    "again", "attempt", "copy", "draft", "final", "fixed", "homework", "hw", "lesson", "new",
    "notebook", "old", "solution", "submission", "try", "untitled", "version", "v",
}  # fmt: skip
NUMBER = re.compile(r"(.+?)[ _-]+(\d\d)(?:[ _-][a-z_]+)?$")  # of a lesson, behind a name
NO_NOTEBOOK = "This is not a notebook (.ipynb), so nothing in it was judged."


@dataclass(frozen=True)
class HandIn:
    """One handed-in file: a notebook, or why it is not one."""

    parts: tuple[str, ...]  # of its path below the folder, inside zips too
    path: Path  # of the unpacked file, if it was in a zip
    trouble: str = ""
    exercises: frozenset[str] = frozenset()  # that seem to be in it
    learner: str = ""
    number: str = ""  # of the learner, in Canvas or Moodle

    @property
    def name(self) -> str:
        """Its path below the folder of hand-ins, as messages show it."""
        return "/".join(self.parts)


@dataclass
class Class:
    """Everything that was handed in: by learner, and files that belong to no learner."""

    hand_ins: list[HandIn]
    strays: list[HandIn] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # on folders whose files were kept apart


def read_class(folder: Path, scratch: Path) -> Class:
    """Return what was handed in, with zips unpacked into a scratch folder.

    Raises: ShapeError if there is no notebook.
    """
    place, got = "grade: FOLDER", str(folder)
    expected = "a folder with NAME.ipynb or NAME/*.ipynb for each learner"
    require(folder.is_dir(), place, "there is no such folder", expected=expected, got=got)
    files = [_looked_into(file) for file in _files(folder, scratch)]
    readable = any(not file.trouble for file in files)
    require(readable, place, "there is no notebook in it", expected=expected, got=got)
    known, unknown = _of_systems(files)
    notes = list[str]()
    named = known + _by_name(unknown, 0, notes)
    owners = {file.learner for file in named if not file.trouble or len(file.parts) > 1}
    owners |= {
        file.learner
        for file in named
        if file.number or file.path.is_dir() or _suffix(file.path.name) in (".ipynb", ".zip")
    }
    strays = [file for file in named if file.learner not in owners]
    return Class([file for file in named if file.learner in owners], strays, notes)


def _files(folder: Path, scratch: Path, above: tuple[str, ...] = ()) -> Iterator[HandIn]:
    for path in sorted(folder.iterdir()):
        hand_in = HandIn((*above, path.name), path)
        zips = sum(_suffix(name) == ".zip" for name in above)
        is_hidden = path.name.startswith(".") and (path.is_dir() or _suffix(path.name) != ".ipynb")
        if is_hidden or LEFT_THERE.match(path.name):
            continue
        if path.is_symlink():
            yield replace(hand_in, trouble="This is a link. Links are not followed.")
        elif path.is_dir() or (_suffix(path.name) == ".zip" and zips < DEEPEST):
            yield from _inside(hand_in, scratch)
        elif not path.is_file() or path.stat().st_size > LARGEST:
            yield replace(hand_in, trouble="This is not a file of up to 100 MB.")
        else:
            yield hand_in


def _inside(outer: HandIn, scratch: Path) -> list[HandIn]:
    """Return the files in a folder or zip, or why there are none."""
    is_folder = outer.path.is_dir()
    try:
        folder = outer.path if is_folder else _unpacked(outer.path, scratch)
        inside = list(_files(folder, scratch, outer.parts))
    except Exception as error:  # a zip can be broken in many ways
        return [replace(outer, trouble=f"It cannot be opened ({error}).")]
    if inside or (is_folder and len(outer.parts) > 1):
        return inside
    return [replace(outer, trouble="There is no notebook in it.")]


def _unpacked(path: Path, scratch: Path) -> Path:
    folder = Path(tempfile.mkdtemp(dir=scratch))
    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
        if size > LARGEST:
            raise ValueError("it holds more than 100 MB")
        if any(name.count("/") > DEEPEST_FOLDER for name in archive.namelist()):
            raise ValueError(f"its folders are nested more than {DEEPEST_FOLDER} deep")
        archive.extractall(folder)
    return folder


def _suffix(name: str) -> str:
    return PurePath(name).suffix.lower()


def _looked_into(file: HandIn) -> HandIn:
    """Return a file with the exercises in it, which say whose it may be."""
    if file.trouble:
        return file
    if _suffix(file.parts[-1]) != ".ipynb":
        return replace(file, trouble=NO_NOTEBOOK)
    try:
        content = file.path.read_bytes()
    except OSError as error:
        return replace(file, trouble=f"It cannot be read ({type(error).__name__}).")
    names = {name.decode() for name in CHECKED.findall(content)}
    return replace(file, exercises=frozenset(names & EXERCISES.keys()))


def _of_systems(files: Sequence[HandIn]) -> tuple[list[HandIn], list[HandIn]]:
    """Return the files that Moodle or Canvas named, with names and numbers, and all others."""
    matches = {file: _first(MOODLE, file.parts) or _first(CANVAS, file.parts) for file in files}
    canvas = [match for match in matches.values() if match and match.re is CANVAS]
    # hw_2026_1101_ada and hw_2026_1102_ben are not from one learner called hw.
    if len(canvas) > 1 == len({match.groups() for match in canvas}):
        matches = {file: _first(MOODLE, file.parts) for file in files}
    people = {match.groups() for match in matches.values() if match}
    shared = Counter(name for name, _ in people)
    known = []
    for file, match in matches.items():
        if match:
            name, number = match.groups()
            learner = f"{name} {number}" if shared[name] > 1 else name
            known.append(replace(file, learner=learner.strip(), number=number))
    return known, [file for file in files if not matches[file]]


def _first(pattern: re.Pattern[str], parts: Iterable[str]) -> re.Match[str] | None:
    return next((match for part in parts if (match := pattern.match(part))), None)


def _by_name(hand_ins: Sequence[HandIn], depth: int, notes: list[str]) -> list[HandIn]:
    """Return files with their learner, named by the folder or the file."""
    groups = defaultdict[str, list[HandIn]](list)
    for file in hand_ins:
        groups[_trunk(file, depth)].append(file)
    named = []
    for learner, files in groups.items():
        below = [file for file in files if len(file.parts) > depth + 1]
        if _are_several(below, depth + 1):
            notes.append(
                f"In {'/'.join(below[0].parts[: depth + 1])} notebooks with the same exercises "
                "have names of several people. They are graded as several learners."
            )
            named += _by_name(below, depth + 1, notes)
        else:
            named += [replace(file, learner=learner) for file in below]
        named += [replace(file, learner=learner) for file in files if file not in below]
    return named


def _trunk(file: HandIn, depth: int) -> str:
    """Return a folder's name, or a file's without its lesson number."""
    name = file.parts[depth]
    if depth == len(file.parts) - 1:
        name = PurePath(name).stem if not file.path.is_dir() else name
        numbered = NUMBER.fullmatch(name)
        lessons = {LESSON_OF[exercise].number for exercise in file.exercises}
        if numbered and (int(numbered[2]) in lessons or not lessons):
            return numbered[1].strip()
    elif _suffix(name) == ".zip":
        name = PurePath(name).stem
    return name.strip()


def _are_several(files: Sequence[HandIn], depth: int) -> bool:
    """Return True if files with the same exercise seem, by name, to be from different people."""
    owners = defaultdict[str, set[str]](set)
    for file in files:
        words = re.findall(r"[^\W_]+", PurePath(file.parts[depth]).stem.lower())
        person = " ".join(
            word
            for word in words
            if word not in OF_LESSONS | OF_COPIES and not re.fullmatch(r"v?\d{1,4}", word)
        )
        for exercise in file.exercises:
            owners[exercise] |= {person} - {""}
    return any(len(people) > 1 for people in owners.values())
