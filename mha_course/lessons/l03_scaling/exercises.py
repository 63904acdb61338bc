"""Lesson 3, Scores and scaling."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

from mha_course.exercises.spec import Change, Exercise, Lesson, mistake, question


def attention_scores(q: Tensor, k: Tensor) -> Tensor:
    """Return the scores of (B, H, T, D) and (B, H, S, D), all their dot products: (B, H, T, S)."""
    return q @ k.transpose(-2, -1)  # (B, H, T, S)


def scaled_scores(q: Tensor, k: Tensor) -> Tensor:
    """Return the scores divided by sqrt(D)."""
    return attention_scores(q, k) / math.sqrt(q.size(-1))  # (B, H, T, S)


def score_form(w_q: Tensor, w_k: Tensor, head: int, num_heads: int) -> Tensor:
    """Return the matrix (C, C) with x_t · form · x_s = the unscaled score of one head."""
    rows_q = w_q.chunk(num_heads)[head]  # (D, C)
    rows_k = w_k.chunk(num_heads)[head]  # (D, C)
    return rows_q.T @ rows_k  # (C, C)


EXERCISES = [
    Exercise(
        attention_scores,
        "The result has no axis D. Where must D stand in k for the product to sum over it?",
        "One matrix product of the last two axes; `@` repeats it for every sentence and head. See "
        "“See it: all pairs at once”.",
        "q (B, H, T, D) times k with its last two axes swapped, (B, H, D, S), gives (B, H, T, S).",
        drawn=lambda d: (d("BHTD"), d("BHSD")),
        axes="B H T S",
        done="Every query has met every key, in every head. Next: which axis of k may be longer "
        "than in q, and which may not?",
        steps=("scores",),
    ),
    Exercise(
        scaled_scores,
        "By how much does the spread of a dot product grow when a head gets wider?",
        "Divide by a root. The shape of q tells you the width of one head. See “How large is a "
        "dot product?”.",
        "The scores (B, H, T, S) are divided by one number, made from D, the last size of q.",
        line="return q @ k.transpose(-2, -1) / q.size(-1) ** 0.5  # (B, H, T, S)",
        drawn=lambda d: (d("BHTD"), d("BHSD")),
        axes="B H T S",
        done="The spread of your scores no longer depends on the width of a head. Next: move D in "
        "the lab below, with your function in it.",
        steps=("scores", "scale"),
        build=lambda s: lambda q, k: s.scale(s.scores(q, k), q, k, q.size(1)),
    ),
    Exercise(
        score_form,
        "A score is (W_Q x_t) · (W_K x_s). Write it without the brackets: what stands between x_t "
        "and x_s?",
        "Take the D rows of the head out of both weights, as in `one_head_queries`, and multiply "
        "them with each other. See “Deeper: one matrix for each head”.",
        "The head has D rows, (D, C), in both weights. Those of w_q, transposed to (C, D), times "
        "those of w_k give (C, C).",
        allows=("no gradient",),
        drawn=lambda d: (d("CC"), d("CC"), d.head(), d.H),
        axes="C C",
        done="A head's two weights have become the one matrix with which it compares. Next: look "
        "at its rank with `torch.linalg.matrix_rank`.",
    ),
]

QUESTIONS = {
    "typical-score": question(
        "q and k hold 64 independent numbers each, of mean 0 and variance 1. What is the standard "
        "deviation of q · k?",
        "8 → Each of the 64 products has variance 1. They add up to 64, whose root is 8.",
        "64 → That is the variance. The standard deviation is its root.",
        "1 → A single product has that. Here 64 of them are added.",
        "0 → That is the mean.",
        nudge="How do the variances of 64 independent products add up?",
        also=("√64", "sqrt(64)", "64**0.5"),
    ),
    "scores-fit": question(
        "q is (2, 4, 5, 6) and k is (2, 4, 7, 6): 5 queries and 7 keys of 6 numbers in each head. "
        "Why does q @ k raise an error?",
        "there are more keys than queries → That is allowed: each query meets all 7 keys.",
        "✔ the 7 of k stands where a 6 is needed → @ sums over the last axis of q, which is D = "
        "6, and the second-to-last of k, which is S = 7. In k, D has to stand there.",
        "there are four axes → @ takes the last two as matrices and repeats the product over all "
        "axes in front.",
    ),
    "twice-the-text": question(
        "A text of 15 words has 15 · 15 = 225 scores in a head. How many does a text of 30 words "
        "have?",
        "900 → 30 · 30: twice the text has four times the scores. They grow with the square of the "
        "length; the projections only double.",
        "450 → Each word has twice as many keys, but there are also twice as many words.",
        "225 → Every word meets every word, so a longer text has more pairs.",
        nudge="Every word meets every word.",
        also=("30 * 30", "30 · 30", "30x30"),
    ),
    "which-width": question(
        "The full width C is 512, and there are H = 8 heads. By what should each head divide its "
        "scores?",
        "✔ 8 → A head sums over its own D = 64 products, so their spread is the root of 64.",
        "22.6 → That is the root of C. No head ever adds 512 products.",
        "64 → That is D itself. The spread grows with the root of D.",
        "2.8 → That is the root of the number of heads, which has no part in a dot product.",
    ),
    "scale-of-one": question(
        "In one row, the largest score leads by 1. You multiply all its scores by 100. What "
        "happens to the largest share?",
        "nothing: the sum of the shares stays the same → The sum does stay the same. How it is "
        "shared out changes.",
        "it gets 100 times larger → No share can be larger than 1.",
        "✔ it comes close to 1 → Only the lead over the others counts. A lead of 100 leaves them "
        "next to nothing.",
    ),
}


def _forms(product: Callable[[Tensor, Tensor], Tensor]) -> Change:
    """Make score_form another product of a head's rows in both weights."""
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
    mistake(
        "/scaled-already",
        scores=lambda q, k: q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)),
        only=("attention_scores",),
    ),
]

LESSON = Lesson(3, "Scores and scaling", EXERCISES, QUESTIONS)
