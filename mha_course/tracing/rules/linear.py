"""Names of what a Linear makes: they follow from its width, or from what becomes of it."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from mha_course.tracing.axes import Axes, Axis, AxisNamer, Origin, size_of, unique, unknown
from mha_course.tracing.rules.call import OpCall, TensorInfo, rules


def linear(call: OpCall) -> list[Axes]:
    """Map the last axis: its new name is that of the weight's rows, or follows from the width."""
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
    """Name what a weight makes of a last axis: tokens and heads are mixed, a width has a size."""
    last = axes[-1] if axes else ()
    label = names.label(last)
    if "H" in map(names.label, axes[:-1]) and label == "D" and size != size_of(last):
        return unknown(size)  # of each head something else
    if names.is_token(last) or label == "H":
        return last if size_of(last) == size else unknown(size)
    if label == "kv_rank":
        return (unique(size, Origin.FROM_LATENTS),)
    width = names.linear_output(size)
    if names.label(width) in {*map(names.label, axes[:-1])} - {"?"}:
        return unknown(size)  # no tensor has its width twice
    return width


def after_linear(values: Sequence[TensorInfo]) -> str:
    """Return the stage that a Linear leads to."""
    return "out" if any(value.stage in ("context", "merged") for value in values) else "projection"


def cell(call: OpCall) -> list[Axes]:
    """Take one step of a recurrent network: the state's width is named as a Linear's."""
    *outer, state = call.axes(call.arg(1, "hx"))
    width = call.names.linear_output(size_of(state))
    call.names.align(state, width)
    return [[*outer, width]]


LINEAR = rules(
    ("linear", linear),
    ("gru_cell rnn_tanh_cell rnn_relu_cell", cell),
)
