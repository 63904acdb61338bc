"""Which steps belong to the stages of attention: its products, and what is before and after."""

from __future__ import annotations

from collections.abc import Sequence

from mha_course.tracing.axes import AxisNamer
from mha_course.tracing.records import Step
from mha_course.tracing.rules.call import TensorInfo
from mha_course.tracing.rules.contraction import CONTRACTIONS
from mha_course.tracing.rules.indexing import INDEXING
from mha_course.tracing.rules.moves import VIEWS

BEFORE = ("projection", "split")
PASSING = {*VIEWS, *INDEXING, "dropout", "contiguous", "clone", "to"}  # keep a Linear's output


def settle(steps: Sequence[Step], infos: Sequence[TensorInfo], names: AxisNamer) -> None:
    """Write the stages into the steps: projections and splits count only before a product.

    Without such a product, as in a function that splits heads, all that was guessed stands.
    """
    for step, info in zip(steps, infos, strict=True):
        step.stage = info.stage
    made = [step.op in CONTRACTIONS for step in steps]
    products = [contracts and not info.linear for contracts, info in zip(made, infos, strict=True)]
    if not any(products):
        return
    _settle_before(steps, infos, names, made, products)
    _settle_out(steps, made)


def _settle_before(
    steps: Sequence[Step],
    infos: Sequence[TensorInfo],
    names: AxisNamer,
    made: list[bool],
    products: list[bool],
) -> None:
    """Go back from a product to its Linears: steps between are the split, kᵀ is of the scores."""
    needed = list(products)
    for step in reversed(steps):
        if not needed[step.index] or (made[step.index] and not products[step.index]):
            continue
        for operand in step.inputs:
            if not isinstance(operand.source, int) or steps[operand.source].stage not in BEFORE:
                continue
            source = steps[operand.source]
            needed[source.index] = True
            factor = infos[source.index].labels
            result = infos[step.index].labels
            is_kt = products[step.index] and len(factor) > 1 and factor[-2] not in result
            is_kt = is_kt and names.root(factor[-1]) == names.root(result[-1])
            if step.stage == "scores" and (is_kt or factor == result):
                source.stage = "scores"
    for step in steps:
        if step.stage in BEFORE and not needed[step.index]:
            step.stage = ""


def _settle_out(steps: Sequence[Step], made: list[bool]) -> None:
    """End the output with its Linear: what is later added or made of it is something else."""
    for step in steps:
        sources = [operand.source for operand in step.inputs if isinstance(operand.source, int)]
        passed = step.op in PASSING and [steps[index].stage for index in sources] == ["out"]
        if step.stage == "out" and not made[step.index] and not passed:
            step.stage = ""
