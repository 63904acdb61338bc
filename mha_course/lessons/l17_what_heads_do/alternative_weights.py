"""Other weights, the same output: an attention map is not the only one that explains the model's
output.

Axes: L layers, H heads, T query tokens, S key and value tokens, D head width, V words in the
vocabulary.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor

from mha_course.attention import merge_heads
from mha_course.models import MaskedWordModel


@torch.no_grad()
def run_with_weights(
    model: MaskedWordModel, ids: Tensor, change: Callable[[Tensor, Tensor], Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Run one sentence with other weights in every head of every layer, in float64.

    Args: ids (1, S); ``change(weights, v)`` takes a head's (T, S) and (S, D), and returns the
        weights to use.
    Returns: logits (1, S, V), the weights each head computed, and those it used, each (L, H, T, S).
    """
    model = copy.deepcopy(model).double()
    x = model.embed(ids)
    computed = []
    used = []
    for block in model.blocks:
        steps = block.attention.steps(block.attention_input(x))
        heads = zip(steps.weights[0], steps.v[0], strict=True)
        replaced = torch.stack([change(weights, v) for weights, v in heads])  # (H, T, S)
        x = x + block.attention.out_proj(merge_heads(replaced[None] @ steps.v))  # (1, S, C)
        x = x + block.feed_forward(block.norm2(x))  # (1, S, C)
        computed.append(steps.weights[0])
        used.append(replaced)
    return model.to_words(model.encoder.norm(x)), torch.stack(computed), torch.stack(used)
