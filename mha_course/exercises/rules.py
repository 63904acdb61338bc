"""The rules that judge an answer on one case, in order.

Each is ``rule(call, outcome, target) -> Fault | None``: how the answer was called, its outcome, and
what the reference returns for the same arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import GeneratorType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mha_course.exercises import compare, sandbox
from mha_course.exercises.gradients import gradients
from mha_course.exercises.operations import recorded
from mha_course.exercises.sandbox import Outcome, as_list, is_float
from mha_course.exercises.spec import Arguments, Case, Exercise, Stage
from mha_course.torch_internals import WithoutSubclasses

LOST_GRADIENT = "The result is right, but a gradient is missing."
# A gradient that is exactly 0 in theory, such as that of the keys' bias, is this small in practice.
ROUNDING_OF_ZERO = 1e-9
# If scores are far apart, right answers in float32 differ. Their error may be this many times the
# reference's in float32, but at most the second number.
ROUNDINGS, COARSE = 10, 1e-3
# Comparing larger results than this twice would take seconds.
MAX_NUMBERS = 10_000_000


class Fault(NamedTuple):
    """What is wrong with an answer: a stage and mistake as in Report, and a sentence."""

    stage: Stage
    message: str
    mistake: str | None = None
    result: int = 0  # the index of the first wrong result, if there are several

    @property
    def status(self) -> str:
        """``"error"`` if the answer raised, else ``"wrong"``."""
        return "error" if self.stage == Stage.RUN else "wrong"


@dataclass(frozen=True)
class Call:
    """An answer to an exercise, the arguments it is called with, and the tolerance."""

    exercise: Exercise
    answer: Any
    arguments: Arguments
    dtype: torch.dtype = torch.float64
    tolerance: float = 0.0

    def run(self, seed: int = 0) -> Outcome:
        """Run the answer; unpack results stacked in one tensor."""
        exercise = self.exercise
        outcome = sandbox.run(exercise.run, self.answer, self.arguments, seed=seed)
        outcome.result = result = _plain(outcome.result)
        # One axis more than a result has: q, k and v may come as torch.stack((q, k, v)).
        stacked = isinstance(result, Tensor) and result.dim() == len(exercise.axes_of(0)) + 1
        if stacked and len(result) == len(exercise.results):
            outcome.result = result.unbind()
        return outcome


FindsFault = Callable[[Call, Outcome, Any], Fault | None]


def crashed(call: Call, outcome: Outcome, _: Any) -> Fault | None:
    """Explain the error that the answer raised."""
    if outcome.error is None:
        return None
    return Fault(Stage.RUN, sandbox.explain(outcome.error, call.arguments))


def changed_input(_: Call, outcome: Outcome, __: Any) -> Fault | None:
    """Find an answer that wrote into its arguments."""
    if not outcome.changed:
        return None
    return Fault(Stage.INPUT, "Your answer changes its input. Make a new tensor instead.")


def differs_between_calls(call: Call, outcome: Outcome, _: Any) -> Fault | None:
    """Call the answer again with another random seed."""
    if "other answers" in call.exercise.allows:
        return None
    # The two must agree exactly: dropout may change less than the tolerance.
    second = call.run(seed=1)
    if second.error is not None or _equal(as_list(second.result), as_list(outcome.result)):
        return None
    text = "Two calls with the same input differ: your answer draws something at random."
    return Fault(Stage.REPEAT, text)


def wrong_count(_: Call, outcome: Outcome, target: Any) -> Fault | None:
    """Find an answer that returns too many or too few results."""
    wanted = len(as_list(target))
    results = _results(outcome, target)
    if len(results) == wanted:
        return None
    text = f"Your answer should return {wanted} results, but returned "
    if outcome.result is None:
        text += "None. Is a return missing?"
    elif isinstance(outcome.result, tuple | list | Tensor):
        text += f"{len(results)}."
    else:
        text += f"one {type(outcome.result).__name__}. Put commas between them: return a, b."
    return Fault(Stage.TYPE, text)


def wrong_values(call: Call, outcome: Outcome, target: Any) -> Fault | None:
    """Compare the type, shape, dtype and numbers of each result."""
    exercise = call.exercise
    targets = as_list(target)
    dtype = call.dtype if any(map(is_float, call.arguments)) else None
    for number, result in enumerate(_results(outcome, target)):
        axes = exercise.axes_of(number)
        difference = compare.compare(result, targets[number], axes, call.tolerance, dtype)
        if difference:
            stage, clause = difference
            if result is None and len(targets) == 1:
                clause += " Is a return missing?"
            name = f" ({exercise.results[number]})" if exercise.results else ""
            subject = f"Result {number}{name}" if len(targets) > 1 else "The result"
            return Fault(stage, f"{subject} {clause}", result=number)
        # A tolerance would accept weights of 1e-9 on keys that must be hidden.
        if exercise.exact_zeros and bool((_dense(result) != 0)[targets[number] == 0].any()):
            text = "A number that should be exactly 0 is only very small."
            return Fault(Stage.VALUES, text, result=number)
    return None


def wrong_gradient(call: Call, _: Outcome, target: Any) -> Fault | None:
    """Compare the gradients, if learning goes through the exercise; none may be missing."""
    exercise = call.exercise
    if "no gradient" in exercise.allows or not any(map(is_float, as_list(target))):
        return None
    several = isinstance(target, tuple)
    # backward() also runs the learner's code, so it runs where errors are caught.
    outcome = sandbox.run(gradients, exercise.run, (call.answer, call.arguments, several))
    if outcome.error is not None:
        text = sandbox.error_text(outcome.error)
        if "inplace operation" in text:  # on its own tensors: no mistake
            return None
        if "does not require grad" in text:
            return Fault(Stage.NO_GRADIENT, LOST_GRADIENT)
        if "other answers" in exercise.allows:  # through qr, for instance, which is fine
            return None
        return Fault(Stage.GRADIENT, "The result is right, but backward() fails.")
    targets = gradients(exercise.run, exercise.reference, call.arguments, several)
    for gradient, right in zip(outcome.result or [None] * len(targets), targets, strict=False):
        fault = _fault_of_gradient(call, gradient, right)
        if fault:
            return fault
    return None


def _fault_of_gradient(call: Call, gradient: Tensor | None, target: Tensor | None) -> Fault | None:
    allows = call.exercise.allows
    # If the reference has no gradient, or one that overflows, there is nothing to compare with.
    if target is None or not bool(target.isfinite().all()):
        return None
    if gradient is None:
        lost = bool((target.abs() > ROUNDING_OF_ZERO).any())
        return Fault(Stage.NO_GRADIENT, LOST_GRADIENT) if lost else None
    if "other answers" in allows:
        return None
    if not bool(gradient.isfinite().all()):
        text = "The result is right, but a gradient is NaN."
        return None if "nan gradient" in allows else Fault(Stage.NAN_GRADIENT, text)
    if compare.compare(gradient, target, "?" * target.dim(), call.tolerance):
        return Fault(Stage.NO_GRADIENT, LOST_GRADIENT)
    return None


def forbidden_operation(call: Call, _: Outcome, __: Any) -> Fault | None:
    """Run the answer again, and check its operations."""
    if not call.exercise.rules:
        return None
    with recorded() as operations:
        call.run()
    for rule in call.exercise.rules:
        if rule.breaks(operations, *call.arguments):
            return Fault(Stage.RULE, rule.row.text, rule.row.id or None)
    return None


# Most rules apply only to some calls. Gradients are compared in float64, where rounding cannot make
# a right one look wrong. Forbidden operations already show on the first cases.
OF_CALLS: tuple[FindsFault, ...] = (
    crashed,
    changed_input,
    differs_between_calls,
    wrong_count,
    wrong_values,
)
WITH_GRADIENTS: tuple[FindsFault, ...] = (*OF_CALLS, wrong_gradient)
IN_FLOAT32: tuple[FindsFault, ...] = (*OF_CALLS, forbidden_operation)
ALL_RULES: tuple[FindsFault, ...] = (*WITH_GRADIENTS, forbidden_operation)


@dataclass(frozen=True)
class Attempt:
    """How an answer did, case by case, up to the first fault, if any.

    The call, case and target are the last ones; rule is the name of the broken one.
    """

    outcomes: list[Outcome]
    call: Call
    case: Case
    target: Any
    fault: Fault | None = None
    rule: str = ""


def attempt(
    exercise: Exercise,
    answer: Any,
    cases: Sequence[Case],
    rules: Sequence[FindsFault],
    dtype: torch.dtype = torch.float64,
    tolerance: float | None = None,
) -> Attempt:
    """Call an answer on one case after another until a rule finds a fault."""
    outcomes = []
    if tolerance is None:
        tolerance = exercise.tolerance
    for case in cases:
        arguments = tuple(x.to(dtype) if is_float(x) else x for x in case.arguments)
        call = Call(exercise, answer, arguments, dtype, tolerance)
        outcome = call.run()
        outcomes.append(outcome)
        target = right_result(exercise, arguments)
        for rule in rules:
            fault = rule(call, outcome, target)
            # A right answer may round differently. Where a coarse tolerance accepts it, the own
            # error of the reference in float32 decides.
            inexact = fault and fault.stage in (Stage.VALUES, Stage.NO_GRADIENT)
            if inexact and not rule(replace(call, tolerance=COARSE), outcome, target):
                coarse = max(tolerance, _error_in_float32(call, target))
                fault = rule(replace(call, tolerance=coarse), outcome, target)
            if fault:
                if case.sentence and fault.stage.compares_numbers:
                    fault = fault._replace(message=f"{fault.message} {case.sentence}")
                return Attempt(outcomes, call, case, target, fault, rule.__name__)
    return Attempt(outcomes, call, case, target)


def _error_in_float32(call: Call, target: Any) -> float:
    """Return how far off a float32 answer may be, given the reference's own error."""
    exercise = call.exercise
    narrow = [x.float() if is_float(x) else x for x in call.arguments]
    several = isinstance(target, tuple)
    # The results first, then the gradients: each has an error of its own.
    pairs = [
        *zip(as_list(target), as_list(right_result(exercise, narrow)), strict=True),
        *zip(
            gradients(exercise.run, exercise.reference, call.arguments, several),
            gradients(exercise.run, exercise.reference, narrow, several),
            strict=True,
        ),
    ]
    errors = [compare.error(b, a) for a, b in pairs if is_float(a) and is_float(b)]
    return min(ROUNDINGS * max(errors, default=0.0), COARSE)


def right_result(exercise: Exercise, arguments: Sequence[Any]) -> Any:
    """Return the reference's result for some arguments."""
    with torch.no_grad():
        return exercise.run(exercise.reference, *arguments)


def _results(outcome: Outcome, target: Any) -> list[Any]:
    """Return the results, unpacked into as many as the reference has, if possible."""
    return as_list(outcome.result) if isinstance(target, tuple) else [outcome.result]


def _plain(result: Any) -> Any:
    """Return results on the CPU as plain tensors, without the learner's own classes."""
    # As in return (f(x) for x in (q, k, v)), or map(f, (q, k, v)).
    if type(result) in (GeneratorType, map):
        result = tuple(result)
    if isinstance(result, tuple | list):
        plain = [_plain(x) for x in result]
        return tuple(plain) if isinstance(result, tuple) else plain
    if not isinstance(result, Tensor):
        return result
    if not type(result).__module__.startswith("torch"):
        with WithoutSubclasses():
            result = result.as_subclass(Tensor)
    return result if result.is_cpu or result.is_meta else result.cpu()


def _equal(first: list[Any], second: list[Any]) -> bool:
    pairs = zip(first, second, strict=False)
    tensors = [(a, b) for a, b in pairs if isinstance(a, Tensor) and isinstance(b, Tensor)]
    return all(a.numel() > MAX_NUMBERS or torch.equal(_dense(a), _dense(b)) for a, b in tensors)


def _dense(x: Tensor) -> Tensor:
    """Return a dense tensor, with NaN replaced by a number that equals itself."""
    return x.to_dense().detach().nan_to_num(1.5)
