"""Compare an answer with the reference and name the mistake. Never raises for an answer."""

from __future__ import annotations

import dis
import inspect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mha_course.exercises import compare, progress_store, sandbox
from mha_course.exercises.catalogue import MISTAKES, find_exercise
from mha_course.exercises.diagnose import recognise
from mha_course.exercises.html import foreign
from mha_course.exercises.report import Report
from mha_course.exercises.sandbox import Outcome, as_list, run
from mha_course.exercises.spec import Exercise, Mistake
from mha_course.tracing.torch_internals import WithoutSubclasses

_NOTHING = {"RESUME", "NOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST"}  # what dots compile to
_MANY = 10_000_000  # numbers
_BESIDE_THE_NUMBERS = ("input", "repeat", "gradient", "nan gradient", "rule")  # stages
_failures: Counter[str] = (
    Counter()
)  # checks that failed since the last pass, for each exercise, in this session


def check(name: str, answer: Any, *, record: bool = True) -> Report:
    """Judge an answer to an exercise in float64 and float32, on the CPU, with positional arguments.

    Args: name is one of NAMES; answer is a callable; record=False keeps an answer out of
        ``progress``, where it is
        an example and not an attempt of the learner's. Returns: a Report; nothing is printed or
        raised.
    Raises: ShapeError for a name that is not an exercise.
    """
    exercise = find_exercise(name)
    if is_stub(answer):
        return Report(
            name,
            "unattempted",
            "Replace the dots by your code, run the cell, then run this one again.",
        )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # many small products: threads would only wait for each other
    try:
        with sandbox.torch_as_imported() as replaced:
            report = _judge(exercise, answer)
    finally:
        torch.set_num_threads(threads)
    if replaced:
        theirs = (
            f"{', '.join(replaced)}: something else has been put in this place since the notebook "
            f"began."
        )
        report = replace(
            report, message=f"{report.message} {theirs} It was judged with PyTorch's own."
        )
    if not record:
        return report
    progress_store.remember(name, report.status)
    _failures[name] = 0 if report.status == "correct" else _failures[name] + 1
    offer = f'Stuck? hint("{name}") goes one step further.' if _failures[name] > 1 else ""
    return replace(report, offer=offer, failures=_failures[name])


def is_stub(answer: Any) -> bool:
    """Return True for a function, or the forward of a class, that is still as empty as the notebook
    has it.

    It does nothing but return None or dots, whether by ``...``, by ``pass`` or by a docstring
    alone.
    """
    if isinstance(answer, type):
        forward = getattr(answer, "forward", torch.nn.Module.forward)
        empty = not any(map(inspect.isfunction, vars(answer).values()))
        return empty if forward is torch.nn.Module.forward else is_stub(forward)
    code = getattr(answer, "__code__", None)
    if code is None:
        return answer is None or answer is Ellipsis
    steps = list(dis.get_instructions(code))
    returned = {step.argval for step in steps if step.opname in ("LOAD_CONST", "RETURN_CONST")}
    return {step.opname for step in steps} <= _NOTHING and returned <= {None, Ellipsis}


class Fault(NamedTuple):
    """What is wrong with an answer: a status, a stage and a mistake of Report, and a sentence."""

    status: str
    stage: str
    message: str
    mistake: str | None = None
    result: int = 0  # the number of the first result that is wrong, where there are several


@dataclass
class Attempt:
    """One answer, called on the inputs of its exercise in one precision, up to the first fault."""

    exercise: Exercise
    answer: Any
    dtype: torch.dtype
    arguments: list[Any] = field(init=False)  # of the last call
    outcomes: list[Outcome] = field(default_factory=list)  # one for each call so far

    def find_fault(self) -> Fault | None:
        """Call the answer on each input in turn; at a fault, arguments are those of that call."""
        for inputs in self.exercise.inputs:
            self.arguments = [self._convert(x) for x in inputs()]
            self.outcomes.append(self._call())
            fault = self._fault()
            if fault:
                cases = (
                    ()
                    if fault.stage in _BESIDE_THE_NUMBERS
                    else self.exercise.cases[len(self.outcomes) - 1 :][:1]
                )
                return fault._replace(message=" ".join((fault.message, *cases)).rstrip())
        return None

    def complete(self) -> list[Outcome]:
        """Return the outcomes of all inputs, for an answer that crashes: on one input many mistakes
        crash alike.
        """
        rest = self.exercise.inputs[len(self.outcomes) :]
        return self.outcomes + [run(self.exercise.run, self.answer, inputs()) for inputs in rest]

    def _convert(self, x: Any) -> Any:
        return x.to(self.dtype) if isinstance(x, Tensor) and x.is_floating_point() else x

    def _call(self, seed: int = 0) -> Outcome:
        """Run the answer; several results that are stacked in one tensor are taken apart, as
        unpacking does.
        """
        outcome = run(self.exercise.run, self.answer, self.arguments, seed=seed)
        got = _plain(outcome.result)
        axes = self.exercise.axes
        outcome.result = got
        axes = axes if isinstance(axes, str) else axes[0]
        stacked = isinstance(got, Tensor) and got.dim() == len(axes.split()) + 1
        if stacked and len(got) == len(self.exercise.results):
            outcome.result = got.unbind()
        return outcome

    def _fault(self) -> Fault | None:
        """Find what is wrong with the last outcome, in the order in which one would look."""
        outcome = self.outcomes[-1]
        if outcome.error is not None:
            return Fault("error", "run", sandbox.explain(outcome.error, self.arguments))
        if outcome.changed:
            return Fault("wrong", "input", "It changes its input. Make a new tensor instead.")
        second = self._call(seed=1) if self.exercise.unique else outcome
        if second.error is None and not _equal(as_list(second.result), as_list(outcome.result)):
            return Fault(
                "wrong",
                "repeat",
                "Two calls with the same input differ: something is drawn at random.",
            )
        want = run_reference(self.exercise, self.arguments)
        got = outcome.result
        wanted = as_list(want)
        answers = as_list(got) if isinstance(want, tuple) else [got]
        if len(answers) != len(wanted):
            text = f"It should return {len(wanted)} tensors, and returned "
            if got is None:
                text += "None. Is a return missing?"
            elif isinstance(got, tuple | list | Tensor):
                text += f"{len(answers)}."
            else:
                text += f"one {type(got).__name__}. Put commas between them: return a, b."
            return Fault("wrong", "type", text)
        for number, (one, other) in enumerate(zip(answers, wanted, strict=True)):
            axes = (
                self.exercise.axes
                if isinstance(self.exercise.axes, str)
                else self.exercise.axes[number]
            )
            found = compare.compare(one, other, axes.split(), self.exercise.tolerance)
            if found:
                stage, clause = found
                name = f" ({self.exercise.results[number]})" if self.exercise.results else ""
                subject = f"Result {number}{name}" if len(wanted) > 1 else "The result"
                return Fault("wrong", stage, f"{subject} {clause}", result=number)
            if self.exercise.exact_zeros and bool((_dense(one) != 0)[other == 0].any()):
                return Fault(
                    "wrong",
                    "values",
                    "What should be exactly 0 is a very small number.",
                    result=number,
                )
        return self._gradient_fault(isinstance(want, tuple)) or self._broken_rule()

    def _gradient_fault(self, several: bool) -> Fault | None:
        """Compare the way back, where the reference has one and the answer does."""
        if self.dtype != torch.float64 or not self.exercise.unique:
            return None
        got = run(sandbox.gradients, self.exercise.run, (self.answer, self.arguments, several))
        if got.error is not None:
            in_place = "inplace operation" in str(got.error)  # on tensors of its own: no mistake
            return (
                None
                if in_place
                else Fault("wrong", "gradient", "The result is right, but backward() stops.")
            )
        want = sandbox.gradients(
            self.exercise.run, self.exercise.reference, self.arguments, several
        )
        pairs = (
            zip(ours, theirs, strict=False) for ours, theirs in zip(got.result, want, strict=False)
        )
        for one, other in chain.from_iterable(pairs):
            if one is None or other is None or not bool(other.isfinite().all()):
                continue
            if not bool(one.isfinite().all()):
                return Fault("wrong", "nan gradient", "The result is right, but a gradient is NaN.")
            if compare.compare(one, other, "?" * other.dim(), 1e-6):
                return Fault(
                    "wrong", "gradient", "The result is right, but its gradient is another one."
                )
        return None

    def _broken_rule(self) -> Fault | None:
        """Run the answer once more, and look at the operations that it is made of."""
        if not self.exercise.rules:
            return None
        with sandbox.recorded() as operations:
            self._call()
        for rule in self.exercise.rules:
            if rule.breaks(operations, *self.arguments):
                return Fault("wrong", "rule", rule.row.text, rule.row.id or None)
        return None


def run_reference(exercise: Exercise, arguments: Sequence[Any]) -> Any:
    """Return what the reference makes of these arguments."""
    with torch.no_grad():
        return exercise.run(exercise.reference, *arguments)


def _plain(result: Any) -> Any:
    """Return results without what a class of the learner's own would do when they are compared."""
    if isinstance(result, tuple | list):
        plain = [_plain(x) for x in result]
        return tuple(plain) if isinstance(result, tuple) else plain
    if not isinstance(result, Tensor) or type(result).__module__.startswith("torch"):
        return result
    with WithoutSubclasses():
        return result.as_subclass(Tensor)


def _equal(one: list[Any], other: list[Any]) -> bool:
    pairs = zip(one, other, strict=False)
    tensors = [(a, b) for a, b in pairs if isinstance(a, Tensor) and isinstance(b, Tensor)]
    return all(a.numel() > _MANY or torch.equal(_dense(a), _dense(b)) for a, b in tensors)


def _dense(x: Tensor) -> Tensor:
    """Return the plain numbers, NaN as a number that equals itself."""
    return (x if x.layout == torch.strided else x.to_dense()).detach().nan_to_num(1.5)


def _judge(exercise: Exercise, answer: Any) -> Report:
    """Judge the signature, then the results in float64 and in float32."""
    bad = _signature(exercise, answer)
    if bad:
        return Report(exercise.name, "error" if callable(answer) else "wrong", bad, "signature")
    # In float64 rounding neither hides a mistake nor looks like one, so numbers can be held against
    # those of known mistakes. float32, in which people compute, then shows what overflows, what
    # loses its digits, and what was
    # written for one dtype alone.
    for dtype in (torch.float64, torch.float32):
        attempt = Attempt(exercise, answer, dtype)
        fault = attempt.find_fault()
        if fault:
            return replace(_explain(attempt, fault), answer=answer, arguments=attempt.arguments)
    if exercise.other_sizes:
        last = replace(exercise, inputs=(exercise.other_sizes,), cases=(), rules=())
        attempt = Attempt(last, answer, torch.float64)
        fault = attempt.find_fault()
        if fault:
            shapes = sandbox.shapes_of(attempt.arguments)
            text = (
                f"It agrees on the first sizes, and not with {shapes}: is a size written as a "
                f"number? Read it from "
            )
            said = f"{text}the shapes. {fault.message}"
            return Report(
                exercise.name,
                fault.status,
                said,
                "sizes",
                answer=answer,
                arguments=attempt.arguments,
            )
    agrees = "It agrees with the reference on sizes that all differ, in float64 and float32."
    said = f"{exercise.done} {agrees}".strip()
    arguments = exercise.inputs[0]()
    return Report(exercise.name, "correct", said, answer=answer, arguments=arguments)


def _signature(exercise: Exercise, answer: Any) -> str | None:
    """Return a sentence on what is wrong with the answer before it is called, or None."""
    wants_class = isinstance(exercise.reference, type)
    if not callable(answer):
        return (
            f"It takes {'a class' if wants_class else 'a function'}, and got "
            f"{type(answer).__name__}."
        )
    if wants_class and isinstance(answer, torch.nn.Module):
        return "It takes the class itself, not a module made of it: leave the parentheses away."
    if isinstance(answer, type) and not wants_class:
        return f"It takes a function, and got the class {foreign(answer.__name__)}."
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
        return (
            f"It is called with {len(names)} argument{many}, ({', '.join(names)}), and takes "
            f"{foreign(str(signature))}."
        )
    return None


def _explain(attempt: Attempt, fault: Fault) -> Report:
    """Name the mistake, if it is known; else tell where the answer parts from the reference."""
    exercise = attempt.exercise
    outcome = attempt.outcomes[-1]
    (status, stage, message, *_) = fault
    report = Report(exercise.name, status, message, stage, fault.mistake)
    if stage in _BESIDE_THE_NUMBERS or isinstance(outcome.error, sandbox.AnswerTimeoutError):
        known = [one for one in MISTAKES if one.stage == stage and one.belongs_to(exercise)]
        return _named(report, known) if known else report
    if status == "wrong":
        report = replace(
            report,
            picture=compare.picture(outcome.result, run_reference(exercise, attempt.arguments)),
        )
    if attempt.dtype != torch.float64:  # in which it has passed
        lost = (
            "In float64 it agrees, in float32 it does not: digits are lost where large numbers "
            "cancel, or overflow."
        )
        if status == "error":
            lost = (
                "In float64 it runs, in float32 it stops: is a dtype written down where that of "
                "the input belongs?"
            )
        return replace(report, message=f"{lost} {message}")
    found = None
    if exercise.diagnose and status == "wrong":
        found = run(exercise.diagnose, attempt.answer, attempt.arguments).result
    if found and found[0]:
        return replace(report, mistake=found[0], message=found[1])
    outcomes = attempt.complete() if status == "error" else attempt.outcomes
    known = list(recognise(exercise, outcomes, attempt.answer))
    if known:
        return _named(report, known)
    if found:
        return replace(report, message=found[1])
    if fault.result:
        return replace(report, message=f"{message} What stands before it is right.")
    begins = _first_stage(exercise, attempt.answer) if stage in ("values", "finite") else None
    return replace(report, stage=begins[0], message=f"{message} {begins[1]}") if begins else report


def _named(report: Report, known: Sequence[Mistake]) -> Report:
    """Say what the mistakes are; where the answer crashed, after what was raised."""
    says = " And: ".join(mistake.row.text for mistake in known)
    raised = f"{report.message} " if report.status == "error" else ""
    named = next((mistake for mistake in known if mistake.name), known[0])
    return replace(
        report, message=f"{raised}{says} See lesson {named.row.place}.", mistake=named.name or None
    )


def _first_stage(exercise: Exercise, answer: Any) -> tuple[str, str] | None:
    """Return the first stage at which an answer without a name is wrong, and a sentence; None if it
    has no stages.

    Each stage is tried on arguments that leave one suspect.
    """
    if not exercise.token_arguments:
        return None
    plain = exercise.inputs[0]()  # without a mask
    one_token = [
        x[:, :1] if at in exercise.token_arguments else x for at, x in enumerate(plain)
    ]  # it gets weight 1
    no_query = [
        x * 0 if at in exercise.query_arguments else x for at, x in enumerate(plain)
    ]  # all weights are alike
    for arguments, stage, sentence in (
        (one_token, "values and output",
         "It is wrong already with a single token, where only values and output matter."),
        (no_query, "weighted sum",
         "With one token it is right; with all scores alike it is not. Each query should then mix "
         "all values alike: look at what is hidden, at what the weights sum to, and at how tokens "
         "and heads are split and merged."),
        (plain, "scores",
         "With one token, and with all weights alike, it is right: look at the scores, their "
         "scale and the softmax."),
    ):  # fmt: skip
        outcome = run(exercise.run, answer, arguments)
        if outcome.error is not None or _differs(
            outcome.result, run_reference(exercise, arguments)
        ):
            return stage, sentence
    return "mask", "Without a mask all is right: look at how it is applied."


def _differs(got: Any, want: Any) -> bool:
    pairs = zip(as_list(got), as_list(want), strict=False)
    return any(
        not isinstance(a, Tensor) or compare.compare(a, b, "?" * b.dim(), 0.0) is not None
        for a, b in pairs
    )
