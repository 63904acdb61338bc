"""Decoding token by token: past keys and values are cached, and query heads may share them.

Axes: B batch, H query heads, G key-value heads, T new tokens, P cached tokens, S = P + T, C width,
D = C / H head width; in gather_pages, A pages of N tokens each. Inputs that do not fit raise
ShapeError.
"""

from __future__ import annotations

import math
from typing import Self

import torch
from torch import Tensor

from mha_course import errors
from mha_course.attention import (
    AttentionModule,
    MultiHeadAttention,
    attention,
    fused_attention,
    merge_heads,
    repeat_kv,
    split_heads,
)
from mha_course.masks import causal_mask_for_cache

__all__ = [
    "GroupedQueryAttention", "KVCache", "decode_chunk", "decode_step", "gather_pages",
    "kv_cache_bytes", "repeat_kv",
]  # fmt: skip


def decode_step(
    x_t: Tensor, k_cache: Tensor, v_cache: Tensor,
    w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Attend from one new token to itself and to the cached past.

    No mask is needed, since no later token exists yet. There is no bias; the caches passed in stay.

    Shape:
        x_t (B, 1, C), the new token
        k_cache, v_cache (B, H, P, D), the past; P = 0 at first
        w_q, w_k, w_v, w_o (C, C), stored as nn.Linear does
    Returns: out (B, 1, C), k_cache and v_cache (B, H, S, D).
    Raises: ShapeError.

    >>> x_t, empty = torch.zeros(2, 1, 24), torch.zeros(2, 4, 0, 6)
    >>> matrices = torch.zeros(4, 24, 24)
    >>> out, k_cache, _ = decode_step(x_t, empty, empty, *matrices, num_heads=4)
    >>> out.shape, k_cache.shape
    (torch.Size([2, 1, 24]), torch.Size([2, 4, 1, 6]))
    """
    caches = {"k_cache": k_cache, "v_cache": v_cache}
    _require_step(x_t, caches, {"w_q": w_q, "w_k": w_k, "w_v": w_v, "w_o": w_o}, num_heads)
    q = split_heads(x_t @ w_q.T, num_heads)  # (B, H, 1, D)
    k_t = split_heads(x_t @ w_k.T, num_heads)  # (B, H, 1, D)
    v_t = split_heads(x_t @ w_v.T, num_heads)  # (B, H, 1, D)
    k = torch.cat((k_cache, k_t), dim=2)  # (B, H, S, D)
    v = torch.cat((v_cache, v_t), dim=2)  # (B, H, S, D)
    context, _ = attention(q, k, v)  # (B, H, 1, D)
    merged = merge_heads(context)  # (B, 1, C)
    return merged @ w_o.T, k, v


def kv_cache_bytes(
    layers: int, batch: int, seq_len: int, num_kv_heads: int, head_dim: int, bytes_per_value: int
) -> int:
    """Count the bytes of a full cache: 2 (keys and values) times the product of all the sizes.

    Args: whole numbers, none negative; bytes_per_value is 2 for float16, 4 for float32.
    Raises: ShapeError.

    >>> llama_2_7b = {"layers": 32, "num_kv_heads": 32, "head_dim": 128, "bytes_per_value": 2}
    >>> kv_cache_bytes(batch=1, seq_len=4096, **llama_2_7b) / 2**30
    2.0
    """
    sizes = {
        "layers": layers, "batch": batch, "seq_len": seq_len,
        "num_kv_heads": num_kv_heads, "head_dim": head_dim, "bytes_per_value": bytes_per_value,
    }  # fmt: skip
    for name, size in sizes.items():
        errors.require_int("kv_cache_bytes", name, size, least=0)
    return 2 * math.prod(sizes.values())


def gather_pages(pages: Tensor, table: Tensor, length: int) -> Tensor:
    """Return the keys of one text in order, from the pages in its block table.

    Args: table lists the numbers of the text's pages, int64; entries after its last page are not
        read. length is the text's, in tokens.
    Shape: pages (A, H, N, D), table (n,), 0 <= length <= n N -> (H, length, D).
    Raises: ShapeError.

    >>> pages = torch.arange(12.0).view(3, 1, 4, 1)  # page 0 holds 0 to 3, page 1 holds 4 to 7
    >>> gather_pages(pages, torch.tensor([2, 0, -1]), 6).flatten()
    tensor([ 8.,  9., 10., 11.,  0.,  1.])

    Reference: Kwon et al. 2023, PagedAttention, section 4.1.
    """
    errors.require_shape("gather_pages", "pages", pages, dict.fromkeys("AHND"))
    errors.require_shape("gather_pages", "table", table, {"n": None})
    errors.require_int("gather_pages", "length", length, least=0)
    room = len(table) * pages.size(2)
    errors.require(
        length <= room, "gather_pages", "a text must fit into its pages",
        expected=f"length <= n N = {room}", got=f"length={length}",
    )  # fmt: skip
    count = math.ceil(length / pages.size(2))
    in_order = pages[table[:count]].transpose(0, 1)  # (H, n, N, D)
    return in_order.flatten(1, 2)[:, :length]  # (H, length, D)


class KVCache:
    """Keep the keys and values of all tokens so far, in one layer.

    >>> cache = KVCache()
    >>> k, v = cache.append(torch.zeros(2, 4, 3, 6), torch.zeros(2, 4, 3, 6))
    >>> k, v = cache.append(torch.zeros(2, 4, 1, 6), torch.zeros(2, 4, 1, 6))
    >>> k.shape, cache.length, cache.bytes
    (torch.Size([2, 4, 4, 6]), 4, 1536)
    """

    def __init__(self) -> None:
        self.length = 0  # how many tokens so far
        self.k: Tensor | None = None  # keys so far, (B, G, P, D)
        self.v: Tensor | None = None

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add keys and values, each (B, G, T, D), and return all so far, each (B, G, S, D)."""
        errors.require_float("KVCache.append", {"k": k, "v": v})
        errors.require_shape("KVCache.append", "k", k, dict.fromkeys("BGTD"))
        errors.require_shape("KVCache.append", "v", v, dict(zip("BGTD", k.shape, strict=True)))
        added = k.size(2)
        if self.k is not None and self.v is not None:
            batch, heads, _, width = self.k.shape
            errors.require_float("KVCache.append", {"the cache": self.k, "k": k})
            axes = {"B": batch, "G": heads, "T": None, "D": width}
            errors.require_shape("KVCache.append", "k", k, axes)
            # A new tensor each time: gradients need those returned before unchanged.
            k, v = torch.cat((self.k, k), dim=2), torch.cat((self.v, v), dim=2)  # (B, G, S, D)
        self.k, self.v = k, v
        self.length += added
        return k, v

    @property
    def bytes(self) -> int:
        """How much memory its keys and values take; kv_cache_bytes computes it in advance."""
        return sum(x.numel() * x.element_size() for x in (self.k, self.v) if x is not None)


class GroupedQueryAttention(AttentionModule):
    """Attend with H query heads that share G key-value heads: less to compute and to cache.

    With G = H it is MultiHeadAttention, with G = 1 multi-query attention.

    Args:
        d_model: C.
        num_heads: H, which divides C.
        num_kv_heads: G, which divides H.
        bias: whether the four Linears have one.
    Raises: ShapeError.

    >>> out, weights = GroupedQueryAttention(24, num_heads=4, num_kv_heads=2)(torch.zeros(2, 5, 24))
    >>> out.shape, weights.shape
    (torch.Size([2, 5, 24]), torch.Size([2, 4, 5, 5]))

    Reference: Ainslie et al. 2023, GQA, section 2.2.
    """

    def __init__(
        self, d_model: int, num_heads: int, num_kv_heads: int, *, bias: bool = True
    ) -> None:
        super().__init__(d_model, num_heads, num_kv_heads, bias=bias)

    @classmethod
    def from_multi_head(cls, mha: MultiHeadAttention, num_kv_heads: int) -> Self:
        """Return a module to uptrain: each key-value head is the mean of its group.

        Raises: ShapeError. Dropout has no counterpart.
        Reference: Ainslie et al. 2023, GQA, section 2.1.
        """
        module = cls(mha.d_model, mha.num_heads, num_kv_heads, bias=mha.q_proj.bias is not None)
        state = mha.state_dict()
        for name, parameter in mha.state_dict().items():
            if name.startswith(("k_proj", "v_proj")):
                groups = parameter.unflatten(0, (num_kv_heads, mha.num_heads // num_kv_heads, -1))
                state[name] = groups.mean(1).flatten(0, 1)
        module.to(mha.q_proj.weight).load_state_dict(state)
        return module.train(mha.training)


def decode_chunk(module: AttentionModule, x: Tensor, cache: KVCache) -> Tensor:
    """Attend causally from new tokens to themselves and to the cache, without dropout.

    However a sequence is cut into chunks, the result equals one causal pass over all of it.

    Args: cache is this layer's; the keys and values of x, the new tokens, are added to it.
    Shape: x (B, T, C) -> out (B, T, C).
    Raises: ShapeError.

    >>> cache = KVCache()
    >>> decode_chunk(MultiHeadAttention(24, 4), torch.zeros(2, 3, 24), cache).shape, cache.length
    (torch.Size([2, 3, 24]), 3)
    """
    errors.require_module_inputs("decode_chunk", module.q_proj.weight, {"x": x})
    q, k_new, v_new = module.project(x, x, x)
    k, v = cache.append(k_new, v_new)  # (B, G, S, D)
    new, total = q.size(2), k.size(2)
    if new == 1:  # the newest token may attend to every key
        context = fused_attention(q, k, v)  # (B, H, 1, D)
    elif new == total:
        # nothing was cached, and a GPU's fastest kernel needs no square mask
        context = fused_attention(q, k, v, is_causal=True)  # (B, H, T, D)
    else:  # is_causal would align the queries with the first keys, not the last
        mask = causal_mask_for_cache(new, total, device=x.device)  # (T, S)
        context = fused_attention(q, k, v, mask)  # (B, H, T, D)
    return module.out_proj(merge_heads(context))  # (B, T, C)


def _require_step(
    x_t: Tensor, caches: dict[str, Tensor], weights: dict[str, Tensor], num_heads: int
) -> None:
    errors.require_float("decode_step", {"x_t": x_t, **caches, **weights})
    errors.require_shape("decode_step", "x_t", x_t, {"B": None, "T": 1, "C": None})
    batch, _, width = x_t.shape
    errors.require_heads("decode_step", width, num_heads, width="C")
    for name, weight in weights.items():
        errors.require_shape("decode_step", name, weight, {"C": width, "C'": width})
    past = caches["k_cache"].size(2) if caches["k_cache"].dim() == 4 else None
    for name, cache in caches.items():
        axes = {"B": batch, "H": num_heads, "P": past, "D": width // num_heads}
        errors.require_shape("decode_step", name, cache, axes)
