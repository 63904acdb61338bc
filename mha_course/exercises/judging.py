"""Compare an answer with the reference and say in one sentence how it stands. Never raises for an answer."""

from __future__ import annotations

import contextlib
import dis
import html
import inspect
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mha_course.errors import ShapeError
from mha_course.exercises.probes import EXERCISES, Exercise

NAMES = tuple(EXERCISES)
# How close a result must come, by its own dtype: any float dtype is accepted.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 1e-1}
_COLORS = {"correct": "#2da44e", "wrong": "#d4a72c", "unattempted": "#8c959f", "error": "#cf4a3c"}
_SIGNS = {"correct": "✔", "wrong": "✘", "unattempted": "○", "error": "⚠"}
_NOTHING = {"RESUME", "NOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST", "POP_TOP"}  # what dots compile to
_TITLES = {"correct": "Correct", "wrong": "Not yet", "unattempted": "Not attempted", "error": "It stopped"}


@dataclass(frozen=True)
class Report:
    """What was found of an answer: shows itself in a notebook, prints as one line elsewhere.

    ``status`` is ``"correct"``, ``"wrong"``, ``"unattempted"`` or ``"error"``; ``mistake`` the id of a known
    mistake or None; ``stage`` where it parts from the reference, such as ``"shape"``, or None.
    """

    name: str
    status: str
    message: str
    stage: str | None = None
    mistake: str | None = None

    def __repr__(self) -> str:
        return f"{self.name}: {_TITLES[self.status]}. {self.message}"

    def _repr_html_(self) -> str:
        style = f"border-left:4px solid {_COLORS[self.status]};padding:2px 12px;margin:4px 0"
        return (
            f'<div style="{style}"><strong>{_SIGNS[self.status]} {_TITLES[self.status]}</strong> '
            f"<code>{html.escape(self.name)}</code><br>{html.escape(self.message)}</div>"
        )


def check(name: str, answer: Any) -> Report:
    """Judge an answer to an exercise in float64 and float32, on the CPU, with positional arguments.

    Args: name is one of NAMES; answer is a callable. Returns: a Report; nothing is printed or raised.
    Raises: ShapeError for a name that is not an exercise.
    """
    parts = _exercise(name)
    if is_stub(answer):
        return Report(name, "unattempted", "Replace the dots by your code, run the cell, then run this one again.")
    if not callable(answer):
        return Report(name, "wrong", f"It takes a function, and got {type(answer).__name__}.", "signature")
    for dtype in (torch.float64, torch.float32):
        for exercise in parts:
            arguments = [
                x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x for x in exercise.probe()
            ]
            report = _judge(name, exercise, answer, arguments)
            if report is not None:
                return report
    return Report(name, "correct", "It agrees with the reference on sizes that all differ, in float64 and float32.")


def solution(name: str) -> str:
    """Return the source of the reference itself. Raises: ShapeError for a name that is not an exercise."""
    return inspect.getsource(_exercise(name)[0].reference)


def is_stub(answer: Any) -> bool:
    """Say whether a function, or the forward of a class, is still nothing but its docstring and ``...``."""
    if isinstance(answer, type):
        forward = vars(answer).get("forward")
        return forward is not None and is_stub(forward)
    code = getattr(answer, "__code__", None)
    if code is None:
        return answer is None or answer is Ellipsis
    does = {instruction.opname for instruction in dis.get_instructions(code)}
    returns = {constant for constant in code.co_consts if not isinstance(constant, str)}
    return does <= _NOTHING and returns <= {None, Ellipsis}


def _exercise(name: str) -> tuple[Exercise, ...]:
    """Find the parts of an exercise by its name."""
    if name not in EXERCISES:
        raise ShapeError("check", "no exercise has this name", expected=", ".join(NAMES), got=repr(name))
    return EXERCISES[name]


def _judge(name: str, exercise: Exercise, answer: Callable[..., Any], arguments: Sequence[Any]) -> Report | None:
    """Return what is wrong with the answer on these arguments, or None."""
    want = exercise.run(exercise.reference, *arguments)
    mine = [x.clone() if isinstance(x, Tensor) else x for x in arguments]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            got = exercise.run(answer, *mine)
    except (Exception, SystemExit) as error:  # whatever a learner's code raises is reported, not raised
        shapes = ", ".join(str(tuple(x.shape)) for x in arguments if isinstance(x, Tensor))
        return Report(name, "error", f"With inputs of shape {shapes}: {_say(error)}", "run")
    if any(isinstance(x, Tensor) and not torch.equal(x, y) for x, y in zip(arguments, mine, strict=True)):
        return Report(name, "wrong", "It changes its input. Make a new tensor instead.", "input")
    wanted = want if isinstance(want, tuple) else (want,)
    answers = tuple(got) if isinstance(want, tuple) and isinstance(got, tuple | list) else (got,)
    if len(answers) != len(wanted):
        return Report(name, "wrong", f"It should return {len(wanted)} tensors, and returned {len(answers)}.", "type")
    for place, (one, other) in enumerate(zip(answers, wanted, strict=True)):
        part = f"Result {place} " if len(wanted) > 1 else "The result "
        axes = exercise.axes[place] if exercise.axes and isinstance(exercise.axes[0], tuple) else exercise.axes
        found = _compare(one, other, [str(axis) for axis in axes], exercise.tolerance)
        if found:
            return Report(name, "wrong", part + found[1], found[0])
    return None


def _compare(got: Any, want: Any, axes: Sequence[str], tolerance: float) -> tuple[str, str] | None:
    """Return the stage and a clause on how one result differs, or None."""
    if got is None:
        return "type", "is None. Is a return missing?"
    if isinstance(want, int):
        if isinstance(got, Tensor) and got.numel() == 1:
            got = got.item()
        right = isinstance(got, int | float) and not isinstance(got, bool) and got == want
        return None if right else ("values", f"is {got!r:.60}, and should be {want}.")
    if not isinstance(got, Tensor):
        return "type", f"should be a tensor, and is {type(got).__name__}."
    if got.shape != want.shape:
        return (
            "shape",
            f"has shape {tuple(got.shape)}, and should have {tuple(want.shape)}, which is ({', '.join(axes)}).",
        )
    if not got.is_floating_point():
        return "dtype", f"is {got.dtype}, and should be floating point."
    got, want = got.detach().cpu(), want.detach()
    if got.layout != torch.strided:
        got = got.to_dense()
    return _compare_numbers(got, want, max(tolerance, TOLERANCE.get(got.dtype, 0.1), TOLERANCE[want.dtype]))


def _compare_numbers(got: Tensor, want: Tensor, tolerance: float) -> tuple[str, str] | None:
    """Compare two tensors of one shape."""
    if not bool(got.isfinite().all()):
        return "finite", "holds NaN or inf."
    difference = (got.to(want.dtype) - want).abs()
    if float(difference.max()) <= tolerance * max(1.0, float(want.abs().max())):
        return None
    where = tuple(int(i) for i in torch.unravel_index(difference.argmax(), difference.shape))
    return "values", (
        f"has the right shape, but other numbers. The largest difference is {float(difference.max()):.3g}, "
        f"at index {where}: {float(got[where]):.3g} instead of {float(want[where]):.3g}."
    )


def _say(error: BaseException) -> str:
    """Name an error and what it says, even where it cannot say it."""
    with contextlib.suppress(Exception):
        return f"{type(error).__name__}: {error}"
    return type(error).__name__
