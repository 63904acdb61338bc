"""Lesson 6, Concatenation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mha_course import attention as reference
from mha_course.exercises.inputs import draw, qkv, square
from mha_course.exercises.spec import Exercise, Lesson, Question


def merge_heads(context: Tensor) -> Tensor:
    """Lay the heads of each token side by side, (B, H, S, D) -> (B, S, C)."""
    return context.transpose(1, 2).flatten(2)  # (B, S, C)


def head_contributions(context: Tensor, w_o: Tensor) -> Tensor:
    """Return what each head adds to the output, (B, H, S, C); the sum over H is the merged context times w_oᵀ."""
    columns = w_o.unflatten(1, (context.size(1), -1))  # (C, H, D)
    return torch.einsum("bhsd,chd->bhsc", context, columns)  # (B, H, S, C)


def build_subtractor(d: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return w_q, w_k, w_v, w_o, each (3d, 3d), so that two heads give c_a - c_b at the query token.

    Channels of a token: 0 to d - 1 its content c, d the flag a, d + 1 the flag b, d + 2 marks the query token,
    the rest 0. Output channels 0 to d - 1 hold the difference. Head h has the rows from h · 3d/2 on.
    """
    width, half = 3 * d, 3 * d // 2
    w_q, w_k, w_v, w_o = torch.zeros(4, width, width, dtype=torch.float64)  # (C, C)
    for head, sign in ((0, 1.0), (1, -1.0)):
        first = head * half
        w_q[first, d + 2] = 100.0  # the query token asks …
        w_k[first, d + head] = 100.0  # … for the flagged token
        for channel in range(d):
            w_v[first + channel, channel] = 1.0  # which hands over its content …
            w_o[channel, first + channel] = sign  # … to be added, or taken away
    return w_q, w_k, w_v, w_o


def subtract(builder: Callable[..., Any], d: int) -> Tensor:
    """Let hand-made weights attend to flagged tokens and return what the query token gets, (B, d)."""
    weights = [torch.as_tensor(w).double() for w in builder(d)]
    x = torch.zeros(64, 9, 3 * d, dtype=torch.float64)
    x[:, 1:, :d] = draw(64, 8, d, seed=1)
    x[:, 0, d + 2] = 1.0
    places = draw(64, 8, seed=2).argsort(-1) + 1
    for flag in (0, 1):
        x[torch.arange(64), places[:, flag], d + flag] = 1.0
    q, k, v = (reference.split_heads(x @ w.T, 2) for w in weights[:3])
    return (reference.merge_heads(reference.attention(q, k, v)[0]) @ weights[3].T)[:, 0, :d]


EXERCISES = [
    Exercise(
        merge_heads,
        "In the context the heads stand before the tokens. Which two axes must be neighbours before you join them?",
        "Undo the split backwards: first swap, then join. The join has to copy, so `view` refuses. See “The merge, "
        "cell by cell”.",
        "(B, H, S, D) becomes (B, S, H, D) by the swap, and (B, S, C) by joining the last two axes.",
        "return context.transpose(1, 2).flatten(2)  # (B, S, C)",
        inputs=[lambda: (qkv()[1],)],
        axes="B S C",
        steps=("merge",),
    ),
    Exercise(
        head_contributions,
        "The merged context times w_oᵀ sums over C numbers a token. Which of them come from one head?",
        "Cut w_o by columns, D for each head, and multiply each head by its own columns only. See “W_O: where the "
        "heads meet”.",
        "w_o (C, C) with its second axis cut is (C, H, D). With the context (B, H, S, D), sum over D and keep H: (B, "
        "H, S, C).",
        "columns = w_o.unflatten(1, (context.size(1), -1))  # (C, H, D)\n"
        'return torch.einsum("bhsd,chd->bhsc", context, columns)  # (B, H, S, C)',
        inputs=[lambda: (qkv()[1], *square(5))],
        axes="B H S C",
        steps=("columns",),
    ),
    Exercise(
        build_subtractor,
        "If head 0 fetches c_a and head 1 fetches c_b, where can the minus come from?",
        "In w_q the query token's channel, in w_k the channel of the flag: where both are large, the score is. w_v "
        "hands over the content. See “Two heads that subtract”.",
        "Four matrices (3d, 3d) of zeros. Head h owns rows h · 3d/2 and on, columns in w_o. It needs one entry in "
        "w_q, one in w_k, d in w_v, and d in w_o with its sign.",
        "for head, sign in ((0, 1.0), (1, -1.0)):\n"
        "    first = head * 3 * d // 2\n"
        "    w_q[first, d + 2] = w_k[first, d + head] = 100.0\n"
        "    for channel in range(d):\n"
        "        w_v[first + channel, channel] = 1.0\n"
        "        w_o[channel, first + channel] = sign",
        inputs=[lambda: (8,)],
        axes="B d",
        run=subtract,
        tolerance=1e-3,
    ),
]

QUESTIONS = {
    "merge-order": Question(
        "context has shape (B, H, S, D). Which gives (B, S, C) with the heads of each token side by side?",
        right_at=1,
        answers={
            "context.reshape(B, S, C)": "It has the right shape, and mixes tokens: the transpose is missing.",
            "context.transpose(1, 2).reshape(B, S, C)": (
                "First the tokens come forward again, then H and D, now neighbours, are joined."
            ),
            "context.transpose(2, 3).reshape(B, S, C)": "That swaps tokens and channels; the heads stay outermost.",
        },
    ),
    "output-mixes": Question(
        "Two heads are merged, and W_O is the identity. Which numbers of the output can depend on head 0?",
        right_at=0,
        answers={
            "the first half": "The identity leaves each number where it is; mixing the heads is what W_O is there for.",
            "all": "That takes a W_O that is not the identity. It is the only place where heads meet.",
            "none": "Merging drops nothing: head 0 fills the first half.",
        },
    ),
}

LESSON = Lesson(6, "Concatenation", EXERCISES, QUESTIONS)
