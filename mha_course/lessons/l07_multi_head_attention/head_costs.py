"""What multi-head attention costs, counted by running it: the same for every number of heads."""

from __future__ import annotations

from typing import NamedTuple

import torch

from mha_course.attention import MultiHeadAttention
from mha_course.experiments.costs import count_flops


class Cost(NamedTuple):
    """Parameters, and FLOPs of the matrix products: a multiply-add counts as 2."""

    parameters: int
    flops: int


def cost(d_model: int, num_heads: int, *, batch: int, tokens: int) -> Cost:
    """Run one pass in float32 and count.

    Raises: ShapeError when num_heads does not divide d_model.
    """
    mha = MultiHeadAttention(d_model, num_heads)
    flops = count_flops(lambda: mha.steps(torch.zeros(batch, tokens, d_model))).total
    return Cost(sum(parameter.numel() for parameter in mha.parameters()), flops)
