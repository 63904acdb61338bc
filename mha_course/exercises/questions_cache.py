"""The predictions of lesson 11, the KV cache, as data. Right answers are computed, not typed."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from mha_course.caching import GroupedQueryAttention, kv_cache_bytes, repeat_kv
from mha_course.exercises.asking import Question, shape_of
from mha_course.masks import causal_mask
from mha_course.positions import rope


def _read_later() -> str:
    """Ask the gradients which parts of token 2 the context of token 5 depends on."""
    generator = torch.Generator().manual_seed(0)
    parts = torch.randn(3, 1, 1, 7, 6, generator=generator).requires_grad_()
    context = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], attn_mask=causal_mask(7))
    (found,) = torch.autograd.grad(context[0, 0, 5].sum(), parts)
    needed = [name for name, grad in zip("qkv", found[:, 0, 0, 2], strict=True) if bool(grad.any())]
    return {"kv": "k and v", "qkv": "q, k and v"}.get("".join(needed), "none")


def _appended() -> str:
    """Append a token without a mask, and look at the tokens before it."""
    x = torch.randn(1, 7, 6, generator=torch.Generator().manual_seed(0))
    before, after = (
        F.scaled_dot_product_attention(x[:, :6], x[:, :6], x[:, :6]),
        F.scaled_dot_product_attention(x, x, x),
    )
    same = [torch.allclose(before[0, t], after[0, t], atol=1e-6) for t in range(6)]
    return "all" if all(same) else "some" if any(same) else "none"


def _twice_as_long() -> str:
    """Add up the pairs of tokens that are compared for each new token, for a text and one twice as long."""
    short, long = (sum(n * n for n in range(1, length + 1)) for length in (10_000, 20_000))
    return f"{long / short:.0f} times"


def _keys_seen() -> str:
    """Count the keys that a single query sees, by values that show the weights."""
    weights = F.scaled_dot_product_attention(
        torch.ones(1, 1, 6), torch.ones(1, 7, 6), torch.eye(7)[None], is_causal=True
    )
    return str(int((weights > 0).sum()))


def _always_at_zero() -> str:
    """Compare attention with all positions 0 to attention without positions, and to the real thing."""
    q, k, v = torch.randn(3, 1, 1, 7, 6, generator=torch.Generator().manual_seed(0)).unbind(0)
    places = torch.zeros(7), torch.arange(7)
    found, right = (F.scaled_dot_product_attention(rope(q, p), rope(k, p), v) for p in places)
    if torch.allclose(found, right, atol=1e-5):
        return "the same as always: RoPE knows distances only"
    plain = torch.allclose(found, F.scaled_dot_product_attention(q, k, v), atol=1e-6)
    return "attention without positions" if plain else "noise"


QUESTIONS: dict[str, Question] = {
    "read-later": Question(
        "A word is behind us. Which of its q, k and v can the outputs of later words depend on?",
        answer=_read_later,
        because="Later words compare their queries with its key and mix in its value. Nobody reads its query again.",
        choices={
            "q, k and v": "Its query asked for its own row of weights. That row is done.",
            "k and v": "",
            "none": "Later words look back at it: they compare with its key, and take of its value.",
        },
    ),
    "word-appended": Question(
        "No mask: every word sees every word. A word is appended. How many of the old words keep their output?",
        answer=_appended,
        because="Each softmax gets one more key to share with, so every row changes. A causal mask protects the past.",
        choices={
            "all": "That is so with a causal mask. Without one, every old word sees the new one.",
            "some": "Every row has the new key in its softmax, and softmax gives it more than 0.",
            "none": "",
        },
    ),
    "twice-as-long": Question(
        "Without a cache, all n · n scores are computed anew for each new word. A text gets twice as long: how much "
        "more work is that, all words together?",
        answer=_twice_as_long,
        because="The last word costs four times as much, and there are twice as many: the sum grows with the cube.",
        choices={
            "2 times": "There are twice as many words, but the later ones cost more than the early ones.",
            "4 times": "That is the last word alone. There are also twice as many words.",
            "8 times": "",
        },
    ),
    "keys-seen": Question(
        "One new query, 7 keys (6 in the cache, and its own). scaled_dot_product_attention gets is_causal=True. How "
        "many keys does the query see?",
        answer=_keys_seen,
        because="PyTorch lays the triangle into the top-left corner: query 0 sees key 0, the oldest of all.",
        wrong={
            "7": "So it should be, without any mask. But is_causal=True takes the query for the first of 7.",
            "6": "Its own key is not hidden in particular. The triangle starts at the top left.",
        },
        nudge="The mask has 1 row and 7 columns. In which corner does the triangle start?",
    ),
    "always-zero": Question(
        "Each new word comes alone, and RoPE is told that it stands at position 0. What does the model compute?",
        answer=_always_at_zero,
        because="A turn by the angle 0 changes nothing. All distances are 0, and the order of the words is lost.",
        choices={
            "the same as always: RoPE knows distances only": "The distances are gone as well: 0 - 0 = 0 for each pair.",
            "attention without positions": "",
            "noise": "Nothing random happens; every query and key stays as it is.",
        },
    ),
    "which-kv-head": Question(
        "6 query heads share 2 KV heads. Which KV head does query head 2 read? (Count from 0.)",
        answer=lambda: str(int(repeat_kv(torch.arange(2.0).view(1, 2, 1, 1), 6)[0, 2])),
        because="Neighbours share: query heads 0, 1 and 2 read KV head 0, the others KV head 1.",
        choices={
            "0": "",
            "1": "Query heads 3, 4 and 5 read that one: each KV head serves three in a row.",
            "both": "A query head reads one KV head. Its score is one dot product.",
        },
    ),
    "narrow-key": Question(
        "d_model is 24, with 4 query heads and 2 KV heads. What is the shape of k_proj.weight?",
        answer=lambda: shape_of(GroupedQueryAttention(24, 4, 2).k_proj.weight),
        because="Two heads of D = 6 come out, and all of x goes in; a Linear stores (out, in).",
        wrong={
            "24, 24": "That is for 4 KV heads. Here only 2 keys a token are made.",
            "24, 12": "nn.Linear stores (out, in).",
            "12, 12": "Each key head still reads all 24 channels of x.",
            "6, 24": "That is one KV head.",
        },
    ),
    "bytes-a-token": Question(
        "32 layers, 8 KV heads of 128 numbers, 2 bytes a number. How many KiB (1,024 bytes) does one token take?",
        answer=lambda: str(kv_cache_bytes(32, 1, 1, 8, 128, 2) // 1024),
        because="32 · 8 · 128 numbers, of 2 bytes, twice: a key and a value.",
        wrong={
            "64": "That is the keys alone. Values are kept, too.",
            "4": "That is one layer. Each of the 32 has a cache of its own.",
            "131072": "Those are bytes.",
        },
        nudge="Multiply layers, heads, width and bytes. And what is kept besides the keys?",
    ),
}
