"""Names of a Linear's output, from its width or its later use."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

from torch import Tensor

from mha_course.tracing.axes import Axes, Axis, AxisNamer, Origin, size_of, unique, unknown
from mha_course.tracing.parts import linear_output
from mha_course.tracing.rules.call import OpCall, TensorInfo, rules

Letters = list[Any]  # a factor's axes, or the sum's


def linear(call: OpCall) -> list[Axes]:
    """Map the last axis: its new name is that of the weight's rows, or depends on the width."""
    x, weight = call.first(), call.arg(1, "weight")
    rows = call.axes(weight)[0] if weight.dim() == 2 else ()
    call.results[0].stage = after_linear(list(map(call.info, call.tensors)))
    call.results[0].from_linear = True
    call.names.confirm([call.axes(x)[-1]], Origin.LINEAR)
    if call.names.label(rows) == "?":
        rows = name_output(call.names, call.axes(x), call.outs[0].shape[-1])
    for parameter, axes in ((weight, [rows, call.axes(x)[-1]]), (call.arg(2, "bias"), [rows])):
        if isinstance(parameter, Tensor) and call.info(parameter).is_parameter:
            call.info(parameter).learn(axes, call.names)
    return [[*call.axes(x)[:-1], rows][-call.outs[0].dim() :]]


def name_output(names: AxisNamer, axes: Axes, size: int) -> Axis:
    """Name a weight's output axis: tokens and heads are mixed, a width is named by size."""
    last = axes[-1] if axes else ()
    label = names.label(last)
    if "H" in map(names.label, axes[:-1]) and label == "D" and size != size_of(last):
        return unknown(size)  # different for each head
    if names.is_token(last) or label == "H":
        return last if size_of(last) == size else unknown(size)
    if label == "kv_rank":
        return (unique(size, Origin.FROM_LATENTS),)
    width = linear_output(names, size)
    if names.label(width) in {*map(names.label, axes[:-1])} - {"?"}:
        return unknown(size)  # no tensor has its width twice
    return width


def after_linear(values: Sequence[TensorInfo]) -> str:
    """Return the stage after a Linear."""
    return "out" if any(value.stage in ("context", "merged") for value in values) else "projection"


def axes_of_weight(
    call: OpCall, tensors: list[Tensor], terms: list[Letters], number: int, out: Letters
) -> Axes:
    """Name a weight's axes in a sum of products like a Linear's output."""
    axes = call.axes(tensors[number])
    names = call.names
    term = terms[number]
    rest = {  # of the other factors
        letter: axis
        for n, letters in enumerate(terms)
        for letter, axis in zip(letters, call.axes(tensors[n]), strict=True)
        if n != number and size_of(axis) > 1
    }
    is_new = [letter in out and letter not in rest for letter in term]
    free = [n for n in compress(range(len(term)), is_new) if names.label(axes[n]) == "?"]
    summed = [rest[letter] for letter in term if letter in rest and letter not in out]
    beside = [axis for letter, axis in rest.items() if letter in out]
    sizes = [size_of(axes[position]) for position in free]
    usual = "3HD"[-len(free) :]
    if len(free) > 1 and sizes == [{"3": 3, **names.sizes}.get(name) for name in usual]:
        for position, name, size in zip(free, usual, sizes, strict=True):
            axes[position] = names.parse(name, size)
    elif len(free) == 1 and len(axes) <= 2:
        axes[free[0]] = name_output(names, beside + summed[:1], sizes[0])
    return axes


LINEAR = rules(("linear", linear))
