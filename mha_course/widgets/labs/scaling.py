"""Labs of lessons 3 and 4: what the scores are divided by, and what softmax makes of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from mha_course import plots
from mha_course.errors import ShapeError, require_float, require_shape
from mha_course.experiments import scaling
from mha_course.experiments.scaling import KEYS, Saturation
from mha_course.widgets.labs.controls import Pick
from mha_course.widgets.labs.lab import Lab, Own
from mha_course.widgets.labs.panels import Panels, bars, lines, matrix, table

WIDTHS = (8, 16, 32, 64, 128, 256, 512, 1024)
DIVISORS = ("√D", "nothing", "D", "√d_model")
YOURS = "yours"
SHOWN = 12  # weights of one row that are drawn
# What can be followed along D: its name, and the lines with what each is of a measurement.
CURVES: dict[str, dict[str, Callable[[Saturation], float]]] = {
    "gradient at the softmax's input": {
        "median": lambda found: float(found.at_scores.median()),
        "mean": lambda found: float(found.at_scores.mean()),
    },
    "gradient at q": {
        "median": lambda found: float(found.at_q.median()),
        "mean": lambda found: float(found.at_q.mean()),
    },
    "spread of the scores": {"spread": lambda found: found.spread},
    "entropy": {"entropy": lambda found: found.entropy},
    "saturated rows": {"saturated rows": lambda found: found.saturated},
}


class ScalingLab(Lab):
    """Divide scores of unit-normal q and k by different numbers, at different widths.

    Args:
        scores: your ``scaled_scores(q, k)``, one more thing to divide by: ``yours``.
        softmax: your ``softmax(scores)``, in the place of torch's.
        num_heads: H, for d_model = H · D.
    The set-up is that of ``experiments``: 400 queries, each with 64 keys of its own; values of width 16.
    """

    question = "Which divisor keeps softmax awake at every width D?"

    def __init__(self, *, scores: Any = None, softmax: Any = None, num_heads: int = 8) -> None:
        if not isinstance(num_heads, int) or num_heads < 1:
            rule, got = "num_heads must be a positive int", f"num_heads={num_heads!r}"
            raise ShapeError("ScalingLab", rule, expected="num_heads >= 1", got=got)
        self._scores = Own("ScalingLab", "scaled_scores", scores, lambda q, k: q @ k.mT / math.sqrt(q.size(-1)))
        self._softmax = Own("ScalingLab", "softmax", softmax, lambda s: s.softmax(-1))
        self._heads, self._found = num_heads, dict[str, list[Saturation]]()
        options = DIVISORS if scores is None else (*DIVISORS, YOURS)
        super().__init__(
            [
                Pick("head_dim", "D", "slider", WIDTHS, 64),
                Pick("divide_by", "divide by", "choice", options, "nothing" if scores is None else YOURS),
                Pick("follow", "follow along D", "menu", tuple(CURVES), next(iter(CURVES))),
            ]
        )

    def draw(self, head_dim: int, divide_by: str, follow: str) -> tuple[Panels, str]:
        """Draw one row's weights, the measurements, and one of them along D."""
        at, along = WIDTHS.index(head_dim), self._measured(divide_by)
        found = along[at]
        row = found.weights[0, :SHOWN]
        names = [f"{n + 1}." for n in range(SHOWN)]
        panels = (
            bars(f"one query: its {SHOWN} largest of {KEYS} weights", names, row, lit=[0]),
            self._table(found),
            self._curve(follow, divide_by, at),
        )
        said = (self._scores.said if divide_by == YOURS else "") + self._softmax.said
        by = "scaled by your scaled_scores" if divide_by == YOURS else f"divided by {divide_by}"
        return panels, (
            f"D = {head_dim}, {by}: the scores spread by {found.spread:.2f}, the largest weight is {found.top:.2f} "
            f"on average, the entropy {found.entropy:.2f} of at most {math.log(KEYS):.2f} nats; {found.saturated:.0%} "
            f"of the rows give one key more than .99. Gradient at the softmax's input: median "
            f"{found.at_scores.median():.3f}, mean {found.at_scores.mean():.3f}. Over 400 queries.{said}"
        )

    def _measured(self, divide_by: str) -> list[Saturation]:
        """Return what was measured at each width. It is measured once: every later move only looks it up."""
        if divide_by not in self._found:
            if divide_by == YOURS:
                self._found[YOURS] = [self._own(scaling.draw(width)) for width in WIDTHS]
            else:
                every = [self._by_divisors(width) for width in WIDTHS]
                self._found |= {name: [found[i] for found in every] for i, name in enumerate(DIVISORS)}
        return self._found[divide_by]

    def _by_divisors(self, width: int) -> list[Saturation]:
        """Measure all divisors at one width."""
        divisors = list(scaling.divisors(width, self._heads).values())
        return scaling.by_divisors(scaling.draw(width), divisors, self._soft)

    def _own(self, drawn: scaling.Draws) -> Saturation:
        """Measure the learner's scaled scores at one width."""
        return scaling.measure(drawn, lambda q, k: self._scores(q, k, shape=(len(q), 1, 1, KEYS)), self._soft)[0]

    def _soft(self, scores: Tensor) -> Tensor:
        """Turn scores into weights."""
        return self._softmax(scores, shape=scores.shape)

    def _table(self, found: Saturation) -> dict[str, Any]:
        """Set the measurements beside each other."""
        rows = [
            ["spread of the scores", f"{found.spread:.2f}"],
            ["largest weight, mean", f"{found.top:.2f}"],
            [f"entropy, mean, of at most {math.log(KEYS):.2f}", f"{found.entropy:.2f}"],
            ["rows with a weight above .99", f"{found.saturated:.0%}"],
        ]
        for place, lengths in (("the softmax's input", found.at_scores), ("q", found.at_q)):
            rows.append([f"gradient at {place}", f"{lengths.median():.3f}", f"{lengths.mean():.3f}"])
        note = "Unit-normal q and k, values of width 16, a unit-normal gradient at the context."
        return table("over 400 queries", ("", "median", "mean"), rows, note)

    def _curve(self, follow: str, divide_by: str, at: int) -> dict[str, Any]:
        """Follow one measurement along D, and that of √D faintly beside it."""
        drawn = [
            {"name": f"{name}, ÷ √D", "style": "faint", "values": list(map(read, self._measured("√D")))}
            for name, read in list(CURVES[follow].items())[:1]
            if divide_by != "√D"
        ]
        styles = zip(CURVES[follow].items(), ("main", "dashed"), strict=False)
        drawn += [
            {"name": name, "style": style, "values": list(map(read, self._measured(divide_by)))}
            for (name, read), style in styles
        ]
        by = YOURS if divide_by == YOURS else f"÷ {divide_by}"
        return lines(f"{follow}, {by}", WIDTHS, drawn, at=at, xlabel="D")


class SoftmaxLab(Lab):
    """Turn scores into weights: at a temperature, over an axis, with something added to all of them.

    Args:
        scores: scaled scores (T, S) with T = S, of one head; axes of size 1 in front are dropped.
        tokens: the S words. word: whose row is drawn at the start, by default the first.
        softmax: your ``softmax(scores)``, in the place of torch's.
    """

    question = "What changes the weights of a row, and what leaves them alone?"
    hint = "Click a row of the matrix, or walk there with ↑ and ↓, to choose its word."

    def __init__(self, scores: Any, tokens: Sequence[str], *, softmax: Any = None, word: str | None = None) -> None:
        self._scores, self._tokens = scores_and_tokens("SoftmaxLab", scores, tokens)
        self._softmax = Own("SoftmaxLab", "softmax", softmax, lambda s: s.softmax(-1))
        if word is not None and word not in self._tokens:
            rule, expected = "word must be one of the tokens", ", ".join(dict.fromkeys(self._tokens))
            raise ShapeError("SoftmaxLab", rule, expected=expected, got=repr(word))
        places, start = tuple(range(len(self._tokens))), 0 if word is None else self._tokens.index(word)
        temperatures = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
        self._keys, self._queries = "the keys (dim=-1)", "the queries (dim=-2)"
        super().__init__(
            [
                Pick("word", "word", "menu", places, start, tuple(self._tokens)),
                Pick("temperature", "temperature", "slider", temperatures, 1.0, tuple(f"{t:g}" for t in temperatures)),
                Pick("shift", "add to all scores", "slider", (-1000, -100, -10, -1, 0, 1, 10, 100, 1000), 0),
                Pick("over", "softmax over", "choice", (self._keys, self._queries), self._keys),
            ]
        )

    def draw(self, word: int, temperature: float, shift: int, over: str) -> tuple[Panels, str]:
        """Draw the scores and weights of one word, and all weights with their sums."""
        moved = (self._scores + shift) / temperature  # (T, S)
        turned = over == self._queries
        inputs = (moved.mT if turned else moved)[None, None]
        weights = self._softmax(inputs, shape=inputs.shape)[0, 0].detach()
        weights = weights.mT if turned else weights  # (T, S)
        row, tokens = weights[word], self._tokens
        top = max(1.0, float(row.nan_to_num().max()))
        inputs_row, reach = self._scores[word] / temperature, float((self._scores / temperature).abs().max()) or 1.0
        note = _shifted(shift, temperature)
        sums: dict[str, Any] = {"rows_sum": _sums(weights, 1), "columns_sum": _sums(weights, 0)}
        panels = (
            bars(f"scores of “{tokens[word]}”", tokens, inputs_row, low=-reach, high=reach, note=note),
            bars(f"weights of “{tokens[word]}”: sum {float(row.sum()):.2f}", tokens, row, high=top),
            matrix("all weights, with their sums", tokens, tokens, weights, lit=word, pick="word", **sums),
        )
        return panels, self._sentence(word, weights, turned) + self._softmax.said

    def _sentence(self, word: int, weights: Tensor, turned: bool) -> str:
        """Read the row of a word, and the sums of all."""
        row, tokens = weights[word], self._tokens
        if not bool(row.isfinite().all()):
            return f"“{tokens[word]}”: the weights are not numbers (NaN): e to such scores overflows."
        looks = plots.strongest(row[None], [tokens[word]], tokens)
        sums = weights.sum(0 if turned else 1)
        other = weights.sum(1 if turned else 0)
        one, two = ("column", "rows") if turned else ("row", "columns")
        even = "1.00" if torch.allclose(sums, torch.ones_like(sums), atol=5e-3) else _range(sums)
        entropy = float(torch.special.entr(row).sum())
        read = f"; entropy {entropy:.2f} of at most {math.log(len(tokens)):.2f} nats" if not turned else ""
        return (
            f"{looks}; the row sums to {float(row.sum()):.2f}{read}. Every {one} sums to {even}, "
            f"{two} to {_range(other)}."
        )


def _sums(weights: Tensor, dim: int) -> list[str]:
    """Write the sums along an axis."""
    return [f"{total:.2f}" if math.isfinite(total) else "NaN" for total in weights.sum(dim).tolist()]


def _range(numbers: Tensor) -> str:
    """Write the smallest and the largest number."""
    return f"{float(numbers.min()):.2f} … {float(numbers.max()):.2f}"


def _shifted(shift: int, temperature: float) -> str:
    """Say what was done to the scores before they are drawn."""
    done = [f"divided by {temperature:g}"] if temperature != 1 else []
    done += [f"drawn without the {shift} added to each"] if shift else []
    return ", ".join(done)


def scores_and_tokens(place: str, scores: Any, tokens: Sequence[str], most: int = 32) -> tuple[Tensor, list[str]]:
    """Return the scores (S, S) and the tokens as words, or raise ShapeError."""
    require_float(place, {"scores": scores})
    while scores.dim() > 2 and scores.size(0) == 1:
        scores = scores[0]
    words = [str(token) for token in ([] if tokens is None or isinstance(tokens, str) else tokens)]
    if not 1 <= len(words) <= most:
        rule, got = "tokens must be a list of words", f"{len(words)} tokens" if words else repr(tokens)
        raise ShapeError(place, rule, expected=f"1 to {most} tokens", got=got)
    fix = "scores[0, 0], one head of one sentence" if scores.dim() > 2 else None
    require_shape(place, "scores", scores, {"T": len(words), "S": len(words)}, fix)
    if not bool(scores.isfinite().all()):
        rule, fix = "scores must be finite", "the scaled scores, before a mask hides any"
        raise ShapeError(place, rule, expected="finite numbers", got="inf or NaN among them", fix=fix)
    return scores.detach().cpu(), words
