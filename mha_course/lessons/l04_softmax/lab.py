"""The lab of lesson 4: what softmax does to scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mha_course import plots
from mha_course.errors import require
from mha_course.markup import isolate_word
from mha_course.widgets.base import esm
from mha_course.widgets.controls import Control
from mha_course.widgets.labs.inputs import scores_and_tokens
from mha_course.widgets.labs.lab import Lab
from mha_course.widgets.labs.panels import Panels, bars, matrix
from mha_course.widgets.learner_function import LearnerFunction

HERE = Path(__file__).parent
MARGIN = 42  # pixels for the sums, next to the matrix and below it


class SoftmaxLab(Lab):
    """Turn scores into weights: at a temperature, over an axis, with a constant added to all of
    them.

    Args:
        scores: scaled scores (T, S) with T = S, of one head; axes of size 1 in front are dropped.
        tokens: the S words. word: the word whose row is drawn at first, by default the first.
        softmax: your ``softmax(scores)``, in place of torch's.
    """

    question = "What changes the weights of a row, and what leaves them unchanged?"
    hint = "Choose a row of the matrix to follow its word."
    keys_hint = "↑ and ↓ go on from it."
    _esm = esm("lab.js", folder=HERE)
    _css = f"{Lab._css}\n{(HERE / 'lab.css').read_text(encoding='utf-8')}"

    def __init__(
        self, scores: Any, tokens: Sequence[str], *, softmax: Any = None, word: str | None = None
    ) -> None:
        self._scores, self._tokens = scores_and_tokens("SoftmaxLab", scores, tokens)
        self._softmax = LearnerFunction("SoftmaxLab", "softmax", softmax, lambda s: s.softmax(-1))
        words = [str(token) for token in tokens]
        rule = "word must be one of the tokens"
        expected = ", ".join(dict.fromkeys(words))
        require(
            word is None or word in words, "SoftmaxLab", rule, expected=expected, got=repr(word)
        )
        places = tuple(range(len(words)))
        start = 0 if word is None else words.index(word)
        temperatures = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
        written = tuple(f"{temperature:g}" for temperature in temperatures)
        self._keys = "the keys (dim=-1)"
        self._queries = "the queries (dim=-2)"
        super().__init__(
            [
                Control("word", "word", "menu", start, places, tuple(self._tokens)),
                Control("temperature", "temperature", "slider", 1.0, temperatures, written),
                Control(
                    "shift",
                    "add to all scores",
                    "slider",
                    0,
                    (-1000, -100, -10, -1, 0, 1, 10, 100, 1000),
                ),
                Control("over", "softmax over", "choice", self._keys, (self._keys, self._queries)),
            ]
        )

    def draw(self, word: int, temperature: float, shift: int, over: str) -> tuple[Panels, str]:
        """Draw one word's scores and weights, and all weights with their sums."""
        moved = (self._scores + shift) / temperature  # (T, S)
        over_queries = over == self._queries
        inputs = (moved.mT if over_queries else moved)[None, None]
        weights = self._softmax.tensor(inputs, shape=inputs.shape)[0, 0].detach()
        weights = weights.mT if over_queries else weights  # (T, S)
        row = weights[word]
        tokens = self._tokens
        name = isolate_word(self._tokens[word])
        top = max(1.0, float(row.nan_to_num().max()))
        inputs_row = self._scores[word] / temperature
        reach = float((self._scores / temperature).abs().max()) or 1.0
        notes = [f"divided by {temperature:g}"] if temperature != 1 else []
        notes += [f"without the {shift} added to each"] if shift else []
        sums: dict[str, Any] = {"rows_sum": _sums(weights, 1), "columns_sum": _sums(weights, 0)}
        sums["margin"] = MARGIN
        panels = (
            bars(
                f"scores of “{name}”",
                tokens,
                inputs_row,
                low=-reach,
                high=reach,
                note=", ".join(notes),
            ),
            bars(f"weights of “{name}”: sum {float(row.sum()):.2f}", tokens, row, high=top),
            matrix(
                "all weights",
                tokens,
                tokens,
                weights,
                highlighted=word,
                pick="word",
                **sums,
            ),
        )
        return panels, self._sentence(word, weights, over_queries) + self._softmax.caption

    def _sentence(self, word: int, weights: Tensor, over_queries: bool) -> str:
        row = weights[word]
        tokens = self._tokens
        if not bool(row.isfinite().all()):
            return (
                f"“{isolate_word(tokens[word])}”: the weights are not numbers (NaN): "
                "exp of such scores overflows."
            )
        largest = plots.strongest(row[None], [tokens[word]], tokens)
        sums = weights.sum(0 if over_queries else 1)
        cross_sums = weights.sum(1 if over_queries else 0)
        summed, others = ("column", "rows") if over_queries else ("row", "columns")
        even = "1.00" if torch.allclose(sums, torch.ones_like(sums), atol=5e-3) else _range(sums)
        entropy = float(torch.special.entr(row).sum())
        most = math.log(len(tokens))
        read = f"; entropy {entropy:.2f}, where 0 is all on one word and {most:.2f} spread evenly"
        read = "" if over_queries else read
        return (
            f"{largest}; the row sums to {float(row.sum()):.2f}{read}. "
            f"Every {summed} sums to {even}, {others} to {_range(cross_sums)}."
        )


def _sums(weights: Tensor, dim: int) -> list[str]:
    return [
        f"{total:.2f}" if math.isfinite(total) else "NaN" for total in weights.sum(dim).tolist()
    ]


def _range(numbers: Tensor) -> str:
    return f"{float(numbers.min()):.2f} … {float(numbers.max()):.2f}"
