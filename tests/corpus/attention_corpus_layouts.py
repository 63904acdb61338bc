"""Right attention: heads folded into the batch, einsum, einops, odd layouts, loops."""

# ruff: noqa: RET504 - what is to be judged stands in a variable

from __future__ import annotations

import math

import torch
from attention_corpus_base import sequence_first
from attention_corpus_right import HEADS, right
from torch import nn
from torch.nn import functional as F

ONE = ("one_head", "one_item")

# Heads folded into the batch

FOLDED = {name: pattern.replace("B H", "B*H") for name, pattern in HEADS.items()}


@right(
    FOLDED | {"merged": "T*B C", "out": "T B C", "average": "B T S"},
    axes={"query": "S B C", "attn_mask": "T S"},
    args=lambda p: (
        *sequence_first(p),
        torch.zeros(p.S, p.S, dtype=torch.float64).masked_fill(p.later, -math.inf),
    ),
    storage={"q": "view", "merged": "view", "average": "new"},
)
def torch_functional(p, query, attn_mask):
    tgt_len, bsz, embed_dim = query.shape
    packed = F.linear(query, p.qkv.weight, p.qkv.bias)
    packed = (
        packed.unflatten(-1, (3, embed_dim)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
    )
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


@right(
    {
        "q": "H*B|? S D",
        "scores": "H*B|? T S",
        "context": "H*B|? T D",
        "merged": "B|? T C|?",
        "out": "B|? T C",
    },
    equal={
        at: {
            "q": "* S D|C",
            "scores": "* T S",
            "context": "* T D|C",
            "merged": "* T C|?",
            "out": "* T C",
        }
        for at in ONE
    },
)
def chunks_of_heads_along_the_batch(p, x):
    q, k, v = (torch.cat(torch.chunk(f(x), p.H, dim=2), dim=0) for f in (p.q, p.k, p.v))
    scores = torch.bmm(q, k.permute(0, 2, 1)) / (k.size(-1) ** 0.5)
    weights = F.softmax(scores, dim=-1)
    context = torch.bmm(weights, v)
    merged = torch.cat(torch.chunk(context, p.H, dim=0), dim=2)
    out = p.o(merged)
    return out


# einsum, einops, and layouts of their own


@right(
    {"weights": "B*H|? T S", "context": "B*H|? D|? T", "out": "B|? * T"},
    axes="B C S",
    args=lambda p: (p.x.transpose(1, 2).contiguous(),),
    equal={at: {"weights": "* T S", "context": "* * T"} for at in ONE},
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
    {name: pattern.replace("H ", "") for name, pattern in HEADS.items()},
    storage={"scores": "new", "merged": "copy"},
)
class Makemore(nn.Module):
    class Head(nn.Module):
        def __init__(self, p, rows):
            super().__init__()
            self.query, self.key, self.value = (p.linear(n, rows=rows) for n in ("q", "k", "v"))
            self.later = p.later

        def forward(self, x):
            k = self.key(x)
            q = self.query(x)
            scores = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
            weights = F.softmax(scores.masked_fill(self.later, float("-inf")), dim=-1)
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
