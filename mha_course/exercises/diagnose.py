"""Find the mistake whose numbers are those of an answer."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, islice
from typing import Any

import torch
from torch import Tensor

from mha_course.exercises.catalogue import EXERCISES, MISTAKES
from mha_course.exercises.sandbox import Outcome, as_list, last_line, run
from mha_course.exercises.spec import Change, Exercise, Mistake

# Pairs of mistakes that are tried for one answer. No exercise has as many: MultiHeadAttention has
# 1,114, and they take 0.7 s of one core. A number and no clock, so that a busy machine comes to the
# same answer.
MAX_PAIRS = 1500
# How near numbers must come to those of a mistake: first as float64 gives them, then as a part
# taken in float32 does.
EXACT, NEAR = 1e-12, 1e-6
MASK_STEPS = {"mask", "hide", "empty"}


@dataclass(frozen=True, eq=False)  # caches tell ways apart by identity
class Way:
    """One way of making a mistake: the steps that it replaces."""

    mistake: Mistake
    change: Change


def alike(one: Outcome, other: Outcome, precision: float = EXACT) -> bool:
    """Return True where two calls came out the same: the same numbers, or the same error."""
    if one.error is not None or other.error is not None:
        return type(one.error) is type(other.error) and _first_line(one.error) == _first_line(
            other.error
        )
    ours = as_list(one.result)
    theirs = as_list(other.result)
    return len(ours) == len(theirs) and all(
        _same(a, b, precision) for a, b in zip(ours, theirs, strict=True)
    )


def _first_line(error: BaseException | None) -> str:
    return str(error).split("\n")[
        0
    ]  # torch may add its own call stack, which differs from machine to machine


def _same(one: Any, other: Any, precision: float = EXACT) -> bool:
    """Compare two results to the precision of the coarser: an answer may compute in float32 what it
    got in float64.
    """
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return type(one) is type(other) and bool(one == other)
    if one.shape != other.shape:
        return False
    one = one.detach().to_dense() if one.layout != torch.strided else one.detach()
    coarse = 1e-4 if torch.float32 in (one.dtype, other.dtype) else precision
    other = other.detach().double()
    size = max(1.0, float(other.abs().nan_to_num(0.0, 0.0, 0.0).max()))
    return torch.allclose(one.double(), other, rtol=coarse, atol=coarse * size, equal_nan=True)


def _run(name: str, at: int, *ways: Way) -> Outcome:
    """Run the reference with these mistakes in it on one input; with none, the reference itself."""
    exercise = EXERCISES[name]
    inputs = [*exercise.inputs, *filter(None, [exercise.other_sizes])]
    try:
        with torch.no_grad(), warnings.catch_warnings(action="ignore"):
            answer = exercise.implementation(*(way.change for way in ways))
            return Outcome(exercise.run(answer, *inputs[at]()))
    except Exception as error:  # a mistake may well crash: that is how it is known
        return Outcome(error=error)


_run_once = lru_cache(maxsize=4096)(_run)  # for single mistakes; pairs are too many to keep


@lru_cache(maxsize=64)
def ways(name: str) -> tuple[Way, ...]:
    """Return all ways in which an exercise can be got wrong so that it shows."""
    exercise = EXERCISES[name]
    all_ways = [
        Way(mistake, change) for mistake in MISTAKES for change in mistake.applies(exercise)
    ]
    right = [_run_once(name, at) for at in range(len(exercise.inputs))]
    return tuple(way for way in all_ways if not _reproduces(name, right, way))


def recognise(
    exercise: Exercise, outcomes: Sequence[Outcome], answer: Any = None
) -> tuple[Mistake, ...]:
    """Return the mistake, or the two, that come out as the answer did on all inputs; none if no
    such is known.

    Where several come out alike, and there are other sizes, the answer is tried on those as well.
    """
    name = exercise.name
    fitting = [way for way in ways(name) if _reproduces(name, outcomes, way)] or [
        way for way in ways(name) if _reproduces(name, outcomes, way, precision=NEAR)
    ]
    if answer and exercise.other_sizes and len({way.mistake for way in fitting}) > 1:
        last = run(exercise.run, answer, exercise.other_sizes())
        fitting = [way for way in fitting if alike(last, _run_once(name, -1, way), NEAR)] or fitting
    found = [way.mistake for way in fitting]
    error = next((outcome.error for outcome in outcomes if outcome.error is not None), None)
    if error is not None:
        if not found:
            known = [one for one in MISTAKES if one.crashes and one.belongs_to(exercise)]
            found = [
                one for one in known if re.search(one.crashes, f"{type(error).__name__}: {error}")
            ]
        return (_by_line(found, error),) if found else ()
    if found or not _has_all_results(name, outcomes[-1]):
        return tuple(found[:1])
    for pair in islice(pairs(name, outcomes), MAX_PAIRS):
        if _reproduces(name, outcomes, *pair):
            return tuple(sorted((way.mistake for way in pair), key=MISTAKES.index))
    return ()


def _has_all_results(name: str, outcome: Outcome) -> bool:
    return len(as_list(outcome.result)) == len(as_list(_run_once(name, 0).result))


def _reproduces(
    name: str, outcomes: Sequence[Outcome], *ways: Way, precision: float = EXACT
) -> bool:
    """Return True where these mistakes come out so.

    The last outcome of a wrong answer rules out most: it is first.
    """
    make = _run_once if len(ways) == 1 else _run
    return all(
        alike(outcomes[at], make(name, at, *ways), precision)
        for at in reversed(range(len(outcomes)))
    )


def _by_line(found: list[Mistake], error: BaseException) -> Mistake:
    """Choose between mistakes that crash alike: by what is written there, or by the shape of what
    took part.
    """
    line, shapes = last_line(error.__traceback__) or ("", {})
    likely = [
        one
        for one in found
        if (one.written and re.search(one.written, line))
        or (one.operand and any(map(one.operand, shapes.values())))
    ]
    return (likely or [one for one in found if not one.written] or found)[0]


def pairs(name: str, outcomes: Sequence[Outcome]) -> Iterator[tuple[Way, Way]]:
    """Yield the pairs of mistakes, in different steps, that an answer may have made, in a fixed
    order.

    Where one mistake alone explains one of several results, it is one of the two. Where none does,
    both change the weights, and through them the result.
    """
    last = len(outcomes) - 1
    chosen = [way for way in _simple_ways(name, last) if last or not set(way.change) <= MASK_STEPS]
    explain = [way for way in chosen if _explains(name, last, way, outcomes[last])]
    if not explain and len(as_list(outcomes[last].result)) == 2:
        right = as_list(_run_once(name, last).result)[1]
        chosen = [
            way
            for way in chosen
            if not _same(as_list(_run_once(name, last, way).result)[-1], right)
        ]
    for one, two in combinations([*explain, *(way for way in chosen if way not in explain)], 2):
        if explain and one not in explain:
            return
        if not set(one.change) & set(two.change):
            yield one, two


@lru_cache(maxsize=64)
def _simple_ways(name: str, at: int) -> tuple[Way, ...]:
    """Return one way for each mistake that has a name and does not crash."""
    found: dict[Mistake, Way] = {}
    for way in ways(name):
        if way.mistake.name and _run_once(name, at, way).error is None:
            found.setdefault(way.mistake, way)
    return tuple(found.values())


def _explains(name: str, at: int, way: Way, outcome: Outcome) -> bool:
    """Return True where one of several results, a wrong one, is as this mistake makes it."""
    results = (outcome, _run_once(name, at, way), _run_once(name, at))
    rows = zip(*(as_list(one.result) for one in results), strict=False)
    return any(_same(got, bad) and not _same(got, good) for got, bad, good in rows)
