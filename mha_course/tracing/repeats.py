"""Fold the layers of a model that do the same as the layer before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from mha_course.tracing.records import Step

FEW = 3  # steps: shorter repeated layers are not folded
WARN, ASK = "⚠", "?"


def folded(steps: Sequence[Step]) -> Iterator[tuple[list[Step], list[str]]]:
    """Yield the steps in runs, each with the layers that repeat it, if any.

    A layer is a numbered module, such as ``blocks.1``.
    """
    hidden: list[Step] = []
    layers: list[str] = []
    before: list[list[Any]] = [[], []]  # what the previous layer did, and what followed it
    stem: tuple[str, ...] = ()
    for layer, group in groupby(steps, key=_layer):
        run = list(group)
        may_repeat = layer[:-1] == stem if layer else bool(layers)
        expected = before[not layer] if may_repeat else []
        repeats = expected and list(map(_signature, run[: len(expected)])) == expected
        if repeats and (not layer or len(run) == len(expected) > FEW):
            hidden += run[: len(expected)]
            if layer:
                layers.append(".".join(layer))
            run = run[len(expected) :]
        if layers and run:
            yield hidden, layers
            hidden, layers = [], []
        if layer and run:
            stem, before = layer[:-1], [list(map(_signature, run)), []]
        elif run and not before[1]:
            before[1] = list(map(_signature, run))
        if run:
            yield run, []
    if layers:
        yield hidden, layers


def _signature(step: Step) -> Any:
    return step.op, step.shape, step.axes, step.storage, step.flops, step.line, remarks(step)


def _layer(step: Step) -> tuple[str, ...]:
    """Return the path up to the first number: blocks and 1 for ``blocks.1.attention``."""
    words = step.module.split(".")
    number = next((n for n, word in enumerate(words) if word.isdigit()), -1)
    return tuple(words[: number + 1])


def remarks(step: Step) -> list[tuple[str, str]]:
    """Return a step's warning and question, each after its sign."""
    return [(sign, text) for sign, text in ((WARN, step.warning), (ASK, step.question)) if text]
