"""Where a token stands: added to the tokens (sinusoidal), or turned into queries and keys (RoPE).

Axes: B batch, H heads, S tokens, C = d_model width, D head width. Inputs that do not fit raise ShapeError.
Angles are computed in float64, so that late positions are as exact as early ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mha_course.errors import ShapeError, require_shape, require_tokens


def sinusoidal_encoding(seq_len: int, d_model: int) -> Tensor:
    """Give each position waves from fast to slow: sin(s / 10000^(2i / C)) at channel 2i, cos at 2i + 1.

    Args: seq_len is S >= 1; d_model is C, even.
    Returns: (S, C), of the default dtype. Raises: ShapeError.

    >>> sinusoidal_encoding(7, d_model=24)[0, :4].tolist()
    [0.0, 1.0, 0.0, 1.0]

    Reference: Vaswani et al. 2017, section 3.5.
    """
    if not isinstance(seq_len, int) or seq_len < 1:
        rule, got = "seq_len must be a positive int", repr(seq_len)
        raise ShapeError("sinusoidal_encoding", rule, expected="seq_len >= 1", got=got)
    _require_even("sinusoidal_encoding", "d_model", d_model)
    positions = torch.arange(seq_len, dtype=torch.float64)  # (S,)
    frequencies = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)  # (C/2,)
    angles = positions[:, None] * frequencies  # (S, C/2)
    encoding = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)  # (S, C)
    return encoding.to(torch.get_default_dtype())


def rope(x: Tensor, positions: Tensor | Sequence[int], base: float = 10000.0) -> Tensor:
    """Turn each pair of channels (i, i + D/2) by the angle position / base^(2i / D).

    A query turned by t and a key turned by s then have a dot product that depends on t - s alone.

    Args: x is q or k after the split, (B, H, S, D), D even; positions is (S,); base > 0.
    Returns: (B, H, S, D), of the dtype of x. Raises: ShapeError.

    >>> rope(torch.ones(2, 4, 7, 6), positions=torch.arange(7)).shape
    torch.Size([2, 4, 7, 6])

    Reference: Su et al. 2021, RoFormer, section 3.2.2, in the half-split layout of Llama.
    """
    require_tokens("rope", "x", x, "B H S D")
    _require_even("rope", "D", x.size(3))
    positions = torch.as_tensor([] if positions is None else positions, device=x.device)
    require_shape("rope", "positions", positions, {"S": x.size(2)})
    if not base > 0:
        raise ShapeError("rope", "base must be positive", expected="base > 0", got=f"base={base!r}")
    half = x.size(3) // 2
    frequencies = base ** (-torch.arange(half, dtype=torch.float64, device=x.device) / half)  # (D/2,)
    angles = positions[:, None] * frequencies  # (S, D/2)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)  # (S, D/2)
    first, second = x.chunk(2, dim=-1)  # (B, H, S, D/2)
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)  # (B, H, S, D)


def _require_even(place: str, name: str, width: int) -> None:
    """Raise unless the width is a positive even int."""
    if isinstance(width, int) and width > 0 and width % 2 == 0:
        return
    fix = f"{name}={width + 1}" if isinstance(width, int) and width > 0 else None
    rule, got = f"{name} must be even, since channels go in pairs", f"{name}={width!r}"
    raise ShapeError(place, rule, expected=f"{name} % 2 == 0, {name} >= 2", got=got, fix=fix)
