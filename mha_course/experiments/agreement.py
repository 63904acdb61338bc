"""Say in words whether two computations agree."""

from __future__ import annotations

from torch import Tensor


def compare(first: Tensor, second: Tensor, *, atol: float = 1e-5) -> str:
    """Say how far apart two tensors of the same shape are, to end a sentence.

    Args: atol is the largest difference that counts as the same; 0 means bit for bit.

    >>> import torch
    >>> compare(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]))
    'different, by up to 0.50'
    """
    difference = (first.double() - second.double()).abs().max().item()
    if difference <= atol:
        return "the same"
    return f"different, by up to {difference:.2f}"  # also for NaN, and says so
