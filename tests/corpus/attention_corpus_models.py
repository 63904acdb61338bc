"""Right attention: two sequences, blocks and models, windows, block by block."""

# ruff: noqa: RET504 - what is to be judged stands in a variable

from __future__ import annotations

import math

import torch
from attention_corpus_base import PATCHES
from attention_corpus_right import right
from torch import nn
from torch.nn import functional as F

# Two sequences, blocks, models


def learned_query(p):
    return nn.Parameter(p.draw(1, 1, p.C, seed=60))


@right(
    {
        "q": "B|? H 1|T|? D",
        "k": "B H S D",
        "scores": "B H 1|T|? S",
        "context": "B H 1|T|? D",
        "merged": "B 1|T|? C",
        "out": "B C",
    },
    storage={"q": "view", "k": "view"},
)
class AttentionPooling(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.query, self.num_heads = learned_query(p), p.H
        self.q, self.kv, self.proj = p.linear("q"), p.linear("k", "v"), p.linear("o")

    def forward(self, x):
        B, N, C = x.shape
        latent = self.query.expand(B, -1, -1)
        q = self.q(latent).reshape(B, 1, self.num_heads, -1).transpose(1, 2)
        k, v = self.kv(x).reshape(B, N, 2, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        scores = (q * q.size(-1) ** -0.5) @ k.transpose(-2, -1)
        weights = scores.softmax(dim=-1)
        context = weights @ v
        merged = context.transpose(1, 2).reshape(B, 1, C)
        out = self.proj(merged).squeeze(1)
        return out


class Mixer(nn.Module):
    """Self-attention as models have it inside."""

    def __init__(self, p):
        super().__init__()
        self.H, self.qkv, self.proj = p.H, p.linear("q", "k", "v"), p.linear("o")

    def forward(self, x):
        B, S, C = x.shape
        q, k, v = self.qkv(x).view(B, S, 3, self.H, C // self.H).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * (C // self.H) ** -0.5
        weights = scores.softmax(dim=-1)
        context = weights @ v
        merged = context.transpose(1, 2).reshape(B, S, C)
        out = self.proj(merged)
        return out


@right(
    {
        "own": "B H T *",
        "seen": "B H T S",
        "weights": "B H T S",
        "context": "B H T D",
        "merged": "B T C",
        "x": "B T C",
    },
    axes={"x": "B T C", "memory": "B S C"},
    args=lambda p: (p.target, p.x),
)
class DecoderBlock(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.H, self.D, other = p.H, p.D, p.second()
        self.self_attention = nn.ModuleList(p.linear(n) for n in ("q", "k", "v", "o"))
        self.cross_attention = nn.ModuleList(other.linear(n) for n in ("q", "k", "v", "o"))
        self.norms = nn.ModuleList(p.norm(i) for i in range(3))
        self.feed_forward = nn.Sequential(p.linear("up"), nn.ReLU(), p.linear("down"))

    def split(self, x):
        return x.view(x.size(0), -1, self.H, self.D).transpose(1, 2)

    def mix(self, scores, v, project):
        weights = F.softmax(scores, dim=-1)
        context = torch.matmul(weights, v)
        merged = context.transpose(1, 2).contiguous().view(v.size(0), -1, self.H * self.D)
        return project(merged)

    def forward(self, x, memory):
        wq, wk, wv, wo = self.self_attention
        q, k, v = self.split(wq(x)), self.split(wk(x)), self.split(wv(x))
        later = torch.ones(x.size(1), x.size(1), dtype=torch.bool).triu(1)
        own = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.D)
        x = self.norms[0](x + self.mix(own.masked_fill(later, -1e9), v, wo))
        wq, wk, wv, wo = self.cross_attention
        q, k, v = self.split(wq(x)), self.split(wk(memory)), self.split(wv(memory))
        seen = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.D)
        x = self.norms[1](x + self.mix(seen, v, wo))
        x = self.norms[2](x + self.feed_forward(x))
        return x


ONE_MORE = "S|S+1|1+S|?"
ONE_MORE_QUERY = "T|T+1|1+T|S|S+1|1+S|?"


@right(
    {
        "tokens": f"B {ONE_MORE} C",
        "scores": f"B H {ONE_MORE_QUERY} {ONE_MORE}|T",
        "context": f"B H {ONE_MORE_QUERY} D",
        "merged": f"B {ONE_MORE_QUERY} C",
        "out": "B C",
    },
    storage={"tokens": "copy", "out": "view"},
)
class VitClassToken(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.cls_token, self.mixer = learned_query(p), Mixer(p)

    def forward(self, patches):
        cls_tokens = self.cls_token.expand(patches.shape[0], -1, -1)
        tokens = torch.cat((cls_tokens, patches), dim=1)
        mixed = self.mixer(tokens)
        out = mixed[:, 0]
        return out


def picture(p):
    return (p.draw(p.B, *PATCHES, p.C, seed=80),)


@right(
    {
        **dict.fromkeys(("q", "context"), "* H * D"),
        **dict.fromkeys(("scores", "weights"), "* H * *"),
        "merged": "* * C",
        "out": "B|? * * C",
    },
    axes="B Y X C",
    args=picture,
)
class Swin(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.window_size, self.num_heads = 2, p.H
        self.qkv, self.proj = p.linear("q", "k", "v"), p.linear("o")

    def window_partition(self, x):
        B, Y, X, C = x.shape
        x = x.view(
            B, Y // self.window_size, self.window_size, X // self.window_size, self.window_size, C
        )
        return (
            x.permute(0, 1, 3, 2, 4, 5)
            .contiguous()
            .view(-1, self.window_size * self.window_size, C)
        )

    def forward(self, x):
        _, Y, X, C = x.shape
        windows = self.window_partition(x)
        B_, N, _ = windows.shape
        qkv = (
            self.qkv(windows)
            .reshape(B_, N, 3, self.num_heads, C // self.num_heads)
            .permute(2, 0, 3, 1, 4)
        )
        q, k, v = qkv.unbind(0)
        scores = (q * (C // self.num_heads) ** -0.5) @ k.transpose(-2, -1)
        weights = scores.softmax(dim=-1)
        context = weights @ v
        merged = context.transpose(1, 2).reshape(B_, N, C)
        tiles = self.proj(merged).view(-1, Y // 2, X // 2, self.window_size, self.window_size, C)
        out = tiles.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, Y, X, C)
        return out


@right(
    {"rows": "B H * D", "context": "B H T|S|? D", "merged": "B T|S|? C", "out": "B T|S|? C"},
    storage={"context": "copy"},
)
def blocks_of_queries(p, x, size=2):
    q, k, v = (f(x).view(p.B, p.S, p.H, p.D).transpose(1, 2) for f in (p.q, p.k, p.v))
    parts = []
    for start, queries in enumerate(q.split(size, dim=2)):
        scores = queries @ k.transpose(-2, -1) / p.D**0.5
        scores = scores.masked_fill(p.later[start * size : (start + 1) * size], -torch.inf)
        rows = scores.softmax(dim=-1) @ v
        parts.append(rows)
    context = torch.cat(parts, dim=2)
    merged = context.transpose(1, 2).reshape(p.B, p.S, p.C)
    out = p.o(merged)
    return out
