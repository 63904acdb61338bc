"""Lesson 16, Why many heads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from mha_course.exercises.inputs import B, D, H, S, T, draw, weights
from mha_course.exercises.spec import Exercise, Lesson, mistake, question


def relation_score(weights: Tensor, pairs: Sequence[tuple[int, int]]) -> Tensor:
    """Return how much each head (H, S, S) looks along the pairs (from, to) on average, (H,)."""
    queries, keys = zip(*pairs, strict=True)
    return weights[:, list(queries), list(keys)].mean(-1)  # (H,)


def ablate_heads(context: Tensor, heads: Sequence[int]) -> Tensor:
    """Return the context (B, H, S, D) with these heads set to 0."""
    silenced = context.clone()
    silenced[:, list(heads)] = 0.0
    return silenced


def other_weights(weights: Tensor, v: Tensor) -> Tensor:
    """Return weights (T, S), of other sizes, that mix v (S, D) into the very same context.

    Each weight is multiplied by 1 + a factor. The changes, weight · factor, must lie in the null space of
    [V, 1], so that neither the context nor the sum moves. Of all such factors of length 1 those that change
    most are taken, as often as no weight falls below 0. A row that rests on D + 1 tokens or fewer stays.
    """
    weights_64 = weights.double()  # (T, S)
    v_and_ones = torch.cat((v, torch.ones_like(v[:, :1])), dim=1).double()  # (S, D+1)
    mixed = (weights_64[:, :, None] * v_and_ones).mT  # (T, D+1, S), times the factors is what they add
    null_space = torch.linalg.svd(mixed).Vh[:, v_and_ones.size(1) :]  # (T, S-D-1, S), one basis for each row
    best = torch.linalg.svd(null_space * weights_64[:, None]).U[:, :, :1]  # (T, S-D-1, 1)
    factors = (null_space.mT @ best).squeeze(-1)  # (T, S)
    largest, smallest = factors.amax(-1, keepdim=True), factors.amin(-1, keepdim=True)  # (T, 1)
    limit = torch.where(largest < -smallest, -largest, -smallest)  # (T, 1), in the direction that goes further
    factors = torch.where(limit.abs() > 1e-6, factors / limit, 0.0)  # (T, S), less is nothing but rounding
    return (weights_64 * (1 + factors)).to(weights.dtype)  # (T, S)


LEAST = 1e-6  # what moves less is rounding


def same_context(answer: Callable[..., Any], weights_: Tensor, v: Tensor) -> Any:
    """Return what other weights must keep, and two numbers that say whether they are weights, and others."""
    other = answer(weights_, v)
    if not isinstance(other, Tensor) or other.shape != weights_.shape:
        return other
    other = other.to(v.dtype)
    kept = (other @ v, other.sum(-1))
    flags = ((other < -LEAST).sum(), ((other - weights_).abs().amax() <= LEAST).sum())
    return (*kept, torch.stack([flag.to(v.dtype) for flag in flags]))


def _not_other_weights(answer: Callable[..., Any], weights_: Tensor, v: Tensor) -> tuple[str | None, str] | None:
    """Say in words what the results of same_context say in numbers."""
    other = answer(weights_, v)
    if not isinstance(other, Tensor) or other.shape != weights_.shape:
        got = tuple(other.shape) if isinstance(other, Tensor) else type(other).__name__
        return None, f"It should return weights of shape {tuple(weights_.shape)}, as they came in, and returned {got}."
    other = other.detach().to(v.dtype)
    if not other.isfinite().all():
        return None, "Some of the weights are NaN or inf. Was anything divided by 0?"
    if (other - weights_).abs().amax() <= LEAST:
        return "same-weights", (
            "These are the weights that came in: none has moved by more than 0.000001. Add to each row a step along a "
            "direction that changes neither its context nor its sum."
        )
    if (other < -LEAST).any():
        return "negative-weights", (
            f"{int((other < -LEAST).sum())} weights are negative, down to {float(other.min()):.2g}. Take a shorter "
            "step: stop before the first weight of the row reaches 0."
        )
    if ((other.sum(-1) - 1).abs() > LEAST).any():
        row = int((other.sum(-1) - 1).abs().argmax())
        return "sum-moved", (
            f"Rows do not sum to 1 any more: row {row} sums to {float(other[row].sum()):.4g}. Put a column of ones "
            "beside v when you look for the direction: then it keeps the sum as well."
        )
    moved = float((other @ v - weights_ @ v).abs().amax())
    return "context-moved", (
        f"They are weights, but the context has moved, by up to {moved:.2g}. What you add to a row must give 0 when "
        "it is multiplied by v."
    )


def _ablate_axis(context: Tensor, heads: Any, axis: int) -> Tensor:
    return context.index_fill(axis, torch.as_tensor(heads), 0.0)


ABLATION = "16, Why many heads: Ablation: what breaks without a head"
RELATION = "16, Why many heads: Do it: one number for each head"
MISTAKES = [
    mistake("ablate-in-place", "The context itself was changed.",
        "Work on a copy, so that other heads can be tried: clone().", ABLATION,
        stage="input", only=("ablate_heads",)),
    mistake("ablate-wrong-axis", "Something else than heads was silenced.",
        "Heads are axis 1 of (B, H, S, D).", ABLATION,
        ablate_heads=[lambda c, h: _ablate_axis(c, h, 2), lambda c, h: _ablate_axis(c, h, 3),
                      lambda c, h: _ablate_axis(c, [i for i in h if i < c.size(0)], 0)]),
    mistake("ablate-wrong-axis", "A head was looked for on an axis that is shorter.",
        "Heads are axis 1 of (B, H, S, D): context[:, heads].", ABLATION,
        crashes="IndexError", only=("ablate_heads",)),
    mistake("ablate-complement", "The listed heads were kept, and all others silenced.",
        "It is the listed ones whose context becomes 0.", ABLATION,
        ablate_heads=lambda c, h: _ablate_axis(c, [i for i in range(c.size(1)) if i not in h], 1)),
    mistake("relation-summed", "The weights of the pairs were added up.",
        "With more pairs the sum grows: divide by how many there are, or take the mean.", RELATION,
        relation_score=lambda w, pairs: relation_score(w, pairs) * len(pairs)),
    mistake("relation-transposed", "The weights were read the other way round.",
        "Rows are queries: weights[from, to].", RELATION,
        relation_score=lambda w, pairs: relation_score(w.mT, pairs)),
]  # fmt: skip

EXERCISES = [
    Exercise(
        relation_score,
        "A pair leads from one token to another. Which of the two is the query, and on which axis do queries stand?",
        "Two lists of indices pick the weights of all pairs at once. Then take the mean over the pairs.",
        "weights (H, S, S), picked at n rows and n columns, is (H, n); its mean over the last axis is (H).",
        "rows, columns = torch.tensor(pairs).T\nreturn weights[:, rows, columns].mean(-1)  # (H)",
        inputs=[
            lambda: (weights()[0, :, :, :T], [(0, 3), (4, 1), (2, 2)]),
            lambda: (weights()[1, :, :, :T], [(1, 0), (3, 4), (1, 0), (0, 2)]),
        ],
        axes="H",
        done="You can ask a head how much it looks along a relation. Turn the pairs round: which heads look back?",
    ),
    Exercise(
        ablate_heads,
        "What becomes of the caller's tensor if you write zeros into it?",
        "Work on a `clone`. A list can be an index: on which axis are the heads?",
        "context (B, H, S, D) stays as it is. In a copy of the same shape, the listed places of axis 1 are 0.",
        "silenced = context.clone()  # (B, H, S, D)\nsilenced[:, heads] = 0.0\nreturn silenced",
        inputs=[lambda: (draw(B, H, S, D, seed=1), [0, 2, 3]), lambda: (draw(B, H, S, D, seed=2), [3])],
        axes="B H S D",
        done="You can silence heads, and keep the rest. Silence all but one: how far does that one get alone?",
    ),
    Exercise(
        other_weights,
        "What may you add to a row of weights that changes neither its sum nor its mixture of the values?",
        "A direction that v and a column of ones both take to 0: S > D + 1 leaves one, and `torch.linalg.svd` finds "
        "it. Follow it while no weight gets negative.",
        "v beside a column of ones is (S, D + 1). The direction (S) is the last row of Vh of its transpose. Add to "
        "weights (T, S) a step (T, 1) times the direction.",
        "kept = torch.cat((v, torch.ones_like(v[:, :1])), dim=1)  # (S, D + 1)\n"
        "direction = torch.linalg.svd(kept.T).Vh[-1]  # (S)\n"
        "room = (weights / -direction).where(direction < 0, torch.inf).amin(-1, keepdim=True)\n"
        "return weights + room / 2 * direction  # (T, S)",
        inputs=[lambda: ((0.3 * draw(T, 9, seed=1)).softmax(-1), draw(9, 4, seed=2))],
        axes=("T D", "T", "checks"),
        run=same_context,
        results=("context", "sums", "weights"),
        unique=False,
        tolerance=1e-6,
        diagnose=_not_other_weights,
        done="You can find other weights for the same context. Draw both maps: which of them is the explanation?",
    ),
]

QUESTIONS = {
    "one-head-difference": question(
        "One head, as wide as d_model, is trained to return c_a − c_b, with contents of 6 numbers. Which R² can it "
        "reach? (1 is perfect, 0 no better than always guessing the mean.)",
        "about 0 → It can do something: fetch c_a alone. How much of c_a − c_b does that explain?",
        "✔ about ½ → Its best is to fetch one of the two, and to know nothing of the other: half of the variance.",
        "about 1 → For that, c_b would need a negative share. The shares of one head are never negative.",
        units="%",
    ),
    "twin-heads": question(
        "Two heads start with the same numbers, and are trained on c_a − c_b, which needs two different heads. What "
        "are they afterwards?",
        "each has found a place of its own → What would make the first of the two go one way, and the second another? "
        "Their gradients are equal.",
        "✔ bit for bit the same → The same numbers give the same output, so the same gradient, so the same step. "
        "Nothing parts them.",
        "one has switched itself off → What happens to one happens to the other, since their gradients are equal.",
    ),
    "zero-query": question(
        "To silence a head, you set its q to 0. What is its context now?",
        "nothing → Scores of 0 are not weights of 0: softmax makes all weights alike, and they sum to 1.",
        "✔ the mean of all values → All scores are 0, so all weights are alike. The head goes on: it adds the mean of "
        "its values.",
        "the value of the first token → Nothing prefers the first token: all scores are 0, so all are alike.",
        also=("the mean of the values", "the average of the values", "the mean of all the values"),
    ),
    "free-directions": question(
        "A head has D = 12 and reads S = 15 tokens; all weights of a row are above 0. In how many independent "
        "directions can the row move, a little, so that neither its context nor its sum changes?",
        "2 → 15 numbers must meet 12 conditions for the context and 1 for the sum: 15 − 13 = 2 are free.",
        "3 → The context takes 12 conditions. The sum of the row, which must stay 1, takes one more.",
        "0 → 15 numbers, and fewer conditions than that: some freedom is left.",
        "12 → That is how many conditions the context makes. How many numbers may move, and how many are bound?",
        "13 → That is how many conditions there are. How many numbers are there?",
        nudge="Count the numbers that may move, and take away one for each condition that they must meet.",
        units="directions",
    ),
}

LESSON = Lesson(16, "Why many heads", EXERCISES, QUESTIONS, MISTAKES)
