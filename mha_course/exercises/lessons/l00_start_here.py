"""Lesson 0, Start here."""

from __future__ import annotations

from torch import Tensor

from mha_course.exercises.inputs import C, S, draw
from mha_course.exercises.spec import Exercise, Lesson, Question


def similarity(x: Tensor) -> Tensor:
    """Return the dot product of every pair of tokens, (S, C) -> (S, S)."""
    return x @ x.T  # (S, S)


EXERCISES = [
    Exercise(
        similarity,
        "Which two vectors meet in the number at row t and column s?",
        "A table of dot products is a matrix product: rows of the left one with columns of the right one. See step 1 "
        "of “One attention by hand”.",
        "x (S, C) times something of shape (C, S) gives (S, S).",
        "return x @ x.T  # (S, S)",
        inputs=[lambda: (draw(S, C, seed=1),)],
        axes="S S",
        steps=("scores",),
        build=lambda s: lambda x: s.scores(x, x),
    ),
]

QUESTIONS = {
    "row-sum": Question(
        "The row of “it” holds 15 weights, one for each word of the sentence. What do they sum to?",
        right_at=1,
        answers={
            "15": "That would be one whole share for each word. There is only one share to hand out.",
            "1": "The weights of a row are shares of one whole: none is negative, and together they make 1.",
            "It depends on the sentence": "The single weights do. Their sum does not: they are shares of one whole.",
        },
        units="%",
    ),
    "context-of-a": Question(
        "Tokens a = (1, 0), b = (2, 1) and c = (0, 2) attend to each other. Which point can be the context of a?",
        right_at=1,
        answers={
            "(0.3, 0.2)": "This lies outside the triangle, towards the origin: no mixture of the three reaches it.",
            "(1.4, 0.9)": (
                "A context is a mixture with shares between 0 and 1, so it lies inside the triangle of the three."
            ),
            "(3.0, 3.0)": "This is a + b + c. The shares are not 1 each; they sum to 1.",
        },
    ),
}

LESSON = Lesson(0, "Start here", EXERCISES, QUESTIONS)
