"""Find the mistake whose numbers are those of an answer.

A mistake replaces steps of the reference, so it can be run: a reference with a mistake in it, here
a mutant, comes out on each case as an answer does in which somebody made this mistake. What agrees
on all cases names it.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import combinations, islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mha_course.exercises.catalogue import EXERCISES, mistakes_of
from mha_course.exercises.operations import recorded
from mha_course.exercises.sandbox import Outcome, as_list, error_text, last_line
from mha_course.exercises.spec import STOPPED, Change, Exercise, Function, Mistake

# This many pairs of mistakes are tried for one answer. No exercise has as many: MultiHeadAttention
# has 1,496, and they take 0.9 s of one core. It is a number and no clock, so that a busy machine
# comes to the same answer.
MAX_PAIRS = 1600
# Numbers must come this near to those of a mistake: first as float64 gives them, then, if nothing
# is found, as an answer does of which a part is computed in float32.
EXACT, NEAR = 1e-12, 1e-6
# The steps that do nothing where there is no mask.
MASK_STEPS = {"mask", "hide", "empty"}


@dataclass(frozen=True, eq=False)  # caches tell mutants apart by identity
class Mutant:
    """A reference with one mistake in it: the steps that the mistake replaces."""

    mistake: Mistake
    change: Change


class Recognition(NamedTuple):
    """The mistakes that explain an answer, if any do, and how that is known."""

    mistakes: tuple[Mistake, ...] = ()
    because: str = ""


def alike(left: Outcome, right: Outcome, precision: float = EXACT) -> bool:
    """Return True where two calls came out the same: the same numbers, or the same error."""
    if left.error is not None or right.error is not None:
        return _kind_of(left.error) == _kind_of(right.error)
    lefts = as_list(left.result)
    rights = as_list(right.result)
    return len(lefts) == len(rights) and all(
        _same(a, b, precision) for a, b in zip(lefts, rights, strict=True)
    )


def _kind_of(error: BaseException | None) -> tuple[type, str] | None:
    if error is None:
        return None
    # torch may add its own call stack, which differs from machine to machine.
    return type(error), error_text(error).split("\n")[0]


def _same(left: Any, right: Any, precision: float = EXACT) -> bool:
    """Compare to the precision of the coarser: an answer may go from float64 to float32."""
    if not isinstance(left, Tensor) or not isinstance(right, Tensor):
        kinds = {type(left), type(right)}
        return kinds in ({type(left)}, {int, float}) and bool(left == right)
    if left.shape != right.shape or not left.numel():
        return left.shape == right.shape
    coarse = 1e-4 if torch.float32 in (left.dtype, right.dtype) else precision
    left = left.detach().to_dense().double()
    right = right.detach().double()
    size = max(1.0, float(right.abs().nan_to_num(0.0, 0.0, 0.0).max()))
    return torch.allclose(left, right, rtol=coarse, atol=coarse * size, equal_nan=True)


def _run(name: str, at: int, *mutants: Mutant) -> Outcome:
    """Run the reference with these mistakes in it on one case; with none, the reference itself."""
    exercise = EXERCISES[name]
    try:
        with torch.no_grad(), warnings.catch_warnings(action="ignore"):
            answer = exercise.implementation(*(mutant.change for mutant in mutants))
            return Outcome(exercise.run(answer, *copy.deepcopy(exercise.cases[at].arguments)))
    except Exception as error:  # a mistake may well crash, and is then known by its error
        return Outcome(error=error)


# Single mistakes are run once; pairs are too many to keep.
_run_once = lru_cache(maxsize=4096)(_run)


@lru_cache(maxsize=64)
def mutants(name: str) -> tuple[Mutant, ...]:
    """Return the mutants of an exercise whose results differ from the right ones."""
    exercise = EXERCISES[name]
    right = [_run_once(name, at) for at in range(len(exercise.cases))]
    changed = [
        Mutant(mistake, change)
        for mistake in mistakes_of(name)
        for change in mistake.applies(exercise)
    ]
    return tuple(mutant for mutant in changed if not _reproduces(name, right, mutant))


def recognise(
    exercise: Exercise, outcomes: Sequence[Outcome], again: Callable[[int], Outcome]
) -> Recognition:
    """Return the mistake, or the two, that come out as the answer did on all cases, if any.

    ``again(at)`` calls the answer on any of the exercise's cases: the mistake must also agree on
    the first sizes that are drawn and, if several fit, on all cases.
    """
    name = exercise.name
    answered = cache(again)  # each case is needed several times
    fitting = [mutant for mutant in mutants(name) if _reproduces(name, outcomes, mutant)]
    # An answer that is nearly right comes near to mistakes that change next to nothing.
    if not fitting and not _reproduces(name, outcomes, precision=NEAR):
        fitting = [m for m in mutants(name) if _reproduces(name, outcomes, m, precision=NEAR)]
    drawn = answered(len(exercise.first_cases))
    fitting = [mutant for mutant in fitting if _holds(exercise, drawn, mutant)]
    errors = [(at, x.error) for at, x in enumerate(outcomes) if x.error is not None]
    if errors:
        at, error = errors[0]
        operands = _operands(partial(again, at))
        fitting = [m for m in fitting if _operands(partial(_run, name, at, m)) == operands]
        chosen = _by_error(exercise, [mutant.mistake for mutant in fitting], error)
        known = [mutant for mutant in fitting if mutant.mistake in chosen]
        if known:
            return Recognition(chosen, _agreement(exercise, answered, known[0]))
        return Recognition(chosen, "Its error message is the one this mistake gives.")
    if len({mutant.mistake for mutant in fitting}) > 1:
        every = [answered(at) for at in range(len(exercise.cases))]
        fitting = [m for m in fitting if _reproduces(name, every, m, precision=NEAR)] or fitting
    if fitting:
        return Recognition((fitting[0].mistake,), _agreement(exercise, answered, fitting[0]))
    has_all_results = len(as_list(outcomes[-1].result)) == len(as_list(_run_once(name, 0).result))
    if not has_all_results:
        return Recognition()
    for pair in islice(pairs(name, outcomes), MAX_PAIRS):
        if _reproduces(name, outcomes, *pair) and _holds(exercise, drawn, *pair):
            both = sorted((mutant.mistake for mutant in pair), key=mistakes_of(name).index)
            return Recognition(tuple(both), _agreement(exercise, answered, *pair))
    return Recognition()


def _agreement(exercise: Exercise, answered: Callable[[int], Outcome], *mutants: Mutant) -> str:
    """Say which steps of the reference were replaced, and on how many cases that is the answer."""
    total = len(exercise.cases)
    outcomes = [(answered(at), _outcome(exercise.name, at, *mutants)) for at in range(total)]
    agreeing = [outcome for outcome, made in outcomes if alike(outcome, made, NEAR)]
    steps = [
        _replaced(step, function) for mutant in mutants for step, function in mutant.change.items()
    ]
    inputs = f"all {total}" if len(agreeing) == total else f"{len(agreeing)} of {total}"
    does = "stops like" if all(outcome.error for outcome in agreeing) else "equals"
    return f"It {does} the reference with {' and '.join(steps)} on {inputs} inputs."


def _replaced(step: str, function: Function) -> str:
    """Write that a step was replaced, and by what if that has a name."""
    name = getattr(function, "__name__", "").strip("_")
    return f"`{step}` replaced by `{name}`" if name.isidentifier() else f"`{step}` replaced"


def _operands(call: Callable[[], Outcome]) -> list[tuple[int, ...]]:
    """Return the shapes in the operation at which a call stops: errors alone are often alike."""
    with recorded() as operations:
        call()
    stopped = [x for x in operations if x.name == STOPPED]
    return [tuple(tensor.shape) for operation in stopped[-1:] for tensor in operation.inputs]


def _by_error(exercise: Exercise, fit: list[Mistake], error: BaseException) -> tuple[Mistake, ...]:
    """Return one of the mistakes that fit, or one that the text of the error shows, if any.

    What is written in the line that crashed decides between several.
    """
    line, shapes = last_line(error.__traceback__) or ("", {})
    text = f"{type(error).__name__}: {error_text(error)} {[*shapes.values()]}"
    possible = [x for x in mistakes_of(exercise.name) if x.crashes and x.belongs_to(exercise)]
    written = [x for x in fit or possible if x.written and re.search(x.written, line)]
    if not fit:
        fit = [
            x for x in possible if re.search(x.crashes, text) and (not x.written or x in written)
        ]
    likely = [x for x in fit if x in written]
    return tuple((likely or [x for x in fit if not x.written] or fit)[:1])


def _reproduces(
    name: str, outcomes: Sequence[Outcome], *mutants: Mutant, precision: float = EXACT
) -> bool:
    """Return True where these mistakes come out as an answer did.

    The last of the first cases rules out most mistakes, so it is compared first.
    """
    last = len(EXERCISES[name].first_cases) - 1
    order = sorted(range(len(outcomes)), key=lambda at: abs(at - last))
    return all(alike(outcomes[at], _outcome(name, at, *mutants), precision) for at in order)


def _outcome(name: str, at: int, *mutants: Mutant) -> Outcome:
    return (_run_once if len(mutants) == 1 else _run)(name, at, *mutants)


def _holds(exercise: Exercise, drawn: Outcome, *mutants: Mutant) -> bool:
    """Return True where an answer comes out as these mistakes do on sizes that were drawn.

    It may also stop there: sizes that are written as numbers do not rule the mistakes out.
    """
    expected = _outcome(exercise.name, len(exercise.first_cases), *mutants)
    stops = drawn.error is not None and expected.error is None
    return stops or alike(drawn, expected, NEAR)


def pairs(name: str, outcomes: Sequence[Outcome]) -> Iterator[tuple[Mutant, Mutant]]:
    """Yield pairs of mistakes in different steps that an answer may have made, in a fixed order.

    If a single mistake explains one of several results, it is one of the two. If none does, both
    change the weights, and through them the result.
    """
    last = len(outcomes) - 1
    chosen = [
        mutant
        for mutant in _simple_mutants(name, last)
        if last or not set(mutant.change) <= MASK_STEPS
    ]
    explain = [mutant for mutant in chosen if _explains(name, last, mutant, outcomes[last])]
    if not explain and len(as_list(outcomes[last].result)) == 2:
        right = as_list(_run_once(name, last).result)[1]
        changed = [as_list(_run_once(name, last, mutant).result)[-1] for mutant in chosen]
        chosen = [m for m, result in zip(chosen, changed, strict=True) if not _same(result, right)]
    rest = [mutant for mutant in chosen if mutant not in explain]
    for first, second in combinations([*explain, *rest], 2):
        if explain and first not in explain:
            return
        if not set(first.change) & set(second.change):
            yield first, second


@lru_cache(maxsize=64)
def _simple_mutants(name: str, at: int) -> tuple[Mutant, ...]:
    """Return one mutant for each mistake that has a name and does not crash."""
    first: dict[Mistake, Mutant] = {}
    for mutant in mutants(name):
        if mutant.mistake.name and _run_once(name, at, mutant).error is None:
            first.setdefault(mutant.mistake, mutant)
    return tuple(first.values())


def _explains(name: str, at: int, mutant: Mutant, outcome: Outcome) -> bool:
    """Return True where one of several results, a wrong one, is as this mistake makes it."""
    outcomes = (outcome, _run_once(name, at, mutant), _run_once(name, at))
    rows = zip(*(as_list(each.result) for each in outcomes), strict=False)
    return any(_same(answered, bad) and not _same(answered, good) for answered, bad, good in rows)
