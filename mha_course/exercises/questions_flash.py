"""The predictions of lesson 12, FlashAttention, as data. Right answers are computed, not typed."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from mha_course import flash
from mha_course.attention import attention
from mha_course.exercises.asking import Question
from mha_course.experiments import costs


def _scores(tokens: int) -> int:
    """Count the scores of one head."""
    q = torch.zeros(1, 1, tokens, 6)
    return attention(q, q, q)[1].numel()


def _work() -> str:
    """Count the operations of both ways."""
    q, k, v = torch.zeros(3, 2, 4, 32, 6)
    whole, tiled = costs.flops(attention, q, k, v), costs.flops(flash.tiled_attention, q, k, v, 8)
    return "the same number" if tiled == whole else "half as many" if 2 * tiled == whole else "32 times fewer"


def _new_sum() -> str:
    """Let a block of one score arrive after eight that are 0."""
    scores = torch.cat((torch.zeros(8), torch.tensor([math.log(4.0)])))
    return f"{flash.online_softmax(scores, 8)[1]:.3g}"


def _kept() -> str:
    """Look at what tiled attention saves beside its inputs and its result."""
    q, k, v = (x.requires_grad_() for x in torch.randn(3, 2, 4, 16, 6).unbind(0))
    saved: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        context = flash.tiled_attention(q, k, v, 4)
    known = {context.data_ptr(), *(x.data_ptr() for x in (q, k, v))}
    sizes = {tensor.numel() for tensor in saved if tensor.data_ptr() not in known}
    words: dict[Any, str] = {2 * 4 * 16: "one number for each query", 2 * 4 * 16 * 16: "the weights"}
    return words.get(max(sizes, default=0), "nothing")


def _revealing() -> str:
    """Add up blocks without shrinking the sum, and see which order of scores comes out wrong."""
    rising = torch.arange(8.0)
    found = []
    for name, scores in {
        "largest first": rising.flip(0), "all the same": torch.ones(8), "largest last": rising
    }.items():  # fmt: skip
        running_max, total = torch.tensor(-torch.inf), torch.tensor(0.0)
        for block in scores.split(2):
            running_max = torch.maximum(running_max, block.max())
            total = total + (block - running_max).exp().sum()
        if not torch.isclose(total, (scores - scores.max()).exp().sum()):
            found.append(name)
    return " and ".join(found)


QUESTIONS: dict[str, Question] = {
    "scores-bytes": Question(
        "A text becomes 4 times as long. How many times the bytes do the scores of a head take?",
        answer=lambda: str(_scores(28) // _scores(7)),
        because="There are 4 times as many queries and 4 times as many keys, and a score for every pair.",
        wrong={
            "4": "That is how q, k, v and the context grow. Scores belong to pairs.",
            "8": "Two factors of 4 make 16.",
            "2": "Count rows and columns of the matrix of scores.",
        },
        nudge="How many rows does the matrix of scores have, and how many columns?",
    ),
    "flash-work": Question(
        "Attention in blocks, without a mask, against step by step: how many multiplications do its products take?",
        answer=_work,
        because="Every query still meets every key. Only the order changes, and what is kept.",
        choices={
            "the same number": "",
            "half as many": "A causal mask hides about half of the pairs, and whole blocks can be skipped. Without one "
            "all pairs are needed.",
            "32 times fewer": "That would leave out pairs. FlashAttention is exact: nothing is left out.",
        },
    ),
    "running-sum": Question(
        "So far, the maximum of a row is 0 and its sum of exponentials 8. The next block is a single score, "
        "ln 4 = 1.386. What is the running sum after it?",
        answer=_new_sum,
        tolerance=0.01,
        because="The new maximum is ln 4. The old sum shrinks by exp(0 - ln 4) = 1/4 to 2, and the new score adds "
        "exp(0) = 1.",
        wrong={
            "9": "The old sum was taken relative to the old maximum, 0. It must shrink first.",
            "12": "That is the sum relative to the old maximum. The maximum is ln 4 now.",
            "2": "The old sum did shrink to 2. The new score adds its own exponential.",
        },
        nudge="First find the new maximum, then what the old sum must be multiplied by.",
    ),
    "flash-saved": Question(
        "Training needs the weights again on the way back. What does tiled attention keep for that, beside q, k, v "
        "and the context?",
        answer=_kept,
        because="With its log-sum-exp at hand, any block of weights is one product and one exponential away: "
        "exp(scaled score - log-sum-exp).",
        choices={
            "the weights": "They are the T x S matrix that must not be kept. They can be computed again.",
            "one number for each query": "",
            "nothing": "Then each row would need its maximum and its sum once more before its first weight is known.",
        },
    ),
    "rising-scores": Question(
        "Somebody forgets to shrink the running sum. In which order of scores does the result come out wrong?",
        answer=_revealing,
        because="A sum is only too large if a later block brings a larger maximum. With the largest score first, or "
        "all scores alike, the factor is 1 and is not missed.",
        choices={
            "largest first": "The first block then has the final maximum, and every later factor is 1.",
            "all the same": "The maximum never grows, so the missing factor is 1.",
            "largest last": "",
        },
    ),
}
