"""Compare an answer with the reference and name the mistake. Never raises for an answer."""

from __future__ import annotations

import dis
import inspect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import CodeType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mha_course.exercises import compare, progress_store, sandbox
from mha_course.exercises.catalogue import MISTAKES, find_exercise
from mha_course.exercises.diagnose import recognise
from mha_course.exercises.report import Report
from mha_course.exercises.sandbox import Outcome, as_list, run
from mha_course.exercises.spec import Exercise, Mistake
from mha_course.markup import isolate_text
from mha_course.tracing.torch_internals import WithoutSubclasses

_MANY = 10_000_000  # numbers
_BESIDE_THE_NUMBERS = ("input", "repeat", "gradient", "nan gradient", "rule")  # stages
_WITHOUT_EFFECT = {"RESUME", "NOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST"}
# checks that failed since the last pass, for each exercise, in this session
_failures: Counter[str] = Counter()


def check(name: str, answer: Any, *, record: bool = True) -> Report:
    """Judge an answer to an exercise in float64 and float32, on the CPU, with positional arguments.

    Args: name is one of NAMES; answer is a callable; record=False keeps an answer that is an
        example out of ``progress``.
    Returns: a Report; nothing is printed or raised.
    Raises: ShapeError for a name that is not an exercise.
    """
    exercise = find_exercise(name)
    if is_stub(answer):
        text = "Replace the dots by your code, run the cell, then run this one again."
        return Report(name, "unattempted", text)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # many small products: threads would only wait for each other
    try:
        with sandbox.torch_as_imported() as replaced:
            report, arguments = _judge(exercise, answer)
    finally:
        torch.set_num_threads(threads)
    message = report.message
    if replaced:
        message += (
            f" {', '.join(replaced)}: something else has been put in this place since the notebook "
            "began. It was judged with PyTorch's own."
        )
    report = replace(report, message=message, answer=answer, arguments=arguments)
    if not record:
        return report
    progress_store.remember(name, report.status)
    _failures[name] = 0 if report.status == "correct" else _failures[name] + 1
    offer = f'Stuck? hint("{name}") goes one step further.' if _failures[name] > 1 else ""
    return replace(report, offer=offer, failures=_failures[name])


def is_empty(code: CodeType) -> bool:
    """Return True for code that only returns None or dots, as that of ``...`` and ``pass`` does."""
    steps = list(dis.get_instructions(code))
    returned = {step.argval for step in steps if step.opname in ("LOAD_CONST", "RETURN_CONST")}
    return {step.opname for step in steps} <= _WITHOUT_EFFECT and returned <= {None, Ellipsis}


def is_stub(answer: Any) -> bool:
    """Return True for an empty function, and a class with an empty forward or no method at all."""
    if isinstance(answer, type):
        forward = getattr(answer, "forward", nn.Module.forward)
        empty = not any(map(inspect.isfunction, vars(answer).values()))
        return empty if forward is nn.Module.forward else is_stub(forward)
    code = getattr(answer, "__code__", None)
    return answer is None or answer is Ellipsis if code is None else is_empty(code)


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
    target: Any = field(init=False)  # what the reference makes of them
    outcomes: list[Outcome] = field(default_factory=list)  # one for each call so far

    def find_fault(self) -> Fault | None:
        """Call the answer on each input; at a fault, arguments are those of that call."""
        looks = (
            self._crashed,
            self._changed_input,
            self._drawn_at_random,
            self._wrong_count,
            self._wrong_values,
            self._wrong_gradient,
            self._broken_rule,
        )
        for number, inputs in enumerate(self.exercise.inputs):
            self.arguments = [self._convert(x) for x in inputs()]
            self.outcomes.append(self._call())
            with torch.no_grad():
                self.target = self.exercise.run(self.exercise.reference, *self.arguments)
            fault = next(filter(None, (look() for look in looks)), None)
            if fault:
                cases = self.exercise.cases[number : number + 1]
                if fault.stage in _BESIDE_THE_NUMBERS:
                    cases = ()
                return fault._replace(message=" ".join((fault.message, *cases)).rstrip())
        return None

    def complete(self) -> list[Outcome]:
        """Return the outcomes of all inputs: on one alone, many mistakes crash alike."""
        rest = self.exercise.inputs[len(self.outcomes) :]
        return self.outcomes + [run(self.exercise.run, self.answer, inputs()) for inputs in rest]

    def _convert(self, x: Any) -> Any:
        return x.to(self.dtype) if sandbox.is_float(x) else x

    def _call(self, seed: int = 0) -> Outcome:
        """Run the answer; results that are stacked in one tensor are unpacked."""
        outcome = run(self.exercise.run, self.answer, self.arguments, seed=seed)
        outcome.result = result = _plain(outcome.result)
        axes = self.exercise.axes_of(0)
        stacked = isinstance(result, Tensor) and result.dim() == len(axes) + 1
        if stacked and len(result) == len(self.exercise.results):
            outcome.result = result.unbind()
        return outcome

    def _crashed(self) -> Fault | None:
        error = self.outcomes[-1].error
        if error is None:
            return None
        return Fault("error", "run", sandbox.explain(error, self.arguments))

    def _changed_input(self) -> Fault | None:
        if not self.outcomes[-1].changed:
            return None
        return Fault("wrong", "input", "It changes its input. Make a new tensor instead.")

    def _drawn_at_random(self) -> Fault | None:
        if not self.exercise.unique:
            return None
        first = self.outcomes[-1]
        second = self._call(seed=1)
        if second.error is not None or _equal(as_list(second.result), as_list(first.result)):
            return None
        text = "Two calls with the same input differ: something is drawn at random."
        return Fault("wrong", "repeat", text)

    def _results(self) -> list[Any]:
        """Return the results, as many as the reference has where they can be unpacked."""
        result = self.outcomes[-1].result
        return as_list(result) if isinstance(self.target, tuple) else [result]

    def _wrong_count(self) -> Fault | None:
        wanted = len(as_list(self.target))
        results = self._results()
        if len(results) == wanted:
            return None
        result = self.outcomes[-1].result
        text = f"It should return {wanted} tensors, and returned "
        if result is None:
            text += "None. Is a return missing?"
        elif isinstance(result, tuple | list | Tensor):
            text += f"{len(results)}."
        else:
            text += f"one {type(result).__name__}. Put commas between them: return a, b."
        return Fault("wrong", "type", text)

    def _wrong_values(self) -> Fault | None:
        exercise = self.exercise
        targets = as_list(self.target)
        for number, (result, target) in enumerate(zip(self._results(), targets, strict=True)):
            axes = exercise.axes_of(number)
            difference = compare.compare(result, target, axes, exercise.tolerance)
            if difference:
                stage, clause = difference
                name = f" ({exercise.results[number]})" if exercise.results else ""
                subject = f"Result {number}{name}" if len(targets) > 1 else "The result"
                return Fault("wrong", stage, f"{subject} {clause}", result=number)
            if exercise.exact_zeros and bool((_dense(result) != 0)[target == 0].any()):
                text = "What should be exactly 0 is a very small number."
                return Fault("wrong", "values", text, result=number)
        return None

    def _wrong_gradient(self) -> Fault | None:
        """Compare the gradients, where the reference and the answer have them."""
        if self.dtype != torch.float64 or not self.exercise.unique:
            return None
        call = self.exercise.run
        several = isinstance(self.target, tuple)
        outcome = run(sandbox.gradients, call, (self.answer, self.arguments, several))
        if outcome.error is not None:
            text = sandbox.error_text(outcome.error)
            if "inplace operation" in text:  # on tensors of its own: no mistake
                return None
            return Fault("wrong", "gradient", "The result is right, but backward() stops.")
        targets = sandbox.gradients(call, self.exercise.reference, self.arguments, several)
        for gradient, target in zip(outcome.result, targets, strict=False):
            if gradient is None or target is None or not bool(target.isfinite().all()):
                continue
            if not bool(gradient.isfinite().all()):
                return Fault("wrong", "nan gradient", "The result is right, but a gradient is NaN.")
            if compare.compare(gradient, target, "?" * target.dim(), 1e-6):
                text = "The result is right, but its gradient is another one."
                return Fault("wrong", "gradient", text)
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


def _plain(result: Any) -> Any:
    """Return results without what a class of the learner's own would do when they are compared."""
    if isinstance(result, tuple | list):
        plain = [_plain(x) for x in result]
        return tuple(plain) if isinstance(result, tuple) else plain
    if not isinstance(result, Tensor) or type(result).__module__.startswith("torch"):
        return result
    with WithoutSubclasses():
        return result.as_subclass(Tensor)


def _equal(first: list[Any], second: list[Any]) -> bool:
    pairs = zip(first, second, strict=False)
    tensors = [(a, b) for a, b in pairs if isinstance(a, Tensor) and isinstance(b, Tensor)]
    return all(a.numel() > _MANY or torch.equal(_dense(a), _dense(b)) for a, b in tensors)


def _dense(x: Tensor) -> Tensor:
    """Return the plain numbers, NaN as a number that equals itself."""
    return x.to_dense().detach().nan_to_num(1.5)


def _judge(exercise: Exercise, answer: Any) -> tuple[Report, Sequence[Any] | None]:
    """Judge the signature, then the results; return the arguments of the last call as well."""
    bad = _signature(exercise, answer)
    if bad:
        status = "error" if callable(answer) else "wrong"
        return Report(exercise.name, status, bad, "signature"), None
    # In float64 rounding neither hides a mistake nor looks like one, so numbers can be compared
    # with those of known mistakes. float32, in which people compute, then shows what overflows,
    # what loses its digits, and what was written for one dtype alone.
    for dtype in (torch.float64, torch.float32):
        attempt = Attempt(exercise, answer, dtype)
        fault = attempt.find_fault()
        if fault:
            return _explain(attempt, fault), attempt.arguments
    if exercise.other_sizes:
        last = replace(exercise, inputs=(exercise.other_sizes,), cases=(), rules=())
        attempt = Attempt(last, answer, torch.float64)
        fault = attempt.find_fault()
        if fault:
            text = (
                "It agrees on the first sizes, and not with "
                f"{sandbox.shapes_of(attempt.arguments)}: is a size written as a number? Read it "
                f"from the shapes. {fault.message}"
            )
            return Report(exercise.name, fault.status, text, "sizes"), attempt.arguments
    agrees = "It agrees with the reference on sizes that all differ, in float64 and float32."
    text = f"{exercise.done} {agrees}".strip()
    return Report(exercise.name, "correct", text), exercise.inputs[0]()


def _signature(exercise: Exercise, answer: Any) -> str | None:
    """Return a sentence on what is wrong with the answer before it is called, or None."""
    wants_class = isinstance(exercise.reference, type)
    if not callable(answer):
        wanted = "a class" if wants_class else "a function"
        return f"It takes {wanted}, and got {type(answer).__name__}."
    if wants_class and isinstance(answer, nn.Module):
        return "It takes the class itself, not a module made of it: leave the parentheses off."
    if isinstance(answer, type) and not wants_class:
        return f"It takes a function, and got the class {isolate_text(answer.__name__)}."
    try:
        signature = inspect.signature(answer)
    except (TypeError, ValueError):  # builtins
        return None
    parameters = inspect.signature(exercise.reference).parameters.values()
    names = [p.name for p in parameters if p.default is p.empty]
    try:
        signature.bind(*names)
    except TypeError:
        many = "s" * (len(names) > 1)
        return (
            f"It is called with {len(names)} argument{many}, ({', '.join(names)}), and takes "
            f"{isolate_text(str(signature))}."
        )
    return None


def _explain(attempt: Attempt, fault: Fault) -> Report:
    """Name the mistake, if it is known; else tell where the answer parts from the reference."""
    exercise = attempt.exercise
    outcome = attempt.outcomes[-1]
    status, stage, message, *_ = fault
    report = Report(exercise.name, status, message, stage, fault.mistake)
    if stage in _BESIDE_THE_NUMBERS or isinstance(outcome.error, sandbox.AnswerTimeoutError):
        mistakes = [each for each in MISTAKES if each.stage == stage and each.belongs_to(exercise)]
        return _named(report, mistakes) if mistakes else report
    if status == "wrong":
        report = replace(report, picture=compare.picture(outcome.result, attempt.target))
    if attempt.dtype != torch.float64:  # in which it has passed
        text = (
            "In float64 it runs, in float32 it stops: is a dtype written down where that of the "
            "input belongs?"
            if status == "error"
            else "In float64 it agrees, in float32 it does not: digits are lost where large "
            "numbers cancel, or overflow."
        )
        return replace(report, message=f"{text} {message}")
    special = None
    if exercise.diagnose and status == "wrong":
        special = run(exercise.diagnose, attempt.answer, attempt.arguments).result
    if special and special[0]:
        return replace(report, mistake=special[0], message=special[1])
    outcomes = attempt.complete() if status == "error" else attempt.outcomes
    recognised = recognise(exercise, outcomes, attempt.answer)
    if recognised:
        return _named(report, recognised)
    if special:
        return replace(report, message=special[1])
    if fault.result:
        return replace(report, message=f"{message} What stands before it is right.")
    begins = _first_stage(exercise, attempt.answer) if stage in ("values", "finite") else None
    return replace(report, stage=begins[0], message=f"{message} {begins[1]}") if begins else report


def _named(report: Report, mistakes: Sequence[Mistake]) -> Report:
    """Say what the mistakes are; where the answer crashed, after what was raised."""
    says = " And: ".join(mistake.row.text for mistake in mistakes)
    raised = f"{report.message} " if report.status == "error" else ""
    named = next((mistake for mistake in mistakes if mistake.name), mistakes[0])
    text = f"{raised}{says} See lesson {named.row.place}."
    return replace(report, message=text, mistake=named.name or None)


def _first_stage(exercise: Exercise, answer: Any) -> tuple[str, str] | None:
    """Return the first stage that is wrong, and a sentence; None for an exercise without stages.

    Each stage is tried on arguments that leave one suspect.
    """
    if not exercise.token_arguments:
        return None
    plain = exercise.inputs[0]()  # without a mask
    one_token = list(plain)  # it gets weight 1
    for place in exercise.token_arguments:
        one_token[place] = plain[place][:, :1]
    no_query = list(plain)  # all weights are alike
    for place in exercise.query_arguments:
        no_query[place] = plain[place] * 0
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
        trial = replace(exercise, inputs=[partial(tuple, arguments)], rules=(), unique=False)
        if Attempt(trial, answer, torch.float64).find_fault():
            return stage, sentence
    return "mask", "Without a mask all is right: look at how it is applied."
