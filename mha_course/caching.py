"""Decoding token by token: keys and values of the past are kept, and shared by several query heads.

Axes: B batch, H query heads, G key-value heads, P past tokens in the cache, S = P + 1 with the new one,
C width, D = C / H head width. Inputs that do not fit raise ShapeError.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mha_course import errors
from mha_course.attention import attention, merge_heads, split_heads
from mha_course.errors import ShapeError


def decode_step(
    x_t: Tensor, k_cache: Tensor, v_cache: Tensor,
    w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Attend from one new token to itself and to the past, whose keys and values are not computed again.

    No mask is needed: nothing later is there yet. Without bias; the caches that come in are left as they are.

    Args: x_t (B, 1, C), the new token; k_cache and v_cache (B, H, P, D), at first with P = 0;
        w_q, w_k, w_v, w_o (C, C), stored as nn.Linear does; num_heads is H.
    Returns: out (B, 1, C), k_cache and v_cache (B, H, S, D). Raises: ShapeError.

    >>> empty = torch.zeros(2, 4, 0, 6)
    >>> out, k_cache, _ = decode_step(torch.zeros(2, 1, 24), empty, empty, *torch.zeros(4, 24, 24), num_heads=4)
    >>> out.shape, k_cache.shape
    (torch.Size([2, 1, 24]), torch.Size([2, 4, 1, 6]))
    """
    _require_step(x_t, {"k_cache": k_cache, "v_cache": v_cache}, (w_q, w_k, w_v, w_o), num_heads)
    q, k_t, v_t = (split_heads(x_t @ w.T, num_heads) for w in (w_q, w_k, w_v))  # (B, H, 1, D)
    k = torch.cat((k_cache, k_t), dim=2)  # (B, H, S, D)
    v = torch.cat((v_cache, v_t), dim=2)  # (B, H, S, D)
    context, _ = attention(q, k, v)  # (B, H, 1, D)
    merged = merge_heads(context)  # (B, 1, C)
    return merged @ w_o.T, k, v


def repeat_kv(k: Tensor, num_heads: int) -> Tensor:
    """Let each key-value head serve H / G consecutive query heads: head h reads h // (H / G).

    Args: k is the keys or the values, (B, G, S, D); num_heads is H, a multiple of G.
    Returns: (B, H, S, D). Raises: ShapeError.

    >>> repeat_kv(torch.arange(2.0).view(1, 2, 1, 1), num_heads=6).flatten().tolist()
    [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]

    Reference: Ainslie et al. 2023, GQA, section 2.2; one head for all: Shazeer 2019, section 3.
    """
    errors.require_tokens("repeat_kv", "k", k, "B G S D")
    groups = k.size(1)
    if not isinstance(num_heads, int) or num_heads < 1 or num_heads % groups:
        rule, got = "num_heads must be a multiple of the key-value heads", f"num_heads={num_heads!r}, G={groups}"
        fix = f"num_heads={groups} or {2 * groups}"
        raise ShapeError("repeat_kv", rule, expected="num_heads % G == 0, num_heads >= 1", got=got, fix=fix)
    return k.repeat_interleave(num_heads // groups, dim=1)  # (B, H, S, D)


def kv_cache_bytes(
    layers: int, batch: int, seq_len: int, num_kv_heads: int, head_dim: int, bytes_per_value: int
) -> int:
    """Count the bytes of a full cache: 2 (keys and values) times the product of all the sizes.

    Args: whole numbers, none negative; bytes_per_value is 2 for float16, 4 for float32.
    Returns: bytes. Raises: ShapeError.

    >>> kv_cache_bytes(layers=32, batch=1, seq_len=4096, num_kv_heads=32, head_dim=128, bytes_per_value=2) / 2**30
    2.0
    """
    names = ("layers", "batch", "seq_len", "num_kv_heads", "head_dim", "bytes_per_value")
    sizes = (layers, batch, seq_len, num_kv_heads, head_dim, bytes_per_value)
    for name, size in zip(names, sizes, strict=True):
        if not isinstance(size, int) or size < 0:
            rule, got = f"{name} must be a whole number", f"{name}={size!r}"
            raise ShapeError("kv_cache_bytes", rule, expected=f"{name} >= 0", got=got)
    return 2 * math.prod(sizes)


def _require_step(x_t: Tensor, caches: dict[str, Tensor], weights: tuple[Tensor, ...], num_heads: int) -> None:
    """Raise unless the token, the caches and the weights fit each other."""
    names = dict(zip(("w_q", "w_k", "w_v", "w_o"), weights, strict=True))
    errors.require_float("decode_step", x_t=x_t, **caches, **names)
    errors.require_shape("decode_step", "x_t", x_t, {"B": None, "T": 1, "C": None})
    batch, _, width = x_t.shape
    errors.require_heads("decode_step", width, num_heads, width="C")
    for name, weight in names.items():
        errors.require_shape("decode_step", name, weight, {"C": width, "C'": width})
    past = caches["k_cache"].size(2) if caches["k_cache"].dim() == 4 else None
    for name, cache in caches.items():
        axes = {"B": batch, "H": num_heads, "P": past, "D": width // num_heads}
        errors.require_shape("decode_step", name, cache, axes)
