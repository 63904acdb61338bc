"""Find the mistake that comes out as an answer does.

A mistake replaces steps of the reference, so it can be run. A reference with a mistake in it is
called a mutant here. The mutant that comes out as the answer does on all cases names the mistake.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from itertools import combinations, islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mha_course.exercises.catalogue import find_exercise, mistakes_of
from mha_course.exercises.operations import recorded
from mha_course.exercises.rules import Call
from mha_course.exercises.sandbox import Outcome, as_list, error_text, last_line
from mha_course.exercises.spec import STOPPED, Change, Exercise, Mistake

# This many pairs of mistakes are tried for one answer. No exercise has as many: MultiHeadAttention
# has 1,496, and they take 0.9 s of one core. It is a number and no clock, so that a busy machine
# comes to the same answer.
MAX_PAIRS = 1600
# Numbers must come this near to those of a mistake: first as float64 gives them, then, if nothing
# is found, as an answer does of which a part is computed in float32.
EXACT, NEAR = 1e-12, 1e-6
# The steps that do nothing where there is no mask.
MASK_STEPS = {"mask", "hide", "empty"}


@dataclass(frozen=True, eq=False)
class Mutant:
    """A reference with a mistake in it, or two: the steps that they replace."""

    exercise: Exercise
    mistakes: tuple[Mistake, ...]
    change: Change
    _outcomes: dict[int, Outcome] = field(default_factory=dict, repr=False)

    def run(self, at: int) -> Outcome:
        """Run it on one of the exercise's cases."""
        exercise = self.exercise
        try:
            with torch.no_grad(), warnings.catch_warnings(action="ignore"):
                arguments = copy.deepcopy(exercise.cases[at].arguments)
                return Outcome(exercise.run(exercise.implementation(self.change), *arguments))
        except Exception as error:  # a mistake may well crash, and is then known by its error
            return Outcome(error=error)

    def outcome(self, at: int) -> Outcome:
        """Return what comes of it on one case, where it runs once."""
        if at not in self._outcomes:
            self._outcomes[at] = self.run(at)
        return self._outcomes[at]

    def reproduces(self, outcomes: Sequence[Outcome], precision: float = EXACT) -> bool:
        """Return True where it comes out on the first cases as an answer did.

        The last case rules out most mistakes, so it is compared first.
        """
        order = reversed(range(len(outcomes)))
        return all(alike(outcomes[at], self.outcome(at), precision) for at in order)

    def holds(self, drawn: Outcome) -> bool:
        """Return True where it also comes out as an answer does on the first sizes that are drawn.

        The answer may stop there: sizes that are written as numbers do not rule a mistake out.
        """
        expected = self.outcome(len(self.exercise.first_cases))
        stops = drawn.error is not None and expected.error is None
        return stops or alike(drawn, expected, NEAR)


class Recognition(NamedTuple):
    """The mistakes that explain an answer, and how that is known."""

    mistakes: tuple[Mistake, ...]
    because: str


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


# A few exercises are worked on in one session; their mutants keep what came of them.
@lru_cache(maxsize=8)
def right(name: str) -> Mutant:
    """Return the reference itself, with no mistake in it."""
    return Mutant(find_exercise(name), (), {})


@lru_cache(maxsize=8)
def mutants(name: str) -> tuple[Mutant, ...]:
    """Return the mutants of an exercise whose results differ from the right ones."""
    exercise = find_exercise(name)
    wanted = [right(name).outcome(at) for at in range(len(exercise.cases))]
    changed = [
        Mutant(exercise, (mistake,), change)
        for mistake in mistakes_of(name)
        for change in mistake.applies(exercise)
    ]
    return tuple(mutant for mutant in changed if not mutant.reproduces(wanted))


def recognise(call: Call, outcomes: Sequence[Outcome]) -> Recognition | None:
    """Return the mistake, or the two, that come out as the answer did on the first cases, if any.

    On the first sizes that are drawn they must also come out so, and where several mistakes fit, on
    all cases.
    """
    exercise = call.exercise
    name = exercise.name

    @cache
    def answered(at: int) -> Outcome:
        return replace(call, arguments=exercise.cases[at].arguments).run()

    drawn = answered(len(exercise.first_cases))
    stops = [(at, x.error) for at, x in enumerate(outcomes) if x.error is not None]
    if stops:  # on one case alone, many mistakes crash alike
        rest = range(len(outcomes), len(exercise.first_cases))
        outcomes = [*outcomes, *map(answered, rest)]
    fitting = [mutant for mutant in mutants(name) if mutant.reproduces(outcomes)]
    # An answer that is nearly right comes near to mistakes that change next to nothing.
    if not fitting and not right(name).reproduces(outcomes, NEAR):
        fitting = [mutant for mutant in mutants(name) if mutant.reproduces(outcomes, NEAR)]
    fitting = [mutant for mutant in fitting if mutant.holds(drawn)]
    if stops:
        return _recognise_crash(call, *stops[0], fitting, answered)
    if len({mutant.mistakes for mutant in fitting}) > 1:
        every = [answered(at) for at in range(len(exercise.cases))]
        fitting = [m for m in fitting if m.reproduces(every, NEAR)] or fitting
    if fitting:
        return Recognition(fitting[0].mistakes, _agreement(fitting[0], answered))
    if len(as_list(outcomes[-1].result)) != len(as_list(right(name).outcome(0).result)):
        return None
    for pair in islice(pairs(name, outcomes), MAX_PAIRS):
        if pair.reproduces(outcomes) and pair.holds(drawn):
            return Recognition(pair.mistakes, _agreement(pair, answered))
    return None


def _recognise_crash(
    call: Call,
    at: int,
    error: BaseException,
    fitting: Sequence[Mutant],
    answered: Callable[[int], Outcome],
) -> Recognition | None:
    """Choose between mutants that stop as an answer does, or know a mistake by its error alone."""
    exercise = call.exercise
    operands = _operands(replace(call, arguments=exercise.cases[at].arguments).run)
    fitting = [mutant for mutant in fitting if _operands(partial(mutant.run, at)) == operands]
    chosen = _by_error(exercise, [mutant.mistakes[0] for mutant in fitting], error)
    if chosen is None:
        return None
    for mutant in fitting:
        if mutant.mistakes == (chosen,):
            return Recognition((chosen,), _agreement(mutant, answered))
    return Recognition((chosen,), "The text of its error is the one that this mistake gives.")


def _operands(run: Callable[[], Outcome]) -> list[tuple[int, ...]]:
    """Return the shapes in the operation at which a call stops: errors alone are often alike."""
    with recorded() as operations:
        run()
    stopped = [x for x in operations if x.name == STOPPED]
    return [tuple(tensor.shape) for operation in stopped[-1:] for tensor in operation.inputs]


def _by_error(exercise: Exercise, fitting: list[Mistake], error: BaseException) -> Mistake | None:
    """Return one of the mistakes that fit, or one that the text of the error shows, if any.

    What is written in the line that crashed decides between several.
    """
    line, shapes = last_line(error.__traceback__) or ("", {})
    if not fitting:
        text = f"{type(error).__name__}: {error_text(error)} {[*shapes.values()]}"
        fitting = [
            mistake
            for mistake in mistakes_of(exercise.name)
            if mistake.crashes
            and mistake.belongs_to(exercise)
            and re.search(mistake.crashes, text)
            and re.search(mistake.written, line)
        ]
    written = [x for x in fitting if x.written and re.search(x.written, line)]
    unwritten = [x for x in fitting if not x.written]
    return next(iter(written or unwritten or fitting), None)


def _agreement(mutant: Mutant, answered: Callable[[int], Outcome]) -> str:
    """Say which steps of the reference were replaced, and on how many cases that is the answer."""
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
    """Yield pairs of mistakes in different steps that an answer may have made, in a fixed order.

    Where one mistake alone explains one of several results, it is one of the two. Where none does,
    both change the weights, and through them the result.
    """
    last = len(outcomes) - 1
    wanted = right(name).outcome(last)
    simple = [m for m in _simple_mutants(name, last) if last or not set(m.change) <= MASK_STEPS]
    explain = [m for m in simple if _explains(outcomes[last], m.outcome(last), wanted)]
    if not explain and len(as_list(outcomes[last].result)) == 2:
        weights = as_list(wanted.result)[1]
        simple = [m for m in simple if not _same(as_list(m.outcome(last).result)[-1], weights)]
    rest = [mutant for mutant in simple if mutant not in explain]
    order = mistakes_of(name).index
    for first, second in combinations([*explain, *rest], 2):
        if explain and first not in explain:
            return
        if not set(first.change) & set(second.change):
            mistakes = sorted((*first.mistakes, *second.mistakes), key=order)
            yield Mutant(first.exercise, tuple(mistakes), {**first.change, **second.change})


def _simple_mutants(name: str, at: int) -> list[Mutant]:
    """Return one mutant for each mistake that has a name and does not crash."""
    first: dict[Mistake, Mutant] = {}
    for mutant in mutants(name):
        (mistake,) = mutant.mistakes
        if mistake.name and mutant.outcome(at).error is None:
            first.setdefault(mistake, mutant)
    return list(first.values())


def _explains(answered: Outcome, bad: Outcome, good: Outcome) -> bool:
    """Return True where one of several results, a wrong one, is as a mistake makes it."""
    rows = zip(*(as_list(each.result) for each in (answered, bad, good)), strict=False)
    return any(_same(mine, wrong) and not _same(mine, target) for mine, wrong, target in rows)
