"""Lesson 2, Head splitting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from mha_course.attention import split_fused_qkv
from mha_course.exercises import spec
from mha_course.exercises.attention_steps import ALL_SIX, ATTEND, NO_BIAS, Steps
from mha_course.exercises.operations import Operation, Rule
from mha_course.exercises.spec import Exercise, Lesson, mistake
from mha_course.mistakes import ROWS


def heads_in_a_loop(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int
) -> Tensor:
    """Run the heads one by one, join their contexts and apply w_o, (B, S, C) -> (B, S, C)."""
    D = x.size(-1) // num_heads
    contexts = []
    for head in range(num_heads):
        rows = slice(D * head, D * head + D)
        q, k, v = x @ w_q[rows].T, x @ w_k[rows].T, x @ w_v[rows].T  # (B, S, D)
        weights = (q @ k.mT / D**0.5).softmax(-1)  # (B, S, S)
        context = weights @ v  # (B, S, D)
        contexts.append(context)
    return torch.cat(contexts, dim=-1) @ w_o.T  # (B, S, C)


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Cut the width into heads and move them before the tokens, (B, S, C) -> (B, H, S, D)."""
    B, S, C = x.shape
    split = x.view(B, S, num_heads, C // num_heads)  # (B, S, H, D)
    return split.transpose(1, 2)  # (B, H, S, D)


def one_head_queries(x: Tensor, w_q: Tensor, head: int, num_heads: int) -> Tensor:
    """Return the queries of one head, (B, S, C) -> (B, S, D), from its own D rows of w_q (C, C)."""
    rows = w_q.chunk(num_heads)[head]  # (D, C)
    return x @ rows.T  # (B, S, D)


def _build_loop(s: Steps) -> Callable[..., Tensor]:
    def answer(x: Tensor, *arguments: Any) -> Tensor:
        *weights, w_o, num_heads = arguments
        projected = s.order(*s.project(x, x, weights, NO_BIAS[:3], num_heads, s))
        split = (t.unbind(1) for t in s.split_each(*projected, num_heads, s))
        contexts = []
        for q, k, v in zip(*split, strict=True):
            scores = s.scale(s.scores(q, k), q, k, num_heads)
            contexts.append(s.weigh(s.post(s.attend(scores, None, s), q), v))
        return s.output(s.merge(torch.stack(contexts, 1)), w_o, None, num_heads)

    return answer


def _computes_all_heads(operations: Sequence[Operation], _: Tensor, w_q: Tensor, *__: Any) -> bool:
    return any(
        operation.name in {"mm", "bmm", "addmm"} and operation.output[-1] == w_q.size(0)
        for operation in operations
    )


EXERCISES = [
    Exercise(
        heads_in_a_loop,
        "You have one head as a function. What differs from head to head, and what happens to the "
        "four contexts?",
        "Inside the loop, call your `self_attention` with the rows of one head in place of the "
        "whole weight. `torch.cat` and W_O come after it. See “Four heads, one after the other”.",
        "Head h uses the rows `D * h` to `D * h + D` of w_q, w_k and w_v. Each context is (B, S, "
        "D); joined along the last axis they are (B, S, C).",
        line="D = x.shape[-1] // num_heads\n"
        "contexts = []\n"
        "for h in range(num_heads):\n"
        "    own = slice(D * h, D * h + D)\n"
        "    contexts.append(self_attention(x, w_q[own], w_k[own], w_v[own])[0])\n"
        "return torch.cat(contexts, dim=-1) @ w_o.T  # (B, S, C)",
        drawn=lambda d: (d("BSC"), *d.matrices("CC", "CC", "CC", "CC"), d.H),
        axes="B S C",
        done="That's all of multi-head attention, and you wrote it. Next: the same without a loop.",
        steps=tuple(step for step in (*ALL_SIX, *ATTEND) if step != "returned"),
        build=_build_loop,
        tokens_and_queries=((0,), (1,)),
    ),
    Exercise(
        split_heads,
        "In which order do the C numbers of a token lie in memory, and where does head 1 begin?",
        "Two steps: first cut the last axis, then swap two axes. Neither moves a number. See “The "
        "split, cell by cell”.",
        "Cut (B, S, C) into (B, S, H, D). Then swap tokens and heads, which gives (B, H, S, D).",
        drawn=lambda d: (d("BSC"), d.H),
        axes="B H S D",
        done="Each head now has a row for each token, made of its own D numbers. Next: run the "
        "tracer on it. Does any step copy?",
        steps=("split",),
    ),
    Exercise(
        split_fused_qkv,
        "The last axis holds 3 · H · D numbers. Which of the three changes slowest as you walk "
        "along it?",
        "Cut the last axis into three, in the order in which it was stacked. Then `permute`, and "
        "separate q, k and v. See “Deeper: a fused q, k, v”.",
        "Cut (B, S, 3C) into (B, S, 3, H, D). In the order (3, B, H, S, D), the first axis holds "
        "q, k and v.",
        drawn=lambda d: (d("BSX"), d.H),
        axes={"q": "B H S D", "k": "B H S D", "v": "B H S D"},
        done="You can read a fused tensor in the order in which it was stacked. Next: what would "
        "you change for rows that are stacked as (H, 3, D)?",
        steps=("split_fused", "order"),
        build=lambda s: lambda qkv, num_heads: s.order(*s.split_fused(qkv, num_heads)),
    ),
    Exercise(
        one_head_queries,
        "Which rows of w_q make the numbers of this head, and how much of x does each row read?",
        "A head owns D rows of w_q, one head after the other, and reads all of x. `chunk` or a "
        "slice takes them out. See “Deeper: one head alone” and the end of lesson 1.",
        "The rows of one head are (D, C). x (B, S, C) times their transpose (C, D) gives (B, S, "
        "D).",
        drawn=lambda d: (d("BSC"), d("CC"), d.head(), d.H),
        axes="B S D",
        done="You know which rows of W_Q belong to a head, and that they read all of x. Next: "
        "compute a single head with nothing but `@`, without splitting.",
        rules=(Rule(ROWS["/all-heads-computed"], _computes_all_heads),),
    ),
]

ONE_BY_ONE = ("one_head_queries", "heads_in_a_loop")
OF_ONE_HEAD: list[tuple[str, spec.Function]] = [  # product(x, w, head, num_heads), by its mistake
    ("weight-not-transposed", lambda x, w, i, h: x @ w.chunk(h)[i]),
    ("weight-not-transposed/rows", lambda x, w, i, h: x @ w.chunk(h, dim=1)[i]),
    ("/rows-from-head-number", lambda x, w, i, h: x @ w.roll(-i, 0)[: len(w) // h].T),
    ("/rows-from-head-number", lambda x, w, i, h: x @ w.roll(-i * h, 0)[: len(w) // h].T),
    ("/rows-from-head-number", lambda x, w, i, h: x @ w[i * h : i * h + h].T),
    ("only-head-zero", lambda x, w, i, h: x @ w[: len(w) // h].T),
    ("all-heads-pasted/loop", lambda x, w, i, h: x @ w[12:24].T),
    ("/all-rows-in-each-head", lambda x, w, i, h: x @ w.T),
    ("/tokens-cut", lambda x, w, i, h: (x @ w.T)[:, i * len(w) // h : (i + 1) * len(w) // h]),
    ("activation-on-projection", lambda x, w, i, h: (x @ w.chunk(h)[i].T).relu()),
    ("heads-innermost", lambda x, w, i, h: x @ w[i::h].T),
    ("head-reads-own-slice", lambda x, w, i, h: x.chunk(h, -1)[i] @ w.chunk(h)[i].T),
    ("head-reads-own-slice", lambda x, w, i, h: x.chunk(h, -1)[i] @ w.chunk(h)[i].chunk(h, 1)[i].T),
]


def _of_heads(key: str, product: spec.Function, **options: Any) -> spec.Mistake:
    """Compute one head's queries with a product, or all heads' queries, keys and values."""

    def project(x: Tensor, memory: Tensor, weights: Any, biases: Any, h: int, s: Steps) -> Any:
        return [torch.cat([product(x, w, head, h) for head in range(h)], -1) for w in weights]

    return mistake(key, one_head_queries=product, only=ONE_BY_ONE, project=project, **options)


MISTAKES = [
    mistake(
        "width-not-divided-by-three",
        split_fused=[
            lambda t, h: t.view(t.size(0), t.size(1), 3, h, t.size(2) // h),
            lambda t, h: t.unflatten(-1, (3, h, t.size(2) // h)),
            lambda t, h: t.view(t.size(0), t.size(1), h, 3, t.size(2) // h),
            lambda t, h: [x.view(len(t), t.size(1), h, t.size(2) // h) for x in t.chunk(3, -1)],
        ],
        crashes=r"expected 3, got 1",
        only=("split_fused_qkv",),
    ),
    *(_of_heads(key, product) for key, product in OF_ONE_HEAD),
    _of_heads(
        "/weight-cut-along-columns",
        lambda x, w, i, h: x @ w.chunk(h, dim=1)[i].T,
        written=r"dim=1|, 1\)|\[:,",
    ),
    mistake(
        "output-columns-as-rows/loop",
        output=lambda merged, w, b, h: merged.chunk(h, -1)[0] @ w.chunk(h)[0].T,
        only=("heads_in_a_loop",),
        written="w_o",
    ),
    mistake(
        "head-off-by-one",
        merge=[
            lambda c: c[:, 1:].transpose(1, 2).flatten(2),
            lambda c: torch.cat((0 * c[:, :1], c[:, 1:]), 1).transpose(1, 2).flatten(2),
            lambda c: torch.cat((c[:, :-1], 0 * c[:, :1]), 1).transpose(1, 2).flatten(2),
        ],
        only=("heads_in_a_loop",),
    ),
    mistake(
        "one-head-only",
        merge=[lambda c: c[:, 0].contiguous(), lambda c: torch.stack(c.unbind(1))],
        crashes="must be tuple of Tensors, not Tensor",
        only=("heads_in_a_loop",),
    ),
    mistake(
        "/two-results-joined",
        crashes="expected Tensor as element 0 .* got tuple",
        only=("heads_in_a_loop",),
    ),
]

LESSON = Lesson(2, "Head splitting", EXERCISES)
