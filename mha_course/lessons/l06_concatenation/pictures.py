"""Lesson 6's pictures: what each head adds, and what is lost without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.figure import Figure
from torch import Tensor

from mha_course import attention, example, plots
from mha_course.experiments.head_analysis import ablate_heads


def added_by_heads(
    added: Tensor, weights: Tensor, tokens: Sequence[str]
) -> Callable[[str], tuple[Figure, str]]:
    """Return a function for a Panel that draws the length of what each head adds to a word.

    Args: added (H, T, C), weights (H, T, S).
    """

    def draw(word: str) -> tuple[Figure, str]:
        row = tokens.index(word)
        lengths, largest = added[:, row].norm(dim=-1), weights[:, row].max(-1)
        pairs = zip(largest.values.tolist(), largest.indices.tolist(), strict=True)
        names = [
            f"head {head}, takes {weight:.2f} from “{tokens[key]}”"
            for head, (weight, key) in enumerate(pairs)
        ]
        figure = plots.token_bars({f"length of what each head adds to “{word}”": lengths}, names)
        figure.axes[0].set_xlim(0, float(added.norm(dim=-1).max()))
        return figure, (
            f"For “{word}”, head {int(lengths.argmax())} adds most ({lengths.max():.1f}). The four "
            f"together are {added[:, row].sum(0).norm():.1f} long: they point in different "
            "directions, so lengths do not add up."
        )

    return draw


def rows_without_heads() -> list[list[str]]:
    """Measure, for a hidden pronoun, each head's contribution and the guess without the head.

    Returns: rows with a sentence, the right pronoun's probability, and for each head the length of
        its contribution and the probability without it.
    """
    sentence = "the {} that chased the {} {} hungry , so <mask> ate greedily"
    rows = []
    cases = ("grey cat", "loud dogs", "it"), ("loud dogs", "grey cat", "they")
    for noun, chased, right in cases:
        for verb in ("was", "were"):
            text = sentence.format(noun, chased, verb)
            loaded = example.load(text)
            context, w_o = loaded.mha.steps(loaded.x).context, loaded.projections["w_o"]
            added = attention.head_contributions(context, w_o)[0, :, loaded.tokens.index("<mask>")]
            intact = dict(example.guess(text, 10))[right]
            row = [f"{noun} … {verb}", f"{right} {intact:.2f}"]
            for head, length in enumerate(added.norm(dim=-1)):
                ablated = ablate_heads(loaded.model, [(1, head)])
                chance = dict(example.guess(text, 10, model=ablated)).get(right, 0.0)
                row.append(f"{length:.1f}, {right} {chance:.2f}")
            rows.append(row)
    return rows
