"""How mistakes in splitting and merging heads are made."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mha_course.exercises.attention_mistakes.projection import by_share, identity, in_three
from mha_course.exercises.attention_steps import Steps
from mha_course.exercises.spec import Function, mistake


def _viewed(x: Tensor, h: int) -> Tensor:
    return x.reshape(x.size(0), h, x.size(1), -1)


def _otherwise(split: Function, names: str) -> Function:
    """Split some of q, k and v wrongly, and the rest correctly."""

    def split_each(q: Tensor, k: Tensor, v: Tensor, h: int, s: Steps) -> Any:
        pairs = zip("qkv", (q, k, v), strict=True)
        return [split(x, h) if name in names else s.split(x, h) for name, x in pairs]

    return split_each


def _swapped_first(x: Tensor, h: int) -> Tensor:
    return x.transpose(1, 2).reshape(x.size(0), h, x.size(1), -1)


def _kept(x: Tensor, h: int) -> Tensor:
    return x.unflatten(2, (h, -1))


def _joined(*order: int) -> Function:
    """Permute the context's axes, then put each token's numbers side by side."""
    return lambda c: c.permute(order).reshape(c.size(0), c.size(2), -1)


def _folded_as_sentences(context: Tensor) -> Tensor:
    sentences, heads, tokens, width = context.shape
    # Folded with sentences first, unfolded with heads first.
    return context.reshape(heads, sentences, tokens, width).permute(1, 2, 0, 3).flatten(2)


# The errors of Python and torch for a float as a size or an index. Of a call with a float first,
# torch lists the forms that it has: one of them must begin with whole numbers.
_FLOAT = (
    r"ints?(, not|,but got) float|type float at|got float\)|indices must be integers|'float' "
    r"object cannot be interp|got \(float[,)](?s:.*)\* \((int|tuple of ints) "
)

HEADS = [
    mistake("float-division", crashes=_FLOAT),
    mistake(
        "view-without-transpose",
        split=_viewed,
        split_fused=[
            in_three(_viewed),
            in_three(lambda x, h: x.view(x.size(0), h, x.size(1), -1)),
            lambda t, h: t.reshape(t.size(0), 3, h, t.size(1), -1).unbind(1),
            lambda t, h: t.reshape(3, t.size(0), h, t.size(1), -1).unbind(0),
        ],
    ),
    mistake(
        "heads-innermost",
        split=lambda x, h: x.unflatten(2, (-1, h)).permute(0, 3, 1, 2),
    ),
    mistake(
        "heads-innermost/regrouped",
        split=lambda x, h: x.unflatten(2, (-1, h)).transpose(1, 2),
    ),
    mistake(
        "never-transposed",
        # Without the transposes before and after, heads attend to heads, and the shapes still fit.
        {"split": _kept, "merge": lambda c: c.flatten(2)},
        {"split": _kept, "merge": lambda c: c.transpose(1, 2).reshape(len(c), c.size(1), -1)},
        split=_kept,
        split_fused=lambda t, h: t.unflatten(2, (3, h, -1)).unbind(2),
    ),
    mistake(
        "no-split",
        {"split": identity, "merge": identity},
        # Who forgets to split may still divide by the root of one head's width.
        {"split": identity, "merge": identity, "scale": by_share},
        # An axis for heads, of size 1.
        {"split": lambda x, h: x[:, None], "merge": lambda c: c[:, 0]},
        {"split": identity, "merge": lambda c: c.transpose(1, 2).reshape(c.shape)},
        but=("decode_step",),
    ),
    mistake(
        "fold-order-mixed",
        merge=_folded_as_sentences,
        split=lambda x, h: (
            x.unflatten(2, (h, -1)).permute(2, 0, 1, 3).reshape(x.size(0), h, x.size(1), -1)
        ),
    ),
    mistake("merge-without-transpose", merge=_joined(0, 1, 2, 3)),
    mistake("merge-dim-before-heads", merge=_joined(0, 2, 3, 1)),
    mistake("/tokens-and-channels-swapped", merge=_joined(0, 1, 3, 2)),
    mistake(
        "/sizes-of-the-example",
        crashes=r"shape '\[2, [^]]*\b5\b[^]]*\]' is invalid",
        only=("split_heads", "split_fused_qkv", "merge_heads"),
    ),
    mistake(
        "merge-batch-mixed",
        merge=[
            _joined(1, 0, 2, 3),
            _joined(1, 2, 0, 3),
            _joined(2, 0, 1, 3),
            lambda c: torch.cat(c.unbind(0), -1),
        ],
    ),
    mistake("view-on-non-contiguous", merge=lambda c: c.movedim(1, 2).view(len(c), c.size(2), -1)),
    mistake(
        "view-after-transpose",
        split=[lambda x, h: x.transpose(1, 2).view(x.size(0), h, x.size(1), -1), _swapped_first],
        split_fused=in_three(_swapped_first),
    ),
    mistake(
        "heads-averaged",
        written=r"sum|mean|\+",
        merge=[
            lambda c: c.mean(1),
            lambda c: c.sum(1),
            # Repeated, the mean has the width C, and the output projection takes it.
            lambda c: c.mean(1).repeat(1, 1, c.size(1)),
            lambda c: c.sum(1).repeat(1, 1, c.size(1)),
        ],
    ),
    mistake(
        "heads-on-sequence-axis",
        merge=[lambda c: torch.cat(c.unbind(1), dim=1), lambda c: torch.cat(c.unbind(1), dim=0)],
    ),
    mistake(
        "only-one-of-qkv-wrongly-split",
        split_each=[
            _otherwise(way, x)
            for way in (_viewed, _kept)
            for x in ("q", "k", "v", "qk", "kv", "qv")
        ],
    ),
]
