"""Floating-point operations, counted while a function runs, fused attention included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

# PyTorch's counter has formulas for the kernels of a GPU and none for the one of a CPU, which makes the same products.
_ON_THE_CPU = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v),
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: (
        lambda gradient, q, k, v, *_, **__: sdpa_backward_flop_count(gradient, q, k, v)
    ),
}


def flops(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """Run fn and count the floating-point operations of its matrix products: a multiply-add is 2.

    Products that fn makes are counted one by one. A fused kernel is one call: it counts by PyTorch's formula
    for attention without a mask, so a kernel that skips blocks is counted as if it skipped none.

    >>> flops(torch.matmul, torch.ones(2, 5, 6), torch.ones(2, 6, 7))
    840
    """
    counter = FlopCounterMode(display=False, custom_mapping=_ON_THE_CPU)
    with counter:
        fn(*args, **kwargs)
    return int(counter.get_total_flops())
