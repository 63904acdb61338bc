"""Names where numbers are written into a tensor that is there already."""

from __future__ import annotations

from torch import Tensor

from mha_course.tracing.axes import Axes, Axis, size_of
from mha_course.tracing.rules import numbers
from mha_course.tracing.rules.call import SCORES, OpCall, rules
from mha_course.tracing.rules.indexing import align_mask, is_bool, keys_of


def copied(call: OpCall) -> list[Axes]:
    """Copy into a tensor or its rows: axes written whole take the names of what was copied."""
    target = call.first()
    rows = "index" in call.op
    source = call.axes(call.arg(3, "source") if rows else call.arg(1, "src"))
    dims = list(range(target.dim()))[::-1]
    skipped = call.arg(1, "dim") % target.dim() if rows else None
    pairs = zip(dims, source[::-1], strict=False)
    return _written(call, target, {dim: axis for dim, axis in pairs if dim != skipped})


def stored(call: OpCall) -> list[Axes]:
    """Write into a part of a tensor: axes written whole take the names of what was written.

    An element written with the like element of another axis shows that the two axes are the same.
    """
    target, key, source = call.args[:3]
    axes = call.axes(target)
    value = call.info(target)
    if value.stage in SCORES:
        call.results[0].stage = "masked_scores"
    elif value.stage == "weights" and not isinstance(call.args[2], Tensor):
        numbers.check_masked_weights(call, value)
    align_mask(call, key, axes)
    keys = keys_of(key, len(axes))
    plain = [k for k in keys if isinstance(k, (int, slice))]
    lists = [k for k in keys if isinstance(k, Tensor) and k.dim() == 1 and not is_bool(k)]
    if not isinstance(source, Tensor) or len(plain) + len(lists) < len(keys) or len(lists) > 1:
        return [axes]
    sliced = [n for n, k in enumerate(keys) if not isinstance(k, int)]
    written = dict(zip(sliced[::-1], call.axes(source)[::-1], strict=False))
    elements = {(size_of(e.axis), e.position): e.axis for e in call.info(source).elements}
    for n, key in enumerate(keys):
        if isinstance(key, int):
            written[n] = elements.get((size_of(axes[n]), key % size_of(axes[n])), ())
        elif isinstance(key, Tensor):  # places along an axis, not all of it
            written.pop(n, None)
    return _written(call, target, written)


def _written(call: OpCall, target: Tensor, written: dict[int, Axis]) -> list[Axes]:
    axes = call.axes(target)
    for dim, axis in written.items():
        if size_of(axes[dim]) == size_of(axis):
            call.ask_about_joined(axes[dim], axis)
            call.names.align(axes[dim], axis)
            axes[dim] = axis if call.names.label(axes[dim]) == "?" else axes[dim]
    call.info(target).learn(axes, call.names)
    return [axes]


WRITES = rules(
    ("copy_ index_copy index_add", copied),
    ("setitem", stored),
)
