"""What a mask means to those who read masks: each is given the same one, and tried for the keys
that it really sees.

Axes: T query tokens (one here), S key tokens, C width, D head width.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mha_course.attention import attention
from mha_course.errors import require, require_shape
from mha_course.experiments.leakage import token_dependence
from mha_course.markup import columns, row, table
from mha_course.masks import from_attend
from mha_course.models import seeded

_SEEN = '<span style="background:#cfe0f5;color:#1f2430;border-radius:3px;padding:0 2px">{}</span>'
_HIDDEN = '<s style="color:#7a808a">{}</s>'
Keys = tuple[bool, ...]  # for each key, whether it is seen


class MaskReading(NamedTuple):
    """One reader of masks, its convention, and the keys it saw, by the mask as is and converted."""

    reader: str
    convention: str
    given: Keys
    converted: Keys


class MaskReadings(NamedTuple):
    """What each reader made of one mask; shows itself as a table."""

    tokens: tuple[str, ...]
    meant: Keys
    readings: tuple[MaskReading, ...]

    def __repr__(self) -> str:
        lines = [("handed to", "as it is, it sees", "converted, it sees")]
        lines += [
            (r.reader, self._written(r.given, _text), self._written(r.converted, _text))
            for r in self.readings
        ]
        return columns(lines)

    def _repr_html_(self) -> str:
        rows = []
        for r in self.readings:
            reader = f"<code>{html.escape(r.reader)}</code>"
            convention = f"<code>{r.convention}</code>"
            rows.append(
                row(
                    (
                        reader,
                        self._written(r.given, _chip),
                        convention,
                        self._written(r.converted, _chip),
                    )
                )
            )
        seen = ", ".join(
            f"“{token}”" for token, shown in zip(self.tokens, self.meant, strict=True) if shown
        )
        caption = f"One mask, True at {seen}, and the keys that were really seen"
        return table(
            caption, ("handed to", "as it is, it sees", "convention", "converted, it sees"), rows
        )

    def _written(self, keys: Keys, write: Callable[[str, bool], str]) -> str:
        """Write all tokens, behind a sign that says whether the keys are those that were meant."""
        words = [write(token, seen) for token, seen in zip(self.tokens, keys, strict=True)]
        return " ".join(["✔" if keys == self.meant else "✘", *words])


def _text(token: str, seen: bool) -> str:
    return token if seen else "·"


def _chip(token: str, seen: bool) -> str:
    return (_SEEN if seen else _HIDDEN).format(html.escape(token))


def mask_readings(mask: Tensor, tokens: Sequence[str]) -> MaskReadings:
    """Hand one mask to everybody who reads masks, as it is and converted, and see which keys one
    query sees.

    A key is seen if the output changes when its token does. Added to scores as it is, the mask
    becomes the numbers 1 and 0.

    Args: mask is (S,), bool, True = may attend, with at least one True and one False; tokens names
        the S keys.
    Raises: ShapeError.

    >>> masks = mask_readings(torch.tensor([True, True, False]), ["the", "cat", "<pad>"])
    >>> [reading.given for reading in masks.readings][2:4]
    [(False, False, True), (False, False, True)]
    """
    require_shape("mask_readings", "mask", mask, {"S": len(tokens)})
    hides_some = mask.dtype == torch.bool and bool(mask.any()) and not bool(mask.all())
    expected = "bool, some True and some False"
    got = f"{mask.dtype} {mask.tolist()}"
    require(
        hides_some, "mask_readings", "mask must hide some keys, not all", expected=expected, got=got
    )
    mask = mask.cpu()
    with seeded(0):
        readings = tuple(
            MaskReading(
                reader,
                convention,
                keys_seen(mask[None]),
                keys_seen(from_attend(mask[None], convention)),
            )
            for reader, convention, keys_seen in _readers(len(tokens))
        )
    return MaskReadings(tuple(tokens), tuple(mask.tolist()), readings)


def _readers(keys: int) -> list[tuple[str, str, Callable[[Tensor], Keys]]]:
    """Return each reader, its convention, and a function from a mask (1, S) to the keys it sees."""
    query = torch.randn(1, 1, 24)
    memory = torch.randn(1, keys, 24)
    module = nn.MultiheadAttention(24, 4, batch_first=True)
    sdpa = F.scaled_dot_product_attention

    def seen_by(attend: Callable[[Tensor, Tensor], Any]) -> Callable[[Tensor], Keys]:
        """Find the keys by changing one token of the memory x (1, S, C) after the other."""
        return lambda mask: tuple(token_dependence(lambda x: attend(x, mask), memory)[0].tolist())

    ours = seen_by(lambda x, mask: attention(query[None], x[None], x[None], mask)[0][0])
    fused = seen_by(lambda x, mask: sdpa(query, x, x, mask))
    attn_mask = seen_by(lambda x, mask: module(query, x, x, attn_mask=mask))
    key_padding_mask = seen_by(lambda x, mask: module(query, x, x, key_padding_mask=mask))
    added = seen_by(lambda x, mask: sdpa(query, x, x, mask.to(x.dtype)))
    return [
        ("attention(q, k, v, mask)", "bool", ours),
        ("scaled_dot_product_attention", "sdpa", fused),
        ("nn.MultiheadAttention, attn_mask", "multihead", attn_mask),
        ("nn.MultiheadAttention, key_padding_mask", "multihead", key_padding_mask),
        ("added to the scores", "additive", added),
    ]
