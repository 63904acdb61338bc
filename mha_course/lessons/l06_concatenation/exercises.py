"""Lesson 6, Concatenation."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mha_course import attention as reference
from mha_course.exercises.spec import Change, Exercise, Lesson, mistake


def merge_heads(context: Tensor) -> Tensor:
    """Put the heads of each token side by side, (B, H, T, D) -> (B, T, C)."""
    B, H, T, D = context.shape
    return context.transpose(1, 2).reshape(B, T, H * D)  # (B, T, C)


def ov_circuit(w_v: Tensor, w_o: Tensor, head: int, num_heads: int) -> Tensor:
    """Return the matrix M (C, C) with out = M x for a token x to which one head gives weight 1."""
    D = w_v.size(0) // num_heads
    rows = slice(D * head, D * head + D)
    return w_o[:, rows] @ w_v[rows]  # (C, C)


EXERCISES = [
    Exercise(
        merge_heads,
        "In the context, the heads come before the tokens. Which two axes must be neighbours "
        "before you join them?",
        "Undo the split in reverse order: swap, then join. The join has to copy, so `view` "
        "refuses. See “See it: the merge, cell by cell”.",
        "The swap turns (B, H, T, D) into (B, T, H, D). Joining the last two axes gives (B, T, C).",
        drawn=lambda d: (d("BHSD"),),
        axes="B S C",
        done="The heads of each token lie side by side again. Next: why can this join not be a "
        "view?",
        steps=("merge",),
    ),
    Exercise(
        reference.head_contributions,
        "The merged context times w_oᵀ sums over the C numbers of a token. Which come from one "
        "head?",
        "Cut w_o by columns, D for each head, and multiply each head by its own columns only. See "
        "“W_O: where the heads meet”.",
        "The context of one head is (B, T, D), and its columns of w_o are (C, D), transposed (D, "
        "C): their product is (B, T, C). `torch.stack` puts the products of all heads into (B, H, "
        "T, C).",
        line="B, H, T, D = context.shape\n"
        "parts = [context[:, h] @ w_o[:, D * h : D * h + D].T for h in range(H)]  # (B, T, C)\n"
        "return torch.stack(parts, dim=1)  # (B, H, T, C)",
        drawn=lambda d: (d("BHSD"), d("CC")),
        axes="B H T C",
        done="The output is a sum, and you can compute each head's part of it. Next: which head "
        "adds most to “it”?",
    ),
    Exercise(
        ov_circuit,
        "A token x goes through the head's rows of W_V, and then through which part of W_O?",
        "Multiply two matrices. The one that is applied first goes on the right. See “Deeper: one "
        "matrix for what a head carries”.",
        "The head's D rows of w_v are (D, C), and its D columns of w_o are (C, D). Their product "
        "is (C, C).",
        allows=("no gradient",),
        drawn=lambda d: (d("CC"), d("CC"), d.head(), d.H),
        axes="C C",
        done="You turned what a head carries from a token into one matrix. Next: compare it with "
        "`score_form`, which says where the head looks.",
    ),
]


def _circuits(product: Callable[[Tensor, Tensor], Tensor]) -> Change:
    """Let ov_circuit return another product of a head's rows of w_v and its columns of w_o."""
    return {"ov_circuit": lambda v, o, i, h: product(v.chunk(h)[i], o.chunk(h, 1)[i])}


MISTAKES = [
    mistake("form-transposed/circuit", _circuits(lambda v, o: v.T @ o.T)),
    mistake("form-of-all-heads/circuit", ov_circuit=lambda v, o, i, h: o @ v),
    mistake("/circuit-summed-over-width", _circuits(lambda v, o: v @ o)),
    mistake(
        "output-columns-as-rows/circuit",
        ov_circuit=[
            lambda v, o, i, h: o.chunk(h)[i].T @ v.chunk(h)[i],
            lambda v, o, i, h: o.chunk(h)[i] @ v.chunk(h, 1)[i],
        ],
    ),
    mistake(
        "weight-not-transposed/circuit",
        ov_circuit=lambda v, o, i, h: o.chunk(h, 1)[i] @ v.chunk(h, 1)[i].T,
    ),
    mistake(
        "output-columns-as-rows",
        head_contributions=[
            lambda c, w: torch.einsum("bhsd,hdc->bhsc", c, w.unflatten(0, (c.size(1), -1))),
            lambda c, w: torch.stack(
                [x @ w.chunk(c.size(1))[h].T for h, x in enumerate(c.unbind(1))], 1
            ),
        ],
        written=r"\.m?T\b",
    ),
    mistake(
        "weight-not-transposed/columns",
        head_contributions=[
            lambda c, w: torch.stack(
                [x @ w.chunk(c.size(1), 1)[h] for h, x in enumerate(c.unbind(1))], 1
            ),
            lambda c, w: c @ w.unflatten(1, (c.size(1), -1)).transpose(0, 1),
        ],
    ),
    mistake(
        "only-head-zero/columns",
        head_contributions=lambda c, w: c @ w[:, : c.size(-1)].T,
    ),
    mistake(
        "/cat-of-a-tensor", crashes="must be tuple of Tensors, not Tensor", only=("merge_heads",)
    ),
    mistake("/all-columns", head_contributions=lambda c, w: c @ w.T),
    mistake(
        "/columns-interleaved",
        head_contributions=lambda c, w: torch.einsum(
            "bhsd,cdh->bhsc", c, w.unflatten(1, (-1, c.size(1)))
        ),
    ),
]

LESSON = Lesson(6, "Concatenation", EXERCISES)
