"""Wrong answers as learners write them, each with the name that it must be given."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from mha_course.exercises import check
from mha_course.exercises.catalogue import EXERCISES

ONE_CALL = F.scaled_dot_product_attention


def split(x, h):
    return x.view(x.size(0), x.size(1), h, -1).transpose(1, 2)


def merge(context):
    return context.transpose(1, 2).reshape(context.size(0), context.size(2), -1)


def mha(score=None, soft=None, out=None):
    """Return multi_head_attention with a line of its own for scores, for the softmax or for the last step."""

    def multi_head_attention(x, w_q, w_k, w_v, w_o, h, mask=None):
        q, k, v = (split(x @ w.T, h) for w in (w_q, w_k, w_v))
        scores = score(q, k) if score else q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = soft(scores) if soft else scores.softmax(-1).nan_to_num(0.0)
        merged = merge(weights @ v)
        return (out(merged, w_o) if out else merged @ w_o.T), (scores if out == "scores" else weights)

    return multi_head_attention


def returns_scores(x, w_q, w_k, w_v, w_o, h, mask=None):
    q, k, v = (split(x @ w.T, h) for w in (w_q, w_k, w_v))
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    hidden = scores if mask is None else scores.masked_fill(~mask, -math.inf)
    return merge(hidden.softmax(-1).nan_to_num(0.0) @ v) @ w_o.T, scores


def no_test_for_none(x, w_q, w_k, w_v, w_o, h, mask=None):
    q, k, v = (split(x @ w.T, h) for w in (w_q, w_k, w_v))
    scores = (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).masked_fill(~mask, -math.inf)
    weights = scores.softmax(-1).nan_to_num(0.0)
    return merge(weights @ v) @ w_o.T, weights


def first_mask(x, w_q, w_k, w_v, w_o, h, mask=None):
    return mha()(x, w_q, w_k, w_v, w_o, h, mask if mask is None else mask[:1])


def causal(scores):
    return scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf)


def self_attention(x, w_q, w_k, w_v, key=lambda k: k.transpose(1, 2), drop=0.0, scores_back=False, soft=None):
    q, k, v = x @ w_q.T, x @ w_k.T, x @ w_v.T
    scores = q @ key(k) / math.sqrt(q.size(-1))
    weights = F.dropout(soft(scores) if soft else scores.softmax(-1), drop)
    return weights @ v, scores if scores_back else weights


class Dropping(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask=None):
        q, k, v = (split(p(x), self.h) for p in (self.q_proj, self.k_proj, self.v_proj))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=0.1)
        return self.out_proj(merge(out.nan_to_num(0.0)))


def fused(middle):
    """Return fused_mha with a line of its own for the middle."""

    def fused_mha(x, w_qkv, w_o, h, is_causal=False):
        q, k, v = (split(part, h) for part in (x @ w_qkv.T).chunk(3, dim=-1))
        return merge(middle(q, k, v, is_causal)) @ w_o.T

    return fused_mha


def subtractor(asks=(100.0, 100.0), keys=(0, 1), signs=(1.0, -1.0), query=None, ask_at=None):
    """Return build_subtractor with another lead, other keys that the heads look for, or other signs."""

    def build_subtractor(d):
        w_q, w_k, w_v, w_o = (torch.zeros(3 * d, 3 * d, dtype=torch.float64) for _ in range(4))
        for head in range(2):
            row = head * (3 * d // 2)
            w_q[row, d + 2 if query is None else d + query[head]] = asks[head]
            w_k[row, d + keys[head]] = asks[head]
            for c in range(d):
                w_v[row + c, c] = 1.0
                w_o[c, row + c] = signs[head]
        return w_q, w_k, w_v, w_o

    return build_subtractor


def second_row(d):
    """Put the flag of head 0 one row below its contents: for d = 2 and 4 that is a row of head 1."""
    w_q, w_k, w_v, w_o = subtractor()(d)
    w_q, w_k = torch.zeros_like(w_q), torch.zeros_like(w_k)
    w_q[d + 2, d + 2] = w_k[d + 2, d] = 100.0
    w_q[3 * d // 2, d + 2] = w_k[3 * d // 2, d + 1] = 100.0
    return w_q, w_k, w_v, w_o


def two_pieces(x, w, b):
    q, k, v = (x @ w.T + b).chunk(3)
    return q, k, v


def splits_by_three(x, w, b):
    q, k, v = (x @ w.T + b).split(3, dim=-1)
    return q, k, v


def viewed_late(x, w_q, w_k, w_v, w_o, h, mask=None):
    q = (x @ w_q.T).transpose(1, 2).view(x.size(0), h, x.size(1), -1)
    return q, q


def merged_by_view(x, w_q, w_k, w_v, w_o, h, mask=None):
    q, k, v = (split(x @ w.T, h) for w in (w_q, w_k, w_v))
    context = (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).softmax(-1) @ v
    return context.transpose(1, 2).view(x.size(0), x.size(1), -1) @ w_o.T, q


def asks_the_mask(x, w_q, w_k, w_v, w_o, h, mask=None):
    weights = split(x, h) @ split(x, h).transpose(-2, -1)
    if mask:
        weights = weights.masked_fill(~mask, -math.inf)
    return mha()(x, w_q, w_k, w_v, w_o, h)


def max_of_two(scores):
    shifted = scores - scores.max(-1, keepdim=True)
    return shifted.exp() / shifted.exp().sum(-1, keepdim=True)


def largest_of_all(scores):
    exponentials = (scores - scores.max()).exp()
    return exponentials / exponentials.sum(-1, keepdim=True)


def each_head_alone(x, w_q, w_k, w_v, w_o, h, mask=None):
    """Loop over heads, and let a mask (B, 1, S, S) meet scores (B, S, S)."""
    found = []
    for rows_q, rows_k, rows_v in zip(w_q.chunk(h), w_k.chunk(h), w_v.chunk(h), strict=True):
        scores = x @ rows_q.T @ (x @ rows_k.T).transpose(1, 2) / math.sqrt(len(rows_q))
        weights = (scores if mask is None else scores.masked_fill(~mask, -1e9)).softmax(-1)
        found.append((weights @ (x @ rows_v.T), weights))
    return torch.cat([context for context, _ in found], -1) @ w_o.T, torch.stack([weights for _, weights in found], 1)


def step(mask=None, swap=False, own_only=False):
    def decode_step(x_t, k_cache, v_cache, w_q, w_k, w_v, w_o, h):
        q, k, v = (split(x_t @ w.T, h) for w in (w_q, w_k, w_v))
        keys, values = torch.cat((k_cache, k), 2), torch.cat((v_cache, v), 2)
        seen_k, seen_v = {None: (keys, values), "past": (k_cache, v_cache), "self": (k, v)}[mask]
        weights = (q @ seen_k.transpose(-2, -1) / math.sqrt(q.size(-1))).softmax(-1)
        out = merge(weights @ seen_v) @ w_o.T
        return (out, values, keys) if swap else (out, keys, values)

    return decode_step


def rope(x, positions, base=10000.0):
    half = x.size(-1) // 2
    rates = base ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.as_tensor(positions, dtype=torch.float64)[:, None] * rates
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


def online(start=-math.inf, sign=1, whole=False, block_max=False):
    def online_softmax(scores, block_size):
        if whole:
            high = scores.amax(-1)
            return high, (scores - high[..., None]).exp().sum(-1)
        high = torch.full(scores.shape[:-1], start, dtype=scores.dtype)
        total = torch.zeros_like(high)
        for block in scores.split(block_size, -1):
            new = torch.maximum(high, block.amax(-1))
            total = total * (sign * (high - new)).exp() + (block - new[..., None]).exp().sum(-1)
            high = new
        return high, total

    return online_softmax


def tiled(sums=True, contexts=True, start=-math.inf):
    def tiled_attention(q, k, v, block_size):
        high = torch.full((*q.shape[:-1], 1), start, dtype=q.dtype)
        total, context = torch.zeros_like(high), torch.zeros(*q.shape[:-1], v.size(-1), dtype=q.dtype)
        for keys, values in zip(k.split(block_size, 2), v.split(block_size, 2), strict=True):
            scores = q @ keys.transpose(-2, -1) / math.sqrt(q.size(-1))
            new = torch.maximum(high, scores.amax(-1, keepdim=True))
            shrink, parts = (high - new).exp(), (scores - new).exp()
            total = total * (shrink if sums else 1) + parts.sum(-1, keepdim=True)
            context = context * (shrink if contexts else 1) + parts @ values
            high = new
        return context / total

    return tiled_attention


def by_queries(q, k, v, block_size):
    parts = [(rows @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).softmax(-1) @ v for rows in q.split(block_size, 2)]
    return torch.cat(parts, 2)


def never_rescaled(q, k, v, block_size):
    total, context = 0, 0
    for keys, values in zip(k.split(block_size, 2), v.split(block_size, 2), strict=True):
        parts = (q @ keys.transpose(-2, -1) / math.sqrt(q.size(-1))).exp()
        total, context = total + parts.sum(-1, keepdim=True), context + parts @ values
    return context / total


def by_std(x, gamma, beta, eps=1e-5):
    return gamma * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps) + beta


def norm(x, gamma, beta, eps=1e-5):
    c = x - x.mean(-1, keepdim=True)
    return gamma * c / (c.square().mean(-1, keepdim=True) + eps).sqrt() + beta


def rms_norm(x, gamma, beta, eps=1e-5):
    return gamma * x / (x.square().mean(-1, keepdim=True) + eps).sqrt() + beta


def by_variance(x, gamma, beta, eps=1e-5):
    centred = x - x.mean(-1, keepdim=True)
    return gamma * centred / (centred.square().mean(-1, keepdim=True) + eps) + beta


def by_squares(x, gamma, beta, eps=1e-5):
    mean = x.mean(-1, keepdim=True)
    variance = (x * x).mean(-1, keepdim=True) - mean * mean
    return gamma * (x - mean) / (variance + eps).sqrt() + beta


def waves(halves=False, start=0):
    def sinusoidal_encoding(n, c):
        angles = torch.arange(start, n + start)[:, None] * 10000.0 ** (-torch.arange(0, c, 2) / c)
        if halves:
            return torch.cat((angles.sin(), angles.cos()), -1)
        return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)

    return sinusoidal_encoding


def ablated(context, heads):
    kept = torch.zeros_like(context)
    kept[:, list(heads)] = context[:, list(heads)]
    return kept


def sampled(model, ids, steps):
    for _ in range(steps):
        shares = model(ids)[:, -1].softmax(-1)
        ids = torch.cat((ids, torch.multinomial(shares, 1)), 1)
    return ids


def last_word_only(model, ids, steps):
    for _ in range(steps):
        ids = torch.cat((ids, model(ids[:, -1:])[:, -1].argmax(-1, keepdim=True)), 1)
    return ids


def cross_joined(x, memory, w_q, w_k, w_v, w_o, h, memory_mask=None):
    both = torch.cat((x, memory), 1)
    q, k, v = split(x @ w_q.T, h), split(both @ w_k.T, h), split(both @ w_v.T, h)
    weights = (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).softmax(-1)
    return merge(weights @ v) @ w_o.T, weights


def cross_reversed(x, memory, w_q, w_k, w_v, w_o, h, memory_mask=None):
    q, k, v = split(x @ w_q.T, h), split(memory @ w_k.T, h), split(memory @ w_v.T, h)
    weights = (q @ k.T / math.sqrt(q.size(-1))).softmax(-1)
    return merge(weights @ v) @ w_o.T, weights


def cross_scores(x, memory, w_q, w_k, w_v, w_o, h, memory_mask=None):
    q, k, v = split(x @ w_q.T, h), split(memory @ w_k.T, h), split(memory @ w_v.T, h)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    hidden = scores if memory_mask is None else scores.masked_fill(~memory_mask, -math.inf)
    return merge(hidden.softmax(-1).nan_to_num(0.0) @ v) @ w_o.T, scores


def added_minus_infinity(scores, mask):
    return (scores + torch.zeros_like(scores).masked_fill(~mask, -math.inf)).softmax(-1).nan_to_num(0.0)


def one_row_up(weights, v):
    """Move a share from the first key to the second: the sum stays, the context does not."""
    moved = weights.clone()
    moved[:, 0] -= weights[:, 0] / 2
    moved[:, 1] += weights[:, 0] / 2
    return moved


def past_zero(weights, v):
    """Follow the free direction until a weight is negative."""
    both = torch.cat((v, torch.ones_like(v[:, :1])), 1)
    return weights + 3 * torch.linalg.svd(both.T).Vh[-1]


def forgets_the_sum(weights, v):
    """Leave the context alone, not the sum."""
    direction = torch.linalg.svd(v.T).Vh[-1]
    step = (weights / -direction).where(direction < 0, torch.inf).amin(-1, keepdim=True)
    return weights + step / 2 * direction


WRONG = [
    ("similarity", "cosine-not-dot", lambda x: F.normalize(x, dim=-1) @ F.normalize(x, dim=-1).T),
    ("similarity", "cosine-not-dot", lambda x: F.cosine_similarity(x[:, None], x[None], dim=-1)),
    ("project_qkv", "pieces-not-three", lambda x, w, b: (x @ w.T + b).chunk(3)),
    ("project_qkv", "pieces-not-three", two_pieces),
    ("split_fused_qkv", "pieces-not-three", lambda x, h: [split(part, h) for part in x.chunk(3)]),
    ("project_qkv", "weight-not-transposed", lambda x, w, b: [x @ w.chunk(3)[i] + b.chunk(3)[i] for i in range(3)]),
    ("project_qkv", "fused-three-innermost", lambda x, w, b: [(x @ w.T + b)[..., i::3] for i in range(3)]),
    ("split_heads", "float-division", lambda x, h: x.view(x.size(0), x.size(1), h, x.size(2) / h).transpose(1, 2)),
    ("split_heads", "view-after-transpose", lambda x, h: x.transpose(1, 2).view(x.size(0), h, x.size(1), -1)),
    ("split_heads", "view-after-transpose", lambda x, h: x.transpose(1, 2).reshape(x.size(0), h, x.size(1), -1)),
    ("one_head_queries", "float-division", lambda x, w, i, h: x @ w[i * w.size(0) / h : (i + 1) * w.size(0) / h].T),
    ("attention_scores", "key-all-axes-reversed", lambda q, k: q @ k.T),
    ("scaled_scores", "key-all-axes-reversed", lambda q, k: q @ k.T / math.sqrt(q.size(-1))),
    ("attention_scores", "key-transposed-wrong-axes", lambda q, k: q @ k.transpose(1, 2)),
    ("attention_scores", "cosine-not-dot", lambda q, k: F.cosine_similarity(q[:, :, :, None], k[:, :, None], dim=-1)),
    ("score_form", "form-transposed", lambda a, b, i, h: b.chunk(h)[i].T @ a.chunk(h)[i]),
    ("score_form", "form-of-all-heads", lambda a, b, i, h: a.T @ b),
    ("entropy", "entropy-log-of-zero", lambda w: -(w * w.log()).sum(-1)),
    ("entropy", "entropy-sign", lambda w: torch.special.xlogy(w, w).sum(-1)),
    ("entropy", "entropy-base-two", lambda w: -torch.special.xlogy(w, w).sum(-1) / math.log(2)),
    ("entropy", "entropy-mean", lambda w: -torch.special.xlogy(w, w).mean(-1)),
    ("masked_softmax", "mask-inverted", lambda s, m: s.masked_fill(m, -math.inf).softmax(-1).nan_to_num(0.0)),
    ("masked_softmax", "mask-inverted", lambda s, m: s.masked_fill(m, -math.inf).softmax(-1)),
    ("masked_softmax", "mask-inverted", lambda s, m: s.masked_fill(m, -1e9).softmax(-1)),
    ("masked_softmax", "nan-gradient", added_minus_infinity),
    ("masked_softmax", "masked-row-uniform", lambda s, m: s.masked_fill(~m, -math.inf).softmax(-1).nan_to_num(1 / 7)),
    ("scaled_scores", "scale-by-heads", lambda q, k: q @ k.mT / q.size(1) ** 0.5),
    ("multi_head_attention", "scale-by-heads", mha(lambda q, k: q @ k.mT / math.sqrt(q.size(1)))),
    ("multi_head_attention", "mask-first-batch-only", first_mask),
    ("self_attention", "key-all-axes-reversed", lambda *a: self_attention(*a, key=lambda k: k.T)),
    ("self_attention", "scores-returned", lambda *a: self_attention(*a, scores_back=True)),
    ("self_attention", "dropout-at-eval", lambda *a: self_attention(*a, drop=0.1)),
    ("build_subtractor", "heads-exchanged", subtractor(signs=(-1.0, 1.0))),
    ("build_subtractor", "heads-exchanged", subtractor(keys=(1, 0))),
    ("build_subtractor", "sum-not-difference", subtractor(signs=(1.0, 1.0))),
    ("build_subtractor", "lead-too-small", subtractor(asks=(1.0, 1.0))),
    ("build_subtractor", "looks-for-the-asker", subtractor(keys=(2, 2))),
    ("build_subtractor", "looks-for-the-asker", subtractor(keys=(2, 2), query=(0, 1))),
    ("build_subtractor", "same-place-twice", subtractor(keys=(0, 0))),
    ("multi_head_attention", "scores-returned", returns_scores),
    ("multi_head_attention", "view-after-transpose", viewed_late),
    ("multi_head_attention", "view-on-non-contiguous", merged_by_view),
    ("multi_head_attention", "weight-not-transposed", mha(lambda q, k: q @ k.transpose(-2, -1), None, torch.matmul)),
    ("multi_head_attention", "mask-none", no_test_for_none),
    ("multi_head_attention", "key-all-axes-reversed", mha(lambda q, k: q @ k.T / math.sqrt(q.size(-1)))),
    ("multi_head_attention", "dropout-at-eval", mha(soft=lambda s: F.dropout(s.softmax(-1).nan_to_num(0.0), 0.1))),
    ("MultiHeadAttention", "dropout-at-eval", Dropping),
    ("fused_mha", "scale-twice", fused(lambda q, k, v, c: ONE_CALL(q / math.sqrt(q.size(-1)), k, v, is_causal=c))),
    ("fused_mha", "causal-ignored", fused(lambda q, k, v, c: ONE_CALL(q, k, v))),
    ("fused_mha", "dropout-at-eval", fused(lambda q, k, v, c: ONE_CALL(q, k, v, dropout_p=0.1, is_causal=c))),
    ("fused_mha", "view-without-transpose", lambda x, w, o, h, c=False: merge(ONE_CALL(*(
        part.reshape(len(x), h, x.size(1), -1) for part in (x @ w.T).chunk(3, -1)), is_causal=c)) @ o.T),
    ("fold_value_bias", "bias-not-projected", lambda w_o, b_v, b_o: b_v + b_o),
    ("fold_value_bias", "output-bias-projected", lambda w_o, b_v, b_o: w_o @ (b_v + b_o)),
    ("parameter_count", "three-linears", lambda c, h, bias: 3 * (c * c + (c if bias else 0))),
    ("parameter_count", "times-heads", lambda c, h, bias: 4 * h * (c * c + (c if bias else 0))),
    ("additive_mask", "dtype-ignored", lambda m, dtype: torch.zeros(m.shape).masked_fill(~m, -math.inf)),
    ("to_attend", "convention-misread", lambda m, c: m if c in ("bool", "sdpa", "seaborn") else m == 0),
    ("to_attend", "convention-misread", lambda m, c: m == 0 if c == "additive" else ~m if c != "bool" else m),
    ("to_attend", "convention-misread", lambda m, c: m if c in ("sdpa", "additive") else ~m),
    ("additive_mask", "masked-row-uniform", lambda m, dtype: torch.zeros(m.shape, dtype=dtype).masked_fill(~m, -1e30)),
    ("cross_attention", "memory-and-input-joined", cross_joined),
    ("cross_attention", "key-all-axes-reversed", cross_reversed),
    ("cross_attention", "scores-returned", cross_scores),
    ("rope", "positions-ignored", lambda x, p, base=10000.0: rope(x, range(x.size(2)), base)),
    ("rope", "base-ignored", lambda x, p, base=10000.0: rope(x, p)),
    ("rope", "base-ignored", lambda x, p, base=10000.0: rope(x, p, 500000.0)),
    ("decode_step", "blind-to-itself", step("past")),
    ("decode_step", "sees-itself-alone", step("self")),
    ("decode_step", "caches-exchanged", step(swap=True)),
    ("decode_step", "cache-not-appended", lambda *a: (step()(*a)[0], *a[1:3])),
    ("kv_cache_bytes", "cache-bytes-batch-missing", lambda n, b, s, h, d, size: 2 * n * s * h * d * size),
    ("kv_cache_bytes", "cache-bytes-one-of-kv", lambda n, b, s, h, d, size: n * b * s * h * d * size),
    ("online_softmax", "online-max-from-zero", online(start=0.0)),
    ("online_softmax", "online-whole-row", online(whole=True)),
    ("online_softmax", "online-exponent-sign", online(sign=-1)),
    ("tiled_attention", "sum-not-rescaled", tiled(sums=False)),
    ("tiled_attention", "context-not-rescaled", tiled(contexts=False)),
    ("tiled_attention", "online-max-not-corrected", tiled(sums=False, contexts=False)),
    ("tiled_attention", "library-kernel", lambda q, k, v, size: F.scaled_dot_product_attention(q, k, v)),
    ("tiled_attention", "online-max-from-zero", tiled(start=0.0)),
    ("tiled_attention", "scale-d-model", lambda q, k, v, size: tiled()(q / math.sqrt(q.size(1)), k, v, size)),
    ("tiled_attention", "online-whole-row", by_queries),
    ("tiled_attention", "softmax-unstable", never_rescaled),
    ("layer_norm", "layer-norm-unbiased", by_std),
    ("layer_norm", "rms-not-layer-norm", rms_norm),
    ("layer_norm", "layer-norm-no-affine", lambda x, g, b, eps=1e-5: F.layer_norm(x, x.shape[-1:], eps=eps)),
    ("layer_norm", "layer-norm-eps-ignored", lambda x, g, b, eps=1e-5: norm(x, g, b)),
    ("layer_norm", "layer-norm-eps-ignored", lambda x, g, b, eps=1e-5: norm(x, g, b, 0.0)),
    ("layer_norm", "layer-norm-variance-without-root", by_variance),
    ("encoder_block", "norms-exchanged", lambda x, a, f, n1, n2: (y := x + a(n2(x))) + f(n1(y))),
    ("encoder_block", "second-residual-from-input", lambda x, a, f, n1, n2: x + f(n2(x + a(n1(x))))),
    ("encoder_block", "stream-normed", lambda x, a, f, n1, n2: (y := (z := n1(x)) + a(z), z := n2(y))[1] + f(z)),
    ("encoder_block", "parallel-block", lambda x, a, f, n1, n2: x + a(n1(x)) + f(n2(x))),
    ("sinusoidal_encoding", "waves-in-halves", waves(halves=True)),
    ("sinusoidal_encoding", "positions-from-one", waves(start=1)),
    ("ablate_heads", "ablate-complement", ablated),
    ("relation_score", "relation-summed", lambda w, pairs: sum(w[:, a, b] for a, b in pairs)),
    ("generate", "generate-samples", sampled),
    ("generate", "generate-reads-last-word-only", last_word_only),
    ("other_weights", "same-weights", lambda weights, v: weights.clone()),
    ("other_weights", "same-weights", lambda weights, v: weights + 1e-7 * torch.randn_like(weights)),
    ("other_weights", "negative-weights", past_zero),
    ("other_weights", "sum-moved", forgets_the_sum),
    ("other_weights", "context-moved", one_row_up),
]  # fmt: skip


@pytest.mark.parametrize(("name", "mistake", "answer"), WRONG, ids=[f"{name}-{mistake}" for name, mistake, _ in WRONG])
def test_a_first_attempt_is_named(name, mistake, answer):
    report = check(name, answer)
    assert (report.status in ("wrong", "error"), report.mistake) == (True, mistake), report.message


# Wrong in ways without a name, and what is said of them.
SAID = [
    ("similarity", lambda x: x.T @ x, "The columns of x were compared"),
    ("similarity", lambda x: (x @ x.T).softmax(-1), "step 1 alone"),
    ("project", lambda x, w, b: w @ x + b, "x stands on the left"),
    ("project", lambda x, w, b: x @ w.reshape(w.size(1), -1) + b, "It is no transpose"),
    ("project_qkv", splits_by_three, "split(3) cuts pieces of size 3"),
    ("project_qkv", lambda x, w, b: (part for part in (x @ w.T + b).chunk(3, -1)), "one generator. Put commas"),
    ("project_qkv", lambda x, w, b: dict(zip("qkv", (x @ w.T + b).chunk(3, -1), strict=True)), "returned one dict."),
    ("project_qkv", lambda x, w, b: None if x.dim() else x, "Is a return missing?"),
    ("patchify", lambda x, p: F.unfold(x, p, stride=p).mT + 1, "at image 0, patch"),
    ("add_class_token", lambda x, c: torch.cat((2 * c.expand(len(x), 1, -1), x), 1), "at image 0, token 0"),
    ("self_attention", lambda *a: self_attention(*a, soft=lambda s: causal(s).softmax(-1)), "nobody asked for it"),
    ("multi_head_attention", mha(soft=lambda s: causal(s).softmax(-1)), "nobody asked for it"),
    ("scaled_scores", lambda q, k: q @ k.mT / int(q.size(-1) ** 0.5), "rounded to a whole number"),
    ("multi_head_attention", mha(lambda q, k: q @ k.mT / math.isqrt(q.size(-1))), "rounded to a whole number"),
    ("masked_softmax", lambda s, m: (s + (1 - m) * -1e9).softmax(-1), "Its opposite is ~mask"),
    ("masked_softmax", lambda s, m: s.masked_fill(-m, -1e9).softmax(-1), "Its opposite is ~mask"),
    ("one_head_queries", lambda x, w, i, h: x @ w[i : i + w.size(0) // h].T, "begin at head * D"),
    ("one_head_queries", lambda x, w, i, h: x @ w.chunk(h, 1)[i], "Columns of W were taken"),
    ("attention_scores", lambda q, k: q @ k.mT / math.sqrt(q.size(-1)), "divided by sqrt(D) already"),
    ("score_form", lambda a, b, i, h: a.chunk(h)[i] @ b.chunk(h)[i].T, "the product summed over C"),
    ("similarity", lambda x: torch.dot(x, x.T), "torch.dot takes two vectors"),
    ("attention_scores", lambda q, k: torch.mm(q, k.mT), "torch.mm takes two matrices"),
    ("scaled_scores", lambda q, k: q @ k.mT / torch.sqrt(q.size(-1)), "Write math.sqrt(size)"),
    ("entropy", lambda w: -sum(w * math.log(w)), "use torch.exp, torch.log"),
    ("softmax", max_of_two, "max along an axis gives two results"),
    ("softmax", largest_of_all, "The largest score of all was subtracted"),
    ("softmax", lambda z: (e := (z - z.mean(-1, keepdim=True)).exp()) / e.sum(-1, keepdim=True), "of 10 000 and more"),
    ("self_attention", lambda *a: self_attention(*a)[::-1], "Result 0 (context) has shape (2, 7, 7)"),
    ("multi_head_attention", asks_the_mask, "if mask is not None"),
    ("multi_head_attention", each_head_alone, "It was called with a mask (B, 1, S, S)"),
    ("parameter_count", lambda c, h, bias: 4 * (c * c + c), "although bias is False"),
    ("build_subtractor", second_row, "With d = 2, head 0 looks at token a with weight 0.111"),
    ("build_subtractor", subtractor(asks=(1.0, 100.0)), "token a with weight 0.182 and adds its content; head 1"),
    ("build_subtractor", lambda d: subtractor()(8), "it should return four matrices (6, 6)"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "answer", "part"), SAID, ids=[f"{name}-{part}" for name, _, part in SAID])
def test_what_is_said_helps(name, answer, part):
    report = check(name, answer)
    assert report.status in ("wrong", "error")
    assert part in report.message


def test_two_mistakes_of_which_one_is_in_the_last_step_are_both_told():
    message = check("multi_head_attention", mha(lambda q, k: q @ k.transpose(-2, -1), None, torch.matmul)).message
    assert "The scores are not scaled." in message
    assert "W_O was not transposed." in message


def two_passes(blocks):
    """Find the maximum of all blocks first, and go through them again for the sum."""
    high = torch.stack([block.amax(-1) for block in blocks]).amax(0)
    return high, sum((block - high[..., None]).exp().sum(-1) for block in blocks)


def by_columns(scores, size):
    high = scores[..., 0]
    for column in scores.unbind(-1):
        high = torch.maximum(high, column)
    return high, sum((column - high).exp() for column in scores.unbind(-1))


def in_numpy(scores):
    high = scores.max(-1)
    return torch.from_numpy(high), torch.from_numpy(np.exp(scores - high[..., None]).sum(-1))


def attends_in_numpy(q, k, v, size):
    q, k, v = (np.asarray(x) for x in (q, k, v))
    parts = np.exp(q @ k.swapaxes(2, 3) / math.sqrt(q.shape[-1]) - 50)
    return torch.from_numpy(parts / parts.sum(-1, keepdims=True) @ v)


def keeps_all_blocks(q, k, v, size):
    blocks = [q @ keys.mT / math.sqrt(q.size(-1)) for keys in k.split(size, 2)]
    high = torch.cat([block.amax(-1, keepdim=True) for block in blocks], -1).amax(-1, keepdim=True)
    parts = [(block - high).exp() for block in blocks]
    mixed = sum(part @ values for part, values in zip(parts, v.split(size, 2), strict=True))
    return mixed / sum(part.sum(-1, keepdim=True) for part in parts)


# Wrong, and once called correct.
HOLES = [
    ("build_subtractor", second_row),
    ("one_head_queries", lambda x, w, i, h: (x @ w.T).chunk(h, -1)[i]),
    ("softmax", lambda s: torch.softmax(s, -1)),
    ("softmax", lambda s: F.softmax(s, dim=-1)),
    ("tiled_attention", lambda q, k, v, size: F.scaled_dot_product_attention(q, k, v)),
    ("tiled_attention", lambda q, k, v, size: tiled()(q, k, v, 6)),
    ("tiled_attention", attends_in_numpy),
    ("tiled_attention", keeps_all_blocks),
    ("online_softmax", lambda scores, size: two_passes(scores.split(size, -1))),
    ("online_softmax", lambda scores, size: two_passes([block.clone() for block in scores.split(size, -1)])),
    ("online_softmax", by_columns),
    ("online_softmax", lambda scores, size: in_numpy(scores.numpy())),
    ("online_softmax", lambda scores, size: in_numpy(np.array(scores.tolist()))),
    ("online_softmax", online(whole=True)),
    ("online_softmax", online(start=0.0)),
    ("masked_softmax", added_minus_infinity),
    ("masked_softmax", lambda s, m: s.masked_fill(~m, -100.0).softmax(-1) * m.any(-1, keepdim=True)),
    ("masked_softmax", lambda s, m: s.masked_fill(~m, -30.0).softmax(-1) * m.any(-1, keepdim=True)),
    ("split_heads", lambda x, h: "abc"),
]


@pytest.mark.parametrize(("name", "answer"), HOLES, ids=[name for name, _ in HOLES])
def test_what_breaks_the_rules_does_not_pass(name, answer):
    report = check(name, answer)
    assert report.status == "wrong", report.message


def test_cancellation_is_called_so():
    report = check("layer_norm", by_squares)
    assert report.status == "wrong"
    assert "In float64 it agrees, in float32 it does not" in report.message


def test_what_other_weights_must_keep_is_said_in_words():
    for answer in (past_zero, forgets_the_sum, one_row_up, lambda weights, v: weights, lambda weights, v: weights @ v):
        assert "Result" not in check("other_weights", answer).message


# Right on the sizes that the lessons use, because a size is written down as a number.
WRITTEN_DOWN = [
    ("split_heads", lambda x, h: x.view(2, -1, 4, 6).transpose(1, 2)),
    ("merge_heads", lambda c: c.transpose(1, 2).reshape(2, 7, 24)),
    ("split_fused_qkv", lambda x, h: x.unflatten(-1, (3, 4, 6)).permute(2, 0, 3, 1, 4).unbind(0)),
    ("project_qkv", lambda x, w, b: (x @ w.T + b).split(24, -1)),
    ("one_head_queries", lambda x, w, i, h: x @ w[6 * i : 6 * i + 6].T),
    ("scaled_scores", lambda q, k: q @ k.mT / math.sqrt(6)),
    ("masked_softmax", lambda s, m: s.masked_fill(~m, -math.inf).softmax(-1).nan_to_num(0.0).view(2, 4, 5, 7)),
    ("causal_mask", lambda n: torch.ones(7, 7).tril().bool()),
    ("multi_head_attention", lambda x, a, b, c, d, h, mask=None: mha()(x, a, b, c, d, 4, mask)),
]


@pytest.mark.parametrize(("name", "answer"), WRITTEN_DOWN, ids=[name for name, _ in WRITTEN_DOWN])
def test_a_size_that_is_written_down_is_noticed(name, answer):
    report = check(name, answer)
    assert (report.status in ("wrong", "error"), report.stage) == (True, "sizes"), report
    assert "is a size written as a number?" in report.message
    assert not any(case and case in report.message for case in EXERCISES[name].cases)  # they tell of other inputs


def angles_in_float32(x, positions, base=10000.0):
    """Turn the wrong way round, with angles of float32, as most public code computes them."""
    rates = 1.0 / (base ** (torch.arange(0, x.size(-1), 2).float() / x.size(-1)))
    angles = torch.outer(torch.as_tensor(positions).float(), rates)
    a, b = x.chunk(2, -1)
    return torch.cat((a * angles.cos() + b * angles.sin(), b * angles.cos() - a * angles.sin()), -1)


def test_what_is_computed_in_float32_is_right_and_wrong_as_the_rest():
    assert check("rope", angles_in_float32).mistake == "rope-wrong-sign"
    assert check("scaled_scores", lambda q, k: q @ k.mT / torch.sqrt(torch.tensor(q.size(-1)))).status == "correct"


ATTACKS = [
    ("entropy", lambda w: torch.nan_to_num(-(w * w.log()).sum(-1))),
    ("entropy", lambda w: -(w * w.clamp(min=1e-3).log()).sum(-1)),
    ("masked_softmax", lambda s, m: (e := s.exp() * m) / e.sum(-1, keepdim=True).clamp_min(1e-9)),
    ("masked_softmax", lambda s, m: s.masked_fill(~m, -100).softmax(-1) * m.any(-1, keepdim=True)),
    ("masked_softmax", lambda s, m: (s * m).masked_fill(s * m == 0, -math.inf).softmax(-1).nan_to_num(0.0)),
    ("generate", lambda model, ids, steps: window(model, ids, steps, 2)),
    ("padding_mask", lambda n, size: (torch.arange(int(n.max())) < n[:, None])[:, None, None]),
]


def window(model, ids, steps, seen):
    for _ in range(steps):
        ids = torch.cat((ids, model(ids[:, -seen:])[:, -1].argmax(-1, keepdim=True)), 1)
    return ids


@pytest.mark.parametrize(("name", "answer"), ATTACKS, ids=[f"{name}-{at}" for at, (name, _) in enumerate(ATTACKS)])
def test_what_is_right_on_easy_inputs_alone_does_not_pass(name, answer):
    assert check(name, answer).status == "wrong"


class NotReady(nn.Module):
    def __init__(self, d_model, num_heads):
        self.q_proj = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        return x


class WithoutBias(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d_model, d_model, bias=False) for _ in "1234")

    def forward(self, x, mask=None):
        return x


def weight_first(x, w_q, w_k, w_v):
    q = w_q @ x
    return q, q


HELPED = [
    ("scaled_scores", lambda q, k: q @ k.mT / q.size(-1) ** 1 / 2, "the power comes first"),
    ("one_head_queries", lambda x, w, i, h: x @ w.chunk(h, dim=1)[i].T, "cut along its columns"),
    ("fused_mha", fused(ONE_CALL), "in the place of the mask"),
    ("fold_value_bias", lambda w_o, b_v, b_o: w_o @ b_o + b_v, "have changed places"),
    ("self_attention", weight_first, "weight @ x"),
    ("MultiHeadAttention", NotReady, "super().__init__()"),
    ("MultiHeadAttention", WithoutBias, "there is no q_proj.bias"),
    ("layer_norm", lambda x, g, b, eps=1e-5: norm(x, g, b, eps) @ torch.eye(24).double(), "is a dtype written down"),
    ("relation_score", lambda w, pairs: torch.stack([w[:, a, b] for a, b in set(pairs)]).mean(0), "other numbers"),
]


@pytest.mark.parametrize(("name", "answer", "words"), HELPED, ids=[f"{name}-{words}" for name, _, words in HELPED])
def test_an_attempt_without_an_id_gets_words_that_help(name, answer, words):
    report = check(name, answer)
    assert (report.status in ("wrong", "error"), report.mistake) == (True, None), report
    assert words in report.message
