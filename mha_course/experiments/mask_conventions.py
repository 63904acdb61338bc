"""What a mask means to those who read masks: each is given the same one, and asked which keys it really saw.

Axes: T query tokens (one here), S key tokens, C width, D head width.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import seaborn as sns
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn import functional as F

from mha_course.attention import attention
from mha_course.errors import ShapeError, require_shape
from mha_course.experiments.leakage import reach
from mha_course.masks import from_attend
from mha_course.tracing.render import row, table

_SEEN = "background:#cfe0f5;color:#1f2430;border-radius:3px;padding:0 2px"
_HIDDEN = "color:#7a808a"
Tokens = tuple[bool, ...]


class Reading(NamedTuple):
    """One reader of masks, the convention it wants, and the keys it saw: of the mask as it is, and converted."""

    reader: str
    convention: str
    given: Tokens
    converted: Tokens


@dataclass(frozen=True)
class Polarities:
    """What each reader made of one mask; shows itself as a table."""

    tokens: tuple[str, ...]
    meant: Tokens
    readings: tuple[Reading, ...]

    def __repr__(self) -> str:
        head = ("handed to", "as it is, it sees", "converted, it sees")
        lines = [head, *((r.reader, self._words(r.given), self._words(r.converted)) for r in self.readings)]
        widths = [max(len(line[i]) for line in lines) for i in range(3)]
        return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)

    def _repr_html_(self) -> str:
        rows = [
            row(
                (
                    f"<code>{html.escape(r.reader)}</code>",
                    self._chips(r.given),
                    f"<code>{r.convention}</code>",
                    self._chips(r.converted),
                )
            )
            for r in self.readings
        ]
        said = f"One mask, True at {', '.join(_picked(self.tokens, self.meant))}, and the keys that were really seen"
        return table(said, ("handed to", "as it is, it sees", "convention", "converted, it sees"), rows)

    def _words(self, seen: Tokens) -> str:
        """Write the tokens that were seen, a dot for each other, and whether that is what was meant."""
        words = (word if shown else "·" for word, shown in zip(self.tokens, seen, strict=True))
        return f"{self._sign(seen)} {' '.join(words)}"

    def _chips(self, seen: Tokens) -> str:
        """Mark the tokens that were seen, and strike the others out."""
        words = (
            f'<span style="{_SEEN}">{html.escape(word)}</span>'
            if shown
            else f'<s style="{_HIDDEN}">{html.escape(word)}</s>'
            for word, shown in zip(self.tokens, seen, strict=True)
        )
        return f"{self._sign(seen)} {' '.join(words)}"

    def _sign(self, seen: Tokens) -> str:
        return "✔" if seen == self.meant else "✘"


def polarities(mask: Tensor, tokens: Sequence[str]) -> Polarities:
    """Hand one mask to everybody who reads masks, as it is and converted, and see which keys one query sees.

    A key is seen if the output changes when its token does; seaborn sees the cells that it draws. Added to
    scores as it is, the mask becomes the numbers 1 and 0.

    Args: mask is (S,), bool, True = may attend, with at least one True and one False; tokens names the S keys.
    Raises: ShapeError.

    >>> found = polarities(torch.tensor([True, True, False]), ["the", "cat", "<pad>"])
    >>> [reading.given for reading in found.readings][2:4]
    [(False, False, True), (False, False, True)]
    """
    require_shape("polarities", "mask", mask, {"S": len(tokens)})
    if mask.dtype != torch.bool or bool(mask.all()) or not bool(mask.any()):
        expected, got = "bool, some True and some False", f"{mask.dtype} {mask.tolist()}"
        raise ShapeError("polarities", "mask must hide some keys, not all", expected=expected, got=got)
    mask = mask.cpu()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        readings = tuple(
            Reading(reader, convention, sees(mask[None]), sees(from_attend(mask[None], convention)))
            for reader, convention, sees in _readers(len(tokens))
        )
    return Polarities(tuple(tokens), tuple(mask.tolist()), readings)


def _readers(keys: int) -> Iterator[tuple[str, str, Callable[[Tensor], Tokens]]]:
    """Yield each reader, its convention, and a function from a mask (1, S) to the keys that one query sees."""
    query, memory = torch.randn(1, 1, 24), torch.randn(1, keys, 24)
    module = nn.MultiheadAttention(24, 4, batch_first=True)

    def tried(attend: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor], Tokens]:
        """Find the keys by changing one token of the memory (1, S, C) after the other."""
        return lambda mask: tuple(reach(lambda x: attend(x, mask), memory)[0].tolist())

    def fused(x: Tensor, mask: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, x, x, mask)

    yield "attention(q, k, v, mask)", "bool", tried(lambda x, m: attention(query[None], x[None], x[None], m)[0][0])
    yield "scaled_dot_product_attention", "sdpa", tried(fused)
    yield "nn.MultiheadAttention, attn_mask", "multihead", tried(lambda x, m: module(query, x, x, attn_mask=m)[0])
    yield (
        "nn.MultiheadAttention, key_padding_mask",
        "multihead",
        tried(lambda x, m: module(query, x, x, key_padding_mask=m)[0]),
    )
    yield "seaborn.heatmap, mask", "seaborn", _drawn
    yield "added to the scores", "additive", tried(lambda x, m: fused(x, m.to(x.dtype)))


def _drawn(mask: Tensor) -> Tokens:
    """Say which cells of a row seaborn draws."""
    ax = sns.heatmap(np.ones(mask.shape), mask=mask.numpy(), cbar=False, ax=Figure().subplots())
    return tuple((~np.ma.getmaskarray(ax.collections[0].get_array())).ravel().tolist())


def _picked(tokens: Sequence[str], chosen: Tokens) -> list[str]:
    return [f"“{token}”" for token, shown in zip(tokens, chosen, strict=True) if shown]
