"""Which steps belong to the stages of attention: what leads to its products, and what comes of
them.
"""

from __future__ import annotations

from collections.abc import Sequence

from mha_course.tracing.axes import AxisNamer
from mha_course.tracing.records import Step
from mha_course.tracing.rules.call import TensorInfo
from mha_course.tracing.rules.contraction import CONTRACTIONS
from mha_course.tracing.rules.indexing import INDEXING
from mha_course.tracing.rules.reshape import VIEWS

BEFORE = ("projection", "split")
PASSING = {
    *VIEWS,
    *INDEXING,
    "dropout",
    "contiguous",
    "clone",
    "to",
}  # leave what a Linear made as it is


def settle(steps: Sequence[Step], infos: Sequence[TensorInfo], names: AxisNamer) -> None:
    """Write the stages into the steps: only what goes into a product of attention is projected and
    split for it.

    Where there is no such product, as in a function that splits heads, all that was guessed from
    the steps stands.
    """
    for step, info in zip(steps, infos, strict=True):
        step.stage = info.stage
    made = [step.op in CONTRACTIONS for step in steps]
    products = [
        contracted and not info.linear for contracted, info in zip(made, infos, strict=True)
    ]
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
    """Go back from each product to the Linears: what stands between is split, and kᵀ belongs to the
    scores.
    """
    needed = list(products)
    for step in reversed(steps):
        if not needed[step.index] or (made[step.index] and not products[step.index]):
            continue
        for operand in step.inputs:
            if (
                isinstance(operand.source, int)
                and (source := steps[operand.source]).stage in BEFORE
            ):
                needed[source.index] = True
                factor = infos[source.index].labels
                result = infos[step.index].labels
                turned = products[step.index] and len(factor) > 1 and factor[-2] not in result
                turned = turned and names.root(factor[-1]) == names.root(result[-1])
                if step.stage == "scores" and (turned or factor == result):
                    source.stage = "scores"
    for step in steps:
        if step.stage in BEFORE and not needed[step.index]:
            step.stage = ""


def _settle_out(steps: Sequence[Step], made: list[bool]) -> None:
    """End the output with its Linear: what is added to it, or made of it later, is another
    thing.
    """
    for step in steps:
        sources = [
            steps[operand.source] for operand in step.inputs if isinstance(operand.source, int)
        ]
        passed = step.op in PASSING and [source.stage for source in sources] == ["out"]
        if step.stage == "out" and not made[step.index] and not passed:
            step.stage = ""
