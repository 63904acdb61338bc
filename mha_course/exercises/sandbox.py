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

LIMIT = 5.0  # seconds for one call
LIBRARIES = (str(Path(torch.__file__).parent), str(Path(__file__).parent.parent))


class TooLongError(BaseException):
    """Raised in code that runs longer than LIMIT; no Exception, so that ``except Exception`` does not swallow it."""


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
def limited(seconds: float) -> Iterator[None]:
    """Stop what runs in this thread after some seconds."""
    thread, done = threading.get_ident(), threading.Event()

    def watch() -> None:
        if not done.wait(seconds):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(TooLongError))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()


def run(call: Callable[..., Any], answer: Any, arguments: Sequence[Any]) -> Outcome:
    """Call an answer on copies of the arguments; what it prints, and what it sets in torch, is undone."""
    mine = [x.clone() if isinstance(x, Tensor) else x for x in arguments]
    dtype, grad = torch.get_default_dtype(), torch.is_grad_enabled()
    outcome = Outcome()
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings(action="ignore"))
            stack.enter_context(torch.random.fork_rng(devices=[]))
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            stack.enter_context(limited(LIMIT))
            outcome.result = call(answer, *mine)
    except (Exception, SystemExit, TooLongError) as error:  # whatever a learner's code raises is reported
        outcome.error = error
    finally:
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(grad)
    pairs = zip(arguments, mine, strict=True)
    outcome.changed = any(isinstance(x, Tensor) and not torch.equal(x, y) for x, y in pairs)
    return outcome


def explain(error: BaseException, arguments: Sequence[Any]) -> str:
    """Say what was raised, in which line of the learner's, and with which shapes."""
    if isinstance(error, TooLongError):
        return f"It was stopped after {LIMIT:.0f} seconds. Is there a loop that does not end?"
    where = last_line(error.__traceback__)
    if where is None:
        shapes = ", ".join(str(tuple(x.shape)) for x in arguments if isinstance(x, Tensor))
        return f"With inputs of shape {shapes}: {_say(error)}"
    line, held = where
    told = "".join(f"; {name} is {shape}" for name, shape in held.items())
    return f"{_say(error)} In your line `{line}`{told}."


def last_line(entry: TracebackType | None) -> tuple[str, dict[str, tuple[int, ...]]] | None:
    """Return the last line of the learner's own, and the shapes of the tensors that it names."""
    found = None
    while entry is not None:
        frame = entry.tb_frame
        file = frame.f_code.co_filename
        line = linecache.getline(file, entry.tb_lineno).strip()
        if not file.startswith(LIBRARIES) and line:
            names = dict.fromkeys(re.findall(r"[A-Za-z_]\w*", line))
            held = {name: frame.f_locals.get(name) for name in names}
            found = line, {name: tuple(x.shape) for name, x in held.items() if isinstance(x, Tensor)}
        entry = entry.tb_next
    return found


def _say(error: BaseException) -> str:
    """Name an error and what it says, even where it cannot say it."""
    with contextlib.suppress(Exception):
        text = str(error).split("\n")[0]
        return f"{type(error).__name__}: {text}{'' if text.endswith('.') else '.'}"
    return f"{type(error).__name__}."
