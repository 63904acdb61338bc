"""Lesson 0, Start here."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import normalize

from mha_course.exercises.spec import Exercise, Lesson, mistake


def similarity(x: Tensor) -> Tensor:
    """Return the dot product of every pair of tokens, (S, C) -> (S, S)."""
    return x @ x.T  # (S, S)


EXERCISES = [
    Exercise(
        similarity,
        "Which two vectors make the number at row t and column s?",
        "A table of dot products is a matrix product: rows of the left one with columns of the "
        "right one. See step 1 of “One attention by hand”.",
        "x (S, C) times something of shape (C, S) gives (S, S).",
        drawn=lambda d: (d("SC"),),
        axes="S S",
        done="You have compared every token with every token. Next: make one token twice as long. "
        "Which numbers grow?",
    ),
]

MISTAKES = [
    mistake(
        "cosine-not-dot/similarity",
        similarity=lambda x: normalize(x, dim=-1) @ normalize(x, dim=-1).T,
    ),
    mistake("elementwise-product/similarity", similarity=[lambda x: x * x, lambda x: x * x.T]),
    mistake(
        "elementwise-then-summed",
        similarity=[lambda x: (x * x).sum(1), lambda x: (x * x).sum(1, keepdim=True)],
    ),
    mistake("key-not-transposed/similarity", similarity=lambda x: x @ x),
    mistake("key-reshaped/similarity", similarity=lambda x: x @ x.reshape(x.size(1), x.size(0))),
    mistake("/columns-compared", similarity=lambda x: x.T @ x),
    mistake(
        "/similarity-divided",
        similarity=[
            lambda x: x @ x.T / x.size(1) ** 0.5,
            lambda x: x @ x.T / 2**0.5,
            lambda x: (x @ x.T).softmax(-1),
            lambda x: (x @ x.T / x.size(1) ** 0.5).softmax(-1),
        ],
    ),
]

LESSON = Lesson(0, "Start here", EXERCISES)
