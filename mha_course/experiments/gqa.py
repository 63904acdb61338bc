"""What happens to the trained model when its heads have to share keys and values.

Axes: B sentences, H heads, S tokens.
"""

from __future__ import annotations

import copy

from torch import Tensor

from mha_course.caching import GroupedQueryAttention
from mha_course.example import training_batches
from mha_course.models import MaskedWordModel, masked_word_loss, train

TRAINING_STEPS = 3000  # of the model that ships


def group_kv_heads(model: MaskedWordModel, num_kv_heads: int) -> MaskedWordModel:
    """Return a copy whose key and value heads are, in each layer, replaced by the means of so many groups.

    Raises: ShapeError when they do not divide the heads. Reference: Ainslie et al. 2023, GQA, section 2.1.
    """
    grouped = copy.deepcopy(model)
    for block in grouped.blocks:
        block.register_module("attention", GroupedQueryAttention.from_multi_head(block.attention, num_kv_heads))
    return grouped.requires_grad_(False)


def uptrain(model: MaskedWordModel, share: float, *, seed: int = 1) -> MaskedWordModel:
    """Return a copy that was trained for a share of the steps that the shipped model had, on one thread.

    Reference: Ainslie et al. 2023, GQA, sections 2.1 and 3.1.
    """
    trained, steps = copy.deepcopy(model).requires_grad_(True).train(), round(share * TRAINING_STEPS)
    train(trained, training_batches(seed), masked_word_loss, steps=steps, lr=1e-3, progress=False)
    return trained.eval().requires_grad_(False)


def total_variation(weights: Tensor, others: Tensor) -> Tensor:
    """Return which share of each row's attention went to other words, averaged over the rows of a head.

    Half the sum of the differences: 0 for the same weights, 1 for rows that have no word in common. Shape: two
    (B, H, S, S) -> (H,).
    """
    return (weights - others).abs().sum(-1).div(2).mean((0, 2))
