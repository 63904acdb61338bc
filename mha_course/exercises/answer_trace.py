"""Trace an answer on the arguments on which it was judged."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import Tensor

from mha_course.exercises.inputs import SIZES
from mha_course.exercises.sandbox import explain, run
from mha_course.exercises.spec import Exercise
from mha_course.tracing import Trace, trace


def trace_answer(
    exercise: Exercise, answer: Any, arguments: Sequence[Any]
) -> tuple[Trace | None, str]:
    """Return what the first call of an answer did, or None if it made no tensor, and a sentence on
    why it stopped.

    Of a class its forward is traced.
    """
    found: list[Trace] = []

    def traced(call: Callable[..., Any], *given: Any) -> Any:
        if found:
            return call(*given)
        try:
            found.append(trace(call, *given, axes=_axes(call, given)))
        except Exception as error:
            stopped = getattr(error, "trace", None)
            found.extend([stopped] if stopped else [])
            raise
        return found[0].result

    def forward(module: Any, *given: Any) -> Any:
        return traced(module.forward, *given)

    spied = (
        type(answer.__name__, (answer,), {"__call__": forward})
        if inspect.isclass(answer)
        else partial(traced, answer)
    )
    outcome = run(exercise.run, spied, arguments)
    made = found[0] if found and found[0].steps else None
    return made, explain(outcome.error, arguments) if outcome.error else ""


def _axes(call: Callable[..., Any], given: Sequence[Any]) -> dict[str, str]:
    """Return the axes of the batches among some arguments, read off the sizes that
    exercises share.
    """
    try:
        bound = inspect.signature(call).bind(*given).arguments
    except (TypeError, ValueError):  # builtins
        return {}
    letters = {size: letter for letter, size in SIZES.items()} | {1: "1"}
    batches = {name: x.shape for name, x in bound.items() if isinstance(x, Tensor) and x.dim() > 2}
    return {
        name: " ".join(letters[size] for size in shape)
        for name, shape in batches.items()
        if set(shape) <= set(letters)
    }
