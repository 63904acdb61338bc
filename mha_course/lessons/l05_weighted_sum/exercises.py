"""Lesson 5, Weighted sum."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from mha_course.exercises.attention_steps import ATTEND, NO_BIAS, Steps
from mha_course.exercises.inputs import qkv, square, tokens, weights
from mha_course.exercises.spec import Exercise, Lesson, question


def weighted_sum(weights: Tensor, v: Tensor) -> Tensor:
    """Mix the values, (B, H, T, S), (B, H, S, D) -> (B, H, T, D)."""
    return weights @ v  # (B, H, T, D)


def self_attention(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, Tensor]:
    """Attend with one head as wide as the tokens: context (B, S, C) and weights (B, S, S)."""
    q, k, v = x @ w_q.T, x @ w_k.T, x @ w_v.T  # (B, S, C)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, S, S)
    weights = torch.softmax(scores, dim=-1)  # (B, S, S)
    return weights @ v, weights


def _build_self_attention(s: Steps) -> Callable[..., tuple[Tensor, Tensor]]:
    def answer(x: Tensor, *weights: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = s.order(*s.project(x, x, weights, NO_BIAS[:3], 1, s))
        scores = s.scale(s.scores(q, k), q, k, 1)
        shares = s.post(s.attend(scores, None, s), q)
        return s.weigh(shares, v), s.returned(shares, scores)

    return answer


EXERCISES = [
    Exercise(
        weighted_sum,
        "The context of one query is a mixture. How many numbers does it have, and over what is "
        "it summed?",
        "One matrix product, with the shares on the left. See “See it: a context and what it is "
        "made of”.",
        "weights (B, H, T, S) times v (B, H, S, D): S is summed away, and (B, H, T, D) is left.",
        inputs=[lambda: (weights(), qkv()[2])],
        drawn=lambda d: (d.weights("BHTS"), d("BHSD")),
        axes="B H T D",
        done="Each context is now a mixture of values. Next: try to leave the shaded area below.",
        steps=("weigh",),
    ),
    Exercise(
        self_attention,
        "Which five steps lead from x to the context, and which of them must know the width?",
        "Project, compare, scale, softmax, mix: you have written all five. This head is as wide "
        "as the token. See “A whole head”.",
        "q, k, v are (B, S, C). Scores and weights are (B, S, S), with a softmax over the last "
        "axis. The context is (B, S, C) again.",
        line="scores = q @ k.transpose(-2, -1) / q.size(-1) ** 0.5  # (B, S, S)\n"
        "weights = torch.softmax(scores, dim=-1)  # (B, S, S)\n"
        "return weights @ v, weights",
        inputs=[lambda: (tokens(), *square(2, 3, 4))],
        drawn=lambda d: (d("BSC"), *d.matrices("CC", "CC", "CC")),
        axes=("B S C", "B S S"),
        results=("context", "weights"),
        done="You have a whole head, from x to the context. Next: shuffle the words of x, and "
        "predict what moves.",
        steps=(
            "linear",
            "order",
            "project",
            "scores",
            "scale",
            *ATTEND,
            "post",
            "returned",
            "weigh",
        ),
        build=_build_self_attention,
        token_arguments=(0,),
        query_arguments=(1,),
    ),
]

QUESTIONS = {
    "uniform-weights": question(
        "All weights of a row are alike. What is its context?",
        "the sum of the values → The shares are 1 / S each, not 1.",
        "✔ the mean of the values → Equal shares of all values: that is their mean.",
        "0 → Values cancel out only by chance. Equal shares of them are their mean.",
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
        "new place.",
        "✔ the same results, shuffled alike → Every word compares and mixes as before; no step "
        "knows at which place a word stands.",
        "something else → That would need a step that knows the places. None of the six does.",
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
