"""Pictures for the slides of lesson 0 alone."""

from __future__ import annotations

import torch

from mha_course import example, plots
from mha_course.widgets import PlaneLab

X = torch.tensor([[1.0, 0.0], [2.0, 1.0], [0.0, 2.0]])  # the tokens a, b and c, (S, C)
HIDDEN = "the grey cat that chased the loud dogs was hungry , so <mask> ate greedily"


def weights_of_head_1() -> None:
    """Show the weights of head 1 for the running example."""
    sentence = example.load()
    weights = sentence.mha.steps(sentence.x).weights[0, 1]
    picture = plots.heatmap(weights, queries=sentence.tokens, keys=sentence.tokens)
    plots.show(picture, "The weights of head 1: a row for each query, a column for each key.")


def row_of_it() -> None:
    """Show the weights of “it” in head 1."""
    sentence = example.load()
    row = sentence.mha.steps(sentence.x).weights[0, 1, sentence.tokens.index("it")]
    picture = plots.bars(row, sentence.tokens, highlight=["cat"], unit="weight")
    plots.show(picture, "The weights of “it” in head 1: nearly all of it is on “cat”.")


def guesses() -> None:
    """Show the model's guesses for the hidden word."""
    words, shares = zip(*example.guess(HIDDEN), strict=True)
    picture = plots.bars(shares, words, unit="probability")
    plots.show(picture, "The model's guesses for the hidden word, with their probabilities.")


def _show_nine(numbers: torch.Tensor, name: str) -> None:
    names = list("abc")
    picture = plots.heatmap(numbers, queries=names, keys=names, annotate=True)
    plots.show(picture, f"The nine {name} of a, b and c.")


def scores_by_hand() -> None:
    """Show the scores of the three tokens."""
    _show_nine(X @ X.T, "scores")


def scaled_by_hand() -> None:
    """Show the scaled scores of the three tokens."""
    _show_nine(X @ X.T / 2**0.5, "scaled scores")


def shares_by_hand() -> None:
    """Show the shares of the three tokens."""
    _show_nine((X @ X.T / 2**0.5).softmax(-1), "shares")


def contexts_in_the_plane() -> None:
    """Show the contexts inside the triangle of the tokens."""
    plots.show(PlaneLab().picture(), "The contexts are dots inside the triangle of the tokens.")
