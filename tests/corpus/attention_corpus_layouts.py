"""Right attention: heads folded into the batch, and block by block."""

# ruff: noqa: RET504 - what is judged is in a variable

from __future__ import annotations

import math

import torch
from attention_corpus_base import sequence_first
from attention_corpus_right import HEADS, right
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


# Block by block


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
