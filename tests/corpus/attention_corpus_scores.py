"""Right attention: masks, softmax and scale, positions, grouped heads, caches."""

# ruff: noqa: RET504 - what is judged is in a variable

from __future__ import annotations

import torch
from attention_corpus_base import (
    SIZES,
    apart,
    finish,
)
from attention_corpus_right import heads, right
from torch import nn
from torch.nn import functional as F

# Masks, softmax and scale


# Which of the two token axes is whose cannot be told before the second product.
KEYS_FIRST = {
    "scores": "B H T S,B H S T",
    "weights": "B H T S,B H S T",
    "context": "B H T|S D",
    "out": "B T|S C",
}


@right(heads(merged=None) | KEYS_FIRST)
def keys_times_queries(p, x):
    q, k, v = (f(x).unflatten(2, (p.H, p.D)).transpose(1, 2) for f in (p.q, p.k, p.v))
    scores = k @ q.transpose(-2, -1) / p.D**0.5
    weights = torch.softmax(scores, dim=-2)
    context = weights.transpose(-2, -1) @ v
    out = p.o(context.transpose(1, 2).flatten(2))
    return out


# Positions


def relative(p, reach=2):
    """Return T5's table of biases (2 reach + 1, H) and the row of it for each pair of tokens."""
    at = torch.arange(p.S)
    return p.draw(2 * reach + 1, p.H, seed=50), (at[None, :] - at[:, None]).clamp(
        -reach, reach
    ) + reach


@right(
    heads(position_bias="1 H|? *  *"),
    storage={"q": "view", "position_bias": "view", "merged": "view"},
)
def t5(p):
    table, rows = relative(p)
    relative_attention_bias = nn.Embedding.from_pretrained(table)

    def forward(hidden_states):
        q, k, v = (apart(p, f, hidden_states) for f in (p.q, p.k, p.v))
        scores = torch.matmul(q, k.transpose(3, 2))
        position_bias = relative_attention_bias(rows).permute([2, 0, 1]).unsqueeze(0)
        scores += position_bias
        weights = F.softmax(scores, dim=-1).type_as(scores)
        weights = F.dropout(weights, p=0.1, training=False)
        context = torch.matmul(weights, v)
        merged = context.transpose(1, 2).contiguous().view(p.B, -1, p.C)
        out = p.o(merged)
        return out

    return forward


def grouped(p, name):
    return p.linear(name, rows=slice(p.H_kv * p.D))


GROUPED = {"k": "B * S D", "v": "B * S D"}


@right(
    {
        "q": "B H_kv|? * S D",
        "k": "B H_kv S D",
        "scores": "B H_kv|? * T S",
        "merged": "B T C|?",
        "out": "B T C",
    },
    sizes=("H", "H_kv"),
    equal={
        at: {"q": "B * * S D", "k": "B * S D", "scores": "B * * T S"}
        for at in SIZES
        if at != "different"
    },
)
def groups_as_an_axis(p):
    k_proj, v_proj, groups = grouped(p, "k"), grouped(p, "v"), p.H // p.H_kv

    def forward(x):
        q = p.q(x).view(p.B, p.S, p.H_kv, groups, p.D).permute(0, 2, 3, 1, 4)
        k, v = (f(x).view(p.B, p.S, p.H_kv, p.D).permute(0, 2, 1, 3) for f in (k_proj, v_proj))
        scores = torch.einsum("bkgtd,bksd->bkgts", q, k) / p.D**0.5
        weights = scores.softmax(dim=-1)
        context = torch.einsum("bkgts,bksd->btkgd", weights, v)
        merged = context.flatten(2)
        out = p.o(merged)
        return out

    return forward


@right(
    heads(k="B 1|? S D|?", v="B 1|? S D|?", context="B H T D|?", merged="B T C|?"),
    storage={"k": "view", "merged": "copy"},
)
def multi_query(p):
    fused = p.linear("q", "k", "v", rows=[*range(p.C + p.D), *range(2 * p.C, 2 * p.C + p.D)])

    def forward(x):
        q, k, v = fused(x).split([p.C, p.D, p.D], dim=-1)
        q = q.view(p.B, p.S, p.H, p.D).transpose(1, 2)
        k = k.unsqueeze(1)
        v = v.unsqueeze(1)
        return finish(p, q, k, v)

    return forward


# Caches

LONGER = "S|S+1|S+T|?"
DECODE = {
    **dict.fromkeys(("scores", "weights"), f"B H T|1 {LONGER}"),
    "context": "B H T|1 D",
    **dict.fromkeys(("merged", "out"), "B T|1 C"),
}


def cached(p, room=0):
    """Return keys and values of p.x, heads apart, with room for more tokens after them."""
    made = (apart(p, f, p.x).detach() for f in (p.k, p.v))
    return tuple(
        torch.cat([t, torch.zeros(p.B, p.H, room, p.D, dtype=t.dtype)], dim=2) for t in made
    )


@right(
    DECODE | {"keys": f"B H {LONGER} D", "values": f"B H {LONGER} D"},
    axes={"x": "B T C", "cache_k": "B H S D", "cache_v": "B H S D"},
    storage={"keys": "view", "values": "view"},
    args=lambda p: (p.token, *cached(p, room=3), p.S),
)
def cache_written_in_place(p, x, cache_k, cache_v, start):
    end = start + x.size(1)
    q, xk, xv = (f(x).view(p.B, -1, p.H, p.D).transpose(1, 2) for f in (p.q, p.k, p.v))
    cache_k[:, :, start:end] = xk
    cache_v[:, :, start:end] = xv
    keys = cache_k[:, :, :end]
    values = cache_v[:, :, :end]
    return finish(p, q, keys, values)
