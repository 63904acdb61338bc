"""The predictions of lesson 16, why many heads, as data. Right answers are computed, not typed."""

from __future__ import annotations

import torch

from mha_course.exercises.asking import Question
from mha_course.experiments.head_tasks import TwoTokenSum, learn

_SAME, _DIFFERENT, _ONE_DIES = (
    "bit for bit the same",
    "each has found a place of its own",
    "one has switched itself off",
)


def _best_of_one() -> str:
    """Try all shares of a and b, and the best factor for each: what share of c_a - c_b can the mixture explain?"""
    a, b = torch.cartesian_prod(*[torch.linspace(0, 1, 11)] * 2)[1:].T  # never negative
    best = float(((a - b).square() / (2 * (a.square() + b.square()))).max())
    return min(("about 0", "about ½", "about 1"), key=lambda choice: abs(_NUMBER[choice] - best))


_NUMBER = {"about 0": 0.0, "about ½": 0.5, "about 1": 1.0}


def _twins() -> str:
    """Train two heads that start alike for a few steps, and compare what they have become."""
    attention = learn(TwoTokenSum(), 2, runs=1, steps=5, count=8, identical_heads=True).attention
    heads = [weight.unbind(1) for weight in attention.parameters() if weight.dim() > 2]
    if all(torch.equal(one, two) for one, two in heads):
        return _SAME
    return _ONE_DIES if any(float(two.abs().max()) < 1e-3 for _, two in heads) else _DIFFERENT


def _without_query() -> str:
    """Set q to 0 and compare the context with the mean of the values."""
    k, v = torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(0))
    context = (torch.zeros(1, 6) @ k.mT).softmax(-1) @ v
    return "the mean of all values" if torch.allclose(context[0], v.mean(0), atol=1e-6) else "nothing"


def _free_directions() -> str:
    """Count the directions in which a row of 15 weights may move unseen, for values of width 12."""
    v = torch.randn(15, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    kept = torch.cat((v, torch.ones_like(v[:, :1])), dim=1)  # (S, D+1)
    return str(15 - int(torch.linalg.matrix_rank(kept)))


QUESTIONS: dict[str, Question] = {
    "one-head-difference": Question(
        "One head, as wide as d_model, is trained to return c_a − c_b, with contents of 6 numbers. Which R² can it "
        "reach? (1 is perfect, 0 no better than always guessing the mean.)",
        answer=_best_of_one,
        because="Its best is to fetch one of the two, and to know nothing of the other: half of the variance.",
        choices={
            "about 0": "It can do something: fetch c_a alone. How much of c_a − c_b does that explain?",
            "about ½": "",
            "about 1": "For that, c_b would need a negative share. The shares of one head are never negative.",
        },
    ),
    "twin-heads": Question(
        "Two heads start with the same numbers, and are trained on c_a − c_b, which needs two different heads. What "
        "are they afterwards?",
        answer=_twins,
        because="The same numbers give the same output, so the same gradient, so the same step. Nothing parts them.",
        choices={
            _DIFFERENT: "What would make the first of the two go one way, and the second another? Their gradients "
            "are equal.",
            _SAME: "",
            _ONE_DIES: "What happens to one happens to the other, since their gradients are equal.",
        },
    ),
    "zero-query": Question(
        "To silence a head, you set its q to 0. What is its context now?",
        answer=_without_query,
        because="All scores are 0, so all weights are alike. The head goes on: it adds the mean of its values.",
        choices={
            "nothing": "Scores of 0 are not weights of 0: softmax makes all weights alike, and they sum to 1.",
            "the mean of all values": "",
            "the value of the first token": "Nothing prefers the first token: all scores are 0, so all are alike.",
        },
    ),
    "free-directions": Question(
        "A head has D = 12 and reads S = 15 tokens; all weights of a row are above 0. In how many independent "
        "directions can the row move, a little, so that neither its context nor its sum changes?",
        answer=_free_directions,
        because="15 numbers must meet 12 conditions for the context and 1 for the sum: 15 − 13 = 2 are free.",
        wrong={
            "3": "The context takes 12 conditions. The sum of the row, which must stay 1, takes one more.",
            "0": "15 numbers, and fewer conditions than that: some freedom is left.",
            "12": "That is how many conditions the context makes. How many numbers may move, and how many are bound?",
            "13": "That is how many conditions there are. How many numbers are there?",
        },
        nudge="Count the numbers that may move, and take away one for each condition that they must meet.",
    ),
}
