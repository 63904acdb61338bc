"""Run calls in processes of their own, with a limit of time, and where Linux can, confined.

On Linux all of them are forked from one process, which has read nothing of what the class handed
in. A process gets its item by a file, which it deletes, and tells what came out in another file
of its folder, the only place where it can write. What it runs may write there as well, so a line
counts only with a token that was drawn for this process. Whoever searches the memory of the process
finds it: this holds against accidents and tricks, not against an attack.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import pickle
import re
import secrets
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from json.encoder import encode_basestring_ascii
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Any

if sys.platform == "linux":
    from mha_course.cli.confine import FILE_SIZE, confine

LINUX = sys.platform == "linux"
# Only Linux forks safely beside torch.
CONTEXT: Any = multiprocessing.get_context("forkserver" if LINUX else "spawn")
if LINUX:
    CONTEXT.set_forkserver_preload(["mha_course.cli.prepared"])
MEMORY = 2 << 30  # bytes that a confined process may take
LONGEST = 16 << 20  # bytes of an answer that are read
# bytes and files that a process may write
DISK = 64 << 20
ENTRIES = 1000
PREFIX = "mha_course-"  # of their folders
FILE, ITEM = "results", "item"
# what of the environment is left to an answer, and to the process that it is forked from
OF_ANSWERS = re.compile("PATH|LANG.*|LC_.*")
OF_SERVER = re.compile(
    rf"{OF_ANSWERS.pattern}|HOME|TMPDIR|MPLCONFIGDIR|PYTHON[A-Z]*|LD_LIBRARY_PATH|LD_PRELOAD"
)
# A file that is in memory and in no folder: its device and number.
MAPPED = re.compile(rf"(?m)^\S+ \S+ \S+ (\S+ \d+) +(?:/.*/{PREFIX}|/memfd:).* \(deleted\)$")
# processes side by side
PLACES = min(8, len(os.sched_getaffinity(0)) if LINUX else os.cpu_count() or 1)
# Seconds that an answer may take at little cost, what each of them costs, and what all answers of a
# learner may cost.
FREE, SHARE, PATIENCE = 6.0, 0.1, 120.0
TOO_LONG = "It was stopped after {:g} seconds."
IMPATIENT = "It was not run: other answers of the same learner took too long."
FULL = "It was stopped: it wrote more than 64 MB, or a thousand files."
ENDED = "Its process ended by itself, without a result."
NOT_STARTED = "No process could be started for it ({}). Run the same command again."


@dataclass
class Task:
    """An item of an owner, for a process of its own, and what came out."""

    key: Any
    item: Any
    owner: str = ""
    result: Any = ENDED
    folder: tempfile.TemporaryDirectory[str] = field(init=False)
    process: BaseProcess = field(init=False)
    token: str = field(init=False)
    since: float = field(init=False)

    def start(self, call: Callable[[Any], Any], confined: bool) -> bool:
        """Start the process; where none can be started, say so in the result and return False."""
        self.token = secrets.token_hex()
        self.since = time.monotonic()
        try:
            self.folder = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
            folder = Path(self.folder.name)
            (folder / ITEM).write_bytes(pickle.dumps((self.token, self.item)))
            self.process = CONTEXT.Process(target=_work, args=(call, folder, confined), daemon=True)
            with _bare_environment(confined):
                self.process.start()
        except (OSError, EOFError) as error:
            with suppress(AttributeError):  # there may be none
                self.folder.cleanup()
            self.result = NOT_STARTED.format(error)
            return False
        return True

    def read(self) -> None:
        """Take the result from the file, if it is there as a whole."""
        with (
            suppress(OSError, ValueError, RecursionError),
            (Path(self.folder.name) / FILE).open("rb") as file,
        ):
            for line in file.read(LONGEST).splitlines(keepends=True):
                token, _, text = line.partition(b" ")
                if secrets.compare_digest(token, self.token.encode()) and text.endswith(b"\n"):
                    self.result = json.loads(text)
                    return

    def overflows(self) -> bool:
        """Return whether its files are too many or too large, those deleted and held included."""
        entries, sizes = 0, dict[Any, int]()
        for place, folders, files in os.walk(self.folder.name):
            if len(place) > 2000:  # below it, paths are too long to be looked at
                return True
            entries += len(folders) + len(files)
            if entries >= ENTRIES:
                return True
            paths = {os.path.join(place, name) for name in files}
            sizes.update(_sizes(iter(paths - {os.path.join(self.folder.name, ITEM)})))
        if LINUX:
            about = Path("/proc", str(self.process.pid))
            with suppress(OSError):  # gone by now
                sizes.update(_sizes(f"{about}/fd/{name}" for name in os.listdir(about / "fd")))
                maps = re.findall(MAPPED, (about / "maps").read_text(errors="replace"))
                sizes.update(dict.fromkeys(maps, FILE_SIZE))
        return sum(sizes.values()) > DISK

    def trouble(self, seconds: float) -> str:
        """Return why the process is to be ended, nothing if it may go on."""
        if not self.process.is_alive():
            return ENDED
        if time.monotonic() > self.since + seconds:
            return TOO_LONG.format(seconds)
        return FULL if self.overflows() else ""

    def end(self) -> None:
        """Kill the process, if it still runs, and remove its folder."""
        self.process.kill()
        self.process.join()
        with suppress(RecursionError):  # folders in folders
            self.folder.cleanup()
        if os.path.exists(self.folder.name):
            subprocess.run(["rm", "-rf", self.folder.name], check=False)


def _sizes(paths: Iterator[str]) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield a name and the size of each file, the same for two names of one file."""
    for path in paths:
        with suppress(OSError):  # gone by now
            found = os.stat(path, follow_symlinks=path.startswith("/proc"))
            yield (found.st_dev, found.st_ino), found.st_size


def run_all(
    call: Callable[[Any], Any],
    following: Callable[[], Task | None],
    *,
    seconds: float,
    confined: bool,
) -> Iterator[Task]:
    """Run a call on the item of each task, side by side, and yield each task as it ends.

    Args: following gives the next task, None where there is none now; seconds are those that an
        item may take. Yields: tasks with results, as JSON brings them back; a result is a str that
        says why where there is none.
    """
    running = list[Task]()
    taken = defaultdict[str, float](float)  # by each learner
    try:
        while True:
            while len(running) < PLACES and (next_one := following()):
                if taken[next_one.owner] > PATIENCE:
                    next_one.result = IMPATIENT
                elif next_one.start(call, confined):
                    running.append(next_one)
                    continue
                yield next_one
            if not running:
                return
            time.sleep(0.01)
            for task in [*running]:
                if trouble := task.trouble(seconds):
                    task.result = trouble
                    task.read()
                    task.end()
                    running.remove(task)
                    spent = time.monotonic() - task.since
                    taken[task.owner] += min(spent, FREE) * SHARE + max(0, spent - FREE)
                    yield task
    finally:
        for task in running:
            task.end()


def why_not_confined() -> str:
    """Return what is missing for confined processes on this machine; nothing if they can be."""
    if not LINUX:
        return f"{sys.platform} has no Landlock"
    tasks = iter([Task("", "")])
    (task,) = run_all(str, lambda: next(tasks, None), seconds=60, confined=True)
    return str(task.result)


@contextmanager
def _bare_environment(confined: bool) -> Iterator[None]:
    """Hide keys and passwords: what a process is begun with stays in its memory."""
    kept = dict(os.environ)
    try:
        for name in kept if confined else ():
            if not OF_SERVER.fullmatch(name):
                del os.environ[name]
        yield
    finally:
        os.environ.update(kept)


def _work(call: Callable[[Any], Any], folder: Path, confined: bool) -> None:
    """Run a call on an item, in the process made for it, and tell what came out.

    What the item imports of the course is another copy than the one that is at work: it changes
    nothing there, and finds nothing of it in ``__main__``.
    """
    process: Any = multiprocessing.current_process()
    process._target, process._args, sys.argv = None, (), [""]  # no way to what is at work
    token, item = pickle.loads((folder / ITEM).read_bytes())
    (folder / ITEM).unlink()
    for name in [name for name in sys.modules if name.partition(".")[0] == "mha_course"]:
        del sys.modules[name]
    for name in ("__main__", "__mp_main__"):
        sys.modules[name] = ModuleType(name)
    importlib.import_module("mha_course")
    os.chdir(folder)
    if confined:
        for name in [name for name in os.environ if not OF_ANSWERS.fullmatch(name)]:
            del os.environ[name]
        os.environ["TORCHDYNAMO_DISABLE"] = "1"  # it would run a compiler
    os.environ.update(dict.fromkeys(("HOME", "TMPDIR", "TEMP", "TMP", "MPLCONFIGDIR"), str(folder)))
    tempfile.tempdir = str(folder)
    write = os.write
    leave = os._exit
    as_json = _writer()
    trouble = ""
    if sys.platform == "linux" and confined:
        try:
            confine(folder, MEMORY)
        except OSError as error:
            trouble = str(error)
    file = os.open(folder / FILE, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    result = trouble or call(item)
    write(file, f"{token} {as_json(result)}\n".encode())
    leave(0)  # whatever threads still run


def _writer() -> Callable[[Any], str]:
    """Return what writes texts, whole numbers and lists of them as JSON. It is made of functions in
    C, taken before anybody's code runs: what that code does to ``json`` changes nothing.
    """
    quoted, kind, text, series, digits = encode_basestring_ascii, type, str, (list, tuple), str

    def as_json(value: Any) -> str:
        if kind(value) is text:
            return quoted(value)
        if kind(value) in series:
            return f"[{','.join([as_json(part) for part in value])}]"
        return digits(value)

    return as_json
