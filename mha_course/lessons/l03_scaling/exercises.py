"""Lesson 3, Scores and scaling."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

from mha_course.exercises.spec import Change, Exercise, Lesson, mistake


def scaled_scores(q: Tensor, k: Tensor) -> Tensor:
    """Return all dot products of (B, H, T, D) and (B, H, S, D), divided by sqrt(D)."""
    return q @ k.mT / q.shape[-1] ** 0.5  # (B, H, T, S)


def score_form(w_q: Tensor, w_k: Tensor, head: int, num_heads: int) -> Tensor:
    """Return the matrix (C, C) for which x_t · form · x_s is a head's unscaled score."""
    rows_q = w_q.chunk(num_heads)[head]  # (D, C)
    rows_k = w_k.chunk(num_heads)[head]  # (D, C)
    return rows_q.T @ rows_k  # (C, C)


EXERCISES = [
    Exercise(
        scaled_scores,
        "The result has no axis D. Where must D be in k for the product to sum over it? And how "
        "does the spread of such a sum grow with D?",
        "One matrix product of the last two axes, which `@` repeats for every sentence and head. "
        "Then divide by a root: the shape of q tells you D. See “How large is a dot product?”.",
        "q (B, H, T, D) times k with its last two axes swapped, (B, H, D, S), gives (B, H, T, S). "
        "Divide by one number, made from D, the last size of q.",
        drawn=lambda d: (d("BHTD"), d("BHSD")),
        axes="B H T S",
        done="The spread of your scores no longer depends on the width of a head. Next: move D in "
        "the lab below, with your function in it.",
        steps=("scores", "scale"),
        build=lambda s: lambda q, k: s.scale(s.scores(q, k), q, k, q.size(1)),
    ),
    Exercise(
        score_form,
        "A score is (W_Q x_t) · (W_K x_s). Write it without the brackets: what is between x_t and "
        "x_s?",
        "Take the D rows of the head out of both weights, as in `one_head_queries`, and multiply "
        "them with each other. See “Deeper: one matrix for each head”.",
        "The head has D rows of each weight, (D, C). Those of w_q, transposed to (C, D), times "
        "those of w_k give (C, C).",
        allows=("no gradient",),
        drawn=lambda d: (d("CC"), d("CC"), d.head(), d.H),
        axes="C C",
        done="You turned a head's two weights into the one matrix it compares with. Next: look at "
        "its rank with `torch.linalg.matrix_rank`.",
    ),
]


def _forms(product: Callable[[Tensor, Tensor], Tensor]) -> Change:
    """Let score_form return another product of a head's rows of both weights."""
    return {"score_form": lambda w_q, w_k, head, h: product(w_q.chunk(h)[head], w_k.chunk(h)[head])}


MISTAKES = [
    mistake("form-transposed", _forms(lambda a, b: b.T @ a)),
    mistake("form-of-all-heads", score_form=lambda w_q, w_k, head, h: w_q.T @ w_k),
    mistake(
        "/form-summed-over-width",
        _forms(lambda a, b: a @ b.T),
        _forms(lambda a, b: b @ a.T),
        {"score_form": lambda w_q, w_k, head, h: w_q @ w_k.T},
    ),
    mistake("key-not-transposed/form", _forms(lambda a, b: a @ b)),
    mistake("/scaled-already/form", _forms(lambda a, b: a.T @ b / math.sqrt(len(a)))),
    mistake("elementwise-product/form", _forms(lambda a, b: a * b)),
    mistake(
        "weight-not-transposed/form",
        score_form=[
            lambda w_q, w_k, i, h: w_q.chunk(h, 1)[i] @ w_k.chunk(h, 1)[i].T,
            lambda w_q, w_k, i, h: w_q.chunk(h, 1)[i].T @ w_k.chunk(h, 1)[i],
        ],
    ),
]

LESSON = Lesson(3, "Scores and scaling", EXERCISES)
