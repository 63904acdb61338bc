"""Say what is wrong with an answer: name the mistake, or say as much as is certain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

from mha_course.exercises import compare, sandbox
from mha_course.exercises.catalogue import find_exercise, mistakes_of, number_of_lesson
from mha_course.exercises.inputs import EXAMPLE, FAR_BELOW, HIDDEN_LEAD, KINDS, OTHER_SIZES
from mha_course.exercises.recognise import NEAR, Recognition, alike, recognise
from mha_course.exercises.report import Report
from mha_course.exercises.rules import OF_CALLS, WITH_GRADIENTS, Attempt, Call, Fault, attempt
from mha_course.exercises.sandbox import Outcome, as_list
from mha_course.exercises.spec import Case, Exercise, Mistake, Stage

# Kinds of cases in which masks have all their forms.
_ALL_FORMS = [*KINDS][:4]


def explain_first(wrong: Attempt, fault: Fault) -> Report:
    """Explain a fault on the first cases: name the mistake, or say where the answer is right."""
    call = wrong.call
    special = None
    if call.exercise.diagnose and fault.status == "wrong":
        special = sandbox.run(call.exercise.diagnose, call.answer, call.arguments).result
    report = _report(call.exercise, fault)
    if not fault.stage.compares_numbers:
        return _named_by(report, fault.stage, special[0] if special else None)
    if fault.status == "wrong":
        picture = compare.picture(wrong.outcomes[-1].result, wrong.target)
        report = replace(report, picture=picture)
    # A bool mask has no digits to lose: where it is wrong, so are the numbers behind it.
    rounds = not isinstance(wrong.target, Tensor) or wrong.target.dtype != torch.bool
    if call.dtype != torch.float64 and (rounds or fault.status == "error"):
        return replace(report, message=f"{_only_in_float32(fault)} {fault.message}")
    if special and special[0]:
        because = "A diagnosis that this exercise alone has gave it its name."
        return replace(report, mistake=special[0], message=special[1], because=because)
    recognised = _recognise(wrong, fault)
    if recognised.mistakes:
        return replace(_named(report, recognised.mistakes), because=recognised.because)
    if special:
        return replace(report, message=special[1])
    if _are_swapped(wrong):
        return _named_by(report, Stage.SWAPPED)
    return _explain_unknown(report, call, fault)


def explain_drawn(first: Attempt, wrong: Attempt, fault: Fault, case: Case) -> Report:
    """Name the mistake of an answer that agreed at first, or say on which sizes it does not."""
    call = wrong.call
    exercise = call.exercise
    if not fault.stage.compares_numbers:
        return _by_stage(exercise, fault)
    shapes = sandbox.shapes_of(call.arguments)
    others = ", ".join(str(x) for x in call.arguments if isinstance(x, int | list))
    inputs = " and ".join(filter(None, (f"shapes {shapes}" if shapes else "", others)))
    where = f", with {case.kind}" if case.kind in (HIDDEN_LEAD, FAR_BELOW) else ""
    text = f"The answer is right for the first inputs, but not for {inputs}{where}. {fault.message}"
    outcomes = [*first.outcomes, *wrong.outcomes]
    recognised = recognise(exercise, outcomes, lambda at: _outcome(call, at))
    report = Report(exercise.name, fault.status, text, Stage.SIZES.value)
    if recognised.mistakes:
        return replace(_named(report, recognised.mistakes), because=recognised.because)
    if case.kind == OTHER_SIZES and _fails_by_sizes(call):
        return _by_stage(exercise, fault._replace(stage=Stage.SIZES, message=text))
    return report


def _report(exercise: Exercise, fault: Fault) -> Report:
    return Report(exercise.name, fault.status, fault.message, fault.stage.value, fault.mistake)


def _only_in_float32(fault: Fault) -> str:
    """Say what it means that an answer agreed in float64."""
    if fault.status == "error":
        return (
            "Your answer runs in float64 but stops in float32. Does it name a dtype, instead of "
            "taking it from the input?"
        )
    return (
        "Your answer agrees in float64 but not in float32: digits are lost where large numbers "
        "cancel or overflow."
    )


def _recognise(wrong: Attempt, fault: Fault) -> Recognition:
    """Return the mistakes that come out as an answer did."""
    call = wrong.call
    outcomes = wrong.outcomes
    if fault.status == "error":  # on one case alone, many mistakes crash alike
        rest = range(len(outcomes), len(call.exercise.first_cases))
        outcomes = [*outcomes, *(_outcome(call, at) for at in rest)]
    return recognise(call.exercise, outcomes, lambda at: _outcome(call, at))


def _are_swapped(wrong: Attempt) -> bool:
    """Return True if two results are right, but each is in the other's place."""
    results = as_list(wrong.outcomes[-1].result)
    swapped = Outcome(results[::-1])
    return len(results) == 2 and alike(swapped, Outcome(as_list(wrong.target)), NEAR)


def _outcome(call: Call, at: int) -> Outcome:
    """Call the answer on one of all cases of its exercise."""
    return replace(call, arguments=call.exercise.cases[at].arguments).run()


def _explain_unknown(report: Report, call: Call, fault: Fault) -> Report:
    """Tell of a mistake without a name where the answer is right, and what may be wrong."""
    exercise = call.exercise
    if fault.stage != Stage.TYPE and _is_right_at(call, **EXAMPLE):
        if _is_right_at(call):  # so it is the numbers of this case, and not its sizes
            return _named_by(report, Stage.LARGE_NUMBERS)
        text = f"{fault.message} With the sizes of the lessons' example, C = 48 and D = 12, it is "
        return _by_stage(exercise, fault._replace(stage=Stage.SIZES, message=f"{text}right."))
    if fault.result:
        return replace(report, message=f"{fault.message} The results before it are right.")
    if fault.stage in (Stage.VALUES, Stage.FINITE) and any(exercise.tokens_and_queries):
        stage, sentence = _first_wrong_step(exercise, call.answer)
        return replace(report, stage=stage, message=f"{fault.message} {sentence}")
    return report


def _is_right_at(call: Call, **sizes: int) -> bool:
    """Return whether an answer is right for ordinary numbers in these sizes, or in others."""
    cases = [call.exercise.draw(kind, **sizes) for kind in _ALL_FORMS]
    return attempt(call.exercise, call.answer, cases, WITH_GRADIENTS).fault is None


def _first_wrong_step(exercise: Exercise, answer: Any) -> tuple[str, str]:
    """Return the first step of attention that is wrong, and a sentence.

    Arguments are made so simple that only one step can spoil the result.
    """
    plain = exercise.first_cases[0].arguments  # without a mask
    tokens, queries = exercise.tokens_and_queries
    one_token = [x[:, :1] if at in tokens else x for at, x in enumerate(plain)]  # it gets weight 1
    no_query = [x * 0 if at in queries else x for at, x in enumerate(plain)]  # weights are equal
    if _is_wrong(exercise, answer, one_token):
        return "values and output", (
            "Even with a single token it is wrong: check the values, the output, and what the "
            "weights sum to."
        )
    if _is_wrong(exercise, answer, no_query):
        hidden = ", what is hidden" if "hide" in exercise.steps else ""
        cut = ", how tokens and heads are split and merged" if "split" in exercise.steps else ""
        return "weighted sum", (
            "With one token it is right; with queries of 0 it is not. Each query should then mix "
            f"all values equally: check what the weights sum to{hidden}{cut}, and how scores are "
            "made."
        )
    if _is_wrong(exercise, answer, plain):
        return "scores", (
            "With one token, and with queries of 0, it is right: check the scores, their scale and "
            "the softmax."
        )
    return "mask", "Without a mask everything is right: check how you apply the mask."


def _is_wrong(exercise: Exercise, answer: Any, arguments: Sequence[Any]) -> bool:
    return attempt(exercise, answer, [Case(tuple(arguments))], OF_CALLS).fault is not None


def _fails_by_sizes(call: Call) -> bool:
    """Return True where an answer fails on the last sizes even with numbers that it got right."""
    exercise = call.exercise
    for case in exercise.first_cases:
        pairs = [*zip_longest(case.arguments, call.arguments)]
        if all(_form(x) == _form(drawn) for x, drawn in pairs):
            resized = Case(tuple(_in_sizes_of(x, drawn) for x, drawn in pairs))
            return attempt(exercise, call.answer, [resized], WITH_GRADIENTS).fault is not None
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


def _by_stage(exercise: Exercise, fault: Fault) -> Report:
    """Report a fault by the mistake that is made at its stage, if there is one."""
    return _named_by(_report(exercise, fault), fault.stage)


def _named_by(report: Report, stage: Stage, diagnosed: str | None = None) -> Report:
    """Name a mistake that is made at a stage: the one that was diagnosed, or else the first."""
    exercise = find_exercise(report.name)
    made = [x for x in mistakes_of(report.name) if x.stage == stage and x.belongs_to(exercise)]
    likely = [mistake for mistake in made if mistake.name == diagnosed] or made
    return _named(report, likely[:1]) if likely else report


def _named(report: Report, mistakes: Sequence[Mistake]) -> Report:
    """Say what the mistakes are; if the answer crashed, after what was raised."""
    text = " And: ".join(mistake.row.text for mistake in mistakes)
    seen = report.status == "error" or report.stage in (
        Stage.NARROW,
        Stage.WIDE,
        Stage.NO_INT,
        Stage.SIZES,
    )
    if seen and report.message:
        text = f"{report.message} {text}"
    named = next((mistake for mistake in mistakes if mistake.name), mistakes[0])
    if named.row.lesson <= number_of_lesson(report.name):  # which has been read
        text += f" See lesson {named.row.place}."
    return replace(report, message=text, mistake=named.name or None)
