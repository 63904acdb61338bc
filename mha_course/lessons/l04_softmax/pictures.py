"""The picture of lesson 4: one row, before and after softmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.figure import Figure
from torch import Tensor

from mha_course import plots


def rows_of(
    scores: Tensor, weights: Tensor, tokens: Sequence[str]
) -> Callable[[str], tuple[Figure, str]]:
    """Return what draws a word's scaled scores and weights, each table (T, S), for a Panel."""

    def draw(word: str) -> tuple[Figure, str]:
        row = tokens.index(word)
        best, second = weights[row].topk(2).indices.tolist()
        panels = {
            f"scaled scores of “{word}”": scores[row],
            f"weights of “{word}”": weights[row],
        }
        figure = plots.token_bars(panels, tokens, highlight=[tokens[best]])
        figure.axes[0].set_xlim(-8, 8)
        figure.axes[1].set_xlim(0, 1)
        lead = scores[row, best] - scores[row, second]
        return figure, (
            f"“{word}”: the score of “{tokens[best]}” leads that of “{tokens[second]}” by "
            f"{lead:.1f}; the weights are {weights[row, best]:.2f} and {weights[row, second]:.2f}."
        )

    return draw
