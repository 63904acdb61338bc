"""Right implementations of attention: heads folded into the batch, einsum and einops, odd layouts, loops over heads."""

# ruff: noqa: RET504 - what is to be judged stands in a variable

from __future__ import annotations

import math

import pytest
import torch
from attention_corpus_base import attend, causal, padded, sequence_first, tokens_first
from attention_corpus_right import heads, right
from torch import nn
from torch.nn import functional as F

ONE = ("one_head", "one_item")

# Heads folded into the batch

FOLDED = {
    "scores": "B*H T S",
    "weights": "B*H T S",
    "context": "B*H T D",
    "merged": "B T C",
    "out": "B T C",
    **dict.fromkeys(("q", "k", "v"), "B*H S D"),
}


@right(
    {"heads": "B*H S D", "scores": "B*H T S", "context": "B*H T D", "tokens": "B T H D", "out": "B T C"},
    storage={"heads": "copy", "scores": "new"},
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


@right(FOLDED | {"by_head": "B H T S"}, axes={"hidden_states": "B S C", "mask": "B S"}, truth=padded)
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


@right(FOLDED, storage={"q": "copy", "scores": "new", "merged": "view"})
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
    equal={
        at: {"q": "* S D|C", "scores": "* T S", "context": "* T D|C", "merged": "* T C|?", "out": "* T C"} for at in ONE
    },
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


@right(FOLDED)
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
    equal={at: {"context": "B T H|? D"} for at in ("square", "all_four", "one_head")},
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


@right(LOOP, storage={"merged": "copy"})
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
