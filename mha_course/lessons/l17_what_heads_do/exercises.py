"""Lesson 17, What heads do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from mha_course.exercises.inputs import D, Draw, H, T, draw, square
from mha_course.exercises.spec import Exercise, Lesson, mistake
from mha_course.mistakes import ROWS


def relation_score(weights: Tensor, pairs: Sequence[tuple[int, int]]) -> Tensor:
    """Return each head's mean weight along the pairs (from, to), (H, S, S) -> (H,)."""
    queries, keys = zip(*pairs, strict=True)
    return weights[:, list(queries), list(keys)].mean(-1)  # (H,)


def ablate_heads(context: Tensor, heads: Sequence[int]) -> Tensor:
    """Return the context (B, H, S, D) with these heads set to 0."""
    silenced = context.clone()
    silenced[:, list(heads)] = 0.0
    return silenced


def contribution_norms(weights: Tensor, v: Tensor, w_o: Tensor) -> Tensor:
    """Return the length of each head's contribution from s to t, (H, T, S), through w_o (C, C)."""
    columns = w_o.unflatten(1, (v.size(0), -1)).permute(1, 2, 0)  # (H, D, C)
    carried = v @ columns  # (H, S, C), with all the weight on s
    return weights * carried.norm(dim=-1)[:, None]  # (H, T, S)


def other_weights(weights: Tensor, v: Tensor) -> Tensor:
    """Return different weights (T, S) that mix v (S, D) into exactly the same context.

    Each weight is multiplied by 1 + a factor. The changes, weight · factor, must lie in the null
    space of [V, 1], so that neither the context nor the sum moves. Of all such factors of length 1,
    take those that change most, and scale them until the first weight reaches 0. A row with at most
    D + 1 weights above 0 stays.
    """
    weights_64 = weights.double()  # (T, S)
    v_and_ones = torch.cat((v, torch.ones_like(v[:, :1])), dim=1).double()  # (S, D+1)
    mixed = (weights_64[:, :, None] * v_and_ones).mT  # (T, D+1, S), times factors is what they add
    null_space = torch.linalg.svd(mixed).Vh[:, v_and_ones.size(1) :]  # (T, S-D-1, S), of each row
    best = torch.linalg.svd(null_space * weights_64[:, None]).U[:, :, :1]  # (T, S-D-1, 1)
    factors = (null_space.mT @ best).squeeze(-1)  # (T, S)
    largest = factors.amax(-1, keepdim=True)  # (T, 1)
    smallest = factors.amin(-1, keepdim=True)  # (T, 1)
    limit = torch.where(largest < -smallest, -largest, -smallest)  # (T, 1), the further direction
    factors = torch.where(limit.abs() > 1e-6, factors / limit, 0.0)  # (T, S), less is rounding
    return (weights_64 * (1 + factors)).to(weights.dtype)  # (T, S)


ROUNDING = 1e-6  # tolerance for weights below 0 and sums other than 1
# some weight of a row must move this far; the reference moves one 20 times as far
MOVED = 1e-3


def _rows_left(answered: Tensor, weights: Tensor, v: Tensor) -> Tensor:
    """Return which rows are unchanged although they could move, (T,)."""
    moved, can_move = (
        (changed - weights).abs().amax(-1) for changed in (answered, other_weights(weights, v))
    )
    # along any free direction, a row can move at least by its smallest weight
    return (moved < MOVED) & (can_move > 20 * MOVED) & (weights.amin(-1) > 10 * MOVED)


def _rows_of_all_kinds() -> tuple[Tensor, Tensor]:
    """Return weights (T, S) and v (S, D): every second row can move far, the others have weights
    near 0, and the last one has four hidden keys.
    """
    scores = draw(T, 11, seed=3)
    scores[::2] *= 0.3
    scores[1::2] *= 4.0
    scores[-1, 7:] = -torch.inf
    return scores.softmax(-1), draw(11, D, seed=4)


def same_context(answer: Callable[..., Any], weights_: Tensor, v: Tensor) -> Any:
    """Return what other weights must preserve, and whether they are weights and differ."""
    answered = answer(weights_, v)
    if not isinstance(answered, Tensor) or answered.shape != weights_.shape:
        return answered
    answered = answered.to(v)
    kept = (answered @ v, answered.sum(-1))
    flags = ((answered < -ROUNDING).sum(), _rows_left(answered, weights_, v).sum())
    return (*kept, torch.stack([flag.to(v.dtype) for flag in flags]))


def _not_other_weights(
    answer: Callable[..., Any], weights_: Tensor, v: Tensor
) -> tuple[str | None, str] | None:
    """Describe the results of same_context in words."""
    answered = answer(weights_, v)
    if answered is None:
        return None, "The result is None. Is a return missing?"
    if not isinstance(answered, Tensor) or answered.shape != weights_.shape:
        got = tuple(answered.shape) if isinstance(answered, Tensor) else type(answered).__name__
        return (
            None,
            f"It should return weights of shape {tuple(weights_.shape)}, as they came in, but "
            f"returned {got}.",
        )
    answered = answered.detach().to(v)
    if not answered.isfinite().all():
        return None, "Some of the weights are NaN or inf. Did you divide by 0?"
    unmoved = _rows_left(answered, weights_, v)
    if unmoved.all():
        return "same-weights", ROWS["same-weights"].text
    if bool((answered.sum(-1).abs() < ROUNDING).all()):
        return "sum-moved", ROWS["sum-moved/step-alone"].text
    if (answered < -ROUNDING).any():
        return "negative-weights", (
            f"{int((answered < -ROUNDING).sum())} weights are negative, down to "
            f"{float(answered.min()):.2g}. {ROWS['negative-weights'].why}"
        )
    moved = float((answered @ v - weights_ @ v).abs().amax())
    if ((answered.sum(-1) - 1).abs() > ROUNDING).any():
        if moved > ROUNDING:
            # A step until the first weight reaches 0 makes only one weight in each row 0.
            emptied = bool((((answered == 0) & (weights_ > 0)).sum(-1) > 1).any())
            key = "context-moved/clamped" if emptied else "context-moved/and-sums"
            return "context-moved", ROWS[key].text
        return "sum-moved", _sum_moved(answered)
    if unmoved.any():
        rows = ", ".join(str(row) for row in unmoved.nonzero().flatten().tolist())
        return "rows-left", (
            f"Some rows can move, but you left them unchanged: {rows}. {ROWS['rows-left'].why}"
        )
    return "context-moved", (
        f"You returned weights, but they move the context by up to {moved:.2g}. "
        f"{ROWS['context-moved'].why}"
    )


def _sum_moved(weights: Tensor) -> str:
    sums = weights.sum(-1)
    row = int((sums - 1).abs().argmax())
    return (
        f"Your rows no longer sum to 1: row {row} sums to {float(sums[row]):.6g}. "
        f"{ROWS['sum-moved'].why}"
    )


def _carried(v: Tensor, w_o: Tensor) -> Tensor:
    return v @ w_o.unflatten(1, (v.size(0), -1)).permute(1, 2, 0)


def _all_heads(weights: Tensor, v: Tensor, w_o: Tensor) -> Tensor:
    return torch.einsum("hts,hsc->tsc", weights, _carried(v, w_o)).norm(dim=-1)


def _every_combination(weights: Tensor, pairs: Sequence[tuple[int, int]]) -> Tensor:
    """Pick the rows of all pairs and then the columns of all: n times n weights, not n."""
    queries, keys = zip(*pairs, strict=True)
    return weights[:, list(queries)][:, :, list(keys)].mean((1, 2))


def _ablate_axis(context: Tensor, heads: Any, axis: int) -> Tensor:
    return context.index_fill(axis, torch.as_tensor(heads), 0.0)


MISTAKES = [
    mistake("ablate-in-place", stage="input", only=("ablate_heads",)),
    mistake(
        "ablate-wrong-axis",
        ablate_heads=[
            lambda c, h: _ablate_axis(c, h, 2),
            lambda c, h: _ablate_axis(c, h, 3),
            lambda c, h: _ablate_axis(c, [i for i in h if i < c.size(0)], 0),
        ],
    ),
    mistake(
        "ablate-wrong-axis/shorter",
        crashes="is out of bounds for dimension",
        only=("ablate_heads",),
    ),
    mistake(
        "ablate-complement",
        ablate_heads=lambda c, h: _ablate_axis(c, [i for i in range(c.size(1)) if i not in h], 1),
    ),
    mistake("ablate-first-head-only", ablate_heads=lambda c, h: _ablate_axis(c, h[:1], 1)),
    mistake("/heads-counted", ablate_heads=lambda c, h: _ablate_axis(c, range(len(h)), 1)),
    mistake(
        "relation-heads-forgotten",
        crashes="out of bounds for dimension 0",
        only=("relation_score",),
    ),
    mistake(
        "relation-first-pair-only",
        relation_score=[
            lambda w, pairs: relation_score(w, pairs[:1]) / len(pairs),
            lambda w, pairs: relation_score(w, pairs[:1]),
        ],
    ),
    mistake(
        "relation-summed", relation_score=lambda w, pairs: relation_score(w, pairs) * len(pairs)
    ),
    mistake(
        "pairs-counted-once",
        relation_score=[
            lambda w, pairs: relation_score(w, [*set(pairs)]),
            lambda w, pairs: relation_score(w, [*set(pairs)]) * len(set(pairs)) / len(pairs),
        ],
    ),
    mistake(
        "/last-pair-only",
        relation_score=[
            lambda w, pairs: relation_score(w, pairs[-1:]),
            lambda w, pairs: relation_score(w, pairs[-1:]) / len(pairs),
        ],
    ),
    mistake("/all-rows-with-all-columns", relation_score=_every_combination),
    mistake("relation-transposed", relation_score=lambda w, pairs: relation_score(w.mT, pairs)),
    mistake("weights-only", contribution_norms=lambda w, v, w_o: w),
    mistake("norm-of-value", contribution_norms=lambda w, v, w_o: w * v.norm(dim=-1)[:, None]),
    mistake(
        "contribution-unweighted",
        contribution_norms=lambda w, v, w_o: contribution_norms(torch.ones_like(w), v, w_o),
    ),
    mistake(
        "norm-squared",
        contribution_norms=[
            lambda w, v, w_o: contribution_norms(w, v, w_o).square(),
            lambda w, v, w_o: w * contribution_norms(torch.ones_like(w), v, w_o).square(),
        ],
    ),
    mistake(
        "contribution-norm-over-tokens",
        contribution_norms=[
            lambda w, v, w_o: w * _carried(v, w_o).norm(dim=(1, 2))[:, None, None],
            lambda w, v, w_o: w * _carried(v, w_o).norm(),
        ],
    ),
    mistake(
        "contribution-of-all-heads",
        contribution_norms=[
            lambda w, v, w_o: _all_heads(w, v, w_o).expand_as(w),
            lambda w, v, w_o: w * _carried(v, w_o).sum(0).norm(dim=-1),
            _all_heads,
        ],
    ),
    mistake(
        "only-head-zero/columns-of-all",
        contribution_norms=lambda w, v, w_o: w * (v @ w_o[:, : v.size(-1)].T).norm(dim=-1)[:, None],
    ),
    mistake(
        "output-columns-as-rows/contribution",
        contribution_norms=lambda w, v, w_o: contribution_norms(w, v, w_o.T),
    ),
]


def _how_many(d: Draw) -> int:
    """Return how many heads to ablate; in one case, none."""
    return 0 if d.kind == "one query" else max(1, d.H - 2)


def _drawn_contributions(d: Draw) -> tuple[Tensor, Tensor, Tensor]:
    weights = d.normal(d.H, d.T, 3 * d.S - 2).softmax(-1)
    return weights, d.normal(d.H, weights.size(-1), d.D), d("CC")


EXERCISES = [
    Exercise(
        relation_score,
        "A pair leads from one token to another. Which of the two is the query, and which axis "
        "of the weights counts queries?",
        "A list of rows and a list of columns pick the weights of all pairs at once. Then take "
        "the mean over the pairs.",
        "weights (H, S, S), picked at n rows and n columns, is (H, n). Its mean over the last "
        "axis is (H).",
        drawn=lambda d: (d.weights("HSS"), [*map(tuple, d.ids(d.S, "D2").tolist())]),
        allows=("no gradient",),
        axes="H",
        done="You can measure how much a head attends along a relation. Swap the two tokens of "
        "each pair: which heads attend the other way?",
    ),
    Exercise(
        ablate_heads,
        "What happens to the caller's tensor if you write zeros into it?",
        "Work on a `clone`. A list can be an index: which axis counts the heads?",
        "context (B, H, S, D) stays as it is. In a copy of the same shape, the listed entries of "
        "axis 1 are 0.",
        drawn=lambda d: (d("BHSD"), d.picks.sample(range(d.H), _how_many(d))),
        allows=("no gradient",),
        axes="B H S D",
        exact_zeros=True,
        done="You can silence heads and keep the rest. Silence all but one: how far does that one "
        "get on its own?",
    ),
    Exercise(
        contribution_norms,
        "What does a head add to the output of t if all its weight is on s, and what if only some "
        "of it is?",
        "Each head has D columns of w_o. Send its values through them, and take the length of "
        "the C numbers that come out. The weight then scales that length. In lesson 6, "
        "`head_contributions` did the first half.",
        "For head h, v[h] (S, D) times its columns of w_o, transposed to (D, C), is (S, C), and "
        "the norm of that is (S,). Multiply weights[h] (T, S) by it, and stack the heads: (H, T, "
        "S).",
        line="H, S, D = v.shape\n"
        "columns = [w_o[:, D * h : D * h + D] for h in range(H)]  # (C, D) each\n"
        "lengths = [(v[h] @ columns[h].T).norm(dim=-1) for h in range(H)]  # (S,) each\n"
        "return torch.stack([weights[h] * lengths[h] for h in range(H)])  # (H, T, S)",
        special_cases=[
            ("", lambda: (draw(H, T, 11, seed=4).softmax(-1), draw(H, 11, D, seed=6), *square(5)))
        ],
        drawn=_drawn_contributions,
        allows=("no gradient",),
        axes="H T S",
        done="You can separate what a head attends to from what it brings. Where is the largest "
        "weight not the largest contribution?",
    ),
    Exercise(
        other_weights,
        "What can you add to a row of weights that changes neither its sum nor its mixture of the "
        "values?",
        "Find a direction that v and a column of ones both map to 0. With S > D + 1 there is one, "
        "and `torch.linalg.svd` finds it. Follow it until a weight would become negative.",
        "v with a column of ones is (S, D + 1). The direction (S,) is the last row of Vh of its "
        "transpose. Add to weights (T, S) a step (T, 1) times the direction.",
        line="kept = torch.cat((v, torch.ones_like(v[:, :1])), dim=1)  # (S, D + 1)\n"
        "direction = torch.linalg.svd(kept.T).Vh[-1]  # (S,)\n"
        "room = (weights / -direction).where(direction < 0, torch.inf).amin(-1, keepdim=True)\n"
        "return weights + room / 2 * direction  # (T, S)",
        special_cases=[
            ("", lambda: ((0.3 * draw(T, 11, seed=1)).softmax(-1), draw(11, D, seed=2))),
            ("", _rows_of_all_kinds),
        ],
        drawn=lambda d: (d.normal(d.T, d.D + 5).softmax(-1), d.normal(d.D + 5, d.D)),
        axes={"context": "T D", "sums": "T", "weights": "checks"},
        run=same_context,
        allows=("other answers",),
        diagnose=_not_other_weights,
        done="You can find other weights for the same context. Draw both maps: which one is the "
        "explanation?",
    ),
]

LESSON = Lesson(17, "What heads do", EXERCISES)
