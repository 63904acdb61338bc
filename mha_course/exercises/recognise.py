"""Find the mistake that reproduces an answer's results.

A mistake replaces steps of the reference, so it can be run. A reference with a mistake in it is
called a mutant here. The mutant that matches the answer on all cases names the mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations, islice
from typing import Any, NamedTuple

from torch import Tensor

from mha_course.exercises.catalogue import mistakes_of
from mha_course.exercises.crashes import mistake_by_error, stopping_alike
from mha_course.exercises.mutants import NEAR, Mutant, alike, mutants, right, same
from mha_course.exercises.rules import Call
from mha_course.exercises.sandbox import Outcome, as_list
from mha_course.exercises.spec import Mistake

# At most this many pairs of mistakes are tried for an answer. No exercise has as many:
# MultiHeadAttention has 1,496, which take 0.9 s on one core. It is a count, not a time, so that a
# busy machine gives the same answer.
MAX_PAIRS = 1600


class Recognition(NamedTuple):
    """The mistakes that explain an answer, and how that is known."""

    mistakes: tuple[Mistake, ...]
    because: str


def recognise(call: Call, outcomes: Sequence[Outcome]) -> Recognition | None:
    """Return the one or two mistakes that match the answer on the first cases, if any.

    They must also match on the first random sizes; several, or constant results, on all cases.
    """
    exercise = call.exercise
    name = exercise.name

    @cache
    def answered(at: int) -> Outcome:
        return replace(call, arguments=exercise.cases[at].arguments).run()

    drawn = answered(len(exercise.first_cases))
    stops = [(at, x.error) for at, x in enumerate(outcomes) if x.error is not None]
    if stops:  # on a single case, many mistakes crash alike
        remaining = range(len(outcomes), len(exercise.first_cases))
        outcomes = [*outcomes, *map(answered, remaining)]
    fitting = _fitting(name, outcomes, drawn)
    # Several mistakes may give the same results on the first cases. Then the operation that
    # crashed, or all other cases, decide.
    if stops:
        at, error = stops[0]
        failing_call = replace(call, arguments=exercise.cases[at].arguments)
        fitting = stopping_alike(failing_call, at, fitting)
        named = mistake_by_error(exercise, [mutant.mistakes[0] for mutant in fitting], error)
        fitting = [mutant for mutant in fitting if mutant.mistakes == (named,)]
        if named and not fitting:
            return Recognition((named,), "Its error message is the one this mistake gives.")
    elif fitting:
        constant = all(map(_is_constant, as_list(outcomes[-1].result)))
        if constant or len({mutant.mistakes for mutant in fitting}) > 1:
            every = [answered(at) for at in range(len(exercise.cases))]
            agreeing = [m for m in fitting if m.reproduces(every, NEAR)]
            fitting = agreeing if constant else agreeing or fitting
    if fitting:
        return Recognition(fitting[0].mistakes, _agreement(fitting[0], answered))
    target = as_list(right(name).outcome(0).result)
    # What crashes, or returns too few results, has nothing to compare pairs with.
    if stops or len(as_list(outcomes[-1].result)) != len(target):
        return None
    # Two mistakes at once cannot be recognised separately, so pairs are run.
    for pair in islice(pairs(name, outcomes), MAX_PAIRS):
        if pair.reproduces(outcomes) and pair.holds(drawn):
            return Recognition(pair.mistakes, _agreement(pair, answered))
    return None


def _is_constant(result: Any) -> bool:
    """Return True for a tensor of one number only, as zeros are, which fits many mistakes."""
    if not isinstance(result, Tensor) or result.numel() < 2:
        return False
    return len(result.to_dense().unique()) == 1


def _fitting(name: str, outcomes: Sequence[Outcome], drawn: Outcome) -> list[Mutant]:
    """Return the mutants that match an answer."""
    fitting = [mutant for mutant in mutants(name) if mutant.reproduces(outcomes)]
    # An answer that is nearly right is close to mistakes that change almost nothing.
    if not fitting and not right(name).reproduces(outcomes, NEAR):
        fitting = [mutant for mutant in mutants(name) if mutant.reproduces(outcomes, NEAR)]
    return [mutant for mutant in fitting if mutant.holds(drawn)]


def _agreement(mutant: Mutant, answered: Callable[[int], Outcome]) -> str:
    """Say which steps of the reference were replaced, and on how many cases that equals the
    answer."""
    total = len(mutant.exercise.cases)
    agreeing = [at for at in range(total) if alike(answered(at), mutant.outcome(at), NEAR)]
    steps = []
    for step, function in mutant.change.items():
        name = getattr(function, "__name__", "").strip("_")
        by = f" by `{name}`" if name.isidentifier() else ""
        steps.append(f"`{step}` replaced{by}")
    inputs = f"all {total}" if len(agreeing) == total else f"{len(agreeing)} of {total}"
    does = "stops like" if all(answered(at).error for at in agreeing) else "equals"
    return f"It {does} the reference with {' and '.join(steps)} on {inputs} inputs."


def pairs(name: str, outcomes: Sequence[Outcome]) -> Iterator[Mutant]:
    """Yield pairs of mistakes in different steps that an answer may have made, in fixed order.

    If a single mistake explains one of several results, it is one of the two. If none does, both
    change the weights, and through them the result.
    """
    last = len(outcomes) - 1
    target = right(name).outcome(last)
    simple = [m for m in _simple_mutants(name, last) if not alike(m.outcome(last), target)]
    explain = [m for m in simple if _explains(outcomes[last], m.outcome(last), target)]
    if not explain and len(as_list(outcomes[last].result)) == 2:
        weights = as_list(target.result)[1]
        simple = [m for m in simple if not same(as_list(m.outcome(last).result)[-1], weights)]
    remaining = [mutant for mutant in simple if mutant not in explain]
    order = mistakes_of(name).index
    for first, second in combinations([*explain, *remaining], 2):
        if explain and first not in explain:
            return
        if not set(first.change) & set(second.change):
            mistakes = sorted((*first.mistakes, *second.mistakes), key=order)
            yield Mutant(first.exercise, tuple(mistakes), {**first.change, **second.change})


def _simple_mutants(name: str, at: int) -> list[Mutant]:
    """Return one mutant for each named mistake that does not crash."""
    by_mistake: dict[Mistake, Mutant] = {}
    for mutant in mutants(name):
        (mistake,) = mutant.mistakes
        if mistake.name and mutant.outcome(at).error is None:
            by_mistake.setdefault(mistake, mutant)
    return list(by_mistake.values())


def _explains(answered: Outcome, wrong: Outcome, correct: Outcome) -> bool:
    """Return True if a mistake reproduces one of several results, which is wrong."""
    rows = zip(*(as_list(x.result) for x in (answered, wrong, correct)), strict=False)
    return any(same(mine, wrong) and not same(mine, target) for mine, wrong, target in rows)
