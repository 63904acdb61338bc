"""Softmax in blocks: the running maximum and the running sum of one row, block after block."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Running(NamedTuple):
    """One row after one more block: its position, the maximum so far, and the sum's parts."""

    first: int
    last: int
    maximum: float
    before: float
    shrink: float
    added: float

    @property
    def total(self) -> float:
        """The running sum: the old sum, rescaled, plus the block's exponentials."""
        return self.before * self.shrink + self.added


def running(scores: Tensor, block_size: int) -> list[Running]:
    """Follow the running maximum and sum of one row (S,) through its blocks.

    A row whose scores are all -inf so far has maximum -inf and sum 0.

    >>> [round(step.total, 2) for step in running(torch.tensor([1.0, 1.0, 3.0]), block_size=2)]
    [2.0, 1.27]
    """
    steps: list[Running] = []
    maximum = -torch.inf
    total = 0.0
    for first in range(0, len(scores), block_size):
        block = scores[first : first + block_size].double()
        larger = max(maximum, float(block.max()))
        has_scores = larger > -torch.inf
        shrink = float(torch.tensor(maximum - larger).exp()) if has_scores else 0.0
        added = float((block - larger).exp().sum()) if has_scores else 0.0
        steps.append(Running(first, first + len(block) - 1, larger, total, shrink, added))
        maximum = larger
        total = steps[-1].total
    return steps
