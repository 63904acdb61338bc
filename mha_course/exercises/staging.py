"""Probes with one suspect each: where does a wrong answer that has no name begin to be wrong?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from mha_course.exercises import compare
from mha_course.exercises.sandbox import as_list, run
from mha_course.exercises.spec import Exercise

Arguments = Sequence[Any]


def _one_token(exercise: Exercise, arguments: Arguments) -> list[Any]:
    """Leave one token, which must get weight 1: only values and output matter."""
    return [x[:, :1] if place in exercise.token_arguments else x for place, x in enumerate(arguments)]


def _no_query(exercise: Exercise, arguments: Arguments) -> list[Any]:
    """Make all queries 0, so that all weights are alike: only sums over them matter."""
    return [x * 0 if place in exercise.query_arguments else x for place, x in enumerate(arguments)]


STAGES: tuple[tuple[str, Callable[..., list[Any]], str], ...] = (
    ("values and output", _one_token, "It is wrong already with a single token, where only values and output matter."),
    ("weighted sum", _no_query, "With one token it is right; with all weights alike it is not: look at how heads are "
     "split and merged, and at what the weights sum to."),
    ("scores", lambda _, arguments: list(arguments), "With one token, and with all weights alike, it is right: look "
     "at the scores, their scale and the softmax."),
)  # fmt: skip


def first(exercise: Exercise, answer: Any) -> tuple[str, str] | None:
    """Return the first stage at which an answer is wrong, and a sentence about it; None if it has no stages."""
    if not exercise.token_arguments:
        return None
    for stage, change, sentence in STAGES:
        arguments = change(exercise, exercise.inputs[0]())
        outcome = run(exercise.run, answer, arguments)
        with torch.no_grad():
            want = exercise.run(exercise.reference, *arguments)
        if outcome.error is not None or _differs(outcome.result, want):
            return stage, sentence
    return "mask", "Without a mask all is right: look at how it is applied."


def _differs(got: Any, want: Any) -> bool:
    """Say whether a result is wrong."""
    pairs = zip(as_list(got), as_list(want), strict=False)
    return any(not isinstance(a, Tensor) or compare.compare(a, b, "?" * b.dim(), 0.0) is not None for a, b in pairs)
