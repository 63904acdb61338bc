"""The right answers of the exercises: each is what ``solution`` shows and what ``check`` compares with.

Axes: B batch, T query tokens, S key and value tokens, C width, H heads, D = C / H head width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def similarity(x: Tensor) -> Tensor:
    """Return the dot product of every pair of tokens, (S, C) -> (S, S)."""
    return x @ x.T  # (S, S)


def project(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return x Wᵀ + b, (B, S, C) -> (B, S, out); weight is (out, C), as nn.Linear stores it."""
    return x @ weight.T + bias  # (B, S, out)


def project_qkv(x: Tensor, w_qkv: Tensor, b_qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return q, k and v, each (B, S, C), from one product with the stacked weights (3C, C)."""
    qkv = project(x, w_qkv, b_qkv)  # (B, S, 3*C)
    q, k, v = qkv.chunk(3, dim=-1)  # (B, S, C)
    return q, k, v


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Cut the width into heads and bring them before the tokens, (B, S, C) -> (B, H, S, D)."""
    apart = x.unflatten(2, (num_heads, -1))  # (B, S, H, D)
    return apart.transpose(1, 2)  # (B, H, S, D)


def split_fused_qkv(qkv: Tensor, num_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return q, k and v, each (B, H, S, D), from (B, S, 3C) whose last axis is ordered (3, H, D)."""
    apart = qkv.unflatten(2, (3, num_heads, -1))  # (B, S, 3, H, D)
    q, k, v = apart.permute(2, 0, 3, 1, 4)  # (B, H, S, D)
    return q, k, v


def one_head_queries(x: Tensor, w_q: Tensor, head: int, num_heads: int) -> Tensor:
    """Return the queries of one head, (B, S, C) -> (B, S, D), from its own D rows of w_q (C, C)."""
    rows = w_q.chunk(num_heads)[head]  # (D, C)
    return x @ rows.T  # (B, S, D)


def attention_scores(q: Tensor, k: Tensor) -> Tensor:
    """Return the dot product of every query with every key, (B, H, T, D), (B, H, S, D) -> (B, H, T, S)."""
    return q @ k.transpose(-2, -1)  # (B, H, T, S)


def scaled_scores(q: Tensor, k: Tensor) -> Tensor:
    """Return the scores divided by sqrt(D)."""
    return attention_scores(q, k) / math.sqrt(q.size(-1))  # (B, H, T, S)


def score_form(w_q: Tensor, w_k: Tensor, head: int, num_heads: int) -> Tensor:
    """Return the matrix (C, C) with x_t · form · x_s = the unscaled score of one head."""
    rows_q, rows_k = w_q.chunk(num_heads)[head], w_k.chunk(num_heads)[head]  # (D, C)
    return rows_q.T @ rows_k  # (C, C)


def softmax(scores: Tensor) -> Tensor:
    """Turn the last axis into shares that sum to 1; finite however large the scores."""
    exponentials = (scores - scores.amax(-1, keepdim=True)).exp()  # (B, H, T, S)
    return exponentials / exponentials.sum(-1, keepdim=True)  # (B, H, T, S)


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Give hidden keys exactly 0, and all 0 to a row with nothing to attend."""
    sees = mask.any(-1, keepdim=True)
    open_scores = scores.masked_fill(~mask, -math.inf).masked_fill(~sees, 0.0)  # (B, H, T, S)
    return softmax(open_scores) * sees  # (B, H, T, S)


def entropy(weights: Tensor) -> Tensor:
    """Return - sum of w log w over the last axis, in nats, with 0 log 0 = 0."""
    return -torch.special.xlogy(weights, weights).sum(-1)  # (B, H, T)


def weighted_sum(weights: Tensor, v: Tensor) -> Tensor:
    """Mix the values, (B, H, T, S), (B, H, S, D) -> (B, H, T, D)."""
    return weights @ v  # (B, H, T, D)


def self_attention(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, Tensor]:
    """Attend with one head as wide as the tokens: context (B, S, C) and weights (B, S, S)."""
    q, k, v = x @ w_q.T, x @ w_k.T, x @ w_v.T  # (B, S, C)
    scores = q @ k.transpose(1, 2) / math.sqrt(q.size(-1))  # (B, S, S)
    weights = torch.softmax(scores, dim=-1)  # (B, S, S)
    return weights @ v, weights


def merge_heads(context: Tensor) -> Tensor:
    """Lay the heads of each token side by side, (B, H, S, D) -> (B, S, C)."""
    return context.transpose(1, 2).flatten(2)  # (B, S, C)


def head_contributions(context: Tensor, w_o: Tensor) -> Tensor:
    """Return what each head adds to the output, (B, H, S, C); the sum over H is the merged context times w_oᵀ."""
    columns = w_o.unflatten(1, (context.size(1), -1))  # (C, H, D)
    return torch.einsum("bhsd,chd->bhsc", context, columns)  # (B, H, S, C)


def build_subtractor(d: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return w_q, w_k, w_v, w_o, each (3d, 3d), so that two heads give c_a - c_b at the query token.

    Channels of a token: 0 to d - 1 its content c, d the flag a, d + 1 the flag b, d + 2 marks the query token,
    the rest 0. Output channels 0 to d - 1 hold the difference. Head h has the rows from h · 3d/2 on.
    """
    width, half = 3 * d, 3 * d // 2
    w_q, w_k, w_v, w_o = torch.zeros(4, width, width, dtype=torch.float64)  # (C, C)
    for head, sign in ((0, 1.0), (1, -1.0)):
        first = head * half
        w_q[first, d + 2] = 100.0  # the query token asks …
        w_k[first, d + head] = 100.0  # … for the flagged token
        for channel in range(d):
            w_v[first + channel, channel] = 1.0  # which hands over its content …
            w_o[channel, first + channel] = sign  # … to be added, or taken away
    return w_q, w_k, w_v, w_o


def multi_head_attention(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Do all six steps without bias: out (B, S, C) and weights (B, H, S, S)."""
    q, k, v = (split_heads(x @ w.T, num_heads) for w in (w_q, w_k, w_v))
    scores = scaled_scores(q, k)  # (B, H, S, S)
    weights = softmax(scores) if mask is None else masked_softmax(scores, mask)  # (B, H, S, S)
    context = weighted_sum(weights, v)  # (B, H, S, D)
    return merge_heads(context) @ w_o.T, weights


class MultiHeadAttention(nn.Module):
    """All six steps as a module: four Linears with bias."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map x (B, S, C) to out (B, S, C)."""
        q, k, v = (split_heads(proj(x), self.num_heads) for proj in (self.q_proj, self.k_proj, self.v_proj))
        scores = scaled_scores(q, k)  # (B, H, S, S)
        weights = softmax(scores) if mask is None else masked_softmax(scores, mask)  # (B, H, S, S)
        return self.out_proj(merge_heads(weighted_sum(weights, v)))


def parameter_count(d_model: int, num_heads: int, bias: bool) -> int:
    """Count what the module learns: four Linears, whatever the number of heads."""
    return 4 * (d_model * d_model + (d_model if bias else 0))


def fold_value_bias(w_o: Tensor, b_v: Tensor, b_o: Tensor) -> Tensor:
    """Return the one output bias (C,) that replaces b_v and b_o: rows of weights sum to 1, so b_v passes whole."""
    return w_o @ b_v + b_o  # (C,)
