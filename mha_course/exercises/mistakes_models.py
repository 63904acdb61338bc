"""Mistakes from the KV cache to the ablation of heads, each a step or a whole small function replaced."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from mha_course import flash
from mha_course.exercises import beyond as r
from mha_course.exercises.spec import Book, Mistake

CACHE = "11, KV cache: one token at a time"
FEWER = "11, Fewer KV heads"
BYTES = "11, Bytes: what a cache weighs"
FLASH = "12, FlashAttention: one pass"
BLOCK = "13, Encoder block: wiring"
VISION = "14, Vision: patches"
WORDS = "15, Language model: what comes next"
HEADS = "16, Why many heads: ablation"
note = Book()

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
    "cache-before-projection", "What was appended is the token itself, not its key and value.", "Keys and values are "
    "kept after projection, so that nothing old is computed again.", CACHE,
    {"project": lambda x, m, w, b, h, s: (s.linear(x, w[0]), m, m)}, only=("decode_step",),
)  # fmt: skip
note(
    "decode-first-key-only", "The new token sees only the first key.", "A causal mask of one row, aligned at the top "
    "left, hides all but one. The newest token may see everything: no mask is needed.", CACHE,
    {"attend": lambda z, m, s: torch.nn.functional.one_hot(torch.zeros_like(z[..., 0]).long(), z.size(-1)).to(z)},
    only=("decode_step",),
)  # fmt: skip
note(
    "kv-repeat-interleaved-wrongly", "Heads were laid 0 1 0 1, not 0 0 1 1.", "Each KV head serves consecutive query "
    "heads: repeat_interleave, not repeat.", FEWER,
    {"repeat_kv": lambda k, h: k.repeat(1, h // k.size(1), 1, 1)},
)  # fmt: skip
note(
    "cache-bytes-one-of-kv", "That is half of it.", "Keys and values are both kept: a factor of 2.", BYTES,
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

CACHE_TO_HEADS: tuple[Mistake, ...] = tuple(note.entries)
