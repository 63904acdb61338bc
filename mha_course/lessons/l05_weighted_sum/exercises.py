"""Lesson 5, Weighted sum."""

from __future__ import annotations

from torch import Tensor

from mha_course.exercises.spec import Exercise, Lesson


def weighted_sum(weights: Tensor, v: Tensor) -> Tensor:
    """Mix the values, (B, H, T, S), (B, H, S, D) -> (B, H, T, D)."""
    return weights @ v  # (B, H, T, D)


EXERCISES = [
    Exercise(
        weighted_sum,
        "The context of one query is a mixture. How many numbers does it have, and over what is "
        "it summed?",
        "One matrix product, with the shares on the left. See “See it: a context and what it is "
        "made of”.",
        "weights (B, H, T, S) times v (B, H, S, D): S is summed away, and (B, H, T, D) is left.",
        drawn=lambda d: (d.weights("BHTS"), d("BHSD")),
        axes="B H T D",
        done="Each context is now a mixture of values. Next: what do equal weights make of them?",
        steps=("weigh",),
    ),
]

LESSON = Lesson(5, "Weighted sum", EXERCISES)
