"""Right attention, in styles that people really use: splitting, merging and layouts."""

# ruff: noqa: RET504 - what is judged is in a variable

from __future__ import annotations

import math

import torch
from attention_corpus_base import case
from torch import nn
from torch.nn import functional as F

RIGHT = []
HEADS = {
    **dict.fromkeys(("q", "k", "v"), "B H S D"),
    **dict.fromkeys(("scores", "weights"), "B H T S"),
    "context": "B H T D",
    "merged": "B T C",
    "out": "B T C",
}
COPIED = {
    "q": "view",
    "k": "view",
    "scores": "new",
    "weights": "new",
    "context": "new",
    "merged": "copy",
    "out": "new",
}


def heads(**changes):
    """Return what is expected of a textbook version, with changes; None leaves a variable out."""
    return {name: pattern for name, pattern in {**HEADS, **changes}.items() if pattern}


def right(expect, *, axes="B S C", sizes=("H",), **rest):
    """Enter what follows into the corpus."""

    def enter(build):
        RIGHT.append(case(build, axes, sizes, expect, **rest))
        return build

    return enter


# One Linear for q, k and v


@right(heads(), storage={**COPIED, "weights": "same", "merged": "view", "out": "same"})
class NanoGPT(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.c_attn, self.c_proj, self.n_head, self.n_embd = (
            p.linear("q", "k", "v"),
            p.linear("o"),
            p.H,
            p.C,
        )
        self.attn_dropout, self.resid_dropout = nn.Dropout(0.1), nn.Dropout(0.1)
        self.register_buffer("bias", torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(
            1, 2
        )  # each on its own line, as people write it
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        weights = F.softmax(scores, dim=-1)
        weights = self.attn_dropout(weights)
        context = weights @ v
        merged = context.transpose(1, 2).contiguous().view(B, T, C)
        out = self.resid_dropout(self.c_proj(merged))
        return out


@right(
    heads(qkv="B S H 3*D"),
    storage={"qkv": "view", "q": "view", "v": "view", "merged": "view"},
)
class GptNeox(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.query_key_value, self.dense = p.linear("q", "k", "v", layout="H3D"), p.linear("o")
        self.num_attention_heads, self.head_size = p.H, p.D

    def forward(self, hidden_states):
        qkv = self.query_key_value(hidden_states)
        qkv = qkv.view((*qkv.size()[:-1], self.num_attention_heads, 3 * self.head_size))
        q = qkv[..., : self.head_size].permute(0, 2, 1, 3)
        k = qkv[..., self.head_size : 2 * self.head_size].permute(0, 2, 1, 3)
        v = qkv[..., 2 * self.head_size :].permute(0, 2, 1, 3)
        length = q.size(-2)
        seen = torch.tril(torch.ones(length, length, dtype=torch.bool)).view(1, 1, length, length)
        scores = torch.matmul(q, k.transpose(-1, -2)) * self.head_size**-0.5
        scores = torch.where(
            seen, scores, torch.tensor(torch.finfo(scores.dtype).min, dtype=scores.dtype)
        )
        weights = F.softmax(scores, dim=-1)
        context = torch.matmul(weights, v)
        merged = context.permute(0, 2, 1, 3).contiguous()
        merged = merged.view(
            merged.size(0), merged.size(1), self.num_attention_heads * self.head_size
        )
        out = self.dense(merged)
        return out


@right(
    heads(
        qkv="B S H 3 D", q="B*H S D", k="B*H D S", v="B*H S D", scores="B*H T S", context="B*H T D"
    ),
    storage={"qkv": "view", "q": "copy", "k": "copy", "scores": "new", "merged": "copy"},
)
class Bloom(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.query_key_value, self.dense = p.linear("q", "k", "v", layout="H3D"), p.linear("o")
        self.num_heads, self.head_dim, self.inv_norm_factor = p.H, p.D, p.D**-0.5

    def alibi(self, batch_size, length):
        slopes = 2.0 ** -torch.arange(1, self.num_heads + 1, dtype=torch.float64)
        distances = slopes[:, None, None] * torch.arange(length, dtype=torch.float64)[None, None, :]
        return distances.repeat(batch_size, 1, 1)

    def forward(self, hidden_states):
        batch_size, length, _ = hidden_states.shape
        qkv = self.query_key_value(hidden_states).view(
            batch_size, length, self.num_heads, 3, self.head_dim
        )
        q, k, v = qkv[..., 0, :], qkv[..., 1, :], qkv[..., 2, :]
        q = q.transpose(1, 2).reshape(batch_size * self.num_heads, length, self.head_dim)
        k = k.permute(0, 2, 3, 1).reshape(batch_size * self.num_heads, self.head_dim, length)
        v = v.transpose(1, 2).reshape(batch_size * self.num_heads, length, self.head_dim)
        scores = self.alibi(batch_size, length).baddbmm(
            batch1=q, batch2=k, beta=1.0, alpha=self.inv_norm_factor
        )
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        by_head = scores.view(batch_size, self.num_heads, length, length)
        weights = F.softmax(by_head.masked_fill(mask, torch.finfo(scores.dtype).min), dim=-1)
        context = torch.bmm(weights.view(batch_size * self.num_heads, length, length), v)
        apart = context.view(batch_size, self.num_heads, length, self.head_dim).permute(0, 2, 1, 3)
        merged = apart.reshape(batch_size, length, self.num_heads * self.head_dim)
        out = self.dense(merged)
        return out


@right(heads(), storage={"q": "view", "v": "view", "scores": "new", "merged": "view"})
class HfGPT2(nn.Module):
    def __init__(self, p):
        super().__init__()
        fused, out = p.linear("q", "k", "v"), p.linear("o")
        self.c_attn, self.c_attn_bias = nn.Parameter(fused.weight.T.contiguous()), fused.bias
        self.c_proj, self.c_proj_bias = nn.Parameter(out.weight.T.contiguous()), out.bias
        self.num_heads, self.head_dim, self.split_size = p.H, p.D, p.C

    @staticmethod
    def conv1d(x, weight, bias):
        flat = torch.addmm(bias, x.view(-1, x.size(-1)), weight)
        return flat.view(*x.size()[:-1], weight.size(1))

    def forward(self, hidden_states):
        q, k, v = self.conv1d(hidden_states, self.c_attn, self.c_attn_bias).split(
            self.split_size, dim=2
        )
        shape = (*q.shape[:-1], -1, self.head_dim)
        q, k, v = (t.view(shape).transpose(1, 2) for t in (q, k, v))
        scores = torch.matmul(q, k.transpose(-1, -2))
        scores = scores / torch.full([], v.size(-1) ** 0.5, dtype=scores.dtype)
        seen = torch.ones(q.size(-2), q.size(-2), dtype=torch.bool).tril()[None, None]
        scores = torch.where(
            seen, scores, torch.full([], torch.finfo(scores.dtype).min, dtype=scores.dtype)
        )
        weights = F.softmax(scores, dim=-1)
        context = torch.matmul(weights, v)
        merged = context.transpose(1, 2).contiguous()
        merged = merged.view((*merged.size()[:-2], self.num_heads * self.head_dim))
        out = self.conv1d(merged, self.c_proj, self.c_proj_bias)
        out = torch.dropout(out, 0.1, train=False)
        return out


# Three Linears


@right(
    heads(),
    axes={"x": "B S C", **dict.fromkeys(("w_q", "w_k", "w_v", "w_o"), "C C")},
    args=lambda p: (p.x, p.q.weight, p.k.weight, p.v.weight, p.o.weight, p.H),
)
def raw_matrices(p, x, w_q, w_k, w_v, w_o, num_heads):
    B, S, C = x.shape
    q = (x @ w_q.T + p.q.bias).reshape(B, S, num_heads, C // num_heads).transpose(1, 2)
    k = (x @ w_k.T).reshape(B, S, num_heads, C // num_heads).transpose(1, 2)
    v = (x @ w_v.T + p.v.bias).reshape(B, S, num_heads, C // num_heads).transpose(1, 2)
    scores = q @ k.transpose(2, 3)
    weights = torch.softmax(scores / math.sqrt(C // num_heads), dim=3)
    context = weights @ v
    merged = context.transpose(1, 2).reshape(B, S, C)
    out = merged @ w_o.T + p.o.bias
    return out
