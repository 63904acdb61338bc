"""Masks in one convention: bool, True = may attend. to_attend and from_attend convert others.

Axes: B batch, T query tokens, S key tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.types import Device

from mha_course.errors import (
    ShapeError,
    require,
    require_bool,
    require_device,
    require_int,
    require_shape,
    require_tensor,
)

CONVENTIONS = ("bool", "sdpa", "multihead", "seaborn", "additive")
INVERTED = ("multihead", "seaborn")  # True = hidden


def causal_mask(seq_len: int, *, device: Device = None) -> Tensor:
    """Let each token see itself and those before it: mask[t, s] = (s <= t).

    Args: seq_len is S >= 1.
    Returns: (S, S), bool.
    Raises: ShapeError.

    >>> causal_mask(3).int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]

    Reference: Vaswani et al. 2017, section 3.2.3.
    """
    require_int("causal_mask", "seq_len", seq_len)
    return torch.ones(seq_len, seq_len, dtype=torch.bool, device=device).tril()  # (S, S)


def top_left_causal_mask(queries: int, keys: int, *, device: Device = None) -> Tensor:
    """Let query t see the first t + 1 keys, like is_causal in PyTorch's kernels: (s <= t).

    If the queries are the last tokens, it hides too much: see causal_mask_for_cache.

    Args: queries is T >= 1, keys is S >= 1.
    Returns: (T, S), bool.
    Raises: ShapeError.

    >>> top_left_causal_mask(2, keys=5).int().tolist()
    [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]]
    """
    require_int("top_left_causal_mask", "queries", queries)
    require_int("top_left_causal_mask", "keys", keys)
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril()  # (T, S)


def padding_mask(
    lengths: Tensor | Sequence[int], max_len: int,
    *, side: str = "right", device: Device = None,
) -> Tensor:  # fmt: skip
    """Let every token see the real tokens of its sentence: mask[b, 0, 0, s] = (s < lengths[b]).

    Args:
        lengths: (B,), whole numbers from 0 to max_len.
        max_len: S.
        side: where the padding is, "right", or "left" as for decoding, where all texts must end
            together.
    Returns: (B, 1, 1, S), bool, on the device, by default that of lengths.
    Raises: ShapeError.

    >>> padding_mask([1, 3], max_len=3).squeeze().int().tolist()
    [[1, 0, 0], [1, 1, 1]]
    >>> padding_mask([1, 3], max_len=3, side="left").squeeze().int().tolist()
    [[0, 0, 1], [1, 1, 1]]
    """
    _require_one_of("padding_mask", "side", side, ("right", "left"))
    lengths = torch.as_tensor([] if lengths is None else lengths, device=device)
    require_shape("padding_mask", "lengths", lengths, {"B": None})
    outside = (lengths < 0) | (lengths > max_len)  # (B,)
    valid = not lengths.is_floating_point() and not bool(outside.any())
    rule = "lengths must be whole numbers from 0 to max_len"
    expected = f"0 <= length <= {max_len}"
    require(valid, "padding_mask", rule, expected=expected, got=str(lengths.tolist()))
    real = torch.arange(max_len, device=lengths.device) < lengths[:, None]  # (B, S)
    return (real if side == "right" else real.flip(1))[:, None, None]  # (B, 1, 1, S)


def combine_masks(causal: Tensor, padding: Tensor) -> Tensor:
    """Let a token see only what both masks allow.

    Args: causal (S, S) and padding (B, 1, 1, S), bool, True = may attend, on one device.
    Returns: (B, 1, S, S), bool.
    Raises: ShapeError.

    >>> combine_masks(causal_mask(3), padding_mask([1, 3], 3)).int()[0, 0].tolist()
    [[1, 0, 0], [1, 0, 0], [1, 0, 0]]
    """
    for name, mask in (("causal", causal), ("padding", padding)):
        require_bool("combine_masks", mask, name=name, fix=f"{name}.bool()")
    require_device("combine_masks", "padding", padding, causal.device, "causal")
    tokens = causal.size(-1)
    require_shape("combine_masks", "causal", causal, {"S": tokens, "S'": tokens})
    require_shape("combine_masks", "padding", padding, {"B": None, "1": 1, "1'": 1, "S": tokens})
    return causal & padding  # (B, 1, S, S)


def causal_mask_for_cache(new: int, total: int, *, device: Device = None) -> Tensor:
    """Let each of the last tokens see itself and those before it: (s <= t + total - new).

    Args: new is T, the number of new tokens, total is S, all tokens; 1 <= new <= total.
    Returns: (T, S), bool, the last rows of causal_mask(total).
    Raises: ShapeError.

    >>> causal_mask_for_cache(2, total=5).int().tolist()
    [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    """
    if not isinstance(new, int) or not isinstance(total, int) or not 1 <= new <= total:
        rule = "the new tokens must be among all tokens"
        expected = "ints with 1 <= new <= total"
        got = f"new={new!r}, total={total!r}"
        raise ShapeError("causal_mask_for_cache", rule, expected=expected, got=got)
    return torch.ones(new, total, dtype=torch.bool, device=device).tril(total - new)  # (T, S)


def to_attend(mask: Tensor, convention: str) -> Tensor:
    """Convert a mask from any common convention: the result is bool, True = may attend.

    Args:
        mask: of any shape.
        convention: "bool" (this course) and "sdpa" (scaled_dot_product_attention), True = may
            attend; "multihead" (attn_mask or key_padding_mask of nn.MultiheadAttention), True =
            ignore; "seaborn", True = leave the cell empty; "additive", a float for the scores, 0 =
            may attend, -inf = hidden.
    Returns: bool, of the shape of mask.
    Raises: ShapeError.

    >>> to_attend(torch.tensor([False, True]), "multihead").tolist()
    [True, False]
    >>> to_attend(torch.tensor([0.0, -math.inf]), "additive").tolist()
    [True, False]
    """
    _require_one_of("to_attend", "convention", convention, CONVENTIONS)
    if convention == "additive":
        _require_additive("to_attend", mask)
        return mask == 0
    fix = 'convention="additive" if it holds 0 and -inf, mask.bool() if it holds 0 and 1'
    require_bool("to_attend", mask, what=f"bool in the convention {convention!r}", fix=fix)
    return ~mask if convention in INVERTED else mask


def from_attend(mask: Tensor, convention: str) -> Tensor:
    """Convert a mask to any common convention: to_attend undoes it.

    Args: mask is bool, True = may attend, of any shape; convention is as for to_attend.
    Returns: bool, or float32 for "additive" (additive_mask has other dtypes), of the shape of mask.
    Raises: ShapeError.

    >>> from_attend(torch.tensor([False, True]), "multihead").tolist()
    [True, False]
    """
    _require_one_of("from_attend", "convention", convention, CONVENTIONS)
    if convention == "additive":
        return additive_mask(mask, torch.float32)
    require_bool("from_attend", mask, fix="mask.bool() if it holds 0 and 1")
    return ~mask if convention in INVERTED else mask


def additive_mask(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert a mask to numbers to add to the scores: 0 = may attend, -inf = hidden.

    Args: mask is bool, True = may attend, of any shape; dtype is that of the scores, a float dtype.
    Returns: a tensor of that dtype and of the shape of mask.
    Raises: ShapeError.

    >>> additive_mask(causal_mask(2), torch.float32).tolist()
    [[0.0, -inf], [0.0, 0.0]]
    """
    require_bool("additive_mask", mask, fix="mask.bool() if it holds 0 and 1")
    is_float = isinstance(dtype, torch.dtype) and dtype.is_floating_point
    rule = "dtype must be able to hold -inf"
    fix = "dtype=torch.float32"
    require(is_float, "additive_mask", rule, expected="a float dtype", got=str(dtype), fix=fix)
    # Not (1 - mask) * -inf, since 0 * -inf is NaN. Nor -1e9: float16 cannot hold it, and a fully
    # masked row would weight all keys equally.
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, -math.inf)


def _require_one_of(place: str, name: str, value: str, values: tuple[str, ...]) -> None:
    rule = f"no {name} has this name"
    require(value in values, place, rule, expected=", ".join(values), got=repr(value))


def _require_additive(place: str, mask: Tensor) -> None:
    """Raise unless mask contains only 0 and -inf."""
    require_tensor(place, "mask", mask)
    rule = "an additive mask must be floating point"
    require(mask.is_floating_point(), place, rule, expected="a float dtype", got=str(mask.dtype))
    finite = mask[(mask != 0) & ~mask.isneginf()]
    if finite.numel():
        rule = "an additive mask must hold only 0 and -inf"
        expected = "0 = may attend, -inf = hidden"
        got = f"{finite[0].item():g} too"
        # A bias on the scores (ALiBi) is not a mask: only very low numbers stand for -inf.
        fix = "mask.masked_fill(mask < -1e4, -math.inf)" if bool((finite < -1e4).all()) else None
        raise ShapeError(place, rule, expected=expected, got=got, fix=fix)
