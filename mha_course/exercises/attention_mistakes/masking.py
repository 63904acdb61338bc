"""How mistakes in masks are made, from the mask to the weights."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from mha_course.exercises.attention_mistakes.projection import identity
from mha_course.exercises.attention_mistakes.weights import WITH_MASK
from mha_course.exercises.spec import NOT_GIVEN, Change, Function, mistake


def _fill(value: float) -> Function:
    return lambda z, m: z.masked_fill(~m, value)


def _plus_infinities(scores: Tensor, mask: Tensor) -> Tensor:
    return scores + ~mask * -math.inf


def _uncleaned(hide: Function) -> Change:
    """Hide keys in another way, and leave fully masked rows as they are."""
    return {"hide": hide, "empty": identity}


def _renormalised(weights: Tensor, mask: Tensor) -> Tensor:
    return weights * mask / (weights * mask).sum(-1, keepdim=True).clamp(min=1e-9)


def _of_form(form: Callable[[Tensor], bool]) -> Function:
    """Apply a mask of only one form, and ignore others."""
    return lambda m, z: m if form(m) else torch.ones_like(m)


# Large enough to hide keys among usual scores, but not among very large ones.
FINITE = (-50.0, -100.0, -1e3, -1e4)
MASKS = [
    mistake(
        "mask-inverted",
        _uncleaned(lambda z, m: z.masked_fill(m, -math.inf)),
        _uncleaned(lambda z, m: z.masked_fill(m, -1e9)),
        _uncleaned(lambda z, m: z - 1e9 * m),
        mask=lambda m, z: ~m,
    ),
    mistake("mask-multiplied", _uncleaned(lambda z, m: z * m), hide=lambda z, m: z * m),
    mistake("mask-fill-tiny", _uncleaned(_fill(1e-9)), _uncleaned(_fill(-1e-9)), hide=_fill(1e-9)),
    mistake(
        # With +inf a softmax gives NaN, which some then clean away.
        "mask-fill-positive-inf",
        {"hide": _fill(math.inf), "empty": lambda w, m: w.nan_to_num(0.0)},
        hide=_fill(math.inf),
    ),
    mistake(
        "mask-added-as-number",
        *map(_uncleaned, (lambda z, m: z + m, lambda z, m: z + ~m)),
        hide=lambda z, m: z + m,
    ),
    # Torch refuses 1 - mask, so there are no numbers to compare.
    mistake("/bool-minus", crashes="bool tensor is not supported"),
    mistake("mask-after-softmax", {"hide": identity, "empty": lambda w, m: w * m}),
    mistake(
        "mask-ignored",
        mask=lambda m, z: torch.ones_like(m),
        hide=identity,
        but=("gpt2_attention",),
    ),
    mistake("mask-first-batch-only", mask=lambda m, z: m[:1] if m.dim() == 4 else m),
    mistake("masked-row-nan", _uncleaned(_fill(-math.inf))),
    mistake(
        "masked-row-uniform",
        _uncleaned(_fill(-1e9)),
        {"empty": identity},
        _uncleaned(lambda z, m: z + ~m * -1e9),
    ),
    mistake("mask-none", crashes=NOT_GIVEN, only=WITH_MASK),
    mistake(
        "truth-of-a-mask",
        crashes="Boolean value of Tensor",
        written=r"mask|\bm\b",
        only=("masked_softmax", *WITH_MASK),
    ),
    mistake(
        "nan-gradient",
        stage="nan gradient",
        but=("online_softmax", "tiled_attention"),
    ),
    mistake("mask-after-softmax-renormalised", {"hide": identity, "empty": _renormalised}),
    mistake("mask-fill-finite", hide=[_fill(value) for value in FINITE]),
    mistake(
        "mask-added-finite", hide=[lambda z, m, value=value: z + ~m * value for value in FINITE]
    ),
    mistake(
        # Each function treats some forms of mask correctly, and only the others show the mistake.
        "mask-form-ignored",
        mask=[
            _of_form(lambda m: m.dim() == 4),
            _of_form(lambda m: m.dim() == 2),
            _of_form(lambda m: m.dim() == 2 or m.size(0) > 1),
            lambda m, z: m[:, 0][:, None],
        ],
        but=("gpt2_attention",),
    ),
    mistake(
        "mask-times-minus-inf",
        {"hide": _plus_infinities, "empty": lambda w, mask: w.nan_to_num(0.0)},
        hide=_plus_infinities,
    ),
]
