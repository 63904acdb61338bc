"""Labs of lessons 5 and 2: the context among the values, and one projection cut into heads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mha_course.errors import ShapeError, require_float, require_shape
from mha_course.widgets.labs.controls import Drawn, Pick, Switch
from mha_course.widgets.labs.hull import hull, inside
from mha_course.widgets.labs.lab import Lab
from mha_course.widgets.labs.panels import Panels, bars, blocks, matrix, plain, plane, table

VALUES = ((2.0, 0.5), (0.6, 2.1), (-1.7, 1.3), (-1.2, -1.5), (1.3, -1.4))
WORDS = ("cat", "hungry", "ate", "chased", "dogs")
STEEPEST = 4.0  # the largest score that can be dragged
FREE = (-1.0, 1.5)  # weights that need not sum to 1
SHARES, SCORES = "the weights", "the scores"


class WeightedSumLab(Lab):
    """Drag weights, and see the context move among the values.

    Args: v, 3 to 6 values in the plane, (S, 2); tokens, their words.
    """

    question = "Where can the context go, if all you have are weights that sum to 1?"
    hint = "Drag a bar, or go to it with Tab and press ← and →. The other weights make room."

    def __init__(self, v: Any = None, tokens: Sequence[str] | None = None) -> None:
        self._v = torch.tensor(VALUES, dtype=torch.float64) if v is None else v
        require_float("WeightedSumLab", {"v": self._v})
        require_shape("WeightedSumLab", "v", self._v, {"S": None, "2": 2})
        count = len(self._v)
        names = (WORDS if v is None else [f"v{n}" for n in range(count)]) if tokens is None else tokens
        self._tokens = [str(name) for name in names]
        if not 3 <= count <= 6 or len(self._tokens) != count:
            rule, got = "every value needs its token", f"{count} values, {len(self._tokens)} tokens"
            raise ShapeError("WeightedSumLab", rule, expected="3 to 6 of both", got=got)
        if not bool(self._v.isfinite().all()):
            raise ShapeError("WeightedSumLab", "v must be finite", expected="finite numbers", got="inf or NaN")
        self._v = self._v.detach().cpu().double()
        start = [0.4, *[0.6 / (count - 1)] * (count - 1)]
        super().__init__(
            [
                Pick("drag", "drag", "choice", (SHARES, SCORES), SHARES),
                Switch("free", "let weights be negative, or not sum to 1"),
                Drawn("weights", start, self._checked),
                Drawn("scores", [math.log(share / start[0]) for share in start], self._checked),
            ]
        )

    def _checked(self, sent: Any) -> list[float | None]:
        """Return a finite number for every token; None, for what stays as it is, comes from a bar that is dragged."""
        count = len(self._tokens)
        numbers = sent.tolist() if isinstance(sent, Tensor) else sent
        whole = isinstance(numbers, list | tuple) and len(numbers) == count
        if not whole or not all(x is None or (isinstance(x, int | float) and math.isfinite(x)) for x in numbers):
            rule, got = "every token needs a number", repr(numbers)
            raise ShapeError("WeightedSumLab", rule, expected=f"{count} finite numbers", got=got)
        return [None if x is None else float(x) for x in numbers]

    def settle(self, values: dict[str, Any], moved: Mapping[str, Any]) -> dict[str, Any]:
        """Keep weights, scores and the two switches in step: only weights that are dragged can be free."""
        if moved.get("free") or "weights" in moved:
            values = {**values, "drag": SHARES}
        elif moved.get("drag") == SCORES or "scores" in moved:
            values = {**values, "drag": SCORES, "free": False}
        (low, high), weights = FREE, _kept(values["weights"], self.values["weights"])
        scores = [max(-STEEPEST, min(STEEPEST, x)) for x in _kept(values["scores"], self.values["scores"])]
        if values["drag"] == SCORES and "drag" not in moved:
            weights = torch.tensor(scores, dtype=torch.float64).softmax(-1).tolist()
        elif values["free"]:
            weights = [max(low, min(high, x)) for x in weights]
        else:
            weights = shared(weights, self.values["weights"])
        if values["drag"] == SHARES or "drag" in moved:
            top = max(weights)
            scores = [max(-STEEPEST, math.log(x / top)) if x > 0 else -STEEPEST for x in weights]
        return {**values, "weights": weights, "scores": scores}

    def draw(self, drag: str, free: bool, weights: list[float], scores: list[float]) -> tuple[Panels, str]:
        """Draw the bars that can be dragged, and the plane."""
        shares, around = torch.tensor(weights, dtype=torch.float64), hull(self._v)
        context = shares @ self._v  # (2,)
        low, high = FREE if free else (0.0, 1.0)
        total = f"sum {sum(weights):.2f}"
        if drag == SCORES:
            left = [
                bars("scores", self._tokens, scores, low=-STEEPEST, high=STEEPEST, drag="scores"),
                bars(f"weights that softmax makes, {total}", self._tokens, weights),
            ]
        else:
            left = [bars(f"weights, {total}", self._tokens, weights, low=low, high=high, drag="weights")]
        holds = inside(context, around)
        reach = 1.15 * float(self._v.abs().max()) or 1.0
        picture = plane("values, and the context they make", self._tokens, self._v, context, around,
                        reach=plain(reach), inside=holds, weights=plain(shares),
                        note="Dashed: each value times its weight, head to tail. Shaded: the hull.")  # fmt: skip
        away = (self._v - context).norm(dim=-1)
        near = int(away.argmin())
        told = ", ".join(f"{word} {share:.2f}" for word, share in zip(self._tokens, weights, strict=True))
        return (*left, picture), (
            f"Weights {told}: the context is ({context[0]:.2f}, {context[1]:.2f}), {'inside' if holds else 'outside'} "
            f"the hull of the values. The nearest value is that of “{self._tokens[near]}”, {away[near]:.2f} away."
        )


def _kept(numbers: Sequence[float | None], before: Sequence[float]) -> list[float]:
    """Fill in what was not moved."""
    return [then if now is None else now for now, then in zip(numbers, before, strict=True)]


def shared(weights: Sequence[float], before: Sequence[float]) -> list[float]:
    """Return weights from 0 to 1 that sum to 1: the one that moved keeps its size, the others make room.

    >>> shared([0.5, 0.25, 0.5], before=[0.25, 0.25, 0.5])
    [0.5, 0.16666666666666666, 0.3333333333333333]
    """
    kept = [min(1.0, max(0.0, x)) for x in weights]
    moved = [i for i, (now, then) in enumerate(zip(weights, before, strict=True)) if now != then]
    if len(moved) == 1:
        one = moved[0]
        rest, room = sum(kept) - kept[one], 1 - kept[one]
        even = room / (len(kept) - 1)
        return [kept[i] if i == one else kept[i] * room / rest if rest > 0 else even for i in range(len(kept))]
    total = sum(kept)
    return [x / total if total > 0 else 1 / len(kept) for x in kept]


class SplitLab(Lab):
    """Cut one projection into heads, and see what it changes and what it leaves.

    Args: d_model is C, from 2 to 64. The projections and 5 tokens are drawn once, and stay the same for every H.
    """

    question = "What changes when the same projection is cut into more heads?"
    TOKENS = 5

    def __init__(self, d_model: int = 24) -> None:
        if not isinstance(d_model, int) or isinstance(d_model, bool) or not 2 <= d_model <= 64:
            rule, got = "d_model must be drawn cell by cell", f"d_model={d_model!r}"
            raise ShapeError("SplitLab", rule, expected="an int from 2 to 64", got=got)
        self._width, generator = d_model, torch.Generator().manual_seed(0)
        shapes = (self.TOKENS, d_model), (d_model, d_model), (d_model, d_model)
        x, w_q, w_k = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes)
        self._w_q, self._w_k = w_q / d_model**0.5, w_k / d_model**0.5  # q and k have variance 1
        self._q, self._k = x @ self._w_q.T, x @ self._w_k.T  # (S, C)
        heads = tuple(n for n in range(1, d_model + 1) if d_model % n == 0)
        super().__init__([Pick("num_heads", "H, heads", "slider", heads, max(n for n in heads if n * n <= d_model))])

    def weights(self, num_heads: int) -> Tensor:
        """Return the weights of every head, (H, S, S)."""
        q, k = (full.unflatten(1, (num_heads, -1)).transpose(0, 1) for full in (self._q, self._k))  # (H, S, D)
        return (q @ k.mT / q.size(-1) ** 0.5).softmax(-1)  # (H, S, S)

    def ranks(self, num_heads: int) -> Tensor:
        """Return the rank of the form with which each head compares, (H,)."""
        w_q, w_k = (full.unflatten(0, (num_heads, -1)) for full in (self._w_q, self._w_k))  # (H, D, C)
        return torch.linalg.matrix_rank(w_q.mT @ w_k)

    def draw(self, num_heads: int) -> tuple[Panels, str]:
        """Draw the rows in their blocks, the vector that comes out, and what each head makes of it."""
        width, tokens = self._width, self.TOKENS
        head_dim, parameters = width // num_heads, 4 * width * width + 4 * width
        names, weights = [str(n) for n in range(tokens)], self.weights(num_heads)
        one, rank = num_heads == 1, int(self.ranks(num_heads).max())
        rows = [
            ["D = C / H", f"{head_dim}"],
            ["attention patterns", f"{num_heads}"],
            ["scores, H · S · S", f"{num_heads} · {tokens} · {tokens} = {num_heads * tokens**2}"],
            ["parameters, all four Linears", f"{parameters:,}"],
            ["rank of a head's form W_Qᵀ W_K", f"{rank}, at most D = {head_dim}"],
        ]
        note = f"S = {tokens} tokens; biases are counted."
        group = f"what each head makes of the same {tokens} tokens: its weights"
        grid = [
            matrix(f"head {n}", names, names, weights[n], size="tiny", head=n, group=group) for n in range(num_heads)
        ]  # head: the colour of its title is that of its rows
        return (
            blocks(f"C = {width} rows of W_Q, and the query they make", width, num_heads),
            table("what H changes", ("", ""), rows, note),
            *grid,
        ), (
            f"H = {num_heads}: {'one head has all' if one else f'each of {num_heads} heads has'} D = {head_dim} of "
            f"{width} rows and makes {'one pattern' if one else 'a pattern of its own'}. Parameters: {parameters:,}, "
            f"the same for every H. Scores: {num_heads * tokens**2}. A head compares with a form of rank {rank}."
        )
