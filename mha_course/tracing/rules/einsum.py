"""Names in sums of products with explicit axes: einsum and tensordot."""

from __future__ import annotations

from itertools import chain

from mha_course.tracing.axes import Axes
from mha_course.tracing.rules.call import OpCall, rules
from mha_course.tracing.rules.contraction import contract, spelled


def tensordot(call: OpCall) -> list[Axes]:
    """Sum products over pairs of axes; inner sums over the last axis of both."""
    left = call.arg(0, "a", "input")
    right = call.arg(1, "b", "other")
    dims = ([-1], [-1]) if call.op == "inner" else call.arg(2, "dims", default=2)
    if isinstance(dims, int):
        dims = range(left.dim() - dims, left.dim()), range(dims)
    pairs = {other % right.dim(): dim % left.dim() for dim, other in zip(*dims, strict=True)}
    left_letters = list(range(left.dim()))
    right_letters = [pairs.get(n, left.dim() + n) for n in range(right.dim())]
    terms = [left_letters, right_letters]
    out = [letter for letter in chain(*terms) if letter not in pairs.values()]
    return [contract(call, [left, right], terms, out)]


def einsum(call: OpCall) -> list[Axes]:
    """Sum products as the letters say."""
    equation, operands = call.args[0], call.args[1:]
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    if not arrow:
        once = [letter for letter in sorted({*inputs} - {*",."}) if inputs.count(letter) == 1]
        dots = "..." if "..." in inputs else ""
        output = dots + "".join(once)
    return [spelled(call, list(operands), inputs.split(","), output)]


EINSUM = rules(
    ("einsum", einsum),
    ("tensordot inner", tensordot),
)
