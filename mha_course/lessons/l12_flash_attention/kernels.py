"""Which of PyTorch's kernels would run attention."""

from __future__ import annotations

from torch import Tensor
from torch.nn.attention import SDPBackend

from mha_course import errors
from mha_course.torch_internals import sdpa_backend


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
