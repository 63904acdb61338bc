"""Decoding token by token: keys and values of the past are kept, and shared by several query heads.

Axes: B batch, H query heads, G key-value heads, T new tokens, P past ones in the cache, S = P + T
with the new,
C width, D = C / H head width. Inputs that do not fit raise ShapeError.
"""

from __future__ import annotations

import math
from typing import Self

import torch
from torch import Tensor, nn

from mha_course import errors
from mha_course.attention import (
    MultiHeadAttention,
    attention,
    fused_attention,
    merge_heads,
    split_heads,
)


def decode_step(
    x_t: Tensor, k_cache: Tensor, v_cache: Tensor,
    w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Attend from one new token to itself and to the past, whose keys and values are not computed
    again.

    No mask is needed: nothing later is there yet. Without bias; the caches that come in are left as
    they are.

    Shape:
        x_t (B, 1, C), the new token
        k_cache, v_cache (B, H, P, D), of the past, at first with P = 0
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


def repeat_kv(k: Tensor, num_heads: int) -> Tensor:
    """Let each key-value head serve H / G consecutive query heads: head h reads h // (H / G).

    Args: num_heads is H, a multiple of G.
    Shape: k, the keys or the values, (B, G, S, D) -> (B, H, S, D).
    Raises: ShapeError.

    >>> repeat_kv(torch.arange(2.0).view(1, 2, 1, 1), num_heads=6).flatten().tolist()
    [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]

    Reference: Ainslie et al. 2023, GQA, section 2.2; one head for all: Shazeer 2019, section 3.
    """
    errors.require_tokens("repeat_kv", "k", k, "B G S D")
    groups = k.size(1)
    if not isinstance(num_heads, int) or num_heads < 1 or num_heads % groups:
        rule = "num_heads must be a multiple of the key-value heads"
        got = f"num_heads={num_heads!r}, G={groups}"
        fix = f"num_heads={groups} or {2 * groups}"
        raise errors.ShapeError(
            "repeat_kv", rule, expected="num_heads % G == 0, num_heads >= 1", got=got, fix=fix
        )
    # Not repeat: it would give 0 1 0 1, but trained models have the heads of a group side by side,
    # 0 0 1 1.
    return k.repeat_interleave(num_heads // groups, dim=1)  # (B, H, S, D)


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


class KVCache:
    """Keep the keys and values of all tokens so far, in one layer.

    >>> cache = KVCache()
    >>> k, v = cache.append(torch.zeros(2, 4, 3, 6), torch.zeros(2, 4, 3, 6))
    >>> k, v = cache.append(torch.zeros(2, 4, 1, 6), torch.zeros(2, 4, 1, 6))
    >>> k.shape, cache.length, cache.bytes
    (torch.Size([2, 4, 4, 6]), 4, 1536)
    """

    def __init__(self) -> None:
        self.k: Tensor | None = None  # keys so far, (B, G, P, D)
        self.v: Tensor | None = None

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add the new keys and values, each (B, G, T, D), and return all so far, each (B,
        G, S, D).
        """
        errors.require_float("KVCache.append", {"k": k, "v": v})
        errors.require_shape("KVCache.append", "k", k, dict.fromkeys("BGTD"))
        errors.require_shape("KVCache.append", "v", v, dict(zip("BGTD", k.shape, strict=True)))
        if self.k is not None and self.v is not None:
            batch, heads, _, width = self.k.shape
            errors.require_float("KVCache.append", {"the cache": self.k, "k": k})
            errors.require_shape(
                "KVCache.append", "k", k, {"B": batch, "G": heads, "T": None, "D": width}
            )
            # A new tensor each time: what was handed out before, and is needed for gradients, stays
            # as it was.
            k = torch.cat((self.k, k), dim=2)  # (B, G, S, D)
            v = torch.cat((self.v, v), dim=2)  # (B, G, S, D)
        self.k, self.v = k, v
        return k, v

    @property
    def length(self) -> int:
        """How many tokens it holds."""
        return 0 if self.k is None else self.k.size(2)

    @property
    def bytes(self) -> int:
        """How much memory its keys and values take; kv_cache_bytes computes it in advance."""
        return sum(x.numel() * x.element_size() for x in (self.k, self.v) if x is not None)


class GroupedQueryAttention(nn.Module):
    """Attend with H query heads that share G key-value heads: fewer keys and values to compute and
    to cache.

    With G = H it is MultiHeadAttention, with G = 1 multi-query attention.

    Args: d_model is C; num_heads is H, which divides C; num_kv_heads is G, which divides H; bias is
    of all Linears. Raises: ShapeError.

    >>> out, weights = GroupedQueryAttention(24, num_heads=4, num_kv_heads=2)(torch.zeros(2, 5, 24))
    >>> out.shape, weights.shape
    (torch.Size([2, 5, 24]), torch.Size([2, 4, 5, 5]))

    Reference: Ainslie et al. 2023, GQA, section 2.2.
    """

    def __init__(
        self, d_model: int, num_heads: int, num_kv_heads: int, *, bias: bool = True
    ) -> None:
        super().__init__()
        errors.require_heads("GroupedQueryAttention", d_model, num_heads)
        divisors = [n for n in range(1, num_heads + 1) if num_heads % n == 0]
        errors.require(
            isinstance(num_kv_heads, int) and num_kv_heads in divisors,
            "GroupedQueryAttention",
            "num_kv_heads must divide num_heads",
            expected="num_heads % num_kv_heads == 0, num_kv_heads >= 1",
            got=f"num_heads={num_heads}, num_kv_heads={num_kv_heads!r}",
            fix=f"num_kv_heads={' or '.join(map(str, divisors))}",
        )
        self.d_model = d_model
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        narrow = num_kv_heads * (d_model // num_heads)
        self.q_proj = nn.Linear(d_model, d_model, bias=bias)
        self.k_proj = nn.Linear(d_model, narrow, bias=bias)
        self.v_proj = nn.Linear(d_model, narrow, bias=bias)
        self.out_proj = nn.Linear(d_model, d_model, bias=bias)

    @classmethod
    def from_multi_head(cls, mha: MultiHeadAttention, num_kv_heads: int) -> Self:
        """Return a module whose key-value heads are means over each group's heads: where uptraining
        starts.

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

    def forward(
        self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None,
        mask: Tensor | None = None,
        *, need_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Return out (B, T, C) and weights (B, H, T, S), or None and a fused kernel, as
        MultiHeadAttention does.
        """
        key = query if key is None else key
        value = key if value is None else value
        inputs = {"query": query, "key": key, "value": value}
        place = "GroupedQueryAttention"
        errors.require_module_inputs(
            place, self.q_proj.weight, inputs, self.num_heads, mask, is_causal
        )
        q, k, v = _project(self, query, key, value)
        if not need_weights:
            context = fused_attention(q, k, v, mask, is_causal=is_causal)  # (B, H, T, D)
            return self.out_proj(merge_heads(context)), None
        if is_causal:
            mask = torch.ones(
                q.size(2), k.size(2), dtype=torch.bool, device=q.device
            ).tril()  # (T, S)
        k = repeat_kv(k, self.num_heads)  # (B, H, S, D)
        v = repeat_kv(v, self.num_heads)  # (B, H, S, D)
        context, weights = attention(q, k, v, mask)
        return self.out_proj(merge_heads(context)), weights


def decode_chunk(
    module: MultiHeadAttention | GroupedQueryAttention, x: Tensor, cache: KVCache
) -> Tensor:
    """Attend from new tokens to themselves and to those in the cache, never to a later one; without
    dropout.

    However a sequence is cut into chunks, they give what the whole gives with a causal mask.

    Args: the cache, one for each layer, takes up the keys and values of x, the new tokens.
    Shape: x (B, T, C) -> out (B, T, C).
    Raises: ShapeError.

    >>> cache = KVCache()
    >>> decode_chunk(MultiHeadAttention(24, 4), torch.zeros(2, 3, 24), cache).shape, cache.length
    (torch.Size([2, 3, 24]), 3)
    """
    errors.require_module_inputs("decode_chunk", module.q_proj.weight, {"x": x})
    project = getattr(
        module, "project", None
    )  # of a module that turns queries and keys by where tokens stand
    q, k_new, v_new = project(x, cache.length) if project else _project(module, x, x, x)
    k, v = cache.append(k_new, v_new)  # (B, G, S, D)
    new, total = q.size(2), k.size(2)
    if new == 1:  # the newest token may attend to every key there is
        context = fused_attention(q, k, v)  # (B, H, 1, D)
    elif (
        new == total
    ):  # nothing was cached: a square mask, which a GPU's fastest kernel knows by name
        context = fused_attention(q, k, v, is_causal=True)  # (B, H, T, D)
    else:  # is_causal would align the queries with the first keys, and they are the last
        mask = torch.ones(new, total, dtype=torch.bool, device=x.device).tril(total - new)  # (T, S)
        context = fused_attention(q, k, v, mask)  # (B, H, T, D)
    return module.out_proj(merge_heads(context))  # (B, T, C)


def _project(
    module: MultiHeadAttention | GroupedQueryAttention, query: Tensor, key: Tensor, value: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Split each projection into as many heads of width D as it has."""
    head_dim = module.d_model // module.num_heads
    q = split_heads(module.q_proj(query), module.num_heads)  # (B, H, T, D)
    k = split_heads(module.k_proj(key), module.k_proj.out_features // head_dim)
    v = split_heads(module.v_proj(value), module.v_proj.out_features // head_dim)
    return q, k, v


def _require_step(
    x_t: Tensor, caches: dict[str, Tensor], weights: dict[str, Tensor], num_heads: int
) -> None:
    """Raise unless the token, the caches and the weights fit each other."""
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
