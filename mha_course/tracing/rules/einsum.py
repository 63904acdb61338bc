"""Names in sums of products that say which axes they sum over."""

from __future__ import annotations

from mha_course.tracing.axes import Axes
from mha_course.tracing.rules.call import OpCall, rules
from mha_course.tracing.rules.contraction import spelled


def einsum(call: OpCall) -> list[Axes]:
    """Sum products as the letters say."""
    equation, operands = call.args[0], call.args[1:]
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    # Without an arrow, torch keeps the letters that occur once, in alphabetical order.
    if not arrow:
        once = [letter for letter in sorted({*inputs} - {*",."}) if inputs.count(letter) == 1]
        dots = "..." if "..." in inputs else ""
        output = dots + "".join(once)
    return [spelled(call, list(operands), inputs.split(","), output)]


EINSUM = rules(("einsum", einsum))
