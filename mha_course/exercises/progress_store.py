"""A file next to the notebooks keeps the learner's progress; everything else works without it."""

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
TIMEOUT = 3.0  # seconds to wait for another notebook, which takes milliseconds
RANKS = ("error", "wrong", "correct")  # statuses of judged answers; the best is kept


@dataclass
class Session:
    """What went wrong since the kernel started, for ``progress`` to report."""

    unwritable: bool = False  # the last change could not be saved
    restarted: bool = False  # a broken file was set aside


session = Session()


def remember(name: str, status: str) -> None:
    """Save an exercise's best status so far; never raise.

    A status not in RANKS is not saved, so that only running a lesson leaves no file.
    """

    def judged(content: dict[str, Any]) -> None:
        statuses = statuses_of(content)
        statuses[name] = max(statuses.get(name, status), status, key=RANKS.index)
        content["exercises"] = {key: {"status": statuses[key]} for key in sorted(statuses)}

    if status in RANKS:
        update(judged)


def update(change: Callable[[dict[str, Any]], None]) -> None:
    """Change the saved entries if possible; never raise.

    A broken file is set aside: a person may be able to repair it.
    """
    if switched_off():
        return
    try:
        # Two notebooks may run in one folder: both would read the same entries, and the second
        # would overwrite the first. The lock file stays: another notebook may be waiting for it.
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
    except (OSError, NotImplementedError):  # OSError if a file system has no locks
        session.unwritable = True


def switched_off() -> bool:
    """Return whether the environment turns progress off."""
    return os.environ.get(SWITCH, "").strip().lower() == "off"


def kept() -> dict[str, Any] | None:
    """Return all entries, {} if there is no file, or None if it is broken.

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
    """Return each exercise's best status, without invalid entries."""
    statuses = {}
    for name, entry in content.get("exercises", {}).items():
        status = entry.get("status") if isinstance(entry, dict) else None
        if status in RANKS:
            statuses[name] = status
    return statuses


def _write(content: Mapping[str, Any]) -> None:
    """Replace the file atomically: a killed kernel or a full disk leaves the old one intact."""
    temporary = Path(f"{FILE}.part")
    try:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        try:
            temporary.replace(FILE)
        except PermissionError:  # Windows refuses while another program is reading the old file
            time.sleep(0.2)
            temporary.replace(FILE)
    finally:
        temporary.unlink(missing_ok=True)
