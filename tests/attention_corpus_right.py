"""Right implementations of attention, each in a style that people really use: splitting, merging and layouts."""

# ruff: noqa: RET504 - what is to be judged stands in a variable

from __future__ import annotations

import math

import pytest
import torch
from attention_corpus_base import attend, case, causal, padded, tokens_first
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
COPIED = {"q": "view", "k": "view", "scores": "new", "weights": "new", "context": "new", "merged": "copy", "out": "new"}


def heads(**changes):
    """Return what is expected of a textbook version, with changes; None leaves a variable out."""
    return {name: pattern for name, pattern in {**HEADS, **changes}.items() if pattern}


def right(expect, *, axes="B S C", sizes=("H",), truth=attend, **rest):
    """Enter what follows into the corpus."""

    def enter(build):
        RIGHT.append(case(build, axes, sizes, expect, truth, **rest))
        return build

    return enter


# One Linear for q, k and v


@right(heads(), truth=causal, storage={**COPIED, "merged": "view"})
class NanoGPT(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.c_attn, self.c_proj, self.n_head, self.n_embd = p.linear("q", "k", "v"), p.linear("o"), p.H, p.C
        self.attn_dropout, self.resid_dropout = nn.Dropout(0.1), nn.Dropout(0.1)
        self.register_buffer("bias", torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
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


@right(heads(qkv="3 B H S D"), storage={"qkv": "view", "k": "view", "v": "view", "merged": "copy"})
class TimmUnbind(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.qkv, self.proj, self.num_heads, self.head_dim = p.linear("q", "k", "v"), p.linear("o"), p.H, p.D

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        q = q * self.head_dim**-0.5
        scores = q @ k.transpose(-2, -1)
        weights = scores.softmax(dim=-1)
        context = weights @ v
        merged = context.transpose(1, 2).reshape(B, N, C)
        out = self.proj(merged)
        return out


@right(heads(qkv="3 B H S D"), storage={**COPIED, "qkv": "view"})
def vit_indexed(p):
    def forward(x):
        b, n, c = x.shape
        qkv = p.qkv(x).reshape(b, n, 3, p.H, c // p.H).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        scores = (q @ k.transpose(-2, -1)) * (c // p.H) ** -0.5
        weights = scores.softmax(dim=-1)
        context = weights @ v
        merged = context.transpose(1, 2).reshape(b, n, c)
        out = p.o(merged)
        return out

    return forward


@right(heads(qkv="B H S 3*D"), storage={**COPIED, "qkv": "view"})
class UvaTutorial(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.num_heads, self.head_dim, self.embed_dim = p.H, p.D, p.C
        self.qkv_proj, self.o_proj = p.linear("q", "k", "v", layout="H3D"), p.linear("o")

    def forward(self, x, mask=None, return_attention=False):
        batch_size, seq_length, _ = x.size()
        qkv = self.qkv_proj(x)
        qkv = qkv.reshape(batch_size, seq_length, self.num_heads, 3 * self.head_dim)
        qkv = qkv.permute(0, 2, 1, 3)
        q, k, v = qkv.chunk(3, dim=-1)
        scores = torch.matmul(q, k.transpose(-2, -1))
        scores = scores / math.sqrt(q.size()[-1])
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -9e15)
        weights = F.softmax(scores, dim=-1)
        context = torch.matmul(weights, v)
        merged = context.permute(0, 2, 1, 3)
        merged = merged.reshape(batch_size, seq_length, self.embed_dim)
        out = self.o_proj(merged)
        return (out, weights) if return_attention else out


@right(heads(qkv="B S H 3*D"), truth=causal, storage={"qkv": "view", "q": "view", "v": "view", "merged": "view"})
class GPTNeoX(nn.Module):
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
        scores = torch.where(seen, scores, torch.tensor(torch.finfo(scores.dtype).min, dtype=scores.dtype))
        weights = F.softmax(scores, dim=-1)
        context = torch.matmul(weights, v)
        merged = context.permute(0, 2, 1, 3).contiguous()
        merged = merged.view(merged.size(0), merged.size(1), self.num_attention_heads * self.head_size)
        out = self.dense(merged)
        return out


def bloom_truth(p):
    slopes = 2.0 ** -torch.arange(1, p.H + 1, dtype=torch.float64)
    return attend(p, causal=True, bias=slopes[:, None, None] * torch.arange(p.S, dtype=torch.float64))


@right(
    heads(qkv="B S H 3 D", q="B*H S D", k="B*H D S", v="B*H S D", scores="B*H T S", context="B*H T D"),
    truth=bloom_truth,
    equal={
        "one_head": {"q": "B*H|B S D", "k": "B*H|B D S", "v": "B*H|B S D", "scores": "B*H|B T S", "context": "* T D"},
        "one_item": {"q": "B*H|H S D", "k": "B*H|H D S", "v": "B*H|H S D", "scores": "B*H|H T S", "context": "* T D"},
    },
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
        qkv = self.query_key_value(hidden_states).view(batch_size, length, self.num_heads, 3, self.head_dim)
        q, k, v = qkv[..., 0, :], qkv[..., 1, :], qkv[..., 2, :]
        q = q.transpose(1, 2).reshape(batch_size * self.num_heads, length, self.head_dim)
        k = k.permute(0, 2, 3, 1).reshape(batch_size * self.num_heads, self.head_dim, length)
        v = v.transpose(1, 2).reshape(batch_size * self.num_heads, length, self.head_dim)
        scores = self.alibi(batch_size, length).baddbmm(batch1=q, batch2=k, beta=1.0, alpha=self.inv_norm_factor)
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        by_head = scores.view(batch_size, self.num_heads, length, length)
        weights = F.softmax(by_head.masked_fill(mask, torch.finfo(scores.dtype).min), dim=-1)
        context = torch.bmm(weights.view(batch_size * self.num_heads, length, length), v)
        apart = context.view(batch_size, self.num_heads, length, self.head_dim).permute(0, 2, 1, 3)
        merged = apart.reshape(batch_size, length, self.num_heads * self.head_dim)
        out = self.dense(merged)
        return out


@right(heads(), truth=causal, storage={"q": "view", "v": "view", "scores": "new", "merged": "view"})
class HfGPT2(nn.Module):
    def __init__(self, p):
        super().__init__()
        fused, out = p.linear("q", "k", "v"), p.linear("o")
        self.c_attn, self.c_attn_bias = nn.Parameter(fused.weight.T.contiguous()), fused.bias
        self.c_proj, self.c_proj_bias = nn.Parameter(out.weight.T.contiguous()), out.bias
        self.num_heads, self.head_dim, self.split_size = p.H, p.D, p.C

    @staticmethod
    def conv1d(x, weight, bias):
        size_out = (*x.size()[:-1], weight.size(1))
        flat = torch.addmm(bias, x.view(-1, x.size(-1)), weight)
        return flat.view(size_out)

    def forward(self, hidden_states):
        q, k, v = self.conv1d(hidden_states, self.c_attn, self.c_attn_bias).split(self.split_size, dim=2)
        shape = (*q.shape[:-1], -1, self.head_dim)
        q = q.view(shape).transpose(1, 2)
        k = k.view(shape).transpose(1, 2)
        v = v.view(shape).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-1, -2))
        scores = scores / torch.full([], v.size(-1) ** 0.5, dtype=scores.dtype)
        length = q.size(-2)
        seen = torch.ones(length, length, dtype=torch.bool).tril()[None, None]
        hidden = torch.full([], torch.finfo(scores.dtype).min, dtype=scores.dtype)
        scores = torch.where(seen, scores, hidden)
        weights = F.softmax(scores, dim=-1)
        context = torch.matmul(weights, v)
        merged = context.transpose(1, 2).contiguous()
        merged = merged.view((*merged.size()[:-2], self.num_heads * self.head_dim))
        out = self.conv1d(merged, self.c_proj, self.c_proj_bias)
        out = torch.dropout(out, 0.1, train=False)
        return out


@right(heads(scores=None, weights=None), truth=causal, storage={"q": "view", "merged": "copy", "context": "new"})
def unflatten_sdpa(p):
    def forward(query):
        q, k, v = torch.chunk(p.qkv(query), 3, dim=-1)
        q = q.unflatten(-1, [p.H, p.D]).transpose(1, 2)
        k = k.unflatten(-1, [p.H, p.D]).transpose(1, 2)
        v = v.unflatten(-1, [p.H, p.D]).transpose(1, 2)
        context = F.scaled_dot_product_attention(q, k, v, dropout_p=0.0, is_causal=True)
        merged = context.transpose(1, 2).flatten(-2)
        out = p.o(merged)
        return out

    return forward


@right(
    heads(qkv="B S 3 H D", q="B S H D", k="B S H D", v="B S H D", context="B T H D"),
    storage={"qkv": "view", "k": "view", "merged": "view"},
)
def flash_reference(p):
    def forward(x):
        qkv = p.qkv(x).view(x.size(0), x.size(1), 3, p.H, -1)
        q, k, v = qkv.unbind(dim=2)
        scores = torch.einsum("bthd,bshd->bhts", q, k * p.D**-0.5)
        weights = torch.softmax(scores, dim=-1, dtype=v.dtype)
        context = torch.einsum("bhts,bshd->bthd", weights, v).contiguous()
        merged = context.view(x.size(0), x.size(1), -1)
        out = p.o(merged)
        return out

    return forward


# Three Linears


@right(heads(), truth=causal, storage={**COPIED, "weights": "same", "merged": "view"})
class MinGPT(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.key, self.query, self.value, self.proj = (p.linear(n) for n in ("k", "q", "v", "o"))
        self.attn_drop, self.n_head = nn.Dropout(0.1), p.H
        self.register_buffer("mask", torch.tril(torch.ones(p.S, p.S)).view(1, 1, p.S, p.S))

    def forward(self, x, layer_past=None):
        B, T, C = x.size()
        k = self.key(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = self.query(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = self.value(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        weights = F.softmax(scores, dim=-1)
        weights = self.attn_drop(weights)
        context = weights @ v
        merged = context.transpose(1, 2).contiguous().view(B, T, C)
        out = self.proj(merged)
        return out


@right(
    heads(), axes={"hidden_states": "B S C", "attention_mask": "B S"}, truth=padded, storage=COPIED | {"merged": "view"}
)
def hf_bert(p):
    def forward(hidden_states, attention_mask):
        heads_of = (*hidden_states.shape[:-1], p.H, p.D)
        extended = (1.0 - attention_mask[:, None, None, :]) * torch.finfo(hidden_states.dtype).min
        q = p.q(hidden_states).view(heads_of).permute(0, 2, 1, 3)
        k = p.k(hidden_states).view(heads_of).permute(0, 2, 1, 3)
        v = p.v(hidden_states).view(heads_of).permute(0, 2, 1, 3)
        scores = torch.matmul(q, k.transpose(-1, -2))
        scores = scores / math.sqrt(p.D)
        scores = scores + extended
        weights = F.softmax(scores, dim=-1)
        context = torch.matmul(weights, v)
        merged = context.permute(0, 2, 1, 3).contiguous()
        merged = merged.view((*merged.size()[:-2], p.C))
        out = p.o(merged)
        return out

    return forward, (p.x, p.keep.double())


def annotated_attention(q, k, v, mask=None, dropout=None):
    d_k = q.size(-1)
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    weights = scores.softmax(dim=-1)
    if dropout is not None:
        weights = dropout(weights)
    context = torch.matmul(weights, v)
    return context, weights


@right(
    heads(),
    axes={**dict.fromkeys(("query", "key", "value"), "B S C"), "mask": "B 1 S"},
    truth=padded,
    storage={"q": "view", "merged": "view"},
    args=lambda p: (p.x, p.x, p.x, p.keep[:, None, :]),
)
class AnnotatedTransformer(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.d_k, self.h, self.attn = p.D, p.H, None
        self.linears = nn.ModuleList(p.linear(n) for n in ("q", "k", "v", "o"))
        self.dropout = nn.Dropout(0.1)

    def forward(self, query, key, value, mask=None):
        mask = mask.unsqueeze(1)
        nbatches = query.size(0)
        q, k, v = [
            lin(x).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip(self.linears, (query, key, value), strict=False)
        ]
        x, self.attn = annotated_attention(q, k, v, mask=mask, dropout=self.dropout)
        merged = x.transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k)
        out = self.linears[-1](merged)
        return out


@right(heads(), storage=COPIED)
def listing_in_a_notebook(p):
    def multi_head_attention(x):
        q, k, v = (linear(x).view(p.B, p.S, p.H, p.D).transpose(1, 2) for linear in (p.q, p.k, p.v))
        scores = q @ k.mT / p.D**0.5
        weights = scores.softmax(-1)
        context = weights @ v
        merged = context.swapaxes(1, 2).flatten(2)
        out = p.o(merged)
        return out

    return multi_head_attention


@right(
    heads(),
    axes={"x": "B S C", **dict.fromkeys(("w_q", "w_k", "w_v", "w_o"), "C C")},
)
def raw_matrices(p):
    def attention(x, w_q, w_k, w_v, w_o, num_heads):
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

    return attention, (p.x, p.q.weight, p.k.weight, p.v.weight, p.o.weight, p.H)


@right(
    {
        "q": "H S D",
        "k": "H S D",
        "scores": "H T S",
        "weights": "H T S",
        "context": "H T D",
        "merged": "T C",
        "out": "T C",
    },
    axes="S C",
    truth=lambda p: attend(p)[0],
    storage=COPIED,
)
def one_sentence_without_batch(p):
    def forward(x):
        q = p.q(x).view(-1, p.H, p.D).transpose(0, 1)
        k = p.k(x).view(-1, p.H, p.D).transpose(0, 1)
        v = p.v(x).view(-1, p.H, p.D).transpose(0, 1)
        scores = q @ k.transpose(1, 2) / p.D**0.5
        weights = torch.softmax(scores, dim=-1)
        context = torch.bmm(weights, v)
        merged = context.transpose(0, 1).reshape(len(x), -1)
        out = p.o(merged)
        return out

    return forward, (p.x[0],)


def single_truth(p):
    q, k, v = p.q(p.x), p.k(p.x), p.v(p.x)
    return F.scaled_dot_product_attention(q, k, v)


@right(
    {"q": "B S C", "k": "B S C", "scores": "B T S", "weights": "B T S", "context": "B T C"},
    sizes=(),
    truth=single_truth,
)
def one_wide_head(p):
    def forward(x):
        q, k, v = p.q(x), p.k(x), p.v(x)
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(x.size(-1))
        weights = F.softmax(scores, dim=-1)
        context = torch.bmm(weights, v)
        return context

    return forward


@right(
    {"scores": "B T S", "weights": "B T S", "context": "B T C"},
    sizes=(),
    truth=lambda p: F.scaled_dot_product_attention(p.x, p.x, p.x, scale=1.0),
)
def no_projection_at_all(p):
    def forward(x):
        scores = x @ x.transpose(-2, -1)
        weights = torch.softmax(scores, dim=-1)
        context = weights @ x
        return context

    return forward


@right(heads(), storage={"q": "copy", "scores": "new", "merged": "copy"})
def made_contiguous(p):
    def forward(x):
        q = p.q(x).reshape(p.B, p.S, p.H, p.D).permute(0, 2, 1, 3).contiguous()
        k = p.k(x).reshape(p.B, p.S, p.H, p.D).permute(0, 2, 1, 3).contiguous()
        v = p.v(x).reshape(p.B, p.S, p.H, p.D).permute(0, 2, 1, 3).contiguous()
        scores = torch.einsum("bhqd,bhkd->bhqk", [q, k]) / p.D**0.5
        weights = F.softmax(scores, dim=3)
        context = torch.einsum("bhqk,bhkd->bhqd", [weights, v])
        merged = context.permute(0, 2, 1, 3).flatten(start_dim=2)
        out = p.o(merged)
        return out

    return forward


@right(heads(k="B H D S", v="B H D S", q="B H D S"), storage={"q": "view", "merged": "copy"})
def width_before_tokens(p):
    def forward(x):
        q = p.q(x).transpose(1, 2).reshape(p.B, p.H, p.D, p.S)
        k = p.k(x).transpose(1, 2).reshape(p.B, p.H, p.D, p.S)
        v = p.v(x).transpose(1, 2).reshape(p.B, p.H, p.D, p.S)
        scores = q.transpose(2, 3) @ k / p.D**0.5
        weights = scores.softmax(dim=-1)
        context = weights @ v.transpose(2, 3)
        merged = context.permute(0, 2, 1, 3).reshape(p.B, p.S, p.C)
        out = p.o(merged)
        return out

    return forward


def sequence_first(p):
    return (p.x.transpose(0, 1).contiguous(),)


# Heads folded into the batch

FOLDED = {
    "scores": "B*H T S",
    "weights": "B*H T S",
    "context": "B*H T D",
    "merged": "B T C",
    "out": "B T C",
    **dict.fromkeys(("q", "k", "v"), "B*H S D"),
}
FOLD_EQUAL = {
    "one_head": {n: pattern.replace("B*H", "B*H|B") for n, pattern in FOLDED.items()},
    "one_item": {n: pattern.replace("B*H", "B*H|H") for n, pattern in FOLDED.items()},
}


@right(
    {"heads": "B*H S D", "scores": "B*H T S", "context": "B*H T D", "tokens": "B T H D", "out": "B T C"},
    storage={"heads": "copy", "scores": "new"},
    equal={
        "one_head": {"heads": "B*H|B S D", "scores": "B*H|B T S", "context": "B*H|B T D"},
        "one_item": {"heads": "B*H|H S D", "scores": "B*H|H T S", "context": "B*H|H T D"},
    },
)
class D2l(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.num_heads = p.H
        self.W_q, self.W_k, self.W_v, self.W_o = (p.linear(n) for n in ("q", "k", "v", "o"))

    def transpose_qkv(self, X):
        X = X.reshape(X.shape[0], X.shape[1], self.num_heads, -1)
        X = X.permute(0, 2, 1, 3)
        heads = X.reshape(-1, X.shape[2], X.shape[3])
        return heads

    def transpose_output(self, X):
        X = X.reshape(-1, self.num_heads, X.shape[1], X.shape[2])
        tokens = X.permute(0, 2, 1, 3)
        return tokens.reshape(tokens.shape[0], tokens.shape[1], -1)

    def forward(self, X):
        queries = self.transpose_qkv(self.W_q(X))
        keys = self.transpose_qkv(self.W_k(X))
        values = self.transpose_qkv(self.W_v(X))
        scores = torch.bmm(queries, keys.transpose(1, 2)) / math.sqrt(queries.shape[-1])
        context = torch.bmm(F.softmax(scores, dim=-1), values)
        out = self.W_o(self.transpose_output(context))
        return out


@right(FOLDED | {"by_head": "B H T S"}, axes={"hidden_states": "B S C", "mask": "B S"}, truth=padded, equal=FOLD_EQUAL)
def bart(p):
    def forward(hidden_states, mask):
        bsz, tgt_len, embed_dim = hidden_states.size()
        q = (p.q(hidden_states) * p.D**-0.5).view(bsz, tgt_len, p.H, p.D).transpose(1, 2).contiguous()
        k = p.k(hidden_states).view(bsz, -1, p.H, p.D).transpose(1, 2).contiguous()
        v = p.v(hidden_states).view(bsz, -1, p.H, p.D).transpose(1, 2).contiguous()
        q, k, v = q.view(bsz * p.H, -1, p.D), k.view(bsz * p.H, -1, p.D), v.view(bsz * p.H, -1, p.D)
        scores = torch.bmm(q, k.transpose(1, 2))
        by_head = scores.view(bsz, p.H, tgt_len, tgt_len).masked_fill(~mask[:, None, None, :], float("-inf"))
        weights = F.softmax(by_head.view(bsz * p.H, tgt_len, tgt_len), dim=-1)
        context = torch.bmm(weights, v)
        merged = context.view(bsz, p.H, tgt_len, p.D).transpose(1, 2).reshape(bsz, tgt_len, embed_dim)
        out = p.o(merged)
        return out

    return forward, (p.x, p.keep)


@right(FOLDED, equal=FOLD_EQUAL, storage={"q": "copy", "scores": "new", "merged": "view"})
def alpha_in_the_product(p):
    def forward(x):
        q, k, v = (f(x).unflatten(2, (p.H, p.D)).transpose(1, 2).flatten(0, 1) for f in (p.q, p.k, p.v))
        empty = torch.empty(p.B * p.H, p.S, p.S, dtype=x.dtype)
        scores = torch.baddbmm(empty, q, k.transpose(-1, -2), beta=0, alpha=1 / math.sqrt(p.D))
        weights = scores.softmax(dim=-1)
        context = torch.bmm(weights, v)
        merged = context.view(p.B, p.H, p.S, p.D).transpose(1, 2).contiguous().view(p.B, p.S, p.C)
        out = p.o(merged)
        return out

    return forward


SEQUENCE_FIRST = FOLDED | {"merged": "T B C", "out": "T B C"}


@right(
    SEQUENCE_FIRST,
    axes="S B C",
    truth=tokens_first,
    equal={
        "one_head": {n: s.replace("B*H", "B*H|B").replace(" D", " D|C") for n, s in SEQUENCE_FIRST.items()},
        "one_item": {n: s.replace("B*H", "B*H|H") for n, s in SEQUENCE_FIRST.items()},
    },
    storage={"q": "view", "merged": "view"},
    args=sequence_first,
)
class Fairseq(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.num_heads, self.head_dim = p.H, p.D
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (p.linear(n) for n in ("q", "k", "v", "o"))

    def forward(self, query):
        tgt_len, bsz, embed_dim = query.size()
        q = self.q_proj(query)
        k = self.k_proj(query)
        v = self.v_proj(query)
        q = q * self.head_dim**-0.5
        q = q.contiguous().view(tgt_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        k = k.contiguous().view(-1, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        v = v.contiguous().view(-1, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        scores = torch.bmm(q, k.transpose(1, 2))
        weights = F.softmax(scores, dim=-1)
        context = torch.bmm(weights, v)
        merged = context.transpose(0, 1).contiguous().view(tgt_len, bsz, embed_dim)
        out = self.out_proj(merged)
        return out


TORCH_OWN = FOLDED | {"merged": "T*B C", "out": "T B C", "average": "B T S"}


@right(
    TORCH_OWN,
    axes={"query": "S B C", "attn_mask": "T S"},
    truth=lambda p: causal(p).transpose(0, 1),
    equal={
        "one_head": {n: s.replace("B*H", "B*H|B").replace(" D", " D|C") for n, s in TORCH_OWN.items()},
        "one_item": {n: s.replace("B*H", "B*H|H").replace("T*B", "T*B|T") for n, s in TORCH_OWN.items()},
    },
    storage={"q": "view", "merged": "view", "average": "new"},
)
def torch_functional(p):
    def forward(query, attn_mask):
        tgt_len, bsz, embed_dim = query.shape
        packed = F.linear(query, p.qkv.weight, p.qkv.bias)
        packed = packed.unflatten(-1, (3, embed_dim)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
        q, k, v = packed[0], packed[1], packed[2]
        q = q.view(tgt_len, bsz * p.H, p.D).transpose(0, 1)
        k = k.view(k.shape[0], bsz * p.H, p.D).transpose(0, 1)
        v = v.view(v.shape[0], bsz * p.H, p.D).transpose(0, 1)
        q_scaled = q * math.sqrt(1.0 / float(p.D))
        scores = torch.baddbmm(attn_mask, q_scaled, k.transpose(-2, -1))
        weights = F.softmax(scores, dim=-1)
        context = torch.bmm(weights, v)
        merged = context.transpose(0, 1).contiguous().view(tgt_len * bsz, embed_dim)
        out = F.linear(merged, p.o.weight, p.o.bias)
        out = out.view(tgt_len, bsz, out.size(1))
        average = weights.view(bsz, p.H, tgt_len, tgt_len).mean(dim=1)
        return out, average

    mask = torch.zeros(p.S, p.S, dtype=torch.float64).masked_fill(p.later, -math.inf)
    return forward, (*sequence_first(p), mask)


@right(
    {"q": "H*B|? S D", "scores": "H*B|? T S", "context": "H*B|? T D", "merged": "B|? T C|?", "out": "B|? T C"},
    equal={"one_head": {"q": "H*B|B|? S D|C", "scores": "H*B|B|? T S", "context": "H*B|B|? T D|C"}, "one_item": {}},
)
def chunks_of_heads_along_the_batch(p):
    def forward(x):
        Q, K, V = p.q(x), p.k(x), p.v(x)
        q = torch.cat(torch.chunk(Q, p.H, dim=2), dim=0)
        k = torch.cat(torch.chunk(K, p.H, dim=2), dim=0)
        v = torch.cat(torch.chunk(V, p.H, dim=2), dim=0)
        scores = torch.bmm(q, k.permute(0, 2, 1)) / (k.size(-1) ** 0.5)
        weights = F.softmax(scores, dim=-1)
        context = torch.bmm(weights, v)
        merged = torch.cat(torch.chunk(context, p.H, dim=0), dim=2)
        out = p.o(merged)
        return out

    return forward


@right(
    {name: pattern.replace("B*H", "H*B") for name, pattern in FOLDED.items()},
    equal={
        "one_head": {n: s.replace("B*H", "H*B|B") for n, s in FOLDED.items()},
        "one_item": {n: s.replace("B*H", "H*B|H") for n, s in FOLDED.items()},
    },
    storage={"q": "view", "merged": "view"},
)
def heads_outside_the_batch(p):
    def forward(x):
        sz_b, length, _ = x.size()
        q = p.q(x).view(sz_b, length, p.H, p.D).permute(2, 0, 1, 3).contiguous().view(-1, length, p.D)
        k = p.k(x).view(sz_b, length, p.H, p.D).permute(2, 0, 1, 3).contiguous().view(-1, length, p.D)
        v = p.v(x).view(sz_b, length, p.H, p.D).permute(2, 0, 1, 3).contiguous().view(-1, length, p.D)
        scores = torch.bmm(q, k.transpose(1, 2)) / p.D**0.5
        weights = torch.softmax(scores, dim=2)
        context = torch.bmm(weights, v)
        apart = context.view(p.H, sz_b, length, p.D)
        merged = apart.permute(1, 2, 0, 3).contiguous().view(sz_b, length, -1)
        out = p.o(merged)
        return out

    return forward


# einsum, einops, and layouts of their own


@right(heads())
def lucidrains(p):
    rearrange = pytest.importorskip("einops").rearrange
    einsum = torch.einsum

    def forward(x):
        q, k, v = p.qkv(x).chunk(3, dim=-1)
        q, k, v = (rearrange(t, "b n (h d) -> b h n d", h=p.H) for t in (q, k, v))
        scores = einsum("b h i d, b h j d -> b h i j", q, k) * p.D**-0.5
        weights = scores.softmax(dim=-1)
        context = einsum("b h i j, b h j d -> b h i d", weights, v)
        merged = rearrange(context, "b h n d -> b n (h d)")
        out = p.o(merged)
        return out

    return forward


@right(heads(), truth=padded, axes={"x": "B S C", "mask": "B S"})
def einops_three_at_once(p):
    einops = pytest.importorskip("einops")

    def forward(x, mask):
        q, k, v = einops.rearrange(p.qkv(x), "b n (three h d) -> three b h n d", three=3, h=p.H)
        scores = q @ einops.rearrange(k, "b h n d -> b h d n") / math.sqrt(p.D)
        scores = scores.masked_fill(~einops.rearrange(mask, "b j -> b 1 1 j"), -torch.finfo(x.dtype).max)
        weights = scores.softmax(dim=-1)
        context = weights @ v
        merged = einops.rearrange(context, "b h n d -> b n (h d)")
        out = p.o(merged)
        return out

    return forward, (p.x, p.keep)


@right(FOLDED, equal=FOLD_EQUAL)
def stable_diffusion(p):
    rearrange = pytest.importorskip("einops").rearrange

    def forward(x):
        q, k, v = (rearrange(f(x), "b n (h d) -> (b h) n d", h=p.H) for f in (p.q, p.k, p.v))
        scores = torch.einsum("b i d, b j d -> b i j", q, k) * p.D**-0.5
        weights = scores.softmax(dim=-1)
        context = torch.einsum("b i j, b j d -> b i d", weights, v)
        merged = rearrange(context, "(b h) n d -> b n (h d)", h=p.H)
        out = p.o(merged)
        return out

    return forward


@right(
    heads(q="B S H D", k="B S H D", v="B S H D", context="B T H D", merged=None),
    axes={"x": "B S C", **dict.fromkeys(("W_Q", "W_K", "W_V"), "H C D"), "W_O": "H D C"},
    truth=causal,
)
def transformer_lens(p):
    def forward(x, W_Q, W_K, W_V, W_O):
        b_Q, b_K, b_V = (f.bias.view(p.H, p.D) for f in (p.q, p.k, p.v))
        q = torch.einsum("bsc,hcd->bshd", x, W_Q) + b_Q
        k = torch.einsum("bsc,hcd->bshd", x, W_K) + b_K
        v = torch.einsum("bsc,hcd->bshd", x, W_V) + b_V
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / p.D**0.5
        scores = scores.masked_fill(torch.triu(torch.ones_like(scores), diagonal=1).bool(), -1e5)
        weights = scores.softmax(dim=-1)
        context = torch.einsum("bkhd,bhqk->bqhd", v, weights)
        out = torch.einsum("bqhd,hdc->bqc", context, W_O) + p.o.bias
        return out

    by_head = [f.weight.detach().view(p.H, p.D, p.C).transpose(1, 2).contiguous() for f in (p.q, p.k, p.v)]
    return forward, (p.x, *by_head, p.o.weight.detach().T.reshape(p.H, p.D, p.C).contiguous())


@right(
    heads(q="B S H D", k="B S H D", v="B S H D", context="B T H D", merged=None, per_head="B T H C"),
    axes={"x": "B S C", "W_O": "H D C"},
    storage={"per_head": "new"},
)
def result_of_each_head(p):
    def forward(x, W_O):
        q, k, v = (f(x).unflatten(-1, (p.H, p.D)) for f in (p.q, p.k, p.v))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * p.D**-0.5
        weights = torch.softmax(scores, dim=-1)
        context = torch.einsum("bhqk,bkhd->bqhd", weights, v)
        per_head = torch.einsum("bqhd,hdc->bqhc", context, W_O)
        out = per_head.sum(dim=2) + p.o.bias
        return out

    return forward, (p.x, p.o.weight.detach().T.reshape(p.H, p.D, p.C).contiguous())


@right(
    heads(q="B S H D", k="B S H D", v="B S H D", context="B T H D"),
    axes={"x": "B S C", **dict.fromkeys(("w_q", "w_k", "w_v", "w_o"), "C C")},
    storage={"q": "view", "merged": "view"},
)
def einsum_on_flat_weights(p):
    def forward(x, w_q, w_k, w_v, w_o):
        B, S, C = x.shape
        q = (torch.einsum("bsc,dc->bsd", x, w_q) + p.q.bias).view(B, S, p.H, -1)
        k = (torch.einsum("bsc,dc->bsd", x, w_k) + p.k.bias).view(B, S, p.H, -1)
        v = (torch.einsum("bsc,dc->bsd", x, w_v) + p.v.bias).view(B, S, p.H, -1)
        scores = torch.einsum("bthd,bshd->bhts", q, k)
        weights = torch.softmax(scores / math.sqrt(C // p.H), dim=-1)
        context = torch.einsum("bhts,bshd->bthd", weights, v).contiguous()
        merged = context.view(B, S, C)
        out = torch.einsum("btc,dc->btd", merged, w_o) + p.o.bias
        return out

    return forward, (p.x, p.q.weight, p.k.weight, p.v.weight, p.o.weight)


@right(heads(merged=None), axes={"x": "B S C", **dict.fromkeys(("w_q", "w_k", "w_v", "w_o"), "C C")})
def weights_split_instead_of_activations(p):
    def forward(x, w_q, w_k, w_v, w_o):
        q = torch.einsum("bsc,hdc->bhsd", x, w_q.view(p.H, p.D, p.C)) + p.q.bias.view(p.H, 1, p.D)
        k = torch.einsum("bsc,hdc->bhsd", x, w_k.view(p.H, p.D, p.C)) + p.k.bias.view(p.H, 1, p.D)
        v = torch.einsum("bsc,hdc->bhsd", x, w_v.view(p.H, p.D, p.C)) + p.v.bias.view(p.H, 1, p.D)
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / p.D**0.5
        weights = scores.softmax(-1)
        context = weights @ v
        out = torch.einsum("bhqd,chd->bqc", context, w_o.view(p.C, p.H, p.D)) + p.o.bias
        return out

    return forward, (p.x, p.q.weight, p.k.weight, p.v.weight, p.o.weight)


@right(
    {"q": "S B H D", "k": "S B H D", "scores": "T S B H", "weights": "T S B H", "context": "T B H D", "out": "T B C"},
    axes="S B C",
    truth=tokens_first,
    args=sequence_first,
)
def labml(p):
    def forward(x):
        head_shape = x.shape[:-1]
        q = p.q(x).view(*head_shape, p.H, p.D)
        k = p.k(x).view(*head_shape, p.H, p.D)
        v = p.v(x).view(*head_shape, p.H, p.D)
        scores = torch.einsum("ibhd,jbhd->ijbh", q, k) * (1 / math.sqrt(p.D))
        weights = F.softmax(scores, dim=1)
        context = torch.einsum("ijbh,jbhd->ibhd", weights, v)
        out = p.o(context.reshape(*head_shape, -1))
        return out

    return forward


@right(
    {
        "q": "S B H D",
        "scores": "B H T S",
        "weights": "B H T S",
        "context": "T B H D",
        "merged": "T B C",
        "out": "T B C",
    },
    axes="S B C",
    truth=tokens_first,
    args=sequence_first,
)
def transformer_xl(p):
    def forward(w):
        qlen, bsz, _ = w.shape
        q, k, v = torch.chunk(p.qkv(w), 3, dim=-1)
        q = q.view(qlen, bsz, p.H, p.D)
        k = k.view(qlen, bsz, p.H, p.D)
        v = v.view(qlen, bsz, p.H, p.D)
        scores = torch.einsum("ibnd,jbnd->bnij", q, k).mul(1 / (p.D**0.5))
        weights = F.softmax(scores, dim=3)
        context = torch.einsum("bnij,jbnd->ibnd", weights, v)
        merged = context.contiguous().view(qlen, bsz, p.H * p.D)
        out = p.o(merged)
        return out

    return forward


DIFFUSION = {"weights": "B*H|? T S", "context": "B*H|? D|? T", "out": "B|? * T"}


@right(
    DIFFUSION,
    axes="B C S",
    truth=lambda p: attend(p).transpose(1, 2),
    args=lambda p: (p.x.transpose(1, 2).contiguous(),),
    equal=dict.fromkeys(("one_head", "one_item"), {"weights": "* T S", "context": "* * T"}),
)
class GuidedDiffusion(nn.Module):
    def __init__(self, p):
        super().__init__()
        fused, out = p.linear("q", "k", "v", layout="H3D"), p.linear("o")
        self.qkv = nn.Conv1d(p.C, 3 * p.C, 1, dtype=torch.float64)
        self.proj_out = nn.Conv1d(p.C, p.C, 1, dtype=torch.float64)
        self.num_heads = p.H
        for conv, layer in ((self.qkv, fused), (self.proj_out, out)):
            conv.load_state_dict({"weight": layer.weight[..., None], "bias": layer.bias})

    def forward(self, x):
        bs, width, length = self.qkv(x).shape
        ch = width // (3 * self.num_heads)
        q, k, v = self.qkv(x).reshape(bs * self.num_heads, ch * 3, length).split(ch, dim=1)
        scale = 1 / math.sqrt(math.sqrt(ch))
        weights = torch.einsum("bct,bcs->bts", q * scale, k * scale)
        weights = torch.softmax(weights, dim=-1)
        context = torch.einsum("bts,bcs->bct", weights, v)
        out = self.proj_out(context.reshape(bs, -1, length))
        return out


# One head at a time


@right(
    {
        "q": "B S D",
        "k": "B S D",
        "scores": "B T S",
        "weights": "B T S",
        "context": "B T D",
        "merged": "B T C",
        "out": "B T C",
    },
    truth=causal,
    equal={"one_head": {"q": "B S C|D", "k": "B S C|D", "context": "B T C|D", "merged": "B T C|D"}},
    storage={"scores": "new", "merged": "copy"},
)
class Makemore(nn.Module):
    class Head(nn.Module):
        def __init__(self, p, rows):
            super().__init__()
            self.query, self.key, self.value = (part(p.linear(n), rows) for n in ("q", "k", "v"))
            self.register_buffer("tril", torch.tril(torch.ones(p.S, p.S)))

        def forward(self, x):
            _, T, _ = x.shape
            k = self.key(x)
            q = self.query(x)
            scores = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
            scores = scores.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
            weights = F.softmax(scores, dim=-1)
            v = self.value(x)
            context = weights @ v
            return context

    def __init__(self, p):
        super().__init__()
        self.heads = nn.ModuleList(self.Head(p, slice(h * p.D, (h + 1) * p.D)) for h in range(p.H))
        self.proj = p.linear("o")

    def forward(self, x):
        merged = torch.cat([h(x) for h in self.heads], dim=-1)
        out = self.proj(merged)
        return out


def part(linear, rows):
    """Return the Linear of some rows only."""
    layer = nn.Linear(linear.in_features, len(range(linear.out_features)[rows]), dtype=torch.float64)
    layer.load_state_dict({"weight": linear.weight[rows], "bias": linear.bias[rows]})
    return layer


LOOP = {"scores": "B T S", "weights": "B T S", "merged": "B T C", "out": "B T C"}


@right(
    LOOP | {"q": "B S H D", "context": "B T H D"},
    equal={at: {"context": "B T H|1|? D", "merged": "B T C|D"} for at in ("square", "all_four", "one_head")},
    storage={"q": "view", "context": "copy", "merged": "view"},
)
def loop_over_heads_stacked(p):
    def forward(x):
        q = p.q(x).view(p.B, p.S, p.H, p.D)
        k = p.k(x).view(p.B, p.S, p.H, p.D)
        v = p.v(x).view(p.B, p.S, p.H, p.D)
        results = []
        for h in range(p.H):
            scores = q[:, :, h] @ k[:, :, h].transpose(1, 2) / p.D**0.5
            weights = torch.softmax(scores, dim=-1)
            results.append(weights @ v[:, :, h])
        context = torch.stack(results, dim=2)
        merged = context.flatten(2)
        out = p.o(merged)
        return out

    return forward


@right(LOOP, equal={"one_head": {"merged": "B T C|D"}}, storage={"merged": "copy"})
def loop_over_slices_concatenated(p):
    def forward(x):
        Q, K, V = p.q(x), p.k(x), p.v(x)
        results = []
        for q, k, v in zip(Q.chunk(p.H, dim=-1), K.chunk(p.H, dim=-1), V.split(p.D, dim=-1), strict=True):
            scores = q.matmul(k.transpose(-2, -1)).div(math.sqrt(p.D))
            weights = scores.softmax(dim=-1)
            results.append(weights.matmul(v))
        merged = torch.cat(results, dim=-1)
        out = p.o(merged)
        return out

    return forward


@right(
    {
        "scores": "T S",
        "weights": "T S",
        "context": "B H T D,B H|? T|? D,? ? T D",
        "merged": "B|? T C",
        "out": "B|? T C",
    },
    equal={
        at: {"context": "* * T D", "merged": "B|? T C|?", "out": "* T C"}
        for at in ("square", "all_four", "one_head", "one_item")
    },
)
def loop_over_sentences_and_heads(p):
    def forward(x):
        q, k, v = (f(x).unflatten(2, (p.H, p.D)).transpose(1, 2) for f in (p.q, p.k, p.v))
        sentences = []
        for b in range(p.B):
            results = []
            for h in range(p.H):
                scores = q[b, h] @ k[b, h].T / p.D**0.5
                weights = torch.softmax(scores, dim=-1)
                results.append(weights @ v[b, h])
            sentences.append(torch.stack(results))
        context = torch.stack(sentences)
        merged = context.transpose(1, 2).reshape(p.B, p.S, p.C)
        out = p.o(merged)
        return out

    return forward
