"""Inputs of labs: one head's scores with their words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from mha_course.errors import require, require_float, require_shape
from mha_course.plots.inputs import numbered

MOST = 32  # tokens


def scores_and_tokens(place: str, scores: Any, tokens: Sequence[str]) -> tuple[Tensor, list[str]]:
    """Return scores (S, S) and words, with repeated ones numbered, or raise ShapeError."""
    require_float(place, {"scores": scores})
    while scores.dim() > 2 and scores.size(0) == 1:
        scores = scores[0]
    words = [str(token) for token in ([] if tokens is None or isinstance(tokens, str) else tokens)]
    rule = "tokens must be a list of words"
    got = f"{len(words)} tokens" if words else repr(tokens)
    require(1 <= len(words) <= MOST, place, rule, expected=f"1 to {MOST} tokens", got=got)
    fix = "scores[0, 0], one head of one sentence" if scores.dim() > 2 else None
    require_shape(place, "scores", scores, {"T": len(words), "S": len(words)}, fix)
    finite = bool(scores.isfinite().all())
    fix = "the scaled scores, before a mask hides any"
    rule = "scores must be finite"
    got = "inf or NaN among them"
    require(finite, place, rule, expected="finite numbers", got=got, fix=fix)
    return scores.detach().cpu(), numbered(words)
