"""Run a learner's code quietly, on copies, and explain where it stopped."""

from __future__ import annotations

import contextlib
import copy
import io
import linecache
import re
import sysconfig
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from traceback import walk_tb
from types import TracebackType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mha_course.markup import isolate_text

# Frames in these files are not the learner's lines.
LIBRARIES = (
    str(Path(torch.__file__).parent),
    str(Path(__file__).parent.parent),
    *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
)


@dataclass
class Outcome:
    """A call's result or error, and whether its inputs are unchanged."""

    result: Any = None
    error: BaseException | None = None
    changed: bool = False


class Line(NamedTuple):
    """A line of the learner's code at which a call stopped."""

    text: str
    named: dict[str, tuple[int, ...] | None]  # what it names: shapes of tensors, and None
    not_given: list[str]  # the arguments among them that are None


def as_list(result: Any) -> list[Any]:
    """Return one result or several as a list."""
    return list(result) if isinstance(result, tuple | list) else [result]


@contextlib.contextmanager
def settings_as_before() -> Iterator[None]:
    """Restore torch's default dtype, default device and grad mode."""
    dtype = torch.get_default_dtype()
    device = torch.get_default_device()
    try:
        with torch.set_grad_enabled(torch.is_grad_enabled()):
            yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_default_device(None)
        if torch.get_default_device() != device:  # it was set without a with statement
            torch.set_default_device(device)


def run(
    call: Callable[..., Any], answer: Any, arguments: Sequence[Any], *, seed: int = 0
) -> Outcome:
    """Call an answer on copies of the arguments, quietly; undo what it sets in torch.

    Its random numbers come from the seed.
    """
    # An answer that works in place would change its arguments.
    copies = copy.deepcopy(list(arguments))
    outcome = Outcome()
    try:
        with (
            warnings.catch_warnings(action="ignore"),
            torch.random.fork_rng(devices=[]),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            settings_as_before(),
        ):
            # Only an answer that is random itself differs when it is called with another seed.
            torch.manual_seed(seed)
            outcome.result = call(answer, *copies)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever the learner's code raises is reported
        outcome.error = error
    pairs = zip(arguments, copies, strict=True)
    outcome.changed = any(isinstance(x, Tensor) and not torch.equal(x, y) for x, y in pairs)
    return outcome


def is_float(x: Any) -> bool:
    """Return True for a floating-point tensor."""
    return isinstance(x, Tensor) and x.is_floating_point()


def explain(error: BaseException, arguments: Sequence[Any]) -> str:
    """Describe the error, the learner's line it came from, and the shapes there."""
    last = last_line(error.__traceback__)
    if isinstance(error, KeyboardInterrupt):  # the notebook's stop button
        where = (
            f" in your line `{isolate_text(last.text)}`. Does a loop never end?" if last else "."
        )
        return f"It was interrupted{where}"
    if last is None:
        shapes = shapes_of(arguments)
        return f"{f'With inputs of shape {shapes}: ' if shapes else ''}{_describe(error)}"
    held = "".join(f"; {isolate_text(name)} is {shape}" for name, shape in last.named.items())
    return f"{_describe(error)} In your line `{isolate_text(last.text)}`{held}."


def shapes_of(arguments: Sequence[Any]) -> str:
    """Write the shapes of the tensors among some arguments."""
    return ", ".join(str(tuple(x.shape)) for x in arguments if isinstance(x, Tensor))


def last_line(entry: TracebackType | None) -> Line | None:
    """Return the innermost line of the learner's code that was running."""
    last = None
    for frame, number in walk_tb(entry):
        code = frame.f_code
        file = code.co_filename
        line = linecache.getline(file, number).strip()
        if not file.startswith(LIBRARIES) and line:
            # Each name once, in the order of the line.
            names = dict.fromkeys(re.findall(r"[A-Za-z_]\w*", line))
            values = {name: frame.f_locals[name] for name in names if name in frame.f_locals}
            shapes = {n: tuple(x.shape) for n, x in values.items() if isinstance(x, Tensor)}
            nones = [name for name, value in values.items() if value is None]
            given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            not_given = [name for name in nones if name in given + code.co_freevars]
            last = Line(line, {**shapes, **dict.fromkeys(nones)}, not_given)
    return last


def error_text(error: BaseException) -> str:
    """Return an error's text; empty if a learner's own error class raises another."""
    with contextlib.suppress(Exception):
        return str(error)
    return ""


def _describe(error: BaseException) -> str:
    kind = isolate_text(type(error).__name__)
    first = error_text(error).split("\n")[0].removesuffix(", but expected one of:")
    # when memory runs out, torch first names one of its own files
    text = isolate_text(re.sub(r"^\[enforce fail at [^]]*\] [^.]*\. ", "", first))
    return f"{kind}: {text}{'' if text.endswith(('.', '…')) else '.'}" if text else f"{kind}."
