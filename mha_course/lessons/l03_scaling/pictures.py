"""Pictures of lesson 3."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from torch import Tensor

from mha_course import plots


def products_of(
    query: Tensor, keys: Tensor, tokens: Sequence[str]
) -> Callable[[str], tuple[Axes, str]]:
    """Return a Panel's function that draws the products of a query (D,) and a key of (S, D)."""

    def draw(key: str) -> tuple[Axes, str]:
        key_vector = keys[tokens.index(key)]
        products = query * key_vector  # (D,)
        pairs = zip(query.tolist(), key_vector.tolist(), strict=True)
        ax = plots.bars(products, [f"{a:z.1f} × {b:z.1f}" for a, b in pairs], unit="product")
        ax.set(xlim=(-14, 8), ylabel=f"query of “it” × key of “{key}”")
        return ax, f"“it” meets “{key}”: the 12 products sum to {products.sum():.1f}, the score."

    return draw


def scores_as_product() -> None:
    """Draw q times k transposed as a matrix product."""
    tables = (("q", 5, 6, ("T", "D")), ("kᵀ", 6, 7, ("D", "S")), ("scores", 5, 7, ("T", "S")))
    picture = plots.product(*(plots.Matrix(*table) for table in tables))
    plots.show(
        picture,
        "q (5 by 6) times k transposed (6 by 7) gives scores (5 by 7): row t, column s is query t "
        "times key s. Every head has a product like this of its own.",
    )
