"""Run calls in processes of their own, with a limit of time, and where Linux can, confined.

A process tells what came out in a file of its folder, the only place where it can write. What it
runs may write there as well, so a line counts only with a token that was drawn for this process.
Whoever searches the memory of the process finds it: this holds against accidents and tricks, not
against an attack.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

if sys.platform == "linux":
    from mha_course.cli.confine import confine

LINUX = sys.platform == "linux"
# A process made by fork has all that is imported, and starts in milliseconds. Only Linux forks
# safely beside torch.
CONTEXT: Any = multiprocessing.get_context("fork" if LINUX else "spawn")
MEMORY = 2 << 30  # bytes that a confined process may take
LONGEST = 16 << 20  # bytes of an answer that are read
# bytes and files that a process may write
DISK = 64 << 20
ENTRIES = 1000
FILE = "results"
PLACES = min(
    8, len(os.sched_getaffinity(0)) if LINUX else os.cpu_count() or 1
)  # processes side by side
TOO_LONG = "It was stopped after {:g} seconds."
FULL = "It was stopped: it wrote more than 64 MB, or a thousand files."
ENDED = "Its process ended by itself, without a result."


@dataclass
class Task:
    """Some items, in a process of their own, and the results of those that are finished."""

    key: Any
    items: Sequence[Any]  # those that are not
    results: list[Any] = field(default_factory=list)
    folder: tempfile.TemporaryDirectory[str] = field(init=False)
    process: BaseProcess = field(init=False)
    token: str = field(init=False)
    deadline: float = field(init=False)
    seen: int = 0  # results that this process had written when it was last looked at

    def start(self, call: Callable[[Any], Any], seconds: float, confined: bool) -> None:
        """Start a process for the items that are left."""
        self.folder = tempfile.TemporaryDirectory(prefix="mha_course-", ignore_cleanup_errors=True)
        self.seen = 0
        self.token = secrets.token_hex()
        self.deadline = time.monotonic() + seconds
        arguments = (call, self.items, Path(self.folder.name), self.token, confined)
        self.process = CONTEXT.Process(target=_work, args=arguments, daemon=True)
        self.process.start()

    def read(self) -> list[Any]:
        """Return the results that this process has written so far, up to one that is cut short."""
        results = list[Any]()
        with (
            suppress(OSError, ValueError, RecursionError),
            (Path(self.folder.name) / FILE).open("rb") as file,
        ):
            for line in file.read(LONGEST).splitlines(keepends=True):
                token, _, text = line.partition(b" ")
                if secrets.compare_digest(token, self.token.encode()) and text.endswith(b"\n"):
                    results.append(json.loads(text))
        return results[: len(self.items)]

    def extend(self, seconds: float) -> None:
        """Where there are several items, give each its own time."""
        if len(self.items) > 1 and (written := len(self.read())) > self.seen:
            self.seen = written
            self.deadline = time.monotonic() + seconds

    def overflows(self) -> bool:
        """Return whether its folder holds more than it may."""
        entries = [*islice(os.scandir(self.folder.name), ENTRIES)]
        size = 0
        for entry in entries:
            with suppress(OSError):  # gone by now
                size += entry.stat().st_size
        return len(entries) == ENTRIES or size > DISK

    def end(self) -> None:
        """Kill the process, if it still runs, and remove its folder."""
        self.process.kill()
        self.process.join()
        self.folder.cleanup()

    def finish(self, trouble: str) -> None:
        """End the process, keep its results, and note the trouble of the item at which it stopped,
        if there is one.
        """
        read = self.read()
        self.end()
        stopped = [trouble] if len(read) < len(self.items) else []
        self.results += read + stopped
        self.items = self.items[len(read) + 1 :]


def run_all(
    call: Callable[[Any], Any], tasks: Iterable[Task], *, seconds: float, confined: bool
) -> Iterator[Task]:
    """Run a call on all items of each task, side by side, and yield each task as it ends.

    Args: seconds are those that an item may take. Yields: tasks with results, as JSON brings them
        back; a result is a str that says why where there is none.
    """
    waiting, running = iter(tasks), list[Task]()
    try:
        while True:
            while len(running) < PLACES and (task := next(waiting, None)):
                task.start(call, seconds, confined)
                running.append(task)
            if not running:
                return
            time.sleep(0.01)
            for task in [*running]:
                task.extend(seconds)
                if not task.process.is_alive():
                    task.finish(ENDED)
                elif time.monotonic() > task.deadline:
                    task.finish(TOO_LONG.format(seconds))
                elif task.overflows():
                    task.finish(FULL)
                else:
                    continue
                if task.items:
                    task.start(call, seconds, confined)
                else:
                    running.remove(task)
                    yield task
    finally:
        for task in running:
            task.end()


def why_not_confined() -> str:
    """Return what is missing for confined processes on this machine; nothing if they can be."""
    if not LINUX:
        return f"{sys.platform} has no Landlock"
    (task,) = run_all(str, [Task("", [""])], seconds=60, confined=True)
    return str(task.results[0])


def _work(
    call: Callable[[Any], Any], items: Sequence[Any], folder: Path, token: str, confined: bool
) -> None:
    """Run a call on each item, in the process made for it, and tell what came out.

    What the items import of the course is another copy than the one that is at work: they change
    nothing there.
    """
    for name in [name for name in sys.modules if name.partition(".")[0] == "mha_course"]:
        del sys.modules[name]
    importlib.import_module("mha_course")
    os.chdir(folder)
    if confined:
        for name in [
            name for name in os.environ if name != "PATH" and not name.startswith(("LANG", "LC_"))
        ]:
            del os.environ[name]  # keys and passwords may be among them
    os.environ.update(dict.fromkeys(("HOME", "TMPDIR", "TEMP", "TMP", "MPLCONFIGDIR"), str(folder)))
    tempfile.tempdir = str(folder)
    write = os.write
    leave = os._exit
    dumps = json.dumps
    trouble = ""
    if sys.platform == "linux" and confined:
        try:
            confine(folder, MEMORY)
        except OSError as error:
            trouble = str(error)
    file = os.open(folder / FILE, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for item in items:
        result = trouble or call(item)
        write(file, f"{token} {dumps(result)}\n".encode())
    leave(0)  # whatever threads still run
