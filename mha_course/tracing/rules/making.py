"""Names of a tensor made of sizes: a size that was read from a shape brings its axis."""

from __future__ import annotations

import torch

from mha_course.tracing.axes import Axis, Size, axis_of
from mha_course.tracing.rules.call import OpCall, rules


def filled(call: OpCall) -> list[list[Axis]]:
    """Make a tensor of a shape: zeros, full, randn, new_ones, randint …"""
    values = (*call.args, *call.kwargs.values())
    given = [value for value in values if not isinstance(value, torch.Tensor)]
    shapes = [value for value in given if isinstance(value, (tuple, list))]
    return [[axis_of(size) for size in (shapes[0] if shapes else given[: call.outs[0].dim()])]]


def counted(call: OpCall) -> list[list[Axis]]:
    """Count the elements of an axis, or every second of a head's width: arange."""
    length = call.outs[0].size(0)
    end = call.arg(1 if len(call.args) > 1 else 0, "end")
    if not isinstance(end, Size) or (len(call.args) > 1 and call.args[0] != 0):
        return []
    if call.names.is_width(end.axis) and end == 2 * length:
        return [[call.names.half(end.axis)]]
    return [[end.axis]] if end == length else []


def identity(call: OpCall) -> list[list[Axis]]:
    """Make a square matrix, or one with as many columns as are asked for."""
    rows, columns = call.arg(0, "n"), call.arg(1, "m")
    return [[axis_of(rows), axis_of(rows if columns is None else columns)]]


MAKING = rules(
    ("zeros ones empty full rand randn randint new_zeros new_ones new_empty new_full", filled),
    ("arange", counted),
    ("eye", identity),
)
