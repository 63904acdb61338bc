"""The picture of lesson 2: one word in each head."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from torch import Tensor

from mha_course import plots


def shares_of(shares: Tensor, tokens: Sequence[str]) -> Callable[[str], tuple[Axes, str]]:
    """Return what draws the shares (H, T, S) of a word in each head, for a Panel."""
    heads = [f"head {head}" for head in range(len(shares))]

    def draw(word: str) -> tuple[Axes, str]:
        rows = shares[:, tokens.index(word)]  # (H, S)
        title = f"shares of “{word}”"
        ax = plots.heatmap(rows, queries=heads, keys=tokens, annotate=True, title=title)
        ax.set(xlabel="", ylabel="")
        return ax, f"The largest share of “{word}”, {plots.strongest(rows, heads, tokens)}."

    return draw
