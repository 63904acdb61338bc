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
