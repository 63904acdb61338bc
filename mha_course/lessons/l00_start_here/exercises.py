"""Lesson 0, Start here."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import normalize

from mha_course.exercises.spec import Exercise, Lesson, mistake, question


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

QUESTIONS = {
    "row-sum": question(
        "The row of “it” holds 15 weights, one for each word of the sentence. What do they sum to?",
        "15 → That would be one whole for each word. There is only one whole to share out.",
        "✔ 1 → The weights of a row are shares of one whole: none is negative, and together they "
        "make 1.",
        "It depends on the sentence → Each weight does. Their sum does not: they are shares of "
        "one whole.",
        units="%",
    ),
    "without-head-1": question(
        "“The grey cat that chased the loud dogs were hungry, so …”: the verb is wrong. What does "
        "the model guess without head 1?",
        "it, as before → Three heads are left, but none of them brings what head 1 brought. "
        "Switch it off and see.",
        "✔ they → Without head 1 the model falls back on the verb, which stands next to the "
        "pronoun and is plural.",
        "no word in particular → It still sees the verb, which is plural, and goes by that.",
    ),
    "context-of-a": question(
        "Tokens a = (1, 0), b = (2, 1) and c = (0, 2) attend to each other. Which point can be "
        "the context of a?",
        "(0.3, 0.2) → This lies outside the triangle, towards the origin: no mixture of the three "
        "reaches it.",
        "✔ (1.4, 0.9) → A context is a mixture with shares between 0 and 1, so it lies inside the "
        "triangle of the three.",
        "(3.0, 3.0) → This is a + b + c. The shares are not 1 each: together they sum to 1.",
    ),
}

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

LESSON = Lesson(0, "Start here", EXERCISES, QUESTIONS)
