"""What a mask means to those who read masks: each is given the same one, and tried for the keys
that it really sees.

Axes: T query tokens (one here), S key tokens, C width, D head width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mha_course.attention import attention
from mha_course.errors import require, require_shape
from mha_course.experiments.leakage import token_dependence
from mha_course.masks import from_attend
from mha_course.models import seeded


class MaskReading(NamedTuple):
    """One reader of masks, its convention, and the keys it saw, by the mask as is and converted."""

    reader: str
    convention: str
    given: Tensor  # (S,), bool, True = seen
    converted: Tensor  # (S,)


def mask_readings(mask: Tensor) -> list[MaskReading]:
    """Hand one mask to everybody who reads masks, as it is and converted, and see which keys one
    query sees.

    A key is seen if the output changes when its token does. Added to scores as it is, the mask
    becomes the numbers 1 and 0.

    Args: mask is (S,), bool, True = may attend, with at least one True and one False.
    Raises: ShapeError.

    >>> readings = mask_readings(torch.tensor([True, True, False]))
    >>> [reading.given.tolist() for reading in readings][2:4]
    [[False, False, True], [False, False, True]]
    """
    require_shape("mask_readings", "mask", mask, {"S": None})
    hides_some = mask.dtype == torch.bool and bool(mask.any()) and not bool(mask.all())
    rule = "mask must hide some keys, not all"
    expected = "bool, some True and some False"
    got = f"{mask.dtype} {mask.tolist()}"
    require(hides_some, "mask_readings", rule, expected=expected, got=got)
    row = mask.cpu()[None]  # (1, S)
    with seeded(0):
        return [
            MaskReading(reader, convention, seen(row), seen(from_attend(row, convention)))
            for reader, convention, seen in _readers(row.size(1))
        ]


def _readers(keys: int) -> list[tuple[str, str, Callable[[Tensor], Tensor]]]:
    """Return each reader, its convention, and a function from a mask (1, S) to the keys it sees."""
    query = torch.randn(1, 1, 24)
    memory = torch.randn(1, keys, 24)
    module = nn.MultiheadAttention(24, 4, batch_first=True)
    sdpa = F.scaled_dot_product_attention

    def seen_by(attend: Callable[[Tensor, Tensor], Any]) -> Callable[[Tensor], Tensor]:
        """Find the keys by changing one token of the memory x (1, S, C) after the other."""
        return lambda mask: token_dependence(lambda x: attend(x, mask), memory)[0]

    ours = seen_by(lambda x, mask: attention(query[None], x[None], x[None], mask)[0][0])
    fused = seen_by(lambda x, mask: sdpa(query, x, x, mask))
    attn_mask = seen_by(lambda x, mask: module(query, x, x, attn_mask=mask))
    key_padding_mask = seen_by(lambda x, mask: module(query, x, x, key_padding_mask=mask))
    added = seen_by(lambda x, mask: sdpa(query, x, x, mask.to(x.dtype)))
    return [
        ("attention(q, k, v, mask)", "bool", ours),
        ("scaled_dot_product_attention", "sdpa", fused),
        ("nn.MultiheadAttention, attn_mask", "multihead", attn_mask),
        ("nn.MultiheadAttention, key_padding_mask", "multihead", key_padding_mask),
        ("added to the scores", "additive", added),
    ]
