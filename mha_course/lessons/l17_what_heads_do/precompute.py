"""What ships of lesson 17: the model of the running example, trained from other seeds, and one
layer that was trained on repeated words for longer.
"""

from __future__ import annotations

from typing import Any

import torch

from mha_course import example
from mha_course.experiments import precomputed
from mha_course.experiments.head_analysis import pronoun_report
from mha_course.lessons.l17_what_heads_do import induction

SEEDS = (0, 1, 2, 3, 4)


def start(seed: int) -> dict[str, Any]:
    """Train the model from a seed, and report on it with three decimals."""
    return precomputed.rounded(pronoun_report(example.train_model(seed)[0]))


def one_layer(seed: int) -> dict[str, Any]:
    """Train one layer four times as long as the lesson does, and report on it."""
    model = induction.learn(1, 2, 90, seed=seed, steps=6000).model
    dice = torch.Generator().manual_seed(99)
    repeated, pieces = induction.repeated_words(2000, dice), induction.words_in_pieces(2000, dice)
    report = induction.single_layer_report(model, repeated, pieces)
    return precomputed.rounded(report)


if __name__ == "__main__":
    precomputed.remake({"starts": (start, SEEDS), "one_layer": (one_layer, SEEDS[:3])})
