"""The predictions of the lessons as data. Right answers are computed, not typed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Question:
    """One question.

    ``choices`` maps what can be picked to the reason why it is wrong (empty for the right one); without
    choices the answer is typed. ``wrong`` maps typed answers to reasons, ``nudge`` is for all others.
    """

    text: str
    answer: Callable[[], str]
    because: str
    choices: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    nudge: str = "Work it out once more, one axis at a time."
    tolerance: float = 0.0


def _shape(tensor: torch.Tensor) -> str:
    """Write a shape as a learner types it."""
    return ", ".join(map(str, tensor.shape))


def _inside() -> str:
    """Say which of the points is what token a makes of three tokens by attention."""
    x = torch.tensor([[1.0, 0.0], [2.0, 1.0], [0.0, 2.0]])
    context = F.scaled_dot_product_attention(x, x, x)[0]  # (2,)
    return f"({context[0]:.1f}, {context[1]:.1f})"


def _crashes() -> str:
    """Try the three products and say which one raises."""
    x, weight = torch.ones(2, 5, 24), torch.ones(18, 24)
    ways: dict[str, Callable[[], torch.Tensor]] = {
        "x @ W": lambda: x @ weight,
        "x @ W.T": lambda: x @ weight.T,
        "F.linear(x, W)": lambda: F.linear(x, weight),
    }
    failed = []
    for name, way in ways.items():
        try:
            way()
        except RuntimeError:
            failed.append(name)
    return " and ".join(failed)


def _heads_reached() -> str:
    """Change one channel of one token and see in which heads q changes."""
    weight = torch.randn(24, 24, generator=torch.Generator().manual_seed(0))
    x = torch.zeros(1, 5, 24)
    changed = x.clone()
    changed[0, 2, 0] = 1.0
    moved = (F.linear(changed, weight) - F.linear(x, weight)).unflatten(2, (4, 6)).abs().sum((0, 1, 3))  # (H,)
    return {4: "all four", 1: "head 0 alone", 0: "none"}[int((moved > 0).sum())]


QUESTIONS = {
    "row-sum": Question(
        "The row of “it” holds 15 weights, one for each word of the sentence. What do they sum to?",
        answer=lambda: f"{torch.randn(15).softmax(-1).sum():.0f}",
        because="The weights of a row are shares of one whole: none is negative, and together they make 1.",
        choices={
            "15": "That would be one whole share for each word. There is only one share to hand out.",
            "1": "",
            "It depends on the sentence": "The single weights do. Their sum does not: they are shares of one whole.",
        },
    ),
    "context-of-a": Question(
        "Tokens a = (1, 0), b = (2, 1) and c = (0, 2) attend to each other. Which point can be the context of a?",
        answer=_inside,
        because="A context is a mixture with shares between 0 and 1, so it lies inside the triangle of the three.",
        choices={
            "(0.3, 0.2)": "This lies outside the triangle, towards the origin: no mixture of the three reaches it.",
            "(1.4, 0.9)": "",
            "(3.0, 3.0)": "This is a + b + c. The shares are not 1 each; they sum to 1.",
        },
    ),
    "linear-weight": Question(
        "nn.Linear(24, 18) takes 24 numbers and gives 18. What is the shape of its weight?",
        answer=lambda: _shape(nn.Linear(24, 18).weight),
        because="PyTorch stores (out, in): one row for each number that comes out.",
        wrong={"24, 18": "That is the order in which you write the arguments. It is stored the other way round."},
    ),
    "linear-result": Question(
        "x has shape (2, 5, 24). What is the shape of nn.Linear(24, 18)(x)?",
        answer=lambda: _shape(nn.Linear(24, 18)(torch.ones(2, 5, 24))),
        because="A Linear works on the last axis and leaves all others alone.",
        wrong={
            "18": "That is one token. There are 2 sentences of 5 tokens.",
            "10, 18": "The tokens are not flattened: the axes in front stay as they are.",
            "2, 18, 5": "The last axis changes in place; nothing is transposed.",
        },
    ),
    "which-crashes": Question(
        "x has shape (2, 5, 24) and W (18, 24). Which of these raises an error?",
        answer=_crashes,
        because="x @ W would pair the 24 of x with the 18 of W. The other two pair 24 with 24.",
        choices={
            "x @ W": "",
            "x @ W.T": "W.T is (24, 18), so 24 meets 24: it gives (2, 5, 18).",
            "F.linear(x, W)": "It transposes W itself, as nn.Linear does: it gives (2, 5, 18).",
        },
    ),
    "fused-parameters": Question(
        "How many numbers, biases included, does nn.Linear(24, 72) learn, which gives q, k and v at once?",
        answer=lambda: str(sum(p.numel() for p in nn.Linear(24, 72).parameters())),
        because="72 · 24 weights and 72 biases, just what three Linears of 24 have together.",
        wrong={
            "1728": "Those are the weights. Each of the 72 outputs has a bias too.",
            "600": "That is one Linear of 24. Here are three.",
        },
        nudge="Count the weights, one for each pair of input and output, and one bias for each output.",
    ),
    "whose-heads": Question(
        "You change the first of a token’s 24 channels. With 4 heads of 6 channels, in which heads can its q change?",
        answer=_heads_reached,
        because="Every row of W_Q reads all 24 channels. What is cut into heads is the result, not x.",
        choices={
            "head 0 alone": "That would be so if heads shared out the channels of x. They share out the rows of W_Q.",
            "all four": "",
            "none": "q is computed from x, so it changes with it.",
        },
    ),
}
