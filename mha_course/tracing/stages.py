"""Which steps belong to the stages of attention: its products, and what is before and after."""

from __future__ import annotations

from collections.abc import Sequence

from mha_course.tracing.axes import AxisNamer
from mha_course.tracing.records import Step
from mha_course.tracing.rules.call import TensorInfo
from mha_course.tracing.rules.contraction import CONTRACTIONS
from mha_course.tracing.rules.indexing import INDEXING
from mha_course.tracing.rules.kernels import KERNELS
from mha_course.tracing.rules.moves import VIEWS

Steps = Sequence[Step]
Infos = Sequence[TensorInfo]
BEFORE = ("projection", "split")
PASSING = {*VIEWS, *INDEXING, "dropout", "contiguous", "clone", "to"}  # keep a Linear's output


def settle(steps: Steps, infos: Infos, names: AxisNamer) -> None:
    """Write the stages into the steps: projections and splits count only before a product.

    Without such a product, as in a function that splits heads, all that was guessed stands. The
    output ends with its Linear: what is later added or made of it is something else.
    """
    for step, info in zip(steps, infos, strict=True):
        step.stage = info.stage
    made = [step.op in CONTRACTIONS or step.op in KERNELS for step in steps]
    products = [
        contracts and not info.from_linear for contracts, info in zip(made, infos, strict=True)
    ]
    if not any(products):
        return
    needed = list(products)
    for step in reversed(steps):
        if needed[step.index] and made[step.index] <= products[step.index]:
            _go_back(step, steps, infos, names, needed)
    for step in steps:
        sources = [steps[i.source].stage for i in step.inputs if isinstance(i.source, int)]
        passed = made[step.index] or (step.op in PASSING and sources == ["out"])
        unused = step.stage in BEFORE and not needed[step.index]
        if unused or (step.stage == "out" and not passed):
            step.stage = ""


def _go_back(step: Step, steps: Steps, infos: Infos, names: AxisNamer, needed: list[bool]) -> None:
    """Mark what led to a step: on the way from a Linear it is the split, kᵀ is of the scores."""
    for operand in step.inputs:
        if not isinstance(operand.source, int) or steps[operand.source].stage not in BEFORE:
            continue
        needed[operand.source] = True
        factor = infos[operand.source].labels
        result = infos[step.index].labels
        is_kt = len(factor) > 1 and factor[-2] not in result
        is_kt = is_kt and names.root(factor[-1]) == names.root(result[-1])
        if step.stage == "scores" and (is_kt or factor == result):
            steps[operand.source].stage = "scores"
