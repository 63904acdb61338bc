"""Lesson 1, Projection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from mha_course.exercises.attention_steps import ATTEND, NO_BIAS, Steps
from mha_course.exercises.operations import Operation, Rule
from mha_course.exercises.spec import Exercise, Lesson, mistake
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
    """Attend with one head of width D: context (B, S, D) and weights (B, S, S)."""
    q, k, v = x @ w_q.T, x @ w_k.T, x @ w_v.T  # (B, S, D)
    scores = q @ k.mT / q.shape[-1] ** 0.5  # (B, S, S)
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
    """Find products that do not compute q, k and v all together."""
    products = [x.output for x in operations if x.name in {"mm", "bmm", "addmm", "baddbmm"}]
    return sum(w_qkv.size(0) not in output[-2:] for output in products) > 1


EXERCISES = [
    Exercise(
        project,
        "weight is stored as (out, in). Which of its two axes must meet the C numbers of a token?",
        "A matrix product and a sum. `@` pairs the last axis of its left side with the "
        "second-to-last of its right side. See “A Linear, taken apart”.",
        "x (B, S, C) times a matrix (C, out) gives (B, S, out). The bias (out) is added to every "
        "token.",
        drawn=lambda d: (d("BSC"), d("OC"), d("O")),
        axes="B S out",
        done="That's what nn.Linear does with every token. Next: if the weight is square, what "
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
        "x (B, S, C) times (C, 3C), plus the bias, gives (B, S, 3C). Cut that along its last axis "
        "into three tensors (B, S, C), in the order q, k, v.",
        drawn=lambda d: (d("BSC"), d("XC"), d("X")),
        axes={"q": "B S C", "k": "B S C", "v": "B S C"},
        done="One product now makes q, k and v. Next: what changes if the rows of `w_qkv` are "
        "stacked v, k, q?",
        steps=("linear", "unpack", "order"),
        build=lambda s: lambda x, w, b: s.order(*s.unpack(s.linear(x, w, b))),
        rules=(Rule(ROWS["/three-products"], _has_several_products),),
    ),
]


def _tokens(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w.T)[:, PASTED]


def _numbers(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w.T)[..., PASTED]


def _rows(x: Tensor, w: Tensor) -> Tensor:
    return x @ w[PASTED].T


def _with_pasted(cut: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Any]:
    """Take one head's slice of q, k and v, as the cell above the exercise does."""
    return lambda x, memory, weights, biases, h, s: [cut(x, w) for w in weights]


PASTED = slice(12, 24)
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
        only=("project", "project_qkv", "self_attention"),
    ),
    mistake(
        "elementwise-product/projection",
        linear=[lambda x, w, b=None: x * w.T, lambda x, w, b=None: x * w],
        only=("project", "project_qkv", "self_attention"),
    ),
    mistake(
        "/bias-before-product",
        linear=lambda x, w, b: (x + b) @ w.T,
        only=("project", "project_qkv"),
    ),
    mistake(
        "all-heads-pasted",
        # With no tokens left, there is no largest score.
        {"project": _with_pasted(_tokens), "softmax": lambda z: z.softmax(-1)},
        project=[_with_pasted(_numbers), _with_pasted(_rows)],
        only=("self_attention",),
    ),
    mistake(
        "/weight-reshaped",
        linear=lambda x, w, b: x @ w.reshape(w.size(1), w.size(0)) + b,
        only=("project", "project_qkv"),
    ),
]

LESSON = Lesson(1, "Projection", EXERCISES)
