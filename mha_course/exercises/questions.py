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
    return _raising(ways)


def _raising(ways: dict[str, Callable[[], torch.Tensor]]) -> str:
    """Name the ways that raise."""
    failed = []
    for name, way in ways.items():
        try:
            way()
        except RuntimeError:
            failed.append(name)
    return " and ".join(failed)


def _larger_scores() -> str:
    """Compare the largest weight before and after."""
    scores = torch.tensor([0.1, 0.3, -0.2, 0.25])
    before, after = scores.softmax(-1).max(), (100 * scores).softmax(-1).max()
    return "it comes close to 1" if before < 0.5 and after > 0.99 else "nothing: softmax normalises"


def _view_fails() -> str:
    """Try the three ways to lay heads together and say which one raises."""
    heads = torch.ones(2, 5, 24).view(2, 5, 4, 6).transpose(1, 2)
    ways: dict[str, Callable[[], torch.Tensor]] = {
        "heads.view(2, 5, 24)": lambda: heads.view(2, 5, 24),
        "heads.reshape(2, 5, 24)": lambda: heads.reshape(2, 5, 24),
        "heads.contiguous().view(2, 5, 24)": lambda: heads.contiguous().view(2, 5, 24),
    }
    return _raising(ways)


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
    "split-shape": Question(
        "x has shape (2, 5, 24). What is the shape of x.unflatten(2, (4, 6)).transpose(1, 2)?",
        answer=lambda: _shape(torch.ones(2, 5, 24).unflatten(2, (4, 6)).transpose(1, 2)),
        because="24 becomes 4 · 6, and then the tokens and the heads change places.",
        wrong={
            "2, 5, 4, 6": "That is after unflatten. The transpose still swaps axes 1 and 2.",
            "2, 4, 6, 5": "Only axes 1 and 2 change places; D stays last.",
            "2, 4, 30": "Nothing is joined: one axis is cut in two.",
        },
    ),
    "wrong-row": Question(
        "24 numbers lie in memory, 6 for each of tokens 0 to 3. In view(2, 4, 3), whose numbers are row 0 of head 1?",
        answer=lambda: f"token {int(torch.arange(24).view(2, 4, 3)[1, 0, 0]) // 6}",
        because="Head 1 starts in the middle of the strip, at place 12, and that is where token 2 begins.",
        choices={
            "token 0": "Row 0 ought to be token 0. But view never rearranges: it deals the strip out in order.",
            "token 1": "Token 1 has the places 6 to 11. Head 1 starts at place 12.",
            "token 2": "",
        },
    ),
    "view-or-not": Question(
        "heads = x.view(2, 5, 4, 6).transpose(1, 2). Which of these raises an error?",
        answer=_view_fails,
        because="After the transpose the memory order no longer matches, and view refuses to copy.",
        choices={
            "heads.view(2, 5, 24)": "",
            "heads.reshape(2, 5, 24)": "reshape copies where a view is not possible. It runs (and is wrong: lesson 6).",
            "heads.contiguous().view(2, 5, 24)": "contiguous makes a copy in the new order, and that can be viewed.",
        },
    ),
    "contiguous-copies": Question(
        "With num_heads = 1, does heads.contiguous() copy the memory?",
        answer=lambda: "yes" if torch.ones(2, 1, 5, 6).transpose(1, 2).is_contiguous() is False else "no",
        because="An axis of size 1 can stand anywhere. The tensor is contiguous already, so it comes back as it is.",
        choices={"yes": "Only where the order of the memory has to change. With one head it need not.", "no": ""},
    ),
    "typical-score": Question(
        "q and k hold 64 independent numbers each, of mean 0 and variance 1. What is the standard deviation of q · k?",
        answer=lambda: f"{64**0.5:.0f}",
        because="Each of 64 products has variance 1, variances add up to 64, and the root of that is 8.",
        wrong={
            "64": "That is the variance. The standard deviation is its root.",
            "1": "One product has that. Here 64 of them are added.",
            "0": "That is the mean.",
        },
        nudge="How do the variances of 64 independent products add up?",
        tolerance=0.5,
    ),
    "scores-shape": Question(
        "q has shape (2, 4, 5, 6) and k (2, 4, 7, 6). What is the shape of q @ k.transpose(-2, -1)?",
        answer=lambda: _shape(torch.ones(2, 4, 5, 6) @ torch.ones(2, 4, 7, 6).transpose(-2, -1)),
        because="One number for every query and every key, in every head: D is summed away.",
        wrong={
            "2, 4, 7, 5": "Queries come first: a row for each query.",
            "2, 4, 5, 6": "D is what the product sums over, so it is gone.",
            "2, 5, 7": "Every head keeps its own scores.",
        },
    ),
    "which-width": Question(
        "d_model is 512, and there are 8 heads. By what should each head divide its scores?",
        answer=lambda: f"{(512 // 8) ** 0.5:.0f}",
        because="A head sums over its own D = 64 products, so their spread is the root of 64.",
        choices={
            "8": "",
            "22.6": "That is the root of d_model. No head ever adds 512 products.",
            "64": "That is D itself. The spread grows with the root of D.",
            "2.8": "That is the root of the number of heads, which has no part in a dot product.",
        },
    ),
    "scale-of-one": Question(
        "All scores of a row are 100 times larger. What happens to the largest weight?",
        answer=_larger_scores,
        because="Softmax sees differences. A hundred times the difference leaves the largest with all of it.",
        choices={
            "nothing: softmax normalises": "It makes the sum 1. How the 1 is shared out depends on the differences.",
            "it gets 100 times larger": "Weights cannot exceed 1, and softmax is not linear.",
            "it comes close to 1": "",
        },
    ),
}
