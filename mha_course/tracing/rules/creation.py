"""Names in tensors made from sizes, word ids and pixels."""

from __future__ import annotations

from torch import Tensor

from mha_course.tracing.axes import (
    Axes,
    Axis,
    AxisNamer,
    Factor,
    Origin,
    Size,
    axis_of,
    size_of,
    unknown,
)
from mha_course.tracing.parts import linear_output
from mha_course.tracing.rules.call import OpCall, rules


def embedding(call: OpCall) -> list[Axes]:
    """Look up a vector for every id."""
    ids = call.arg(0, "input")
    weight = call.arg(1, "weight")
    vector = call.axes(weight)[-1]
    if call.names.label(vector) == "?" and weight.shape[-1] == call.names.sizes.get("C"):
        vector = call.names.width()
    return [[*call.axes(ids), vector]]


def convolve(call: OpCall) -> list[Axes]:
    """Keep the batch, cut shortened axes into patches, and name the channels by size."""
    shape = call.outs[0].shape
    axes = call.axes(call.first())
    stride = call.arg(3, "stride", default=1)
    steps = stride if isinstance(stride, (tuple, list)) else [stride] * (len(shape) - 2)
    rows = zip(axes[2:], shape[2:], steps, strict=True)
    patches = [_patches(call.names, axis, size, step) for axis, size, step in rows]
    channels = linear_output(call.names, shape[1])
    if call.names.is_token(axes[1]) and size_of(axes[1]) == shape[1]:
        channels = axes[1]
    # Channels of pictures are seldom a head's width, even if the sizes agree.
    elif channels and channels[0].origin is Origin.ASSUMED_D:
        channels = unknown(shape[1])
    return [[axes[0], channels, *patches]]


def outer(call: OpCall) -> list[Axes]:
    """Multiply every number of one vector by every number of another."""
    return [[call.axes(vector)[0] for vector in (call.first(), call.arg(1, "vec2"))]]


def filled(call: OpCall) -> list[Axes]:
    """Make a tensor of a shape: zeros, full, randn, new_ones, randint …"""
    values = (*call.args, *call.kwargs.values())
    sizes = [value for value in values if not isinstance(value, Tensor)]
    shapes = [value for value in values if isinstance(value, (tuple, list))]
    return [list(map(axis_of, shapes[0] if shapes else sizes[: call.outs[0].dim()]))]


def counted(call: OpCall) -> list[Axes]:
    """Count the elements of an axis, or every second channel of a head: arange."""
    length = call.outs[0].size(0)
    end = call.arg(1 if len(call.args) > 1 else 0, "end")
    if not isinstance(end, Size) or (len(call.args) > 1 and call.args[0] != 0):
        return []
    # Rotary encodings count every second channel: arange(0, D, 2).
    if call.names.is_width(end.axis) and end == 2 * length:
        return [[call.names.half(end.axis)]]
    return [[end.axis]] if end == length else []


def identity(call: OpCall) -> list[Axes]:
    """Make a square matrix, or one with a given number of columns."""
    rows, columns = call.arg(0, "n"), call.arg(1, "m")
    return [[axis_of(rows), axis_of(rows if columns is None else columns)]]


def _patches(names: AxisNamer, axis: Axis, size: int, step: int) -> Axis:
    """Name the patches that a convolution with this stride cuts tokens or pixels into."""
    if size == size_of(axis):
        return axis
    if step == 1 or size * step != size_of(axis) or len(axis) != 1 or not names.is_token(axis):
        return unknown(size)
    # Patches are tokens from here on, with a name of their own.
    name = f"{axis[0].name}/{step}"
    names.tokens.add(name)
    return (Factor(name, size),)


CREATION = rules(
    ("embedding", embedding),
    ("conv1d conv2d conv3d", convolve),
    ("outer ger", outer),
    ("zeros ones empty full rand randn randint new_zeros new_ones new_empty new_full", filled),
    ("arange", counted),
    ("eye", identity),
)
