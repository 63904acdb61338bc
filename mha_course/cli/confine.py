"""Run the judge of one learner in a bubblewrap sandbox, and watch what it uses.

https://github.com/containers/bubblewrap
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import psutil

import mha_course

PACKAGE = Path(mha_course.__file__).parent
JUDGE = "mha_course.cli.judge"
DISK = 64 << 20  # bytes, in each of the two writable folders
MEMORY = 3 << 30  # bytes, of all processes of a learner together
PROCESSES = 64
SECONDS = 10  # of computing, for one answer
ASLEEP = 60  # seconds by the clock, for an answer that computes nothing
COMPUTING = 120  # seconds, of all answers of a learner together
PATIENCE = 600  # seconds by the clock
LONGEST = 64 << 20  # bytes of verdicts
PAUSE = 0.3  # seconds between checks
TOO_MUCH_MEMORY = "It was stopped: it took more than 3 GiB of memory."
TOO_MANY = f"It was stopped: it started more than {PROCESSES} processes."
TOO_LONG = f"It was stopped: the answers of one learner together have {COMPUTING} seconds."
TOO_MUCH_TEXT = "It was stopped: its results are too long."
SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "MPLBACKEND": "agg",
    "MHA_COURSE_PROGRESS": "off",
    "PYTHONDONTWRITEBYTECODE": "1",
    "TORCHDYNAMO_DISABLE": "1",  # it would run a compiler
}
CONTAINER = (
    "printf 'FROM python:3.13\\nCOPY . /src\\nRUN pip install /src\\n' | docker build -t "
    "mha-course -f - . && docker run --rm --network none --read-only --cap-drop ALL --tmpfs "
    '/tmp -v "{folder}":/in:ro -v "{out}":/out mha-course mha-course grade /in --out /out '
    "--unconfined"
)


def bubblewrap() -> list[str]:
    """Return a command prefix that allows reading Python and the course, and nothing else."""
    nothing_shared = ["--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"]
    ends = ["--die-with-parent", "--new-session", "--clearenv", "--setenv", "HOME", "/tmp"]
    # /tmp comes first: bound folders may be below it
    disk = ["--size", str(DISK), "--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev"]
    disk += ["--size", str(DISK), "--tmpfs", "/dev/shm"]
    visible = ["--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"]
    folders = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    elsewhere = [path for path in folders if not path.startswith(sys.prefix)]
    system = ["/usr", "/etc/ld.so.cache", "/etc/alternatives"]
    for path in dict.fromkeys([*system, sys.prefix, sys.base_prefix, *elsewhere]):
        visible += ["--ro-bind-try", path, path]
    visible += ["--ro-bind", str(PACKAGE), "/course/mha_course", "--chdir", "/tmp"]
    for name, value in (*SETTINGS.items(), ("PYTHONPATH", ":".join(["/course", *elsewhere]))):
        visible += ["--setenv", name, value]
    return [shutil.which("bwrap") or "bwrap", *nothing_shared, *ends, *disk, *visible]


def why_not_confined() -> str:
    """Return why no sandbox starts on this machine; empty if one does."""
    if sys.platform != "linux":
        return f"{sys.platform}, which has no bubblewrap"
    if not shutil.which("bwrap"):
        return "no bubblewrap (sudo apt install bubblewrap)"
    command = [*bubblewrap(), sys.executable, "-c", ""]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"bubblewrap that does not start: {result.stderr.strip()}" if result.returncode else ""


def run_judge(
    notebooks: Sequence[bytes], salt: str, confined: bool, stop: Event
) -> tuple[list[dict[str, Any]], str]:
    """Judge the notebooks of one learner; return the judge's lines, and why it was stopped."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as request:
        header = {"salt": salt, "seconds": SECONDS, "patience": ASLEEP}
        header["sizes"] = [len(content) for content in notebooks]
        request.write(json.dumps(header).encode() + b"\n")
        request.writelines(notebooks)
        request.seek(0)
        environment = os.environ | SETTINGS | {"PYTHONPATH": str(PACKAGE.parent)}
        with subprocess.Popen(
            [*(bubblewrap() if confined else ()), sys.executable, "-m", JUDGE],
            stdin=request,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd=folder,
            start_new_session=True,
        ) as process:
            try:
                data, trouble = _listen(process, stop)
            finally:
                _end(process)
    lines = []
    for line in data.split(b"\n"):
        with suppress(ValueError, RecursionError):  # what an answer wrote
            record = json.loads(line)
            lines += [record] if isinstance(record, dict) else []
    return lines, trouble


def _listen(process: subprocess.Popen[bytes], stop: Event) -> tuple[bytes, str]:
    """Return what a process writes until it ends or uses too much."""
    assert process.stdout
    data = bytearray()
    since = last_check = time.monotonic()
    while True:
        if select.select([process.stdout], [], [], PAUSE)[0]:
            chunk = os.read(process.stdout.fileno(), 1 << 16)
            if not chunk:
                return bytes(data), ""
            data += chunk
        if stop.is_set():
            return bytes(data), ""
        if time.monotonic() >= last_check + PAUSE:
            last_check = time.monotonic()
            trouble = TOO_MUCH_TEXT if len(data) > LONGEST else _taken(process.pid)
            if last_check > since + PATIENCE:
                trouble = TOO_LONG
            if trouble:
                return bytes(data), trouble


def _taken(number: int) -> str:
    """Return what a process and its descendants use too much of; empty if nothing."""
    memory, seconds, count = 0, 0.0, 0
    for process in _below(number):
        with suppress(psutil.Error):
            memory += process.memory_info().rss
            times = process.cpu_times()
            seconds += times.user + times.system + times.children_user + times.children_system
            count += 1
    if memory > MEMORY:
        return TOO_MUCH_MEMORY
    if count > PROCESSES:
        return TOO_MANY
    return TOO_LONG if seconds > COMPUTING else ""


def _below(number: int) -> list[psutil.Process]:
    with suppress(psutil.Error):
        process = psutil.Process(number)
        return [process, *process.children(recursive=True)]
    return []


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its descendants; a sandbox ends with its first process."""
    for descendant in _below(process.pid):
        with suppress(psutil.Error):
            descendant.kill()
    process.kill()
    process.wait()
