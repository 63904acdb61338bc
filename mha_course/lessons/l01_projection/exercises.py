"""Lesson 1, Projection."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from mha_course.exercises.attention_steps import ATTEND, NO_BIAS, Steps
from mha_course.exercises.spec import Exercise, Lesson, Operation, Rule, mistake, question
from mha_course.mistakes import ROWS


def project(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return x Wᵀ + b, (B, S, C) -> (B, S, out); weight is (out, C), as nn.Linear stores it."""
    return x @ weight.T + bias  # (B, S, out)


def project_qkv(x: Tensor, w_qkv: Tensor, b_qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return q, k and v, each (B, S, C), from one product with the stacked weights (3C, C)."""
    qkv = project(x, w_qkv, b_qkv)  # (B, S, 3*C)
    q, k, v = qkv.chunk(3, dim=-1)  # (B, S, C)
    return q, k, v


def self_attention(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, Tensor]:
    """Attend with one head of D numbers: context (B, S, D) and weights (B, S, S)."""
    q, k, v = x @ w_q.T, x @ w_k.T, x @ w_v.T  # (B, S, D)
    scores = q @ k.mT / math.sqrt(q.size(-1))  # (B, S, S)
    weights = scores.softmax(-1)  # (B, S, S)
    return weights @ v, weights


def _build_self_attention(s: Steps) -> Callable[..., tuple[Tensor, Tensor]]:
    def answer(x: Tensor, *weights: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = s.order(*s.project(x, x, weights, NO_BIAS[:3], 1, s))
        scores = s.scale(s.scores(q, k), q, k, x.size(-1) // len(weights[0]))
        attention = s.post(s.attend(scores, None, s), q)
        return s.weigh(attention, v), s.returned(attention, scores)

    return answer


def _has_several_products(
    operations: Sequence[Operation], _: Tensor, w_qkv: Tensor, *__: Any
) -> bool:
    """Find products that make less than all of q, k and v."""
    products = [x.output for x in operations if x.name in {"mm", "bmm", "addmm", "baddbmm"}]
    return sum(w_qkv.size(0) not in output[-2:] for output in products) > 1


EXERCISES = [
    Exercise(
        project,
        "weight is stored as (out, in). Which of its two axes must meet the C numbers of a token?",
        "A matrix product and a sum. `@` pairs the last axis of its left side with the "
        "second-to-last of its right side. See “A Linear, taken apart”.",
        "x (B, S, C) times a matrix (C, out) gives (B, S, out); the bias (out) is added to every "
        "token.",
        drawn=lambda d: (d("BSC"), d("OC"), d("O")),
        axes="B S out",
        done="That is what nn.Linear does with every token. Next: if the weight is square, what "
        "does a forgotten transpose look like?",
        steps=("linear",),
    ),
    Exercise(
        self_attention,
        "You had these lines in lesson 0, with x in three places. What belongs in each place now?",
        "Three projections, then lesson 0's four steps: compare, scale, softmax, mix. See “A whole "
        "head”.",
        "q, k and v are (B, S, D). `k.mT` is (B, D, S), so the scores and the weights are (B, S, "
        "S), and the context is (B, S, D).",
        line="q, k, v = x @ w_q.T, x @ w_k.T, x @ w_v.T  # (B, S, D)\n"
        "scores = q @ k.mT / q.shape[-1] ** 0.5  # (B, S, S)\n"
        "weights = scores.softmax(-1)  # (B, S, S)\n"
        "return weights @ v, weights",
        drawn=lambda d: (d("BSC"), *d.matrices("DC", "DC", "DC")),
        axes={"context": "B S D", "weights": "B S S"},
        done="You can write one whole head, the one that looks from “it” to “cat”. Next: four of "
        "them.",
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
        tokens_and_queries=((0,), (1,)),
    ),
    Exercise(
        project_qkv,
        "How many products do you need if the three weights are already stacked in one?",
        "Project as before, then cut the result, not the weights. `chunk` cuts it into equal "
        "parts along one axis. Which one? See “Deeper: three Linears or one”.",
        "x (B, S, C) times (C, 3C), plus the bias, gives (B, S, 3C). Cut along its last axis, it "
        "is three tensors (B, S, C), in the order q, k, v.",
        drawn=lambda d: (d("BSC"), d("XC"), d("X")),
        axes={"q": "B S C", "k": "B S C", "v": "B S C"},
        done="One product now makes q, k and v. Next: what changes if the rows of `w_qkv` are "
        "stacked v, k, q?",
        steps=("linear", "unpack", "order"),
        build=lambda s: lambda x, w, b: s.order(*s.unpack(s.linear(x, w, b))),
        rules=(Rule(ROWS["/three-products"], _has_several_products),),
    ),
]

QUESTIONS = {
    "linear-weight": question(
        "nn.Linear(24, 18) takes 24 numbers and gives 18. What is the shape of its weight?",
        "18, 24 → PyTorch stores (out, in): one row for each number that comes out.",
        "24, 18 → That is the order of the arguments. The weight is stored the other way round.",
        letters="out, in",
        also=("out_features, in_features",),
    ),
    "linear-result": question(
        "x has shape (2, 5, 24). What is the shape of nn.Linear(24, 18)(x)?",
        "2, 5, 18 → A Linear works on the last axis and leaves all other axes alone.",
        "18 → That is one token. There are 2 sentences of 5 tokens.",
        "10, 18 → The tokens are not flattened: the axes in front stay as they are.",
        "2, 18, 5 → The last axis changes in place; nothing is transposed.",
        letters="B, S, out",
    ),
    "which-crashes": question(
        "x has shape (2, 5, 24) and W (18, 24). Which of these raises an error?",
        "✔ x @ W → x @ W would pair the 24 of x with the 18 of W. The other two pair 24 with 24.",
        "x @ W.T → W.T is (24, 18), so 24 meets 24: it gives (2, 5, 18).",
        "F.linear(x, W) → It transposes W itself, as nn.Linear does: it gives (2, 5, 18).",
    ),
    "fused-parameters": question(
        "nn.Linear(24, 72) gives q, k and v at once. How many numbers does it learn, biases "
        "included?",
        "1800 → 72 · 24 weights and 72 biases, as many as three Linears of 24 have together.",
        "1728 → Those are the weights. Each of the 72 outputs also has a bias.",
        "600 → That is one Linear of 24. Here there are three.",
        nudge="Count the weights, one for each pair of input and output, and one bias for each "
        "output.",
        units="numbers parameters",
    ),
    "whose-heads": question(
        "You change the first of a token’s 24 channels. With 4 heads of 6 channels, in which "
        "heads can its q change?",
        "head 0 alone → That would be true if the heads divided the channels of x. They divide "
        "the rows of W_Q.",
        "✔ all four → Every row of W_Q reads all 24 channels. What is cut into heads is the "
        "result, not x.",
        "none → q is computed from x, so it changes with it.",
        units="all heads",
        also=("all heads", "in all heads", "all of them", "every head", "in every head"),
    ),
}

MISTAKES = [
    mistake(
        "weight-not-transposed/fused",
        linear=[
            lambda x, w, b: torch.cat([x @ part for part in w.chunk(3)], -1) + b,
            lambda x, w, b: torch.cat([x @ part for part in w.chunk(3)], -1),
        ],
        only=("project_qkv",),
    ),
    mistake(
        "/new-linear",
        stage="repeat",
        crashes="same dtype, but got Double and Float",
        only=("project", "project_qkv"),
    ),
    mistake(
        "/weight-reshaped",
        linear=lambda x, w, b: x @ w.reshape(w.size(1), w.size(0)) + b,
        only=("project", "project_qkv"),
    ),
]

LESSON = Lesson(1, "Projection", EXERCISES, QUESTIONS)
