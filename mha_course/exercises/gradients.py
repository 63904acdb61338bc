"""The gradients of an answer's results, which training would use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from mha_course.exercises.sandbox import as_list, is_float


def gradients(
    call: Callable[..., Any], answer: Any, arguments: Sequence[Any], several: bool
) -> list[Tensor | None]:
    """Return the gradients of each result by each float argument, one after the other.

    Several results may be one tensor to unpack. A gradient is None if none comes through; there are
    no gradients if the answer crashes on tensors that require them, as NumPy does.
    Raises: whatever backward does.
    """
    leaves = [x.detach().clone().requires_grad_() if is_float(x) else x for x in arguments]
    inputs = [x for x in leaves if is_float(x)]
    if not inputs:
        return []
    with torch.enable_grad():
        try:
            result = call(answer, *(x.clone() if isinstance(x, Tensor) else x for x in leaves))
            results = list(result) if several else as_list(result)
        except Exception:  # it has run on arguments that need no gradient
            return []
        return [gradient for x in results for gradient in _gradients_of(x, inputs)]


def _gradients_of(x: Any, inputs: Sequence[Tensor]) -> Sequence[Tensor | None]:
    if not isinstance(x, Tensor) or not x.requires_grad:
        return [None] * len(inputs)
    # The sum of the results is no good as a loss: for a softmax it is constant. So each number gets
    # its own factor, the same in every call.
    numbers = torch.arange(x.numel(), dtype=x.dtype, device="cpu")
    factors = numbers.cos().view(x.shape).to(x.device)
    grads = torch.autograd.grad(x, inputs, factors, retain_graph=True, allow_unused=True)
    comparable: list[Tensor | None] = []
    for gradient, tensor in zip(grads, inputs, strict=True):
        # An answer may divide given weights, whose rows sum to 1, by these sums. The result stays
        # the same, but the gradient changes by one number in each row.
        if gradient is not None and _are_weights(tensor):
            comparable.append(gradient - gradient.mean(-1, keepdim=True))
        else:
            comparable.append(gradient)
    return comparable


def _are_weights(x: Tensor) -> bool:
    return x.dim() > 1 and bool(torch.isclose(x.sum(-1), x.new_ones(())).all())
