"""Pictures of lesson 5: how one context is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import seaborn as sns
from matplotlib.figure import Figure
from torch import Tensor

from mha_course.colours import ACCENT, INK
from mha_course.plots import strongest
from mha_course.plots.figures import SMALL, TEXT, new_figure, signed_colormap
from mha_course.plots.inputs import numbered


def weighted_sum(weights: Tensor, v: Tensor, names: Sequence[str]) -> Figure:
    """Draw how one context is made: the weights, the values, their products, and the sum.

    Args: weights (S,) of one query, v (S, D), and the S tokens.
    """
    figure = new_figure(10.5, 5.2)
    axes = figure.subplots(2, 3, width_ratios=(1, 2, 2), height_ratios=(len(names), 1))
    bars, values, products = axes[0]
    limit = float(v.abs().max())
    style = {"cmap": signed_colormap(), "vmin": -limit, "vmax": limit}
    bars.barh(range(len(names)), weights.tolist(), color=ACCENT)
    bars.set(ylim=(len(names) - 0.5, -0.5), xlim=(0, 1))
    bars.set_yticks(range(len(names)), numbered(names), fontsize=SMALL, parse_math=False)
    sns.despine(ax=bars)
    values.pcolormesh(v.detach().numpy(), **style)
    mesh = products.pcolormesh((weights[:, None] * v).detach().numpy(), **style)
    axes[1, 2].pcolormesh((weights @ v)[None].detach().numpy(), **style)
    for ax in (values, products):
        ax.invert_yaxis()  # the first token is at the top
    titles = ("weights", "×  values v", "=  weight × value", "", "", "their sum: the context")
    for ax, title in zip(axes.flat, titles, strict=True):
        ax.set_title(title, fontsize=TEXT, loc="left", color=INK)
        if ax is not bars:
            ax.set(xticks=[], yticks=[])
    for ax in axes[1, :2]:
        ax.axis("off")
    figure.colorbar(mesh, ax=axes[:, 2], aspect=30)
    return figure


def contexts_of(
    weights: Tensor, v: Tensor, tokens: Sequence[str]
) -> Callable[[str], tuple[Figure, str]]:
    """Return a function for a Panel that draws how weights (T, S) and v (S, D) make a context."""

    def draw(word: str) -> tuple[Figure, str]:
        row = weights[tokens.index(word)]
        return weighted_sum(row, v, tokens), (
            f"Left the weights of “{word}”, middle all values, right each value times its weight, "
            f"and their sum below. Largest weight: {strongest(row[None], [word], tokens)}."
        )

    return draw
