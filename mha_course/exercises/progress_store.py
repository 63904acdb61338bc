"""A file beside the notebooks keeps what is done across lessons; all else works without it."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

FILE = ".progress.json"  # in the folder in which the notebook runs
SWITCH = "MHA_COURSE_PROGRESS"
TIMEOUT = 3.0  # seconds to wait for another notebook, which needs milliseconds
RANKS = ("error", "wrong", "correct")  # what a judged answer can be; the best is kept


@dataclass
class Session:
    """What went wrong since the kernel started, for ``progress`` to say."""

    unwritable: bool = False  # the last change could not be kept
    restarted: bool = False  # a broken file was laid aside


session = Session()


def remember(name: str, status: str) -> None:
    """Keep the best status that an exercise has had; never raise.

    A status that is not one of RANKS is not kept, so that a lesson that is only run leaves no file.
    """

    def judged(content: dict[str, Any]) -> None:
        statuses = statuses_of(content)
        statuses[name] = max(statuses.get(name, status), status, key=RANKS.index)
        content["exercises"] = {key: {"status": statuses[key]} for key in sorted(statuses)}

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
                session.restarted = True
            content = {"exercises": {}} | (content or {})
            change(content)
            _write(content)
        session.unwritable = False
    except (OSError, NotImplementedError):  # the latter where a file system has no locks
        session.unwritable = True


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


def statuses_of(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the best status of each exercise; an entry that makes no sense is left out."""
    statuses = {}
    for name, entry in content.get("exercises", {}).items():
        status = entry.get("status") if isinstance(entry, dict) else None
        if status in RANKS:
            statuses[name] = status
    return statuses


def _write(content: Mapping[str, Any]) -> None:
    """Replace the file in one move: a killed kernel, or a full disk, leaves the old one whole."""
    temporary = Path(f"{FILE}.part")
    try:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        try:
            temporary.replace(FILE)
        except PermissionError:  # Windows refuses while another program reads the old file
            time.sleep(0.2)
            temporary.replace(FILE)
    finally:
        temporary.unlink(missing_ok=True)
