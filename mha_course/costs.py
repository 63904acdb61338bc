"""What multi-head attention costs, counted by running it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

from mha_course.attention import MultiHeadAttention


@dataclass(frozen=True)
class Cost:
    """Parameters, floating-point operations (a multiply-add counts as 2), bytes of weights, and attention patterns."""

    parameters: int
    flops: int
    weight_bytes: int
    patterns: int


def cost(d_model: int, num_heads: int, *, batch: int, tokens: int) -> Cost:
    """Run one pass in float32 and count.

    Raises: ShapeError when num_heads does not divide d_model.
    """
    mha = MultiHeadAttention(d_model, num_heads)
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        weights = mha.steps(torch.zeros(batch, tokens, d_model)).weights
    return Cost(
        parameters=sum(parameter.numel() for parameter in mha.parameters()),
        flops=counter.get_total_flops(),
        weight_bytes=weights.numel() * weights.element_size(),
        patterns=weights.size(1),
    )
