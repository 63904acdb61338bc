"""Other weights, the same output: a map of attention is not the only one that explains what the model does.

Axes: L layers, H heads, T query tokens, S key and value tokens, D head width, V words in the vocabulary.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor

from mha_course.attention import merge_heads
from mha_course.models import MaskedWordModel


def on_few_tokens(weights: Tensor, v: Tensor) -> Tensor:
    """Return weights (T, S), each row on D + 1 tokens at most, that mix v (S, D) into the very same context.

    As long as a row rests on more, it can move along the null space of [V, 1] on those tokens, until one more weight
    is 0. All in float64, whose rounding is far below what counts as 0 here.

    >>> v = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
    >>> found = on_few_tokens(torch.full((1, 4), 0.25), v)
    >>> int((found > 0).sum()), round((found @ v.double()).item(), 9)
    (2, 1.5)

    Reference: Carathéodory 1911, on convex hulls.
    """
    kept = torch.cat((v, torch.ones_like(v[:, :1])), dim=1).double()  # (S, D+1)
    return torch.stack([_on_few(row, kept) for row in weights.double()])


def _on_few(row: Tensor, kept: Tensor) -> Tensor:
    """Set one weight of a row (S) after the other to 0, as long as sum and context can stay; kept is (S, D+1)."""
    row = row.clone()
    tokens = row.nonzero().flatten()
    while len(tokens) > kept.size(1):
        null_space = torch.linalg.svd(kept[tokens].T).Vh[kept.size(1) :]
        # A basis of the null space differs from machine to machine, its projection does not.
        projection = null_space.T @ null_space
        direction = projection[projection.diagonal().argmax()]
        steps = torch.where(direction > 1e-9, row[tokens] / direction, torch.inf)
        row[tokens] = (row[tokens] - steps.min() * direction).clamp(min=0)
        row[tokens[steps.argmin()]] = 0.0
        tokens = row.nonzero().flatten()
    return row


@torch.no_grad()
def run_with_weights(
    model: MaskedWordModel, ids: Tensor, change: Callable[[Tensor, Tensor], Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Run one sentence while every head of every layer uses other weights, in float64.

    Args: ids (1, S); ``change(weights, v)`` takes (T, S) and (S, D) of a head, and returns the weights to use.
    Returns: logits (1, S, V), the weights that each head computed, and those that it used, each (L, H, T, S).
    """
    model = copy.deepcopy(model).double()
    x, computed, used = model.embed(ids), [], []
    for block in model.blocks:
        steps = block.attention.steps(block.attention_input(x))
        other = torch.stack([change(w, v) for w, v in zip(steps.weights[0], steps.v[0], strict=True)])  # (H, T, S)
        x = x + block.attention.out_proj(merge_heads(other[None] @ steps.v))  # (1, S, C)
        x = x + block.feed_forward(block.norm2(x))  # (1, S, C)
        computed.append(steps.weights[0])
        used.append(other)
    return model.to_words(model.encoder.norm(x)), torch.stack(computed), torch.stack(used)
