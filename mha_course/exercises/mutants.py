"""References with a mistake in them: what comes of each case where somebody makes this mistake."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from mha_course.exercises.catalogue import find_exercise, mistakes_of
from mha_course.exercises.sandbox import Outcome, as_list, error_text
from mha_course.exercises.spec import Change, Exercise, Mistake

# Numbers must come this near to those of a mistake: first as float64 gives them, then, if nothing
# is found, as an answer does of which a part is computed in float32.
EXACT, NEAR = 1e-12, 1e-6


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

        An answer that stops only there may also make it: with sizes that are written as numbers, or
        with another operation, whose error has other words.
        """
        expected = self.outcome(len(self.exercise.first_cases))
        if drawn.error is not None and not (expected.error and self.outcome(0).error):
            return True
        return alike(drawn, expected, NEAR)


# Mutants keep what came of them: few are run on more than one or two cases.
@lru_cache(maxsize=64)
def right(name: str) -> Mutant:
    """Return the reference itself, with no mistake in it."""
    return Mutant(find_exercise(name), (), {})


@lru_cache(maxsize=64)
def mutants(name: str) -> tuple[Mutant, ...]:
    """Return the mutants of an exercise whose results differ from the right ones."""
    exercise = find_exercise(name)
    targets = [right(name).outcome(at) for at in range(len(exercise.cases))]
    changed = [
        Mutant(exercise, (mistake,), change)
        for mistake in mistakes_of(name)
        for change in mistake.applies(exercise)
    ]
    return tuple(mutant for mutant in changed if not mutant.reproduces(targets))


def alike(left: Outcome, right: Outcome, precision: float = EXACT) -> bool:
    """Return True where two calls came out the same: the same numbers, or the same error."""
    if left.error is not None or right.error is not None:
        return _kind_of(left.error) == _kind_of(right.error)
    lefts = as_list(left.result)
    rights = as_list(right.result)
    return len(lefts) == len(rights) and all(
        same(a, b, precision) for a, b in zip(lefts, rights, strict=True)
    )


def _kind_of(error: BaseException | None) -> tuple[type, str] | None:
    if error is None:
        return None
    # torch may add its own call stack, which differs from machine to machine.
    return type(error), error_text(error).split("\n")[0]


def same(left: Any, right: Any, precision: float = EXACT) -> bool:
    """Compare to the precision of the coarser: an answer may go from float64 to float32."""
    if not isinstance(left, Tensor) or not isinstance(right, Tensor):
        kinds = {type(left), type(right)}
        return kinds in ({type(left)}, {int, float}) and bool(left == right)
    if left.shape != right.shape or not left.numel():
        return left.shape == right.shape
    # Numbers that were float32 on the way agree to four digits only.
    coarse = 1e-4 if torch.float32 in (left.dtype, right.dtype) else precision
    left = left.detach().to_dense().double()
    right = right.detach().double()
    size = max(1.0, float(right.abs().nan_to_num(0.0, 0.0, 0.0).max()))
    return torch.allclose(left, right, rtol=coarse, atol=coarse * size, equal_nan=True)
