"""Lesson 4, Softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from mha_course.exercises.attention_mistakes.weights import SOFTMAX
from mha_course.exercises.attention_steps import MASKED, Steps
from mha_course.exercises.inputs import (
    FAR_BELOW,
    HIDDEN_LEAD,
    B,
    Draw,
    H,
    S,
    T,
    draw,
    mask,
    weights,
)
from mha_course.exercises.operations import Operation, Rule
from mha_course.exercises.spec import Exercise, Function, Lesson, Mistake, mistake
from mha_course.mistakes import ROWS


def softmax(scores: Tensor) -> Tensor:
    """Turn the last axis into weights that sum to 1, finite however large the scores."""
    exponentials = (scores - scores.amax(-1, keepdim=True)).exp()  # (B, H, T, S)
    return exponentials / exponentials.sum(-1, keepdim=True)  # (B, H, T, S)


def entropy(weights: Tensor) -> Tensor:
    """Return - sum of w log w over the last axis, in nats, with 0 log 0 = 0."""
    return -torch.special.xlogy(weights, weights).sum(-1)  # (B, H, T)


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Give hidden keys exactly 0, and a fully masked row all zeros."""
    hidden = scores.masked_fill(~mask, -torch.inf)  # (B, H, T, S)
    weights = torch.softmax(hidden, dim=-1)  # NaN in fully masked rows
    return weights.masked_fill(~mask, 0.0)  # (B, H, T, S)


def _is_library_softmax(operations: Sequence[Operation], *_: Any) -> bool:
    return any("softmax" in operation.name for operation in operations)


def _scores_and_mask(d: Draw) -> tuple[Tensor, Tensor]:
    """Return scores and a mask; some hidden keys have the largest scores."""
    attend = d.mask(("TS", "B1TS", "B11S")[d.number % 3])
    lead = 3e4 * ~attend if d.kind == HIDDEN_LEAD else 0.0
    return d("BHTS") + lead - 2000 * (d.kind == FAR_BELOW), attend


# In nats there is nothing to convert.
ENTROPY_STEPS = {
    "terms": lambda w: torch.special.xlogy(w, w),
    "unit": lambda z: z,
    "negated": torch.neg,
    "total": lambda z: z.sum(-1),
}


def _build_entropy(steps: Steps) -> Function:
    s = Steps(**ENTROPY_STEPS | vars(steps))
    return lambda weights: s.total(s.negated(s.unit(s.terms(weights))))


EXERCISES = [
    Exercise(
        softmax,
        "What may you add to all scores of a row without changing its weights, and which choice "
        "prevents overflow?",
        "Subtract the largest score of a row, raise e to what is left, and divide by the sum of "
        "the row. `keepdim=True` keeps the axis. See “A softmax that does not overflow”.",
        "The largest of each row is (B, H, T, 1). Divide the exponentials (B, H, T, S) by their "
        "sums, (B, H, T, 1).",
        special_cases=[
            ("", lambda: (draw(B, H, T, S, seed=1),)),
            (
                "It was called with scores of 10,000 and more.",
                lambda: (1e4 * draw(B, H, T, S, seed=1),),
            ),
        ],
        drawn=lambda d: (d("BHTS"),),
        axes="B H T S",
        done="Your softmax works however large the scores are. Next: feed it a row of -inf.",
        # 1 / (exponentials of differences).sum() is right, but its gradient overflows
        allows=("nan gradient",),
        steps=("softmax",),
        rules=(Rule(ROWS["/library-softmax"], _is_library_softmax),),
    ),
    Exercise(
        masked_softmax,
        "Which score gives a weight of exactly 0? And what comes out of a row whose scores are "
        "all like that?",
        "Fill hidden scores with -inf before the softmax. A row that sees nothing comes out as "
        "NaN: its weights must become 0. See “Hiding words”.",
        "Scores and weights are (B, H, T, S). `masked_fill` writes -inf into the scores. It can "
        "also write 0 into the weights where the mask is False, which removes the NaN.",
        special_cases=[
            (
                "The mask is (B, 1, T, S), and one of its rows sees nothing.",
                lambda: (draw(B, H, T, S, seed=1), mask(T)),
            ),
            (
                "The mask is (T, S), and one of its rows sees nothing.",
                lambda: (draw(B, H, T, S, seed=1), mask(T)[0, 0]),
            ),
            (
                "It was called with scores near -1,000: their exponentials are 0.",
                lambda: (draw(B, H, T, S, seed=1) - 1000, mask(T)),
            ),
            (
                "It was called with whole-number scores, some of them 0.",
                lambda: (draw(B, H, T, S, seed=1).round(), mask(T)),
            ),
        ],
        drawn=_scores_and_mask,
        axes="B H T S",
        done="A hidden key gets exactly 0, and a row without a key stays finite. Next: choose "
        "another mask below, and watch your function.",
        exact_zeros=True,
        steps=MASKED,
        build=lambda s: lambda scores, mask: s.attend(scores, mask, s),
    ),
    Exercise(
        entropy,
        "What does 0 · log 0 give in floating point, and what should it give here?",
        "Multiply each weight by its logarithm, sum, and change the sign. `torch.special.xlogy` "
        "takes 0 · log 0 as 0. See “Deeper: entropy, how undecided a row is”.",
        "Element by element from (…, S) to (…, S), then a sum over the last axis: (…).",
        special_cases=[
            ("", lambda: (weights(),)),
            (
                "Here some weights are small, but not 0.",
                lambda: (normalize(weights() ** 3, p=1, dim=-1),),
            ),
        ],
        drawn=lambda d: (normalize(d("BHTS").relu() + torch.eye(d.S)[0], p=1, dim=-1),),
        allows=("no gradient",),
        axes="B H T",
        steps=tuple(ENTROPY_STEPS),
        build=_build_entropy,
        done="You can put a number on how undecided a row is. Next: at which temperature is the "
        "row of “it” half as undecided?",
    ),
]


def _after_hiding(softmax: Function, clean: bool) -> Function:
    """Fill hidden scores with -inf before a softmax; clean up fully masked rows, or leave them."""

    def attend(scores: Tensor, mask: Tensor, *_: Any) -> Tensor:
        weights = softmax(scores.masked_fill(~mask, -math.inf))
        return weights.nan_to_num(0.0) if clean else weights

    return attend


def _in_masked_softmax(known: Mistake) -> Mistake:
    """Make a softmax mistake in the exercise that also hides keys, where it is one step."""
    changes = [
        {"attend": _after_hiding(change["softmax"], clean)}
        for change in known.changes
        if "softmax" in change
        for clean in (False, True)
    ]
    return replace(known, changes=tuple(changes), only=("masked_softmax",))


MASKED_SOFTMAX = [_in_masked_softmax(known) for known in SOFTMAX if known.name and not known.only]
MISTAKES = [
    *MASKED_SOFTMAX,
    mistake(
        "softmax-unstable",
        softmax=lambda z: z.exp() / z.exp().sum(-1, keepdim=True),
        only=("softmax",),
    ),
    mistake("softmax-unstable/shift", stage="large numbers", only=("softmax",)),
    mistake("entropy-log-of-zero", terms=lambda w: w * w.log()),
    mistake("entropy-sign", negated=lambda z: z),
    mistake("entropy-base-two", unit=lambda z: z / math.log(2)),
    mistake("entropy-mean", total=lambda z: z.mean(-1)),
    mistake(
        "entropy-wrong-axis",
        total=[torch.sum, lambda z: z.sum(-2), lambda z: z.sum(1), lambda z: z],
    ),
    mistake("/entropy-without-weights", terms=torch.log),
    mistake(
        "divided-by-largest",
        softmax=[
            lambda z: z / z.amax(-1, keepdim=True),
            lambda z: (z - z.amax(-1, keepdim=True)).exp() / z.amax(-1, keepdim=True),
        ],
        only=("softmax",),
    ),
    # Dividing the exponentials by their largest gives the same numbers as not dividing them.
    mistake(
        "divided-by-largest/undivided",
        softmax=lambda z: (z - z.amax(-1, keepdim=True)).exp(),
        only=("softmax",),
    ),
    mistake(
        "/largest-of-column-subtracted",
        softmax=lambda z: (e := (z - z.amax(-2, keepdim=True)).exp()) / e.sum(-1, keepdim=True),
        only=("softmax",),
    ),
    mistake(
        "/largest-of-all-subtracted",
        softmax=[
            lambda z: (z - z.max()).exp() / (z - z.max()).exp().sum(-1, keepdim=True),
            lambda z: (e := (z - z.amax((-2, -1), keepdim=True)).exp()) / e.sum(-1, keepdim=True),
        ],
        only=("softmax",),
    ),
]

LESSON = Lesson(4, "Softmax", EXERCISES)
