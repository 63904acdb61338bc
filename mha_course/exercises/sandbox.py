"""Run a learner's code: quietly, for a limited time, on copies, and explain where it stopped."""

from __future__ import annotations

import contextlib
import ctypes
import io
import linecache
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

TIMEOUT = 5.0  # seconds for one call
# Frames of these files are no lines of the learner's.
LIBRARIES = (str(Path(torch.__file__).parent), str(Path(__file__).parent.parent))


class AnswerTimeoutError(BaseException):
    """Raised in an answer that runs longer than TIMEOUT.

    No Exception, so that an ``except Exception`` in the answer does not swallow it.
    """


@dataclass
class Outcome:
    """What came of a call: a result, or an error; and whether its inputs were left alone."""

    result: Any = None
    error: BaseException | None = None
    changed: bool = False


def as_list(result: Any) -> list[Any]:
    """Return one result or several as a list."""
    return list(result) if isinstance(result, tuple | list) else [result]


@contextlib.contextmanager
def timeout(seconds: float) -> Iterator[None]:
    """Raise AnswerTimeoutError in this thread after some seconds.

    By a second thread, because signals reach only the main thread and Windows has no alarm. Python raises it between
    two of its own instructions, so one long call into C is not cut short, only what comes after it.
    """
    thread, done = threading.get_ident(), threading.Event()

    def watch() -> None:
        if not done.wait(seconds):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(AnswerTimeoutError))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()  # an error sent at the last moment is raised here, not later in code that is not the answer's


def run(call: Callable[..., Any], answer: Any, arguments: Sequence[Any]) -> Outcome:
    """Call an answer on copies of the arguments; what it prints, and what it sets in torch, is undone."""
    mine = [x.clone() if isinstance(x, Tensor) else x for x in arguments]  # an answer that works in place spoils these
    dtype, grad = torch.get_default_dtype(), torch.is_grad_enabled()
    outcome = Outcome()
    try:
        with (
            warnings.catch_warnings(action="ignore"),
            torch.random.fork_rng(devices=[]),
            contextlib.redirect_stdout(io.StringIO()),
            timeout(TIMEOUT),
        ):
            outcome.result = call(answer, *mine)
    except (Exception, SystemExit, AnswerTimeoutError) as error:  # whatever a learner's code raises is reported
        outcome.error = error
    finally:
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(grad)
    pairs = zip(arguments, mine, strict=True)
    outcome.changed = any(isinstance(x, Tensor) and not torch.equal(x, y) for x, y in pairs)
    return outcome


def explain(error: BaseException, arguments: Sequence[Any]) -> str:
    """Describe what was raised, in which line of the learner's, and with which shapes."""
    if isinstance(error, AnswerTimeoutError):
        return f"It was stopped after {TIMEOUT:.0f} seconds. Is there a loop that does not end?"
    last = last_line(error.__traceback__)
    if last is None:
        shapes = ", ".join(str(tuple(x.shape)) for x in arguments if isinstance(x, Tensor))
        return f"With inputs of shape {shapes}: {_describe(error)}"
    line, shapes_of = last
    held = "".join(f"; {name} is {shape}" for name, shape in shapes_of.items())
    return f"{_describe(error)} In your line `{line}`{held}."


def last_line(entry: TracebackType | None) -> tuple[str, dict[str, tuple[int, ...]]] | None:
    """Return the last line of the learner's own, and the shapes of the tensors that it names."""
    found = None
    while entry is not None:
        frame = entry.tb_frame
        file = frame.f_code.co_filename
        line = linecache.getline(file, entry.tb_lineno).strip()
        if not file.startswith(LIBRARIES) and line:
            names = dict.fromkeys(re.findall(r"[A-Za-z_]\w*", line))
            values = {name: frame.f_locals.get(name) for name in names}
            found = line, {name: tuple(x.shape) for name, x in values.items() if isinstance(x, Tensor)}
        entry = entry.tb_next
    return found


def _describe(error: BaseException) -> str:
    """Name an error and its first line; the text of a learner's own error may itself raise."""
    with contextlib.suppress(Exception):
        text = str(error).split("\n")[0]
        return f"{type(error).__name__}: {text}{'' if text.endswith('.') else '.'}"
    return f"{type(error).__name__}."
