"""Which steps belong to the stages of attention: its products, and what surrounds them."""

from __future__ import annotations

from collections.abc import Sequence

from mha_course.tracing.axes import AxisNamer
from mha_course.tracing.records import Step
from mha_course.tracing.rules.call import TensorInfo
from mha_course.tracing.rules.table import PRODUCTS, SHAPE_ONLY

Steps = Sequence[Step]
Infos = Sequence[TensorInfo]
BEFORE = ("projection", "split")
PASSING = {*SHAPE_ONLY, "dropout", "contiguous", "clone", "to"}  # these keep a Linear's output


def settle(steps: Steps, infos: Infos, names: AxisNamer) -> None:
    """Set the steps' stages: projections and splits count only before a product.

    Without such a product, as in a function that splits heads, all guesses stay. The output ends
    with its Linear: whatever is added later is something else.
    """
    for step, info in zip(steps, infos, strict=True):
        step.stage = info.stage
    contracts = [step.op in PRODUCTS for step in steps]
    linears = [contracts[n] and info.from_linear for n, info in enumerate(infos)]
    if contracts == linears:  # There are only products of Linears, so nothing contradicts.
        return
    # Products that are not of Linears are attention's own: scores, or the context.
    needed = [contracts[n] and not linears[n] for n in range(len(steps))]
    for step in reversed(steps):
        if needed[step.index] and not linears[step.index]:
            _go_back(step, steps, infos, names, needed)
    for step in steps:
        if step.stage in BEFORE and not needed[step.index]:
            step.stage = ""
        elif step.stage == "out" and not contracts[step.index]:
            sources = [steps[i.source].stage for i in step.inputs if isinstance(i.source, int)]
            if step.op not in PASSING or sources != ["out"]:
                step.stage = ""


def _go_back(step: Step, steps: Steps, infos: Infos, names: AxisNamer, needed: list[bool]) -> None:
    """Mark the steps before one: after a Linear they are the split; kᵀ belongs to the scores."""
    for operand in step.inputs:
        if not isinstance(operand.source, int) or steps[operand.source].stage not in BEFORE:
            continue
        needed[operand.source] = True  # A product depends on it, so it is what it seems.
        if step.stage != "scores":
            continue
        factor = infos[operand.source].labels
        result = infos[step.index].labels
        sums_rows = len(factor) > 1 and factor[-2] not in result
        is_kt = sums_rows and names.root(factor[-1]) == names.root(result[-1])
        if is_kt or factor == result:
            steps[operand.source].stage = "scores"
