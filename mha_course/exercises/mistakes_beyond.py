"""Mistakes in the exercises of Part II, each a step or a whole small function replaced."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from mha_course import flash, masks
from mha_course import positions as p
from mha_course.exercises import beyond as r
from mha_course.exercises.noting import Book, Mistake

MASKS, CROSS, PLACES = "8, Masks: one vocabulary", "9, Cross-attention: two sequences", "10, Positions: rotary pairs"
CACHE, FLASH, BLOCK = "11, KV cache: one token at a time", "12, FlashAttention: one pass", "13, Encoder block: wiring"
VISION, WORDS, HEADS = "14, Vision: patches", "15, Language model: what comes next", "16, Why many heads: ablation"
note = Book()
# Longer than 250 lines: the list is better read as one.

# Masks
note(
    "causal-hides-self", "A token does not see itself.", "The diagonal is allowed: token 0 has nothing else to see.",
    MASKS, {"causal_mask": lambda n: torch.ones(n, n).tril(-1).bool()},
    {"causal_mask_for_cache": lambda new, total: torch.ones(new, total).tril(total - new - 1).bool()},
)  # fmt: skip
note(
    "causal-leaks-next", "Each token sees the next one.", "A token may look at itself and back, not ahead.", MASKS,
    {"causal_mask": lambda n: torch.ones(n, n).tril(1).bool()},
    {"causal_mask_for_cache": lambda new, total: torch.ones(new, total).tril(total - new + 1).bool()},
)  # fmt: skip
note(
    "causal-top-left", "The triangle stands at the top left.", "The new tokens are the last ones: align the triangle "
    "with the bottom right corner.", MASKS,
    {"causal_mask_for_cache": lambda new, total: torch.ones(new, total).tril().bool()},
)  # fmt: skip
note(
    "mask-inverted", "True and False have changed places.", "True means may attend.", MASKS,
    {"causal_mask": lambda n: ~masks.causal_mask(n)}, {"padding_mask": lambda x, n: ~masks.padding_mask(x, n)},
    {"causal_mask_for_cache": lambda a, b: ~masks.causal_mask_for_cache(a, b)},
    {"combine_masks": lambda a, b: ~(a & b)},
    {"additive_mask": lambda m, dtype: torch.zeros(m.shape, dtype=dtype).masked_fill(m, -math.inf)},
    {"to_attend": lambda m, c: ~masks.to_attend(m, c)},
    {"to_attend": lambda m, c: m if c in ("multihead", "seaborn") else masks.to_attend(m, c)},
    {"to_attend": lambda m, c: m != 0 if c == "additive" else masks.to_attend(m, c)},
    {"to_attend": lambda m, c: ~m if c == "sdpa" else masks.to_attend(m, c)},
)  # fmt: skip
note(
    "padding-on-queries", "The mask hides queries, not keys.", "Padding is what nobody should look at: the last axis, "
    "mask[:, None, None, :].", MASKS, {"padding_mask": lambda x, n: (torch.arange(n) < x[:, None])[:, None, :, None]},
)  # fmt: skip
note(
    "padding-broadcast-raw", "The mask is (B, S), which would be read as (T, S).", "Give it axes for heads and "
    "queries: mask[:, None, None, :].", MASKS, {"padding_mask": lambda x, n: torch.arange(n) < x[:, None]},
)  # fmt: skip
note(
    "mask-missing-head-axis", "The mask lacks an axis for the heads.", "With (B, T, S) the batch would meet the heads.",
    MASKS, {"padding_mask": lambda x, n: (torch.arange(n) < x[:, None])[:, None, :]},
    {"combine_masks": lambda a, b: a & b[:, 0]},
)  # fmt: skip
note(
    "mask-first-batch-only", "All sentences are masked as the first is.", "Each sentence has its own length.", MASKS,
    {"padding_mask": lambda x, n: masks.padding_mask(x[:1].expand(len(x)), n)},
    {"combine_masks": lambda a, b: (a & b[:1]).expand(len(b), 1, *a.shape)},
)  # fmt: skip
note(
    "masks-or-instead-of-and", "A key is seen if either mask allows it.", "Both must allow it: &, not |.", MASKS,
    {"combine_masks": lambda a, b: a | b},
)  # fmt: skip
note(
    "mask-ignored", "One of the masks has no effect.", "Both must allow a key.", MASKS,
    {"combine_masks": lambda a, b: a.expand(len(b), 1, *a.shape)},
    {"combine_masks": lambda a, b: b.expand(-1, 1, *a.shape)},
    {"combine_masks": lambda a, b: a}, {"combine_masks": lambda a, b: b},
)  # fmt: skip
note(
    "mask-fill-positive-inf", "Hidden keys got +inf.", "Hidden means as small as can be: -inf.", MASKS,
    {"additive_mask": lambda m, dtype: torch.zeros(m.shape, dtype=dtype).masked_fill(~m, math.inf)},
)  # fmt: skip
note(
    "mask-added-as-number", "The mask became 0 and 1.", "Added to scores, that hides nothing. It should be 0 and -inf.",
    MASKS, {"additive_mask": lambda m, dtype: m.to(dtype)}, {"additive_mask": lambda m, dtype: (~m).to(dtype)},
)  # fmt: skip
note(
    "mask-fill-tiny", "Hidden keys got a tiny number.", "Nearly 0 hides nothing: -inf does.", MASKS,
    {"additive_mask": lambda m, dtype: torch.zeros(m.shape, dtype=dtype).masked_fill(~m, 1e-9)},
)  # fmt: skip
note(
    "mask-times-minus-inf", "What may be seen became NaN: 0 times inf is not a number.", "Fill with masked_fill.",
    MASKS,
    {"additive_mask": lambda m, dtype: (~m).to(dtype) * -math.inf},
    {"additive_mask": lambda m, dtype: (1 - m.to(dtype)) * -math.inf},
)  # fmt: skip
note(
    "masked-row-uniform", "Hidden keys got a large finite number.", "In a row with nothing to see all are alike then. "
    "Use -inf.", MASKS, {"additive_mask": lambda m, dtype: torch.zeros(m.shape, dtype=dtype).masked_fill(~m, -1e9)},
    {"additive_mask": lambda m, dtype: torch.zeros(m.shape, dtype=dtype).masked_fill(~m, torch.finfo(dtype).min)},
    {"additive_mask": lambda m, dtype: torch.zeros(m.shape, dtype=dtype).masked_fill(~m, -1e4)},
)  # fmt: skip

# Cross-attention
note(
    "query-from-memory", "Queries come from the memory, too.", "The one that asks is x: as many rows as x has tokens.",
    CROSS, {"sources": lambda x, memory: (memory, memory)},
)  # fmt: skip
note(
    "memory-ignored", "Keys and values come from x.", "x asks, memory answers: keys and values are projections of "
    "memory.", CROSS, {"sources": lambda x, memory: (x, x)}, {"sources": lambda x, memory: (memory, x)},
)  # fmt: skip
note(
    "key-value-different-sources", "Keys and values come from different sequences.", "A key and its value belong to "
    "one token: both from memory.", CROSS,
    {"project": lambda x, m, w, b, h, s: (s.linear(x, w[0]), s.linear(m, w[1]), s.linear(x, w[2]))},
    {"project": lambda x, m, w, b, h, s: (s.linear(x, w[0]), s.linear(x, w[1]), s.linear(m, w[2]))},
    only=("cross_attention",),
)  # fmt: skip


# Positions
def _angles(n: int, width: int) -> Tensor:
    rates = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.arange(n, dtype=torch.float64)[:, None] * rates


def _interleaved(first: Tensor, second: Tensor) -> Tensor:
    return torch.stack((first, second), -1).flatten(-2).float()


def _per_index(n: int, width: int) -> Tensor:
    angles = torch.arange(n, dtype=torch.float64)[:, None] / 10000.0 ** (
        torch.arange(width, dtype=torch.float64) / width
    )
    return torch.where(torch.arange(width) % 2 == 0, angles.sin(), angles.cos()).float()


def _slip(n: int, width: int, slip: Any) -> Tensor:
    angles = torch.arange(n, dtype=torch.float64)[:, None] / slip(torch.arange(0, width, 2, dtype=torch.float64), width)
    return _interleaved(angles.sin(), angles.cos())


def _turn(x: Tensor, positions: Tensor, base: float, cos: Any, sin: Any, layout: str = "half") -> Tensor:
    """Rotate pairs with given functions, in one of the layouts."""
    rates = base ** (-torch.arange(0, x.size(-1), 2, dtype=x.dtype) / x.size(-1))
    angles = torch.as_tensor(positions).to(x.dtype)[:, None] * rates
    c, s = cos(angles), sin(angles)
    if layout == "interleaved":
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2)
    a, b = x.chunk(2, -1)
    if layout == "mixed":
        c, s = (t.repeat_interleave(2, -1) for t in (c, s))
        return x * c + torch.cat((-b, a), -1) * s
    if layout == "no minus":
        return torch.cat((a * c + b * s, a * s + b * c), -1)
    return torch.cat((a * c - b * s, a * s + b * c), -1)


note(
    "sin-cos-swapped", "Sine and cosine have changed places.", "Even indices hold the sine, odd ones the cosine.",
    "10, Positions: sinusoidal encoding",
    {"sinusoidal_encoding": lambda n, c: _interleaved(_angles(n, c).cos(), _angles(n, c).sin())},
    {"rope": lambda x, at, base=1e4: _turn(x, at, base, torch.sin, torch.cos)},
)  # fmt: skip
note(
    "frequency-per-index", "Each index has a frequency of its own.", "A sine and the cosine beside it share one.",
    "10, Positions: sinusoidal encoding", {"sinusoidal_encoding": _per_index},
)  # fmt: skip
note(
    "frequency-precedence", "The exponent slipped.", "It is 2i / d for pair i, so that frequencies run from 1 down to "
    "nearly 1 / 10000.", "10, Positions: sinusoidal encoding",
    {"sinusoidal_encoding": lambda n, c: _slip(n, c, lambda i, d: 10000.0 ** (i // d))},
    {"sinusoidal_encoding": lambda n, c: _slip(n, c, lambda i, d: 10000.0**i / d)},
    {"sinusoidal_encoding": lambda n, c: _slip(n, c, lambda i, d: 10000.0 ** (i / d // 2))},
    {"sinusoidal_encoding": lambda n, c: _slip(n, c, lambda i, d: 10000.0 ** (2 * i / d))},
    {"sinusoidal_encoding": lambda n, c: _slip(n, c, lambda i, d: 10000.0 ** (i / 2 / d))},
)  # fmt: skip
note(
    "rope-wrong-sign", "The rotation goes the other way round.", "Pair (a, b) becomes (a cos - b sin, a sin + b cos).",
    PLACES, {"rope": lambda x, at, base=1e4: _turn(x, at, base, torch.cos, lambda t: -t.sin())},
)  # fmt: skip
note(
    "rope-missing-minus", "The minus is missing.", "A rotation is (a cos - b sin, a sin + b cos); without the minus "
    "lengths change.", PLACES, {"rope": lambda x, at, base=1e4: _turn(x, at, base, torch.cos, torch.sin, "no minus")},
)  # fmt: skip
note(
    "rope-interleaved", "These are the numbers of the other layout, with neighbours as pairs.", "It is as valid; here "
    "index i is paired with i + D/2.", PLACES,
    {"rope": lambda x, at, base=1e4: _turn(x, at, base, torch.cos, torch.sin, "interleaved")},
)  # fmt: skip
note(
    "rope-layout-mixed", "Angles of one layout meet the rotation of the other.", "In the half-split layout the angles "
    "repeat as a block: cat((angles, angles)).", PLACES,
    {"rope": lambda x, at, base=1e4: _turn(x, at, base, torch.cos, torch.sin, "mixed")},
)  # fmt: skip
note(
    "rope-values-not-angles", "The position was added, not turned.", "RoPE rotates each pair by an angle that grows "
    "with the position.", PLACES,
    {"rope": lambda x, at, base=1e4: x + p.sinusoidal_encoding(64, x.size(-1)).to(x)[torch.as_tensor(at)]},
    {"rope": lambda x, at, base=1e4: x + torch.as_tensor(at).to(x)[:, None]},
)  # fmt: skip

# Cache
note(
    "cache-wrong-axis", "The new token was not put behind the old ones.", "Tokens are axis 2 of a cache (B, H, P, D).",
    CACHE, {"append": lambda a, b, k, v: (torch.cat((a, k), 1), torch.cat((b, v), 1))},
    {"append": lambda a, b, k, v: (torch.cat((k, a), 2), torch.cat((v, b), 2))},
    {"append": lambda a, b, k, v: (torch.cat((a, k), -1), torch.cat((b, v), -1))},
    {"append": lambda a, b, k, v: (torch.cat((a, k), 0), torch.cat((b, v), 0))},
)  # fmt: skip
note(
    "cache-not-appended", "The old cache came back.", "The new key and value belong to it from now on.", CACHE,
    {"append": lambda a, b, k, v: (a, b)}, {"append": lambda a, b, k, v: (k, v)},
)  # fmt: skip
note(
    "kv-repeat-interleaved-wrongly", "Heads were laid 0 1 0 1, not 0 0 1 1.", "Each KV head serves consecutive query "
    "heads: repeat_interleave, not repeat.", CACHE,
    {"repeat_kv": lambda k, h: k.repeat(1, h // k.size(1), 1, 1)},
)  # fmt: skip
note(
    "cache-bytes-one-of-kv", "That is half of it.", "Keys and values are both kept: a factor of 2.", CACHE,
    {"kv_cache_bytes": lambda layers, b, s, h, d, n: layers * b * s * h * d * n},
)  # fmt: skip


# FlashAttention
def _blocks(scores: Tensor, size: int, correct: bool = True, drop: bool = False) -> tuple[Tensor, Tensor]:
    """Run over the blocks, perhaps without correcting the sum, perhaps without the last, ragged block."""
    largest = torch.full_like(scores[..., 0], -math.inf)
    total = torch.zeros_like(largest)
    for block in scores.split(size, -1):
        if drop and block.size(-1) < size:
            break
        new = torch.maximum(largest, block.amax(-1))
        total = total * ((largest - new).exp() if correct else 1.0) + (block - new[..., None]).exp().sum(-1)
        largest = new
    return largest, total


def _tiled(q: Tensor, k: Tensor, v: Tensor, size: int, correct: bool = True, root: float = 0.5) -> Tensor:
    """Mix block by block, perhaps without correcting what was mixed before."""
    largest = torch.full_like(q[..., 0], -math.inf)
    total, mixed = torch.zeros_like(largest), torch.zeros(*q.shape[:-1], v.size(-1), dtype=q.dtype)
    for keys, values in zip(k.split(size, 2), v.split(size, 2), strict=True):
        scores = q @ keys.mT / q.size(-1) ** root
        new = torch.maximum(largest, scores.amax(-1))
        shrink = (largest - new).exp() if correct else torch.ones_like(new)
        parts = (scores - new[..., None]).exp()
        total, mixed, largest = total * shrink + parts.sum(-1), mixed * shrink[..., None] + parts @ values, new
    return mixed / total[..., None]


def _whole_blocks(x: Tensor, size: int) -> Tensor:
    return x[:, :, : x.size(2) // size * size]


note(
    "online-max-not-corrected", "The running sum was not rescaled when the maximum grew.", "Old terms were taken "
    "relative to the old maximum: multiply them by exp(old - new).", FLASH,
    {"online_softmax": lambda z, n: _blocks(z, n, correct=False)},
    {"tiled_attention": lambda q, k, v, n: _tiled(q, k, v, n, correct=False)},
)  # fmt: skip
note(
    "online-last-block-dropped", "The last, shorter block is missing.", "The length need not be a multiple of the "
    "block.", FLASH, {"online_softmax": lambda z, n: _blocks(z, n, drop=True)},
    {"tiled_attention": lambda q, k, v, n: flash.tiled_attention(q, _whole_blocks(k, n), _whole_blocks(v, n), n)},
)  # fmt: skip
note(
    "scale-missing", "The scores are not scaled.", "Each block of scores is divided by sqrt(D), too.", FLASH,
    {"tiled_attention": lambda q, k, v, n: _tiled(q, k, v, n, root=0.0)},
)  # fmt: skip
note(
    "scale-no-root", "The scores were divided by D, not by its root.", "Their spread grows with sqrt(D).", FLASH,
    {"tiled_attention": lambda q, k, v, n: _tiled(q, k, v, n, root=1.0)},
)  # fmt: skip


# Blocks
def _norm(
    x: Tensor, g: Tensor, b: Tensor, eps: float, axis: Any = -1, unbiased: bool = False, late: bool = False
) -> Tensor:
    variance = x.var(axis, keepdim=True, unbiased=unbiased)
    spread = variance.sqrt() + eps if late else (variance + eps).sqrt()
    return (x - x.mean(axis, keepdim=True)) / spread * g + b


note(
    "layer-norm-wrong-axis", "The mean was taken over the wrong axis.", "Each token is normed by itself: over the last "
    "axis.", BLOCK, {"layer_norm": lambda x, g, b, eps=1e-5: _norm(x, g, b, eps, 1)},
    {"layer_norm": lambda x, g, b, eps=1e-5: _norm(x, g, b, eps, 0)},
    {"layer_norm": lambda x, g, b, eps=1e-5: _norm(x, g, b, eps, (1, 2))},
    {"layer_norm": lambda x, g, b, eps=1e-5: _norm(x, g, b, eps, (0, 1))},
)  # fmt: skip
note(
    "layer-norm-unbiased", "The variance was divided by n - 1.", "Layer norm divides by n: var(unbiased=False).", BLOCK,
    {"layer_norm": lambda x, g, b, eps=1e-5: _norm(x, g, b, eps, unbiased=True)},
)  # fmt: skip
note(
    "layer-norm-eps-outside", "eps was added behind the root.", "It belongs under it: sqrt(variance + eps).", BLOCK,
    {"layer_norm": lambda x, g, b, eps=1e-5: _norm(x, g, b, eps, late=True)},
)  # fmt: skip
note(
    "residual-missing", "A residual is missing: x itself is not added.", "Each half adds to the stream: "
    "x + attention(norm1(x)).", BLOCK,
    {"encoder_block": lambda x, a, f, n, m: f(m(a(n(x))))},
    {"encoder_block": lambda x, a, f, n, m: (y := a(n(x))) + f(m(y))},
    {"encoder_block": lambda x, a, f, n, m: f(m(x + a(n(x))))},
)  # fmt: skip
note(
    "post-norm-wiring", "The norms come after the sums.", "That is post-norm. Here each half reads a normed copy, and "
    "the stream itself is never normed.", BLOCK,
    {"encoder_block": lambda x, a, f, n, m: m((y := n(x + a(x))) + f(y))},
)  # fmt: skip
note(
    "norm-shared", "Both halves use one norm.", "norm1 stands before attention, norm2 before feed_forward.", BLOCK,
    {"encoder_block": lambda x, a, f, n, m: (y := x + a(n(x))) + f(n(y))},
    {"encoder_block": lambda x, a, f, n, m: (y := x + a(m(x))) + f(m(y))},
)  # fmt: skip


# Vision, words, heads
def _grid(x: Tensor, n: int) -> Tensor:
    return x.unflatten(3, (-1, n)).unflatten(2, (-1, n))


note(
    "patchify-without-permute", "Each patch holds parts of several places.", "Bring rows and columns of patches in "
    "front before flattening: permute(0, 2, 4, 1, 3, 5).", VISION,
    {"patchify": lambda x, n: x.reshape(x.size(0), -1, 3 * n * n)},
    {"patchify": lambda x, n: _grid(x, n).reshape(x.size(0), -1, 3 * n * n)},
)  # fmt: skip
note(
    "patchify-channels-last", "Each patch is ordered (row, column, channel).", "Here it is (channel, row, column).",
    VISION, {"patchify": lambda x, n: _grid(x, n).permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)},
)  # fmt: skip
note(
    "patchify-transposed", "The patches come column by column.", "They are read row by row, as text is.", VISION,
    {"patchify": lambda x, n: _grid(x, n).permute(0, 4, 2, 1, 3, 5).flatten(3).flatten(1, 2)},
)  # fmt: skip
note(
    "class-token-last", "The class token stands last.", "It comes first, before the patches.", VISION,
    {"add_class_token": lambda x, c: torch.cat((x, c.expand(len(x), 1, -1)), 1)},
)  # fmt: skip
note(
    "targets-not-shifted", "Targets are the inputs themselves.", "The target of a token is the next one.", WORDS,
    {"next_token_targets": lambda t: (t[:, :-1], t[:, :-1])}, {"next_token_targets": lambda t: (t, t)},
    {"next_token_targets": lambda t: (t[:, 1:], t[:, 1:])},
)  # fmt: skip
note(
    "targets-shifted-wrong-way", "Each token should predict the one before it.", "Targets lie one place ahead: "
    "ids[:, 1:].", WORDS, {"next_token_targets": lambda t: (t[:, 1:], t[:, :-1])},
)  # fmt: skip


def _write(model: Any, ids: Tensor, steps: int, pick: Any) -> Tensor:
    for _ in range(steps):
        ids = torch.cat((ids, pick(model(ids)).argmax(-1)[:, None]), 1)
    return ids


note(
    "generate-wrong-position", "The next word was read at the wrong place.", "What comes next stands in the logits of "
    "the last token.", WORDS, {"generate": lambda m, t, n: _write(m, t, n, lambda z: z[:, 0])},
    {"generate": lambda m, t, n: _write(m, t, n, lambda z: z[:, -2])},
    {"generate": lambda m, t, n: _write(m, t, n, lambda z: z.mean(1))},
)  # fmt: skip


def _silence(context: Tensor, heads: Any) -> Tensor:
    context[:, heads] = 0.0
    return context


def _silence_axis(context: Tensor, heads: Any, axis: int) -> Tensor:
    return context.index_fill(axis, torch.as_tensor(heads), 0.0)


note(
    "ablate-in-place", "The context itself was changed.", "Work on a copy, so that other heads can be tried: clone().",
    HEADS, {"ablate_heads": _silence},
)  # fmt: skip
note(
    "ablate-wrong-axis", "Something else than heads was silenced.", "Heads are axis 1 of (B, H, S, D).", HEADS,
    {"ablate_heads": lambda c, h: _silence_axis(c, h, 2)}, {"ablate_heads": lambda c, h: _silence_axis(c, h, 3)},
    {"ablate_heads": lambda c, h: _silence_axis(c, [i for i in h if i < c.size(0)], 0)},
)  # fmt: skip
note(
    "relation-transposed", "The weights were read the other way round.", "Rows are queries: weights[from, to].", HEADS,
    {"relation_score": lambda w, pairs: r.relation_score(w.mT, pairs)},
)  # fmt: skip

BEYOND: tuple[Mistake, ...] = tuple(note.entries)
