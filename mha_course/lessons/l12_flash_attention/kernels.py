"""How much attention computes, and which of PyTorch's kernels would run it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.nn.attention import SDPBackend

from mha_course import errors
from mha_course.op_counter import OpCounter
from mha_course.torch_internals import sdpa_backend


def flops(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """Run fn and count the floating-point operations of its matrix products: a multiply-add is 2.

    Products that fn makes are counted one by one. A fused kernel is one call: it counts by
    PyTorch's formula for attention without a mask, so a kernel that skips blocks is counted as if
    it skipped none.

    >>> import torch
    >>> flops(torch.matmul, torch.ones(2, 5, 6), torch.ones(2, 6, 7))
    840
    """
    with OpCounter() as counter:
        fn(*args, **kwargs)
    return counter.flops


def sdpa_choice(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> str:
    """Name the kernel that F.scaled_dot_product_attention would run.

    Args: as for attention; causal is its is_causal.
    Returns: "flash", "efficient", "cudnn" or "math".
    Raises: ShapeError.

    >>> import torch
    >>> sdpa_choice(*torch.zeros(3, 2, 4, 5, 6))
    'flash'
    """
    errors.require_attention_inputs("sdpa_choice", q, k, v, mask)
    backend = SDPBackend(sdpa_backend(q, k, v, mask, causal))
    return backend.name.removesuffix("_ATTENTION").lower()
