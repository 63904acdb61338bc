"""References with a mistake in them, to see what each case gives with this mistake."""

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

# Tolerances for matching a mistake's numbers: first for float64; then, if nothing matches, for an
# answer that computes partly in float32.
EXACT, NEAR = 1e-12, 1e-6


@dataclass(frozen=True, eq=False)
class Mutant:
    """A reference with one or two mistakes in it: the steps they replace."""

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
        except Exception as error:  # a mistake may crash, and is then recognised by its error
            return Outcome(error=error)

    def outcome(self, at: int) -> Outcome:
        """Return its outcome on one case, run only once."""
        if at not in self._outcomes:
            self._outcomes[at] = self.run(at)
        return self._outcomes[at]

    def reproduces(self, outcomes: Sequence[Outcome], precision: float = EXACT) -> bool:
        """Return True if it matches an answer on the first cases.

        The last case rules out most mistakes, so it is compared first.
        """
        order = reversed(range(len(outcomes)))
        return all(alike(outcomes[at], self.outcome(at), precision) for at in order)

    def holds(self, drawn: Outcome) -> bool:
        """Return True if it also matches the answer on the first random sizes.

        An answer that crashes only there may make it too, with hard-coded sizes, or with another
        operation whose error reads differently.
        """
        expected = self.outcome(len(self.exercise.first_cases))
        if drawn.error is not None and not (expected.error and self.outcome(0).error):
            return True
        return alike(drawn, expected, NEAR)


# Mutants cache their outcomes: few are run on more than one or two cases.
@lru_cache(maxsize=64)
def right(name: str) -> Mutant:
    """Return the reference itself, with no mistake in it."""
    return Mutant(find_exercise(name), (), {})


@lru_cache(maxsize=64)
def mutants(name: str) -> tuple[Mutant, ...]:
    """Return an exercise's mutants whose results differ from the right ones."""
    exercise = find_exercise(name)
    targets = [right(name).outcome(at) for at in range(len(exercise.cases))]
    changed = [
        Mutant(exercise, (mistake,), change)
        for mistake in mistakes_of(name)
        for change in mistake.applies(exercise)
    ]
    # Where a replaced step makes no difference, there is nothing to name.
    return tuple(mutant for mutant in changed if not mutant.reproduces(targets))


def alike(left: Outcome, right: Outcome, precision: float = EXACT) -> bool:
    """Return True if two calls gave the same numbers, or the same error."""
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
    """Compare at the coarser precision: an answer may go from float64 to float32."""
    if not isinstance(left, Tensor) or not isinstance(right, Tensor):
        kinds = {type(left), type(right)}
        return kinds in ({type(left)}, {int, float}) and bool(left == right)
    if left.shape != right.shape or not left.numel():
        return left.shape == right.shape
    # Numbers that passed through float32 agree to only four digits.
    coarse = 1e-4 if torch.float32 in (left.dtype, right.dtype) else precision
    left = left.detach().to_dense().double()
    right = right.detach().double()
    size = max(1.0, float(right.abs().nan_to_num(0.0, 0.0, 0.0).max()))
    return torch.allclose(left, right, rtol=coarse, atol=coarse * size, equal_nan=True)
