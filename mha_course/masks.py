"""Masks in one convention: bool, True = may attend.

Axes: B batch, T query tokens, S key tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mha_course.errors import ShapeError, require_shape


def causal_mask(seq_len: int, *, device: torch.device | str | None = None) -> Tensor:
    """Let each token see itself and what came before: mask[t, s] = (s <= t).

    Args: seq_len is S >= 1. Returns: (S, S), bool. Raises: ShapeError.

    >>> causal_mask(3).int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]

    Reference: Vaswani et al. 2017, section 3.2.3.
    """
    if not isinstance(seq_len, int) or seq_len < 1:
        raise ShapeError("causal_mask", "seq_len must be a positive int", expected="seq_len >= 1", got=repr(seq_len))
    return torch.ones(seq_len, seq_len, dtype=torch.bool, device=device).tril()  # (S, S)


def padding_mask(lengths: Tensor | Sequence[int], max_len: int) -> Tensor:
    """Let every token see the real tokens of its sentence: mask[b, 0, 0, s] = (s < lengths[b]).

    Args: lengths is (B,), whole numbers from 0 to max_len; padding stands on the right.
    Returns: (B, 1, 1, S), bool, on the device of lengths. Raises: ShapeError.

    >>> padding_mask([1, 3], max_len=3).squeeze().int().tolist()
    [[1, 0, 0], [1, 1, 1]]
    """
    lengths = torch.as_tensor([] if lengths is None else lengths)
    require_shape("padding_mask", "lengths", lengths, {"B": None})
    if lengths.is_floating_point() or bool(((lengths < 0) | (lengths > max_len)).any()):
        raise ShapeError(
            "padding_mask",
            "lengths must be whole numbers from 0 to max_len",
            expected=f"0 <= length <= {max_len}",
            got=str(lengths.tolist()),
        )
    real = torch.arange(max_len, device=lengths.device) < lengths[:, None]  # (B, S)
    return real[:, None, None]  # (B, 1, 1, S)


def combine_masks(causal: Tensor, padding: Tensor) -> Tensor:
    """Let a token see only what both masks allow.

    Args: causal is (S, S), padding (B, 1, 1, S), both bool.
    Returns: (B, 1, S, S), bool. Raises: ShapeError.

    >>> combine_masks(causal_mask(3), padding_mask([1, 3], 3)).int()[0, 0].tolist()
    [[1, 0, 0], [1, 0, 0], [1, 0, 0]]
    """
    for name, mask in (("causal", causal), ("padding", padding)):
        if mask.dtype != torch.bool:
            raise ShapeError(
                "combine_masks",
                f"{name} must be bool, True = may attend",
                expected="torch.bool",
                got=str(mask.dtype),
                fix=f"{name}.bool()",
            )
    tokens = causal.size(-1)
    require_shape("combine_masks", "causal", causal, {"S": tokens, "S'": tokens})
    require_shape("combine_masks", "padding", padding, {"B": None, "1": 1, "1'": 1, "S": tokens})
    return causal & padding  # (B, 1, S, S)
