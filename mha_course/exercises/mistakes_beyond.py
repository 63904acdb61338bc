"""Mistakes in masks, cross-attention and positions, each a step or a whole small function replaced."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from mha_course import masks
from mha_course import positions as p
from mha_course.exercises.spec import Book, Mistake

MASKS = "8, Masks: one vocabulary"
CROSS = "9, Cross-attention: two sequences"
PLACES = "10, Positions: rotary pairs"
note = Book()

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

MASKS_TO_POSITIONS: tuple[Mistake, ...] = tuple(note.entries)
