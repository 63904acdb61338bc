"""What ships of lesson 9: where the translator attends to, trained from twelve seeds."""

from __future__ import annotations

from typing import Any

from mha_course.experiments import precomputed
from mha_course.lessons.l09_cross_attention import toy_language, translation

SEEDS = range(12)


def alignment(seed: int) -> dict[str, Any]:
    """Return what is measured of a model trained from one seed, on 500 held-out sentences."""
    model, _ = translation.train_translator(seed, progress=False)
    texts = toy_language.pairs(500, "test", seed=2)
    return precomputed.rounded(translation.alignment_report(model, texts))


if __name__ == "__main__":
    precomputed.remake({"translation": (alignment, SEEDS)})
