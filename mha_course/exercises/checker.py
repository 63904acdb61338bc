"""Compare an answer with the reference and name the mistake. Never raises for an answer."""

from __future__ import annotations

import dis
import inspect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from types import CodeType, GeneratorType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mha_course.exercises import compare, progress_store, sandbox
from mha_course.exercises.catalogue import LESSON_OF, MISTAKES, find_exercise
from mha_course.exercises.diagnose import recognise
from mha_course.exercises.inputs import EXAMPLE, FAR_BELOW, HIDDEN_LEAD, OTHER_SIZES
from mha_course.exercises.report import Report
from mha_course.exercises.sandbox import Outcome, as_list, run
from mha_course.exercises.spec import Exercise, Mistake
from mha_course.markup import count, isolate_text
from mha_course.torch_internals import WithoutSubclasses

_MANY = 10_000_000  # numbers
# Stages at which no numbers are compared with those of known mistakes.
_BESIDE_THE_NUMBERS = (
    "input", "repeat", "gradient", "no gradient", "nan gradient", "narrow", "wide", "no int",
    "rule",
)  # fmt: skip
_CUT_OFF = "The result is right, but a gradient is missing."
_COARSE = 1e-3  # how close float32 must come where scores are far apart
_NOISE = 1e-9  # of a gradient that is 0, as that of the keys' bias is
_WITHOUT_EFFECT = {"RESUME", "NOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST"}
# checks that failed since the last pass, for each exercise, in this session
_failures: Counter[str] = Counter()


def check(name: str, answer: Any, *, record: bool = True) -> Report:
    """Judge an answer to an exercise in float64 and float32, on the CPU, with positional arguments.

    Then on sizes that are drawn. It may move its arguments to another device.

    Args: name is one of NAMES; answer is a callable; record=False keeps an example out
        of ``progress``.
    Returns: a Report; nothing is printed or raised.
    Raises: ShapeError for a name that is not an exercise.
    """
    exercise = find_exercise(name)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # many small products: threads would only wait for each other
    try:
        with sandbox.settings_as_before():
            if torch.get_default_device().type != "cpu":
                torch.set_default_device("cpu")
            report, arguments = _judge(exercise, answer)
    except KeyboardInterrupt as error:
        report = Report(name, "error", sandbox.explain(error, ()), "run")
        arguments = None
    except BaseException as error:  # of objects that raise whatever they are asked
        report = Report(name, "error", f"It cannot be judged. {sandbox.explain(error, ())}", "run")
        arguments = None
    finally:
        torch.set_num_threads(threads)
    if report.status == "unattempted":
        return report
    message = report.message
    if "{the input}" in message:
        message = message.replace("{the input}", _name_of_input(exercise, answer))
    report = replace(report, message=message, answer=answer, arguments=arguments)
    if not record:
        return report
    progress_store.remember(name, report.status)
    _failures[name] = 0 if report.status == "correct" else _failures[name] + 1
    offer = f'Stuck? hint("{name}") goes one step further.' if _failures[name] > 1 else ""
    return replace(report, offer=offer, failures=_failures[name])


def _name_of_input(exercise: Exercise, answer: Any) -> str:
    """Return what an answer calls its first float tensor; x in a class."""
    code = getattr(answer, "__code__", None)
    pairs = zip(code.co_varnames if code else (), exercise.inputs[0](), strict=False)
    return next((name for name, x in pairs if sandbox.is_float(x)), "x")


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
    learning: bool = True  # whether gradients are compared
    number: int = field(init=False, default=0)  # of the last call
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
            self.number = number
            self.arguments = [self._convert(x) for x in inputs()]
            self.outcomes.append(self.call(self.arguments))
            self.target = self.wanted(self.arguments)
            fault = next(filter(None, (look() for look in looks)), None)
            if fault:
                cases = self.exercise.cases[number : number + 1]
                if fault.stage in _BESIDE_THE_NUMBERS:
                    cases = ()
                return fault._replace(message=" ".join((fault.message, *cases)).rstrip())
        return None

    def complete(self) -> list[Outcome]:
        """Return the outcomes of all inputs: on one alone, many mistakes crash alike."""
        rest = range(len(self.outcomes), len(self.exercise.inputs))
        return self.outcomes + [self.again(at) for at in rest]

    def wanted(self, arguments: Sequence[Any]) -> Any:
        """Return what the reference makes of some arguments."""
        with torch.no_grad():
            return self.exercise.run(self.exercise.reference, *arguments)

    def again(self, at: int) -> Outcome:
        """Return the outcome of any input, drawn ones included."""
        return self.call(self.exercise.all_inputs[at]())

    def _convert(self, x: Any) -> Any:
        return x.to(self.dtype) if sandbox.is_float(x) else x

    def call(self, arguments: Sequence[Any], seed: int = 0) -> Outcome:
        """Run the answer; results that are stacked in one tensor are unpacked."""
        outcome = run(self.exercise.run, self.answer, arguments, seed=seed)
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
        return Fault("wrong", "input", "Your answer changes its input. Make a new tensor instead.")

    def _drawn_at_random(self) -> Fault | None:
        if not self.exercise.unique:
            return None
        first = self.outcomes[-1]
        second = self.call(self.arguments, seed=1)
        if second.error is not None or _equal(as_list(second.result), as_list(first.result)):
            return None
        text = "Two calls with the same input differ: your answer draws something at random."
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
        text = f"Your answer should return {wanted} results, but returned "
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
            dtype = self.dtype if any(map(sandbox.is_float, self.arguments)) else None
            difference = compare.compare(result, target, axes, exercise.tolerance, dtype)
            if difference:
                stage, clause = difference
                if result is None and len(targets) == 1:
                    clause += " Is a return missing?"
                name = f" ({exercise.results[number]})" if exercise.results else ""
                subject = f"Result {number}{name}" if len(targets) > 1 else "The result"
                return Fault("wrong", stage, f"{subject} {clause}", result=number)
            if exercise.exact_zeros and bool((_dense(result) != 0)[target == 0].any()):
                text = "A number that should be exactly 0 is only very small."
                return Fault("wrong", "values", text, result=number)
        return None

    def _wrong_gradient(self) -> Fault | None:
        """Compare the gradients; none may be missing where learning goes through the exercise."""
        if not self.learning or not any(map(sandbox.is_float, as_list(self.target))):
            return None
        call = self.exercise.run
        several = isinstance(self.target, tuple)
        outcome = run(sandbox.gradients, call, (self.answer, self.arguments, several))
        if outcome.error is not None:
            text = sandbox.error_text(outcome.error)
            if "inplace operation" in text:  # on tensors of its own: no mistake
                return None
            if self.exercise.learns and "does not require grad" in text:
                return Fault("wrong", "no gradient", _CUT_OFF)
            return Fault("wrong", "gradient", "The result is right, but backward() fails.")
        targets = sandbox.gradients(call, self.exercise.reference, self.arguments, several)
        gradients = outcome.result or [None] * len(targets)
        pairs = zip(gradients, targets, strict=False)
        faults = (self._fault_of_gradient(*pair) for pair in pairs)
        return next(filter(None, faults), None)

    def _fault_of_gradient(self, gradient: Tensor | None, target: Tensor | None) -> Fault | None:
        if target is None or not bool(target.isfinite().all()):
            return None
        if gradient is None:
            lost = self.exercise.learns and bool((target.abs() > _NOISE).any())
            return Fault("wrong", "no gradient", _CUT_OFF) if lost else None
        if not self.exercise.unique:
            return None
        if not bool(gradient.isfinite().all()):
            text = "The result is right, but a gradient is NaN."
            return Fault("wrong", "nan gradient", text) if self.exercise.finite_gradients else None
        if compare.compare(gradient, target, "?" * target.dim(), self.exercise.tolerance):
            text = "The result is right, but its gradient is not."
            return Fault("wrong", "gradient", text)
        return None

    def _broken_rule(self) -> Fault | None:
        """Run the answer once more, and look at the operations that it is made of."""
        if not self.exercise.rules:
            return None
        with sandbox.recorded() as operations:
            self.call(self.arguments)
        for rule in self.exercise.rules:
            if rule.breaks(operations, *self.arguments):
                return Fault("wrong", "rule", rule.row.text, rule.row.id or None)
        return None


def _plain(result: Any) -> Any:
    """Return results on the CPU, without what a class of the learner's own would do."""
    if type(result) is GeneratorType:
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
    return all(a.numel() > _MANY or torch.equal(_dense(a), _dense(b)) for a, b in tensors)


def _dense(x: Tensor) -> Tensor:
    """Return the plain numbers, NaN as a number that equals itself."""
    return x.to_dense().detach().nan_to_num(1.5)


def _judge(exercise: Exercise, answer: Any) -> tuple[Report, Sequence[Any] | None]:
    """Judge the signature, then the results; also return the arguments of the last call."""
    if is_stub(answer):
        text = "Replace the dots with your code, run that cell, then run this one again."
        return Report(exercise.name, "unattempted", text), None
    bad = _signature(exercise, answer)
    if bad:
        status = "error" if callable(answer) else "wrong"
        return Report(exercise.name, status, bad, "signature"), None
    # In float64 rounding neither hides a mistake nor looks like one, so numbers can be compared
    # with those of known mistakes. float32, in which people compute, then shows what overflows,
    # what loses its digits, and what was written for one dtype alone. Last come sizes that are
    # drawn, single ones among them. An answer that only stops in float64, because a part of it is
    # float32 whatever it gets, is judged on all of them in float32.
    drawn = replace(
        exercise,
        inputs=exercise.all_inputs[len(exercise.inputs) :],
        cases=(),
        rules=(),
    )
    first = Attempt(exercise, answer, torch.float64)
    narrow = Attempt(exercise, answer, torch.float32, learning=False)
    last = Attempt(drawn, answer, torch.float64)
    dtype = torch.float64
    for attempt in (first, narrow, last):
        fault = attempt.find_fault()
        if fault is None:
            continue
        report = _explain_drawn(first, last, fault) if attempt is last else _explain(attempt, fault)
        mixed = report.status == "error" and report.mistake == "dtype-changed"
        if attempt is first and mixed and narrow.find_fault() is None:
            coarse = max(exercise.tolerance, _COARSE)
            whole = replace(drawn, inputs=exercise.all_inputs, tolerance=coarse)
            if Attempt(whole, answer, torch.float32).find_fault() is None:
                dtype = torch.float32
                break
        return report, attempt.arguments
    text = f"{exercise.done} {_what_was_tried(exercise, dtype)}".strip()
    return Report(exercise.name, "correct", text), exercise.inputs[0]()


def _explain_drawn(first: Attempt, last: Attempt, fault: Fault) -> Report:
    """Name the mistake of an answer that agreed at first, or say on which sizes it does not."""
    exercise = first.exercise
    if fault.stage in _BESIDE_THE_NUMBERS:
        return _of_stage(exercise, fault)
    kind = exercise.drawn_kinds[last.number]
    shapes = sandbox.shapes_of(last.arguments)
    inputs = f"shapes {shapes}" if shapes else ", ".join(map(str, last.arguments))
    where = f", with {kind}" if kind in (HIDDEN_LEAD, FAR_BELOW) else ""
    text = f"The answer is right for the first inputs, but not for {inputs}{where}. {fault.message}"
    report = Report(exercise.name, fault.status, text, "sizes")
    recognised = recognise(exercise, [*first.outcomes, *last.outcomes], first.again)
    if recognised:
        return _named(report, recognised)
    if kind == OTHER_SIZES and _fails_by_sizes(exercise, last):
        return _of_stage(exercise, fault._replace(stage="sizes", message=text))
    return report


def _fails_by_sizes(exercise: Exercise, last: Attempt) -> bool:
    """Return True where an answer fails on the last sizes even with numbers that it got right."""
    for inputs in exercise.inputs:
        pairs = [*zip_longest(inputs(), last.arguments)]
        if all(_form(x) == _form(drawn) for x, drawn in pairs):
            arguments = [_in_sizes_of(*pair) for pair in pairs]
            trial = replace(last.exercise, inputs=[partial(tuple, arguments)])
            return Attempt(trial, last.answer, torch.float64).find_fault() is not None
    return False


def _form(x: Any) -> tuple[Any, ...]:
    return (x.dim(), x.dtype) if isinstance(x, Tensor) else (x is None, isinstance(x, float))


def _in_sizes_of(x: Any, drawn: Any) -> Any:
    """Return x in the sizes that were drawn; but whole numbers, which may be counts, as drawn."""
    if not isinstance(drawn, Tensor) or drawn.dtype == torch.int64:
        return x if isinstance(drawn, float) else drawn
    for axis, size in enumerate(drawn.shape):
        x = x.index_select(axis, torch.arange(size) % x.size(axis))
    return x


def _what_was_tried(exercise: Exercise, dtype: torch.dtype) -> str:
    """Say on what an answer was judged."""
    arguments = [x for inputs in exercise.all_inputs for x in inputs()]
    forms = sorted({x.dim() for x in arguments if isinstance(x, Tensor) and x.dtype == torch.bool})
    floats = any(map(sandbox.is_float, arguments))
    results = as_list(exercise.run(exercise.reference, *exercise.inputs[0]()))
    learned = exercise.learns and exercise.unique and exercise.finite_gradients
    learned &= any(map(sandbox.is_float, results))
    gradients = ", gradients included," if floats and learned else ""
    single = any(1 in x.shape for x in arguments if sandbox.is_float(x))
    text = f"Your answer agrees with the reference{gradients} on {len(exercise.all_inputs)} inputs"
    text += " of different sizes"
    if single:
        text += ", sizes of 1 among them"
    if forms:
        text += f", with masks of {' and '.join(map(str, forms))} axes"
    if dtype == torch.float32:
        return f"{text}, all of them in float32."
    if not floats:
        return f"{text}."
    first = f"first {len(exercise.inputs)}" if len(exercise.inputs) > 1 else "first"
    return f"{text}. On the {first} it also agrees in float32."


def _signature(exercise: Exercise, answer: Any) -> str | None:
    """Return a sentence on what is wrong with the answer before it is called, or None."""
    wants_class = isinstance(exercise.reference, type)
    if not callable(answer):
        wanted = "a class" if wants_class else "a function"
        return f"This exercise needs {wanted}, but got {type(answer).__name__}."
    if wants_class and isinstance(answer, nn.Module):
        return "This exercise needs the class, not a module made of it: leave the parentheses off."
    if isinstance(answer, type) and not wants_class:
        return f"This exercise needs a function, but got the class {isolate_text(answer.__name__)}."
    try:
        signature = inspect.signature(answer)
    except (TypeError, ValueError):  # builtins
        return None
    parameters = inspect.signature(exercise.reference).parameters.values()
    names = [p.name for p in parameters if p.default is p.empty]
    try:
        signature.bind(*names)
    except TypeError:
        return (
            f"Your answer is called with {count(len(names), 'argument')}, ({', '.join(names)}), "
            f"but takes {isolate_text(str(signature))}."
        )
    return None


def _explain(attempt: Attempt, fault: Fault) -> Report:
    """Name the mistake, if it is known; else tell where the answer parts from the reference."""
    exercise = attempt.exercise
    outcome = attempt.outcomes[-1]
    status, stage, message, *_ = fault
    report = Report(exercise.name, status, message, stage, fault.mistake)
    if stage in _BESIDE_THE_NUMBERS:
        return _of_stage(exercise, fault)
    if status == "wrong":
        report = replace(report, picture=compare.picture(outcome.result, attempt.target))
    rounds = not isinstance(attempt.target, Tensor) or attempt.target.dtype != torch.bool
    if attempt.dtype != torch.float64 and (rounds or status == "error"):  # in float64 it has passed
        text = (
            "Your answer runs in float64 but stops in float32. Is a dtype written into it, instead "
            "of being taken from the input?"
            if status == "error"
            else "Your answer agrees in float64 but not in float32: digits are lost where large "
            "numbers cancel or overflow."
        )
        return replace(report, message=f"{text} {message}")
    special = None
    if exercise.diagnose and status == "wrong":
        special = run(exercise.diagnose, attempt.answer, attempt.arguments).result
    if special and special[0]:
        return replace(report, mistake=special[0], message=special[1])
    outcomes = attempt.complete() if status == "error" else attempt.outcomes
    recognised = recognise(exercise, outcomes, attempt.again)
    if recognised:
        return _named(report, recognised)
    if special:
        return replace(report, message=special[1])
    kinds = exercise.kinds[:4]  # in which masks have all their forms
    trial = replace(
        exercise, inputs=[partial(exercise.draw, x, **EXAMPLE) for x in kinds], rules=()
    )
    if stage != "type" and not Attempt(trial, attempt.answer, torch.float64).find_fault():
        text = f"{message} With the sizes of the lessons' example, C = 48 and D = 12, it is right."
        return _of_stage(exercise, fault._replace(stage="sizes", message=text))
    if fault.result:
        return replace(report, message=f"{message} The results before it are right.")
    begins = _first_stage(exercise, attempt.answer) if stage in ("values", "finite") else None
    return replace(report, stage=begins[0], message=f"{message} {begins[1]}") if begins else report


def _of_stage(exercise: Exercise, fault: Fault) -> Report:
    """Report a fault by the mistake that is made at its stage, if there is one."""
    status, stage, message, *_ = fault
    report = Report(exercise.name, status, message, stage, fault.mistake)
    mistakes = [each for each in MISTAKES if each.stage == stage and each.belongs_to(exercise)]
    return _named(report, mistakes[:1]) if mistakes else report


def _named(report: Report, mistakes: Sequence[Mistake]) -> Report:
    """Say what the mistakes are; where the answer crashed, after what was raised."""
    says = " And: ".join(mistake.row.text for mistake in mistakes)
    told = report.status == "error" or report.stage in ("narrow", "wide", "no int", "sizes")
    raised = f"{report.message} " if told and report.message else ""
    named = next((mistake for mistake in mistakes if mistake.name), mistakes[0])
    text = f"{raised}{says}"
    if named.row.lesson <= LESSON_OF[report.name].number:  # which has been read
        text += f" See lesson {named.row.place}."
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
    hidden = ", what is hidden" if "hide" in exercise.steps else ""
    cut = ", how tokens and heads are split and merged" if "split" in exercise.steps else ""
    no_query = list(plain)  # all weights are alike
    for place in exercise.query_arguments:
        no_query[place] = plain[place] * 0
    for arguments, stage, sentence in (
        (one_token, "values and output",
         "Even with a single token it is wrong: check the values, the output, and what the weights "
         "sum to."),
        (no_query, "weighted sum",
         "With one token it is right; with queries of 0 it is not. Each query should then mix all "
         f"values equally: check what the weights sum to{hidden}{cut}, and how scores are made."),
        (plain, "scores",
         "With one token, and with queries of 0, it is right: check the scores, their scale and "
         "the softmax."),
    ):  # fmt: skip
        trial = replace(exercise, inputs=[partial(tuple, arguments)], rules=(), unique=False)
        if Attempt(trial, answer, torch.float64).find_fault():
            return stage, sentence
    return "mask", "Without a mask all is right: check how the mask is applied."
