"""Lesson 5, Weighted sum."""

from __future__ import annotations

from torch import Tensor

from mha_course.exercises.spec import Exercise, Lesson, question


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
        done="Each context is now a mixture of values. Next: try to leave the shaded area below.",
        steps=("weigh",),
    ),
]

QUESTIONS = {
    "uniform-weights": question(
        "All weights of a row are equal. What is its context?",
        "the sum of the values → The shares are 1 / S each, not 1.",
        "✔ the mean of the values → Equal shares of all values: that is their mean.",
        "0 → Values cancel out only by chance. Equal shares of the values give their mean.",
    ),
    "context-shape": question(
        "weights has shape (2, 4, 5, 7) and v (2, 4, 7, 6). What is the shape of weights @ v?",
        "2, 4, 5, 6 → One mixture for each query: the keys are summed away, and the width of a "
        "value stays.",
        "2, 4, 7, 6 → There is a context for each query, not for each key.",
        "2, 5, 24 → The heads stay apart.",
        letters="B, H, T, D",
    ),
    "shuffle": question(
        "You shuffle the vectors of a sentence's words and run self-attention, without a mask. "
        "What comes out?",
        "the same result → The result of each word is the same, but it comes out at the word's "
        "new position.",
        "✔ the same results, shuffled alike → Every word compares and mixes as before: no step "
        "knows the position of a word.",
        "something else → That would take a step that knows the positions. None of the six does.",
    ),
    "own-width": question(
        "q and k have 6 numbers a head. How many may v have?",
        "6 only → Nothing multiplies v with q or k number by number. Try it.",
        "24 only → 24 is the width of all heads together.",
        "✔ any number → q and k meet in a dot product and must agree. v is only mixed.",
        also=("arbitrary", "arbitrarily many", "as many as you like"),
    ),
}

LESSON = Lesson(5, "Weighted sum", EXERCISES, QUESTIONS)
