"""Wrong implementations of attention: softmax, keys, weights and masks on the wrong axis."""

from __future__ import annotations

import torch
from attention_corpus_base import apart
from attention_corpus_wrong import EQUAL, together, wrong
from torch.nn import functional as F

# softmax over the wrong axis


@wrong("softmax-over-queries", where=("total", "weights"))
def softmax_by_hand_down_the_columns(p, x):
    q, k, v = (apart(p, f, x) for f in (p.q, p.k, p.v))
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / p.D**0.5
    powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    total = powers.sum(dim=2, keepdim=True)
    weights = powers / total
    return p.o(together(p, torch.einsum("bhqk,bhkd->bhqd", weights, v)))


@wrong("softmax-over-heads", where=("weights",))
def softmax_left_from_three_axes(p, x):
    q, k, v = (apart(p, f, x) for f in (p.q, p.k, p.v))
    weights = torch.nn.Softmax(dim=1)(q @ k.transpose(-2, -1) / p.D**0.5)
    return p.o(together(p, weights @ v))


@wrong("softmax-over-batch", where=("weights",))
def softmax_over_sentences(p, x):
    q, k, v = (apart(p, f, x) for f in (p.q, p.k, p.v))
    scores = q @ k.transpose(-2, -1) / p.D**0.5
    weights = scores.softmax(dim=0)
    return p.o(together(p, weights @ v))


# Keys: without a transpose it runs only where S = D
SILENT = {"*": "crash", **dict.fromkeys(EQUAL, "key-not-transposed")}


@wrong("key-not-transposed", equal=SILENT, where=("scores",))
def einsum_of_keys_as_they_are(p, x):
    q, k, v = (apart(p, f, x) for f in (p.q, p.k, p.v))
    scores = torch.einsum("bhqd,bhdk->bhqk", q, k) / p.D**0.5
    weights = torch.softmax(scores, dim=-1)
    return p.o(together(p, torch.einsum("bhqk,bhkd->bhqd", weights, v)))


RESHAPED = dict.fromkeys(EQUAL, "key-reshaped|key-not-transposed")


@wrong("key-reshaped", equal=RESHAPED, where=("k", "scores"))
def keys_reshaped(p, x):
    q, k, v = (apart(p, f, x) for f in (p.q, p.k, p.v))
    k = k.reshape(p.B, p.H, p.D, p.S)
    scores = q @ k / p.D**0.5
    return p.o(together(p, scores.softmax(dim=-1) @ v))


# weights-transposed: runs where T = S


@wrong("weights-transposed", where=("context",))
def weights_turned(p, x):
    q, k, v = (apart(p, f, x) for f in (p.q, p.k, p.v))
    weights = torch.softmax(q @ k.transpose(-2, -1) / p.D**0.5, dim=-1)
    context = weights.transpose(-2, -1) @ v
    return p.o(together(p, context))


# Masks


RAW = {
    "axes": {"x": "B S C", "keep": "B S"},
    "equal": {"*": "crash", "all_four": "padding-broadcast-raw", "one_item": "unseen"},
    "where": ("scores",),
}


@wrong("padding-broadcast-raw", **RAW, args=lambda p: (p.x, p.keep))
def padding_filled_raw(p, x, keep):
    q, k, v = (apart(p, f, x) for f in (p.q, p.k, p.v))
    scores = q @ k.transpose(-2, -1) / p.D**0.5
    scores = scores.masked_fill(keep == 0, float("-inf"))
    return p.o(together(p, torch.softmax(scores, dim=-1) @ v))


def both(p):
    """Return the padding and causal mask (B, T, S)."""
    return p.keep[:, None, :] & ~p.later


HEADLESS = {
    "axes": {"x": "B S C", "mask": "B T S"},
    "equal": {"*": "crash", **dict.fromkeys(EQUAL, "mask-missing-head-axis"), "one_item": "unseen"},
}


@wrong("mask-missing-head-axis", where=("scores",), **HEADLESS, args=lambda p: (p.x, both(p)))
def mask_of_each_sentence_added(p, x, mask):
    q, k, v = (apart(p, f, x) for f in (p.q, p.k, p.v))
    scores = q @ k.transpose(-2, -1) / p.D**0.5
    scores = scores + torch.zeros(mask.shape, dtype=x.dtype).masked_fill(~mask, -torch.inf)
    context = torch.softmax(scores, dim=-1) @ v
    return p.o(context.transpose(1, 2).reshape(x.shape))


@wrong("mask-missing-head-axis", where=("context",), **HEADLESS, args=lambda p: (p.x, both(p)))
def mask_of_each_sentence_in_sdpa(p, x, mask):
    q, k, v = (apart(p, f, x) for f in (p.q, p.k, p.v))
    context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return p.o(context.transpose(1, 2).reshape(x.shape))
