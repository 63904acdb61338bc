"""Other weights, the same output: what a map of attention does not determine.

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
    is 0. All in float64.

    >>> v = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
    >>> found = on_few_tokens(torch.full((1, 4), 0.25), v)
    >>> int((found > 0).sum()), (found @ v.double()).item()
    (2, 1.5)

    Reference: Carathéodory 1911, on convex hulls.
    """
    kept = torch.cat((v, torch.ones_like(v[:, :1])), dim=1).double()  # (S, D+1)
    return torch.stack([_thinned(row, kept) for row in weights.double()])


def _thinned(row: Tensor, kept: Tensor) -> Tensor:
    """Empty one place of a row (S) after the other, as long as sum and context can stay; kept is (S, D+1)."""
    row = row.clone()
    while len(places := row.nonzero().flatten()) > kept.size(1):
        null_space = torch.linalg.svd(kept[places].T).Vh[kept.size(1) :]
        onto = null_space.T @ null_space  # what kept takes to 0; unlike the basis, the same on every machine
        direction = onto[onto.diagonal().argmax()]
        steps = torch.where(direction > 1e-9, row[places] / direction, torch.inf)
        row[places] = (row[places] - steps.min() * direction).clamp(min=0)
        row[places[steps.argmin()]] = 0.0
    return row


@torch.no_grad()
def in_all_heads(
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
