"""Find the mistake whose numbers are those of an answer."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from mha_course.exercises.catalogue import EXERCISES, MISTAKES
from mha_course.exercises.sandbox import Outcome, as_list, last_line
from mha_course.exercises.spec import Change, Exercise, Mistake

PATIENCE = 2.0  # seconds for two mistakes at once
MASK_STEPS = {"mask", "hide", "empty"}
Found = tuple[Mistake, ...]


def alike(one: Outcome, other: Outcome) -> bool:
    """Say whether two calls came out the same: the same numbers, or the same error."""
    if one.error is not None or other.error is not None:
        return type(one.error) is type(other.error) and _text(one.error) == _text(other.error)
    ours, theirs = as_list(one.result), as_list(other.result)
    return len(ours) == len(theirs) and all(_same(a, b) for a, b in zip(ours, theirs, strict=True))


def _text(error: BaseException | None) -> str:
    """Return what an error says, as far as it depends on what was done."""
    return str(error).split("\n")[0]


def _same(one: Any, other: Any) -> bool:
    """Compare two results to the precision of the coarser."""
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return type(one) is type(other) and bool(one == other)
    if one.shape != other.shape:
        return False
    one = one.detach().to_dense() if one.layout != torch.strided else one.detach()
    coarse = 1e-4 if torch.float32 in (one.dtype, other.dtype) else 1e-12
    other = other.detach().double()
    size = max(1.0, float(other.abs().nan_to_num(0.0, 0.0, 0.0).max()))
    return torch.allclose(one.double(), other, rtol=coarse, atol=coarse * size, equal_nan=True)


@lru_cache(maxsize=64)
def _probe(name: str, place: int) -> tuple[Any, ...]:
    """Return the arguments of a probe."""
    return EXERCISES[name].inputs[place]()


@lru_cache(maxsize=4096)
def _wrong(name: str, place: int, number: int, way: int) -> Outcome:
    """Run one mistake on one probe."""
    return _try(name, place, [_change(name, number, way)])


def _try(name: str, place: int, changes: Sequence[Change]) -> Outcome:
    """Run the reference with these changes on one probe."""
    exercise = EXERCISES[name]
    outcome = Outcome()
    with torch.no_grad(), warnings.catch_warnings(action="ignore"):
        try:
            given = [x.clone() if isinstance(x, Tensor) else x for x in _probe(name, place)]
            outcome.result = exercise.run(exercise.implementation(*changes), *given)
        except Exception as error:  # a mistake may well crash: that is how it is known
            outcome.error = error
    return outcome


@lru_cache(maxsize=64)
def ways(name: str) -> tuple[tuple[int, int], ...]:
    """Return all ways in which an exercise can be got wrong so that it shows, as places in MISTAKES and there."""
    all_ways = [(n, way) for n, mistake in enumerate(MISTAKES) for way in range(len(mistake.applies(EXERCISES[name])))]
    places = range(len(EXERCISES[name].inputs))
    return tuple(way for way in all_ways if not all(alike(_wrong(name, at, *way), _right(name, at)) for at in places))


def shown_by(name: str, mistake: Mistake) -> int | None:
    """Return the first probe of an exercise at which a mistake shows, or None where it cannot be made or seen."""
    number = MISTAKES.index(mistake)
    places = [
        at
        for at in range(len(EXERCISES[name].inputs))
        for one, way in ways(name)
        if one == number and not alike(_wrong(name, at, one, way), _right(name, at))
    ]
    return places[0] if places else None


def recognise(exercise: Exercise, outcomes: Sequence[Outcome]) -> Found:
    """Return the mistake, or the two, that come out as the answer did on all probes; none if no such is known."""
    name, last = exercise.name, len(outcomes) - 1
    found = [
        MISTAKES[number]
        for number, way in ways(name)
        if alike(outcomes[last], _wrong(name, last, number, way))
        and all(alike(outcome, _wrong(name, place, number, way)) for place, outcome in enumerate(outcomes))
    ]
    error = next((outcome.error for outcome in outcomes if outcome.error is not None), None)
    if found:
        return (_by_shapes(found, error) if error is not None else found[0],)
    return () if error is not None else _pair(name, outcomes)


def _by_shapes(found: list[Mistake], error: BaseException | None) -> Mistake:
    """Choose between mistakes that crash alike: some are known by a square matrix of weights that took part."""
    line = last_line(error.__traceback__) if error else None
    square = line is not None and any(len(shape) > 1 and shape[-1] == shape[-2] for shape in line[1].values())
    late = [mistake for mistake in found if mistake.square_operand]
    return late[0] if square and late else found[0]


@lru_cache(maxsize=64)
def _right(name: str, place: int) -> Outcome:
    """Run the reference on one probe."""
    return _try(name, place, [])


@lru_cache(maxsize=4096)
def _change(name: str, number: int, way: int) -> Change:
    """Return the steps that one way of a mistake replaces."""
    return MISTAKES[number].applies(EXERCISES[name])[way]


@lru_cache(maxsize=64)
def _simple_ways(name: str, place: int) -> list[tuple[int, int]]:
    """Return one way for each mistake that does not crash."""
    found: dict[int, tuple[int, int]] = {}
    for number, way in ways(name):
        if _wrong(name, place, number, way).error is None:
            found.setdefault(number, (number, way))
    return list(found.values())


def _pair(name: str, outcomes: Sequence[Outcome]) -> Found:
    """Look for two mistakes at once, in different steps: first for those of which one explains a result alone."""
    last = len(outcomes) - 1
    chosen = [way for way in _simple_ways(name, last) if last or not set(_change(name, *way)) <= MASK_STEPS]
    explains = [way for way in chosen if _explains(name, outcomes[last], last, way)]
    if not explains and len(as_list(outcomes[last].result)) == 2:  # then both take part in the second result
        right = as_list(_right(name, last).result)[1]
        chosen = [way for way in chosen if not _same(as_list(_wrong(name, last, *way).result)[-1], right)]
    deadline = time.perf_counter() + PATIENCE
    for one, two in combinations(sorted(chosen, key=lambda way: way not in explains), 2):
        if time.perf_counter() > deadline or (explains and one not in explains):
            return ()
        changes = [_change(name, *one), _change(name, *two)]
        if not set(changes[0]) & set(changes[1]) and all(
            alike(outcomes[at], _try(name, at, changes)) for at in range(last, -1, -1)
        ):
            first, second = sorted((one[0], two[0]))
            return MISTAKES[first], MISTAKES[second]
    return ()


def _explains(name: str, outcome: Outcome, place: int, way: tuple[int, int]) -> bool:
    """Say whether one of several results, a wrong one, is as this mistake makes it."""
    right, wrong = _right(name, place), _wrong(name, place, *way)
    rows = zip(as_list(outcome.result), as_list(wrong.result), as_list(right.result), strict=False)
    return any(_same(got, bad) and not _same(got, good) for got, bad, good in rows)
