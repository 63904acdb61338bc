"""Compare an answer with the reference and name the mistake. Never raises for an answer."""

from __future__ import annotations

import dis
import html
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mha_course.errors import ShapeError
from mha_course.exercises import compare, progress_store, staging
from mha_course.exercises.catalogue import EXERCISES, NAMES
from mha_course.exercises.diagnose import recognise
from mha_course.exercises.hint_ladder import SOLUTIONS, withheld
from mha_course.exercises.sandbox import Outcome, TooLongError, as_list, explain, run
from mha_course.exercises.spec import Exercise, Mistake

_COLORS = {"correct": "#2da44e", "wrong": "#d4a72c", "unattempted": "#8c959f", "error": "#cf4a3c"}
_SIGNS = {"correct": "✔", "wrong": "✘", "unattempted": "○", "error": "⚠"}
_NOTHING = {"RESUME", "NOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST", "POP_TOP"}  # what dots compile to
_TITLES = {"correct": "Correct", "wrong": "Not yet", "unattempted": "Not attempted", "error": "It stopped"}


@dataclass(frozen=True)
class Report:
    """What was found of an answer: shows itself in a notebook, prints as one line elsewhere.

    ``status`` is ``"correct"``, ``"wrong"``, ``"unattempted"`` or ``"error"``; ``mistake`` the id of a known
    mistake or None; ``stage`` where it parts from the reference, such as ``"shape"``, or None; ``picture`` HTML
    that shows the answer beside the target, where that helps.
    """

    name: str
    status: str
    message: str
    stage: str | None = None
    mistake: str | None = None
    picture: str = ""

    def __repr__(self) -> str:
        return f"{self.name}: {_TITLES[self.status]}. {self.message}"

    def _repr_html_(self) -> str:
        style = f"border-left:4px solid {_COLORS[self.status]};padding:2px 12px;margin:4px 0"
        return (
            f'<div style="{style}"><strong>{_SIGNS[self.status]} {_TITLES[self.status]}</strong> '
            f"<code>{html.escape(self.name)}</code><br>{html.escape(self.message)}{self.picture}</div>"
        )


def check(name: str, answer: Any) -> Report:
    """Judge an answer to an exercise in float64 and float32, on the CPU, with positional arguments.

    Args: name is one of NAMES; answer is a callable. Returns: a Report; nothing is printed or raised.
    Raises: ShapeError for a name that is not an exercise.
    """
    exercise = _exercise(name)
    if is_stub(answer):
        return Report(name, "unattempted", "Replace the dots by your code, run the cell, then run this one again.")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # many small products: threads would only wait for each other
    try:
        report = _judge_all(exercise, answer)
    finally:
        torch.set_num_threads(threads)
    if report.status == "correct":
        progress_store.remember(name, report.status)
    return report


def _judge_all(exercise: Exercise, answer: Any) -> Report:
    """Judge the signature, then the answer on all inputs in float64 and float32."""
    name = exercise.name
    bad = _signature(exercise, answer)
    if bad:
        return Report(name, "error" if callable(answer) else "wrong", bad, "signature")
    for dtype in (torch.float64, torch.float32):
        seen: list[Outcome] = []
        for inputs in exercise.inputs:
            arguments = [x.to(dtype) if _is_float(x) else x for x in inputs()]
            outcome = run(exercise.run, answer, arguments)
            seen.append(outcome)
            found = _judge(exercise, outcome, arguments, partial(run, exercise.run, answer, arguments))
            if found:
                rest = exercise.inputs[len(seen) :] if found[0] == "error" else ()
                place = len(seen) - 1
                seen += [run(exercise.run, answer, others()) for others in rest]  # more to recognise it by
                return _named(exercise, answer, found, seen, arguments, place if dtype == torch.float64 else None)
    return Report(name, "correct", "It agrees with the reference on sizes that all differ, in float64 and float32.")


def _is_float(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def solution(name: str) -> str:
    """Return the source of the reference itself.

    With ``MHA_COURSE_SOLUTIONS=off`` in the environment, as a class may have it, it is a comment that points to
    ``hint`` instead; ``MHA_COURSE_LECTURER=1`` shows the source at once, whatever the class has.
    Raises: ShapeError for a name that is not an exercise.
    """
    if withheld():
        _exercise(name)  # a name that does not exist is told all the same
        return f'# Solutions are off in this class ({SOLUTIONS}=off). hint("{name}") goes on helping.\n'
    return reference(name)


def reference(name: str) -> str:
    """Return the source of the reference, whatever the class has. Raises: ShapeError as solution does."""
    return inspect.getsource(_exercise(name).reference)


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


def _exercise(name: str) -> Exercise:
    """Find an exercise by its name."""
    if name not in EXERCISES:
        raise ShapeError("check", "no exercise has this name", expected=", ".join(NAMES), got=repr(name))
    return EXERCISES[name]


def _signature(exercise: Exercise, answer: Any) -> str | None:
    """Say in one sentence what is wrong with the answer before it is called, or None."""
    wants_class = isinstance(exercise.reference, type)
    if not callable(answer):
        return f"It takes {'a class' if wants_class else 'a function'}, and got {type(answer).__name__}."
    if wants_class and isinstance(answer, torch.nn.Module):
        return "It takes the class itself, not a module made of it: leave the parentheses away."
    if isinstance(answer, type) and not wants_class:
        return f"It takes a function, and got the class {answer.__name__}."
    wanted = inspect.signature(exercise.reference)
    try:
        signature = inspect.signature(answer)
    except (TypeError, ValueError):  # builtins
        return None
    names = [p.name for p in wanted.parameters.values() if p.default is p.empty]
    try:
        signature.bind(*names)
    except TypeError:
        many = "s" * (len(names) > 1)
        return f"It is called with {len(names)} argument{many}, ({', '.join(names)}), and takes {signature}."
    return None


Finding = tuple[str, str, str]  # status, stage, message


def _judge(
    exercise: Exercise, outcome: Outcome, arguments: Sequence[Any], again: Callable[[], Outcome]
) -> Finding | None:
    """Return what is wrong with one outcome, in the order in which one would look, or None."""
    if outcome.error is not None:
        return "error", "run", explain(outcome.error, arguments)
    if outcome.changed:
        return "wrong", "input", "It changes its input. Make a new tensor instead."
    with torch.no_grad():
        want = exercise.run(exercise.reference, *arguments)
    wanted, got = as_list(want), outcome.result
    answers = as_list(got) if isinstance(want, tuple) else [got]
    if len(answers) != len(wanted):
        return "wrong", "type", f"It should return {len(wanted)} tensors, and returned {len(answers)}."
    for place, (one, other) in enumerate(zip(answers, wanted, strict=True)):
        found = compare.compare(one, other, exercise.axes_of(place), exercise.tolerance)
        if found:
            part = f"Result {place} " if len(wanted) > 1 else "The result "
            return "wrong", found[0], part + found[1] if found[1][0].islower() else found[1]
    second = again()
    if second.error is None and not _equal(as_list(second.result), as_list(got)):
        return "wrong", "repeat", "Two calls with the same input differ. Is dropout at work?"
    return None


def _equal(one: list[Any], other: list[Any]) -> bool:
    """Say whether two calls gave the same."""
    pairs = zip(one, other, strict=True)
    return all(torch.equal(_dense(a), _dense(b)) if isinstance(a, Tensor) else a == b for a, b in pairs)


def _dense(x: Tensor) -> Tensor:
    """Return the plain numbers, NaN as a number that can be compared."""
    return (x if x.layout == torch.strided else x.to_dense()).detach().nan_to_num(1.5)


def _named(
    exercise: Exercise,
    answer: Any,
    found: Finding,
    seen: list[Outcome],
    arguments: Sequence[Any],
    place: int | None,
) -> Report:
    """Name the mistake, if it is known; else say where the answer parts from the reference."""
    name = exercise.name
    status, stage, message = found
    if stage in exercise.mistake_at:
        return Report(name, status, message, stage, exercise.mistake_at[stage])
    known: tuple[Mistake, ...] = ()
    at = len(seen) - 1 if place is None else place
    error = seen[at].error
    if place is not None and stage not in ("input", "repeat", "type") and not isinstance(error, TooLongError):
        known = recognise(exercise, seen)
    picture = compare.picture(exercise, seen[at].result, arguments) if status == "wrong" else ""
    if not known:
        begins = staging.first(exercise, answer) if stage in ("values", "finite") else None
        if begins:
            stage, message = begins[0], f"{message} {begins[1]}"
        return Report(name, status, message, stage, None, picture)
    first = known[0]
    says = " And: ".join(f"{mistake.found} {mistake.why}" for mistake in known)
    text = f"{message if status == 'error' else ''} {says} See lesson {first.section}.".strip()
    return Report(name, status, text, stage, first.name, picture)
