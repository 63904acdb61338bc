"""Trace an answer on the arguments it was judged on."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mha_course.exercises.inputs import SIZES
from mha_course.exercises.sandbox import explain, run
from mha_course.exercises.spec import Exercise
from mha_course.tracing import Trace, trace

WITH_TOKENS = {SIZES[letter] for letter in "BTS"}  # sizes that no weights have


def trace_answer(
    exercise: Exercise, answer: Any, arguments: Sequence[Any]
) -> tuple[Trace | None, str]:
    """Return a trace of an answer's first call (None if it made no tensor), and why it stopped.

    For a class, trace its forward.
    """
    traces: list[Trace] = []

    def traced(call: Callable[..., Any], *inputs: Any) -> Any:
        # The exercise may call the answer again, for instance to compare; one trace is enough.
        if traces:
            return call(*inputs)
        try:
            axes = _axes(call, inputs)
            # q, k and v that come split into heads do not show the width C.
            width = {"C": SIZES["C"]} if any("H" in words for words in axes.values()) else None
            traces.append(trace(call, *inputs, axes=axes, sizes=width))
        except Exception as error:
            unfinished = getattr(error, "trace", None)
            traces.extend([unfinished] if unfinished else [])
            raise
        return traces[0].result

    def forward(module: Any, *inputs: Any) -> Any:
        return traced(module.forward, *inputs)

    watched: Any = partial(traced, answer)
    if inspect.isclass(answer):
        watched = type(answer.__name__, (answer,), {"__call__": forward})
    outcome = run(exercise.run, watched, arguments)
    first_trace = traces[0] if traces and traces[0].steps else None
    return first_trace, explain(outcome.error, arguments) if outcome.error else ""


def _axes(call: Callable[..., Any], inputs: Sequence[Any]) -> dict[str, str]:
    """Return the axes of tensors of tokens or sentences, except ids, by the exercises' shared
    sizes.
    """
    try:
        bound = inspect.signature(call).bind(*inputs).arguments
    except (TypeError, ValueError):  # builtins
        return {}
    # The first cases have a different size for every letter, so a size tells its letter.
    letters = {size: letter for letter, size in SIZES.items()} | {1: "1"}
    return {
        name: " ".join(letters[size] for size in x.shape)
        for name, x in bound.items()
        if isinstance(x, Tensor)
        and x.dtype != torch.int64
        and set(x.shape) <= set(letters)
        and WITH_TOKENS & set(x.shape)
    }
