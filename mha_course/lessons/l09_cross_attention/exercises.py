"""Lesson 9, Cross-attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mha_course.attention import attention, merge_heads, split_heads
from mha_course.exercises.attention_steps import ALL_SIX, MASKED, Steps, pass_through
from mha_course.exercises.inputs import (
    FAR_BELOW,
    HIDDEN_LEAD,
    OTHER_SIZES,
    B,
    C,
    Draw,
    H,
    S,
    T,
    draw,
    opposed,
    square,
)
from mha_course.exercises.spec import Exercise, Lesson, mistake


def cross_attention(
    x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int,
    memory_mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Attend from x (B, T, C) to memory (B, S, C): out (B, T, C) and weights (B, H, T, S)."""
    q = split_heads(x @ w_q.T, num_heads)  # (B, H, T, D)
    k, v = (split_heads(memory @ w.T, num_heads) for w in (w_k, w_v))  # (B, H, S, D)
    context, weights = attention(q, k, v, memory_mask)
    return merge_heads(context) @ w_o.T, weights


def _sequences(queries: int) -> tuple[Tensor, Tensor]:
    return draw(B, queries, C, seed=1), draw(B, S, C, seed=2)


def _memory_mask() -> Tensor:
    return torch.tensor([[True] * 5 + [False] * 2, [True] * 7])[:, None, None, :]


def _drawn(d: Draw) -> tuple[Any, ...]:
    x = d("BTC")
    memory = d("BSC")
    w_q, w_k, w_v, w_o = d.matrices("CC", "CC", "CC", "CC")
    if d.kind in (OTHER_SIZES, "one head"):
        return x, memory, w_q, w_k, w_v, w_o, d.H
    mask = d.mask("B11S")
    if d.kind == HIDDEN_LEAD:
        memory[:, -1] *= 1e5  # padding may contain anything
        mask[..., -1] = False
    if d.kind == FAR_BELOW:
        x, w_k = opposed(d, x, w_q, w_k)
        memory = x[:1, :1] + memory
    return x, memory, w_q, w_k, w_v, w_o, d.H, mask


OWN_STEPS: dict[str, Callable[..., Any]] = {"sources": lambda x, memory: (x, memory)}


def _build(steps: Steps) -> Callable[..., tuple[Tensor, Tensor]]:
    s = Steps(**OWN_STEPS | vars(steps))

    def answer(x: Tensor, memory: Tensor, *weights: Any) -> tuple[Tensor, Tensor]:
        return pass_through(s, *s.sources(x, memory), *weights)

    return answer


MISTAKES = [
    mistake(
        "/length-of-the-input",
        crashes=r"shape '\[2, 5, .*\]' is invalid for input of size 336",
        only=("cross_attention",),
    ),
    mistake("query-from-memory", sources=lambda x, memory: (memory, memory)),
    mistake("memory-ignored", sources=[lambda x, memory: (x, x), lambda x, memory: (memory, x)]),
    mistake(
        "memory-and-input-joined",
        sources=[
            lambda x, memory: (x, torch.cat((x, memory), 1)),
            lambda x, memory: (x, torch.cat((memory, x), 1)),
        ],
    ),
    mistake(
        "mask-inverted/memory",
        {
            "mask": lambda m, z: ~m,
            "hide": lambda z, m: z.masked_fill(~m, -torch.inf),
            "empty": lambda w, m: w,
        },
        only=("cross_attention",),
    ),
    mistake(
        "key-value-different-sources",
        project=[
            lambda x, m, w, b, h, s: (s.linear(x, w[0]), s.linear(m, w[1]), s.linear(x, w[2])),
            lambda x, m, w, b, h, s: (s.linear(x, w[0]), s.linear(x, w[1]), s.linear(m, w[2])),
        ],
        only=("cross_attention",),
    ),
]

EXERCISES = [
    Exercise(
        cross_attention,
        "Which of q, k and v come from x, and which from memory?",
        "Take `multi_head_attention` and give keys and values another source. T and S need not be "
        "equal.",
        "From x, q is (B, H, T, D). From memory, k and v are (B, H, S, D). So weights are (B, H, "
        "T, S), and out is (B, T, C).",
        line="q = split_heads(x @ w_q.T, num_heads)  # (B, H, T, D)\n"
        "k = split_heads(memory @ w_k.T, num_heads)  # (B, H, S, D)\n"
        "v = split_heads(memory @ w_v.T, num_heads)  # (B, H, S, D)",
        special_cases=[
            ("", lambda: (*_sequences(T), *square(3, 4, 5, 6), H)),
            (
                "Here memory_mask hides two tokens of one memory.",
                lambda: (*_sequences(T), *square(3, 4, 5, 6), H, _memory_mask()),
            ),
            ("", lambda: (*_sequences(S), *square(3, 4, 5, 6), H)),
        ],
        drawn=_drawn,
        axes={"output": "B T C", "weights": "B H T S"},
        done="You can let one sequence read another. Give it x as its own memory: that is the "
        "self-attention of lesson 7.",
        steps=("sources", *ALL_SIX, *MASKED),
        build=_build,
        tokens_and_queries=((0, 1), (2,)),
    ),
]

LESSON = Lesson(9, "Cross-attention", EXERCISES)
