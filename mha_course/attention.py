"""The reference: scaled dot-product attention and the multi-head module around it.

Axes: B batch, T query tokens, S key and value tokens (T = S in self-attention), C = d_model width,
H heads, G key-value heads (H in MultiHeadAttention), D = C / H. A mask is bool,
True = may attend. Inputs that do not fit raise ShapeError.
Reference: Vaswani et al. 2017, Attention Is All You Need, section 3.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mha_course import errors
from mha_course.masks import causal_mask


def multi_head_attention(
    x: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    w_o: Tensor,
    num_heads: int,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Attend with H heads at once, without bias: this whole file in twelve lines.

    Args: mask as for attention.
    Shape:
        x (B, S, C)
        w_q, w_k, w_v, w_o (C, C), stored as nn.Linear does
    Returns: out (B, S, C) and weights (B, H, S, S).
    Raises: ShapeError.

    >>> w_q, w_k, w_v, w_o = torch.zeros(4, 24, 24)
    >>> out, weights = multi_head_attention(torch.zeros(2, 5, 24), w_q, w_k, w_v, w_o, num_heads=4)
    >>> out.shape, weights.shape
    (torch.Size([2, 5, 24]), torch.Size([2, 4, 5, 5]))

    Reference: Vaswani et al. 2017, section 3.2.2.
    """
    q = split_heads(x @ w_q.T, num_heads)  # (B, H, S, D)
    k = split_heads(x @ w_k.T, num_heads)  # (B, H, S, D)
    v = split_heads(x @ w_v.T, num_heads)  # (B, H, S, D)
    scores = q @ k.transpose(-2, -1)  # (B, H, S, S)
    scaled_scores = scores / math.sqrt(q.size(-1))  # (B, H, S, S)
    weights = masked_softmax(scaled_scores, mask)  # (B, H, S, S)
    context = weights @ v  # (B, H, S, D)
    merged = merge_heads(context)  # (B, S, C)
    out = merged @ w_o.T  # (B, S, C)
    return out, weights


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Cut the width into H heads and bring the head axis before the tokens.

    Shape: x (B, S, C) -> (B, H, S, D), a view: no number moves.
    Raises: ShapeError.

    >>> split_heads(torch.zeros(2, 5, 24), num_heads=4).shape
    torch.Size([2, 4, 5, 6])

    Reference: Vaswani et al. 2017, section 3.2.2.
    """
    errors.require_tokens("split_heads", "x", x, "B S C")
    errors.require_heads("split_heads", x.size(2), num_heads, width="C")
    return x.unflatten(2, (num_heads, -1)).transpose(1, 2)  # (B, H, S, D)


def merge_heads(x: Tensor) -> Tensor:
    """Undo split_heads: lay the heads of each token side by side, which the paper calls Concat.

    Shape: x (B, H, S, D) -> (B, S, C); a contiguous x is copied unless H or S is 1.
    Raises: ShapeError.

    >>> merge_heads(torch.zeros(2, 4, 5, 6)).shape
    torch.Size([2, 5, 24])

    Reference: Vaswani et al. 2017, section 3.2.2.
    """
    errors.require_tokens("merge_heads", "x", x, "B H S D")
    return x.transpose(1, 2).flatten(2)  # (B, S, C)


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
    errors.require_multiple("repeat_kv", "num_heads", num_heads, "G", groups)
    # Not repeat: that is 0 1 0 1, but trained models have a group's heads side by side, 0 0 1 1.
    return k.repeat_interleave(num_heads // groups, dim=1)  # (B, H, S, D)


def split_fused_qkv(qkv: Tensor, num_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return q, k and v (B, H, S, D), cut from (B, S, 3C); the last axis is ordered (3, H, D).

    Raises: ShapeError.
    """
    errors.require_tokens("split_fused_qkv", "qkv", qkv, "B S 3C")
    errors.require_int("split_fused_qkv", "num_heads", num_heads)
    errors.require_multiple("split_fused_qkv", "3C", qkv.size(2), "3H", 3 * num_heads)
    unfolded = qkv.unflatten(2, (3, num_heads, -1))  # (B, S, 3, H, D)
    q, k, v = unfolded.permute(2, 0, 3, 1, 4)  # (B, H, S, D)
    return q, k, v


def head_contributions(context: Tensor, w_o: Tensor) -> Tensor:
    """Return what each head adds to the output, (B, H, T, C): their sum is merged @ w_oᵀ.

    Shape:
        context (B, H, T, D)
        w_o (C, C), stored as nn.Linear does
    Raises: ShapeError.
    """
    errors.require_tokens("head_contributions", "context", context, "B H T D")
    width = context.size(1) * context.size(3)
    errors.require_shape("head_contributions", "w_o", w_o, {"C": None, "H*D": width})
    columns = w_o.unflatten(1, (context.size(1), -1)).permute(1, 2, 0)  # (H, D, C)
    return context @ columns  # (B, H, T, C)


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Let every query mix the values: softmax(q kᵀ / sqrt(D)) v.

    Args:
        q, k, v: of one float dtype; v may have a width of its own.
        mask: True = may attend; (T, S), or 4-D and broadcastable to (B, H, T, S).
    Shape:
        q (B, H, T, D)
        k, v (B, H, S, D)
    Returns: context (B, H, T, D) and weights (B, H, T, S), whose rows sum to 1. A row with every
        key hidden gives weights 0 and context 0, and finite gradients.
    Raises: ShapeError.

    >>> context, weights = attention(*(torch.ones(2, 4, n, 6) for n in (5, 7, 7)))
    >>> context.shape, weights.shape
    (torch.Size([2, 4, 5, 6]), torch.Size([2, 4, 5, 7]))

    Reference: Vaswani et al. 2017, section 3.2.1, equation 1.
    """
    errors.require_attention_inputs("attention", q, k, v, mask)
    scores = _scores(q, k)  # (B, H, T, S)
    scaled_scores = scores / math.sqrt(q.size(-1))  # (B, H, T, S)
    weights = masked_softmax(scaled_scores, mask)  # (B, H, T, S)
    if scores.dtype != q.dtype:
        weights = weights.to(q.dtype)
    context = weights @ v  # (B, H, T, D)
    return context, weights


def _scores(q: Tensor, k: Tensor) -> Tensor:
    # Half precision is computed in float32, as in fused kernels: float16 ends at 65,504, which an
    # undivided score may exceed, and bfloat16 keeps three digits of it.
    if q.dtype in (torch.float16, torch.bfloat16):
        q, k = q.float(), k.float()
    return q @ k.transpose(-2, -1)  # (B, H, T, S)


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Turn each row of scores into weights: softmax over the keys it may attend to.

    Hidden keys get 0, and so does every key in a fully masked row.

    Args: mask is bool, True = may attend, broadcastable to the scores; None hides nothing.
    Shape: scores (..., T, S), float -> (..., T, S).
    Raises: ShapeError.

    >>> masked_softmax(torch.zeros(2, 2), torch.tensor([[True, False], [False, False]])).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    errors.require_float("masked_softmax", {"scores": scores})
    if mask is not None:
        errors.require_bool("masked_softmax", mask)
        errors.require_device("masked_softmax", "mask", mask, scores.device, "the scores")
        scores = scores.masked_fill(~mask, -math.inf)
    return _softmax_of_masked(scores, mask)


def _softmax_of_masked(masked_scores: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return torch.softmax(masked_scores, dim=-1)
    # The softmax of a row of only -inf is NaN, and then so is v.grad, even if nobody reads the row,
    # since 0 · NaN is NaN. Such a row gets finite scores first and loses its weights afterwards, so
    # no NaN ever arises.
    sees = mask.any(-1, keepdim=True)
    weights = torch.softmax(masked_scores.masked_fill(~sees, 0.0), dim=-1)
    return weights * sees


def fused_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    dropout: float = 0.0,
    *,
    is_causal: bool = False,
) -> Tensor:
    """Compute the context in one call; a fused kernel never stores all the scores.

    Args:
        mask: as for attention.
        dropout: the fraction of weights to drop in this call; 0 outside of training.
        is_causal: use the square causal mask; then mask must be None.
    Shape:
        q (B, H, T, D)
        k, v (B, G, S, D), where G divides H: each head of k and v serves H / G heads of q
    Returns: context (B, H, T, D), as attention returns it; the inputs are not checked.

    >>> fused_attention(*(torch.ones(2, heads, 5, 6) for heads in (4, 2, 2)), is_causal=True).shape
    torch.Size([2, 4, 5, 6])

    Reference: Dao et al. 2022, FlashAttention; PyTorch chooses the kernel by device and inputs.
    """
    grouped = k.size(1) != q.size(1)
    if mask is None:
        return F.scaled_dot_product_attention(
            q, k, v, dropout_p=dropout, is_causal=is_causal, enable_gqa=grouped
        )
    # PyTorch promises nothing for a row without a key, and its kernels have given NaN and 0: such a
    # row is unmasked first and set to 0 afterwards.
    sees = mask.any(-1, keepdim=True)
    opened = mask | ~sees
    context = F.scaled_dot_product_attention(
        q, k, v, opened, dropout, is_causal, enable_gqa=grouped
    )  # (B, H, T, D)
    return context * sees


@dataclass(frozen=True)
class AttentionSteps:
    """Every stage of one pass through an AttentionModule, in the order of computation."""

    q: Tensor  # (B, H, T, D)
    k: Tensor  # (B, H, S, D)
    v: Tensor  # (B, H, S, D)
    scores: Tensor  # (B, H, T, S)
    scaled_scores: Tensor  # (B, H, T, S)
    masked_scores: Tensor  # (B, H, T, S)
    weights: Tensor  # (B, H, T, S), after dropout while training
    context: Tensor  # (B, H, T, D)
    merged: Tensor  # (B, T, C)
    out: Tensor  # (B, T, C)


class AttentionModule(nn.Module):
    """The forward that all attention modules share: H query heads and G key-value heads.

    Args:
        d_model: the width C.
        num_heads, num_kv_heads: H, which divides C, and G, which divides H; each key-value head
            serves H / G query heads.
        bias: whether the four Linears have one.
        dropout: the share of the weights that is dropped while training, 0 <= dropout < 1.
    Raises: ShapeError.
    """

    def __init__(
        self, d_model: int, num_heads: int, num_kv_heads: int,
        *, bias: bool = True, dropout: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        place = type(self).__name__
        errors.require_heads(place, d_model, num_heads)
        errors.require_int(place, "num_kv_heads", num_kv_heads)
        divisors = [str(n) for n in range(1, num_heads + 1) if num_heads % n == 0]
        fix = f"num_kv_heads={' or '.join(divisors)}"
        kv_heads = ("num_kv_heads", num_kv_heads)
        errors.require_multiple(place, "num_heads", num_heads, *kv_heads, fix=fix)
        rule = "dropout must be a share"
        got = f"dropout={dropout!r}"
        errors.require(0 <= dropout < 1, place, rule, expected="0 <= dropout < 1", got=got)
        self.d_model = d_model
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.dropout = dropout
        head_dim = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=bias)
        self.k_proj = nn.Linear(d_model, num_kv_heads * head_dim, bias=bias)
        self.v_proj = nn.Linear(d_model, num_kv_heads * head_dim, bias=bias)
        self.out_proj = nn.Linear(d_model, d_model, bias=bias)

    def forward(
        self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None,
        mask: Tensor | None = None,
        *, need_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Let the query tokens attend to the key tokens.

        Args:
            query, key, value: key defaults to query, and value to key.
            mask: as for attention.
            need_weights: if False, a fused kernel computes out, and the weights are None.
            is_causal: the same as mask=causal_mask(T), but without making the mask: a GPU's fastest
                kernel (flash) takes none. Not with a mask; T must equal S.
        Shape:
            query (B, T, C)
            key, value (B, S, C)
        Returns: out (B, T, C) and weights (B, H, T, S), or None.
        Raises: ShapeError.
        """
        if need_weights:
            steps = self.steps(query, key, value, mask, is_causal=is_causal)
            return steps.out, steps.weights
        q, k, v = self._checked_project(query, key, value, mask, is_causal)
        dropout = self.dropout if self.training else 0.0
        context = fused_attention(q, k, v, mask, dropout, is_causal=is_causal)  # (B, H, T, D)
        return self.out_proj(merge_heads(context)), None

    def steps(
        self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None,
        mask: Tensor | None = None,
        *, is_causal: bool = False,
    ) -> AttentionSteps:  # fmt: skip
        """Do the same pass and keep every stage. Arguments as for forward."""
        q, k, v = self._checked_project(query, key, value, mask, is_causal)
        if self.num_kv_heads < self.num_heads:
            k = repeat_kv(k, self.num_heads)  # (B, H, S, D)
            v = repeat_kv(v, self.num_heads)  # (B, H, S, D)
        if is_causal:
            mask = causal_mask(q.size(2), device=q.device)  # (T, T)
        scores = _scores(q, k)  # (B, H, T, S), float32 where q is half
        scaled_scores = scores / math.sqrt(q.size(-1))  # (B, H, T, S)
        masked_scores = scaled_scores  # (B, H, T, S)
        if mask is not None:  # masked_softmax in two steps, to keep these scores for inspection
            masked_scores = scaled_scores.masked_fill(~mask, -math.inf)  # (B, H, T, S)
        weights = _softmax_of_masked(masked_scores, mask)  # (B, H, T, S)
        if scores.dtype != q.dtype:
            weights = weights.to(q.dtype)
        weights = F.dropout(weights, self.dropout, self.training)  # (B, H, T, S)
        context = weights @ v  # (B, H, T, D)
        merged = merge_heads(context)  # (B, T, C)
        out = self.out_proj(merged)  # (B, T, C)
        return AttentionSteps(
            q, k, v, scores, scaled_scores, masked_scores, weights, context, merged, out
        )

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Project the tokens and split the heads: q (B, H, T, D), k and v (B, G, S, D)."""
        q = split_heads(self.q_proj(query), self.num_heads)  # (B, H, T, D)
        k = split_heads(self.k_proj(key), self.num_kv_heads)  # (B, G, S, D)
        v = split_heads(self.v_proj(value), self.num_kv_heads)  # (B, G, S, D)
        return q, k, v

    def _checked_project(
        self, query: Tensor, key: Tensor | None, value: Tensor | None, mask: Tensor | None,
        is_causal: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        key = query if key is None else key
        value = key if value is None else value
        inputs = {"query": query, "key": key, "value": value}
        errors.require_module_inputs(
            type(self).__name__, self.q_proj.weight, inputs, self.num_heads, mask, is_causal
        )
        return self.project(query, key, value)


class MultiHeadAttention(AttentionModule):
    """Attend with H heads at once: Concat(head_1 … head_H) W_O.

    Args:
        d_model: the width C.
        num_heads: H, which divides C.
        bias: whether the four Linears have one.
        dropout: the share of the weights that is dropped while training, 0 <= dropout < 1.
    Raises: ShapeError.

    >>> out, weights = MultiHeadAttention(d_model=24, num_heads=4)(torch.zeros(2, 5, 24))
    >>> out.shape, weights.shape
    (torch.Size([2, 5, 24]), torch.Size([2, 4, 5, 5]))

    Reference: Vaswani et al. 2017, section 3.2.2.
    """

    def __init__(
        self, d_model: int, num_heads: int, *, bias: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__(d_model, num_heads, num_heads, bias=bias, dropout=dropout)
