"""Say what is wrong with an answer: name the mistake, or say what is certain."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from mha_course.exercises import sandbox
from mha_course.exercises.catalogue import find_exercise, mistakes_of, number_of_lesson
from mha_course.exercises.inputs import EXAMPLE, FAR_BELOW, HIDDEN_LEAD, KINDS, OTHER_SIZES
from mha_course.exercises.mutants import NEAR, alike
from mha_course.exercises.recognise import recognise
from mha_course.exercises.report import Report
from mha_course.exercises.rules import (
    OF_CALLS,
    WITH_GRADIENTS,
    Attempt,
    Call,
    Fault,
    attempt,
    right_result,
)
from mha_course.exercises.sandbox import Outcome, as_list, is_float
from mha_course.exercises.spec import Case, Exercise, Mistake, Stage
from mha_course.markup import isolate_text

# Kinds of cases that together have masks of every form.
_ALL_FORMS = [*[*KINDS][:3], "one head"]
# For these, the mistake's sentence does not say what was seen.
_SEEN = (Stage.NARROW, Stage.WIDE, Stage.NO_INT, Stage.SIZES)
_STOPS_IN_FLOAT32 = (
    "Your answer runs in float64 but stops in float32. Does it name a dtype, instead of taking it "
    "from the input?"
)
_DIFFERS_IN_FLOAT32 = (
    "Your answer agrees in float64 but not in float32: digits are lost where large numbers cancel "
    "or overflow."
)


def explain_first(wrong: Attempt, fault: Fault) -> Report:
    """Explain a fault on the first cases: name the mistake, or say where the answer is right."""
    call = wrong.call
    exercise = call.exercise
    diagnosis = None
    if exercise.diagnose and fault.status == "wrong":
        diagnosis = sandbox.run(exercise.diagnose, call.answer, call.arguments).result
    report = Report(exercise.name, fault.status, fault.message, fault.stage, fault.mistake)
    if not fault.stage.compares_numbers:
        return _named_by_stage(report, fault.stage, diagnosis[0] if diagnosis else None)
    results = as_list(wrong.outcomes[-1].result)
    if fault.stage in (Stage.VALUES, Stage.FINITE):
        target = as_list(wrong.target)[fault.result]
        report = replace(report, result=results[fault.result], target=target)
    # A bool mask cannot lose digits: if it is wrong, so are the numbers it came from.
    rounds = not isinstance(wrong.target, Tensor) or wrong.target.dtype != torch.bool
    if call.dtype == torch.float32 and fault.status == "error":
        return replace(report, message=f"{_STOPS_IN_FLOAT32} {fault.message}")
    if call.dtype == torch.float32 and rounds:
        return replace(report, message=f"{_DIFFERS_IN_FLOAT32} {fault.message}")
    if diagnosis and diagnosis[0]:
        because = "It was named by a diagnosis that only this exercise has."
        return replace(report, mistake=diagnosis[0], message=diagnosis[1], because=because)
    recognised = recognise(call, wrong.outcomes)
    if recognised:
        return _named(replace(report, because=recognised.because), recognised.mistakes)
    if diagnosis:
        return replace(report, message=diagnosis[1])
    # No single step swaps two results, so this is compared as a whole.
    swapped = Outcome(results[::-1])
    if len(results) == 2 and alike(swapped, Outcome(as_list(wrong.target)), NEAR):
        return _named_by_stage(report, Stage.SWAPPED)
    return _explain_unknown(report, call, fault)


def explain_drawn(first: Attempt, wrong: Attempt, fault: Fault) -> Report:
    """Name the mistake of an answer that agreed at first, or say on which sizes it fails."""
    call = wrong.call
    exercise = call.exercise
    report = Report(exercise.name, fault.status, fault.message, fault.stage, fault.mistake)
    if not fault.stage.compares_numbers:
        return _named_by_stage(report, fault.stage)
    shapes = sandbox.shapes_of(call.arguments)
    numbers = ", ".join(str(x) for x in call.arguments if isinstance(x, int | list))
    inputs = " and ".join(filter(None, (f"shapes {shapes}" if shapes else "", numbers)))
    kind = wrong.case.kind
    extra = f", with {kind}" if kind in (HIDDEN_LEAD, FAR_BELOW) else ""
    text = f"The answer is right for the first inputs, but not for {inputs}{extra}. {fault.message}"
    report = replace(report, message=text, stage=Stage.SIZES)
    recognised = recognise(call, [*first.outcomes, *wrong.outcomes])
    if recognised:
        return _named(replace(report, because=recognised.because), recognised.mistakes)
    # A case of other sizes may also have another eps or base, which the answer may ignore.
    has_options = any(isinstance(x, float) for x in call.arguments)
    if kind == OTHER_SIZES and not (has_options and fault.stage == Stage.VALUES):
        return _named_by_stage(report, Stage.SIZES)
    return report


def explain_pass(exercise: Exercise, answer: Any, dtype: torch.dtype) -> Report:
    """Report a right answer, and what it was tried on."""
    first = exercise.first_cases
    inputs = [x for case in exercise.cases for x in case.arguments if isinstance(x, Tensor)]
    forms = sorted({x.dim() for x in inputs if x.dtype == torch.bool})
    floats = [x for x in inputs if is_float(x)]
    results = as_list(right_result(exercise, first[0].arguments))
    # Where gradients may differ they were not compared, so nothing is said of them.
    learned = floats and not exercise.allows and any(map(is_float, results))
    gradients = ", gradients included," if learned else ""
    text = f"Your answer agrees with the reference{gradients} on {len(exercise.cases)} inputs"
    text += " of different sizes"
    if any(1 in x.shape for x in floats):
        text += ", sizes of 1 among them"
    if forms:
        text += f", with masks of {' and '.join(map(str, forms))} axes"
    if dtype == torch.float32:
        text += ", all of them in float32"
    elif floats:
        named = f"first {len(first)}" if len(first) > 1 else "first"
        text += f". On the {named} it also agrees in float32"
    message = exercise.done
    if options := _options_left_out(exercise, answer):
        message += f" Not tried, because the exercise has no such option: {', '.join(options)}."
    arguments = first[0].arguments
    return Report(exercise.name, "correct", message, because=f"{text}.", arguments=arguments)


def _options_left_out(exercise: Exercise, answer: Any) -> list[str]:
    """Return the answer's options that the reference lacks; no call passes them."""
    pairs = [(answer, exercise.reference)]
    if isinstance(answer, type):
        methods = ("__init__", "forward")
        pairs = [(getattr(answer, name), getattr(exercise.reference, name)) for name in methods]
    options = []
    for function, reference in pairs:
        try:
            parameters = [*inspect.signature(function).parameters.values()]
        except (TypeError, ValueError):  # builtins
            continue
        known = inspect.signature(reference).parameters
        options += [
            f"`{isolate_text(p.name)}`"
            # An answer may name its parameters otherwise: only their count shows further ones.
            for p in parameters[len(known) :]
            if p.default is not p.empty and p.name not in known
        ]
    return options


def _explain_unknown(report: Report, call: Call, fault: Fault) -> Report:
    """Describe a mistake without a name: where the answer is right, and what may be wrong."""
    exercise = call.exercise
    if fault.stage != Stage.TYPE and _is_right_at(call, **EXAMPLE):
        if _is_right_at(call):  # so the cause is this case's numbers, not its sizes
            return _named_by_stage(report, Stage.LARGE_NUMBERS)
        text = f"{fault.message} With the sizes of the lessons' example, C = 48 and D = 12, it is "
        report = replace(report, stage=Stage.SIZES, message=f"{text}right.")
        return _named_by_stage(report, Stage.SIZES)
    if fault.result:
        return replace(report, message=f"{fault.message} The results before it are right.")
    if fault.stage in (Stage.VALUES, Stage.FINITE) and any(exercise.tokens_and_queries):
        stage, sentence = _first_wrong_step(exercise, call.answer)
        return replace(report, stage=stage, message=f"{fault.message} {sentence}")
    return report


def _is_right_at(call: Call, **sizes: int) -> bool:
    """Return whether an answer is right for ordinary numbers of these sizes, or of others."""
    cases = [call.exercise.draw(kind, **sizes) for kind in _ALL_FORMS]
    return attempt(call.exercise, call.answer, cases, WITH_GRADIENTS).fault is None


def _first_wrong_step(exercise: Exercise, answer: Any) -> tuple[str, str]:
    """Return the first wrong step of attention, and a sentence.

    The arguments are so simple that only one step can spoil the result.
    """

    def is_wrong(arguments: Sequence[Any]) -> bool:
        return attempt(exercise, answer, [Case(tuple(arguments))], OF_CALLS).fault is not None

    plain = exercise.first_cases[0].arguments  # without a mask
    tokens, queries = exercise.tokens_and_queries
    # The only token gets weight 1, whatever the scores are.
    if is_wrong([x[:, :1] if at in tokens else x for at, x in enumerate(plain)]):
        return "values and output", (
            "Even with a single token it is wrong: check the values, the output, and what the "
            "weights sum to."
        )
    # Without queries all scores are 0, and all weights are equal.
    if is_wrong([x * 0 if at in queries else x for at, x in enumerate(plain)]):
        hidden = ", what is hidden" if "hide" in exercise.steps else ""
        split = ", how tokens and heads are split and merged" if "split" in exercise.steps else ""
        return "weighted sum", (
            "With one token it is right; with queries of 0 it is not. Each query should then mix "
            f"all values equally: check what the weights sum to{hidden}{split}, and how scores are "
            "made."
        )
    # The same arguments without a mask: what is left are the scores and the softmax.
    if is_wrong(plain):
        return "scores", (
            "With one token, and with queries of 0, it is right: check the scores, their scale and "
            "the softmax."
        )
    return "mask", "Without a mask everything is right: check how you apply the mask."


def _named_by_stage(report: Report, stage: Stage, diagnosed: str | None = None) -> Report:
    """Name a mistake made at a stage: the diagnosed one, or else the first."""
    exercise = find_exercise(report.name)
    possible = [x for x in mistakes_of(report.name) if x.stage == stage and x.belongs_to(exercise)]
    likely = [mistake for mistake in possible if mistake.name == diagnosed] or possible
    return _named(report, likely[:1]) if likely else report


def _named(report: Report, mistakes: Sequence[Mistake]) -> Report:
    """Say what the mistakes are; if the answer crashed, put the error first."""
    text = " And: ".join(mistake.row.text for mistake in mistakes)
    if report.status == "error" or report.stage in _SEEN:
        text = f"{report.message} {text}"
    named = next((mistake for mistake in mistakes if mistake.name), mistakes[0])
    if named.row.lesson <= number_of_lesson(report.name):  # already reported
        text += f" See lesson {named.row.place}."
    return replace(report, message=text, mistake=named.name or None)
