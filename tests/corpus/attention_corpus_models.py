"""Right attention: a class token, and block by block."""

# ruff: noqa: RET504 - what is to be judged stands in a variable

from __future__ import annotations

import torch
from attention_corpus_right import right
from torch import nn

# A class token


def learned_query(p):
    return nn.Parameter(p.draw(1, 1, p.C, seed=60))


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
