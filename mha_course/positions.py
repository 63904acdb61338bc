"""Positions of tokens: added to the tokens (sinusoidal), or rotating queries and keys (RoPE).

Axes: B batch, H heads, S tokens, C = d_model width, D head width. Inputs that do not fit raise
ShapeError. Angles are computed in float64, so that late positions are as exact as early ones, and
on the CPU, since some devices have no float64.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.types import Device

from mha_course.errors import (
    ShapeError,
    require,
    require_float,
    require_heads,
    require_int,
    require_shape,
    require_tensor,
    require_tokens,
)


def sinusoidal_encoding(seq_len: int, d_model: int, *, device: Device = None) -> Tensor:
    """Give each position waves, from fast to slow: sin(s / 10000^(2i / C)) at 2i, cos at 2i + 1.

    Args: seq_len is S >= 1; d_model is C, even.
    Returns: (S, C), of the default dtype.
    Raises: ShapeError.

    >>> sinusoidal_encoding(7, d_model=24)[0, :4].tolist()
    [0.0, 1.0, 0.0, 1.0]

    Reference: Vaswani et al. 2017, section 3.5.
    """
    require_int("sinusoidal_encoding", "seq_len", seq_len)
    _require_even("sinusoidal_encoding", "d_model", d_model)
    positions = torch.arange(seq_len, dtype=torch.float64, device="cpu")  # (S,)
    channels = torch.arange(0, d_model, 2, dtype=torch.float64, device="cpu")  # (C/2,)
    frequencies = 10000.0 ** (-channels / d_model)  # (C/2,)
    angles = positions[:, None] * frequencies  # (S, C/2)
    encoding = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)  # (S, C)
    return encoding.to(device or torch.get_default_device(), torch.get_default_dtype())


def rope(x: Tensor, positions: Tensor | Sequence[int], base: float = 10000.0) -> Tensor:
    """Rotate each pair of channels (i, i + D/2) by the angle position / base^(2i / D).

    The dot product of a query at position t and a key at s then depends only on t - s.

    Args: x is q or k after the split, D even; positions are those of the tokens; base > 0: the
        larger, the slower the slowest pair rotates.
    Shape: x (B, H, S, D), positions (S,) -> (B, H, S, D), of the dtype of x.
    Raises: ShapeError.

    >>> rope(torch.ones(2, 4, 7, 6), positions=torch.arange(7)).shape
    torch.Size([2, 4, 7, 6])

    Reference: Su et al. 2021, RoFormer, section 3.2.2, in the half-split layout of Llama.
    """
    require_tokens("rope", "x", x, "B H S D")
    _require_even("rope", "D", x.size(3))
    positions = torch.as_tensor([] if positions is None else positions, device="cpu")
    require_shape("rope", "positions", positions, {"S": x.size(2)})
    require(base > 0, "rope", "base must be positive", expected="base > 0", got=f"base={base!r}")
    # In float32 the angles at position 100,000 would be off by up to 7e-3 (D = 128), so only cos
    # and sin are rounded.
    channels = torch.arange(0, x.size(3), 2, dtype=torch.float64, device="cpu")  # (D/2,)
    frequencies = base ** (-channels / x.size(3))  # (D/2,)
    angles = positions[:, None] * frequencies  # (S, D/2)
    cos = angles.cos().to(x)  # (S, D/2)
    sin = angles.sin().to(x)  # (S, D/2)
    first, second = x.chunk(2, dim=-1)  # (B, H, S, D/2)
    rotated_first = first * cos - second * sin  # (B, H, S, D/2)
    rotated_second = first * sin + second * cos  # (B, H, S, D/2)
    return torch.cat((rotated_first, rotated_second), dim=-1)  # (B, H, S, D)


def rope_interleaved(x: Tensor, positions: Tensor | Sequence[int], base: float = 10000.0) -> Tensor:
    """Rotate each pair of neighbouring channels (2i, 2i + 1) by the angle position / base^(2i / D).

    These are rope's rotations, with the channels in a different order. Args, Returns, Raises: as
    for rope.

    >>> rope_interleaved(torch.tensor([[[[1.0, 0.0]]]]), positions=[0]).flatten().tolist()
    [1.0, 0.0]

    Reference: Su et al. 2021, RoFormer, section 3.4.2, equation 34.
    """
    require_tokens("rope_interleaved", "x", x, "B H S D")
    _require_even("rope_interleaved", "D", x.size(3))
    return to_interleaved(rope(to_half_split(x), positions, base))  # (B, H, S, D)


def to_interleaved(x: Tensor) -> Tensor:
    """Put each pair's channels i and i + D/2 side by side: 0 1 2 3 4 5 becomes 0 3 1 4 2 5.

    Shape: x (..., D), D even -> (..., D).
    Raises: ShapeError.

    >>> to_interleaved(torch.arange(6.0)).int().tolist()
    [0, 3, 1, 4, 2, 5]
    """
    require_tensor("to_interleaved", "x", x)
    _require_even("to_interleaved", "D", x.size(-1) if x.dim() else 0)
    return x.unflatten(-1, (2, -1)).transpose(-2, -1).flatten(-2)


def to_half_split(x: Tensor) -> Tensor:
    """Put the channels 2i of all pairs before the channels 2i + 1: this undoes to_interleaved.

    Shape: x (..., D), D even -> (..., D).
    Raises: ShapeError.

    >>> to_half_split(torch.arange(6.0)).int().tolist()
    [0, 2, 4, 1, 3, 5]
    """
    require_tensor("to_half_split", "x", x)
    _require_even("to_half_split", "D", x.size(-1) if x.dim() else 0)
    return x.unflatten(-1, (-1, 2)).transpose(-2, -1).flatten(-2)


def projection_to_half_split(weight: Tensor, num_heads: int) -> Tensor:
    """Reorder the rows of a projection trained with rope_interleaved, so that it works with rope.

    Do this to both queries and keys, and the scores stay the same. Values are not rotated.

    Args: weight or bias of q_proj or k_proj; num_heads is H of that projection.
    Shape: weight (H*D, C), or bias (H*D,) -> of the same shape.
    Raises: ShapeError.

    >>> projection_to_half_split(torch.arange(8.0), num_heads=2).int().tolist()
    [0, 2, 1, 3, 4, 6, 5, 7]
    """
    place = "projection_to_half_split"
    require_float(place, {"weight": weight})
    axes = ("H*D",) if weight.dim() < 2 else ("H*D", "C")
    require_shape(place, "weight", weight, dict.fromkeys(axes))
    require_heads(place, weight.size(0), num_heads, width="H*D")
    _require_even(place, "D", weight.size(0) // num_heads)
    rows = weight.unflatten(0, (num_heads, -1)).movedim(1, -1)  # (H, C, D), or (H, D) of a bias
    return to_half_split(rows).movedim(-1, 1).flatten(0, 1)


def _require_even(place: str, name: str, width: int) -> None:
    positive = isinstance(width, int) and width > 0
    if not positive or width % 2:
        rule = f"{name} must be even, since channels go in pairs"
        expected = f"{name} % 2 == 0, {name} >= 2"
        fix = f"{name}={width + 1}" if positive else None
        raise ShapeError(place, rule, expected=expected, got=f"{name}={width!r}", fix=fix)
