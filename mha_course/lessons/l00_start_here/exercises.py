"""Lesson 0, Start here."""

from __future__ import annotations

from torch import Tensor

from mha_course.exercises.attention_steps import Steps
from mha_course.exercises.spec import Exercise, Function, Lesson, mistake


def attend(x: Tensor) -> Tensor:
    """Compare all tokens with each other, turn scores into weights and mix, (S, C) -> (S, C)."""
    scores = x @ x.T / x.shape[-1] ** 0.5  # (S, S)
    weights = scores.softmax(-1)  # (S, S)
    return weights @ x  # (S, C)


def _build_attend(s: Steps) -> Function:
    def answer(x: Tensor) -> Tensor:
        scores = s.scale(s.scores(x, x), x, x, 1)
        return s.weigh(s.post(s.softmax(scores), x), x)

    return answer


EXERCISES = [
    Exercise(
        attend,
        "The cells above do all four steps for three tokens of two numbers. What in them works "
        "only for these sizes?",
        "Four steps: compare, scale, share out, mix. Replace √2 by the root of the width. See "
        "“One attention by hand”.",
        "x (S, C) times x.T (C, S) gives scores (S, S). Each row of the weights (S, S) sums to 1, "
        "and the weights times x give (S, C).",
        drawn=lambda d: (d("SC"),),
        axes="S C",
        done="That's attention, and you wrote it. Next: how much does a token take from one that "
        "is three times as long?",
        steps=("scores", "scale", "softmax", "post", "weigh"),
        build=_build_attend,
    ),
]


def _identity(x: Tensor, *_: Tensor) -> Tensor:
    return x


ALONE = ("attend",)
MISTAKES = [
    mistake(
        "elementwise-product/attend",
        scores=lambda q, k: q * k,
        only=ALONE,
        written=r"(?<!\*)\*(?!\*)",
    ),
    mistake(
        "elementwise-then-summed",
        scores=[lambda q, k: (q * k).sum(1), lambda q, k: (q * k).sum(1, keepdim=True)],
        only=ALONE,
    ),
    mistake(
        "key-not-transposed/attend",
        scores=lambda q, k: q @ k,
        only=ALONE,
        written=r"\b(\w+) ?@ ?\1\b(?!\.)",
    ),
    mistake("/columns-compared", scores=lambda q, k: q.mT @ k, only=ALONE),
    mistake(
        "/three-axes-expected",
        scores=[lambda q, k: q @ k.transpose(1, 2), lambda q, k: q @ k.transpose(-1, -3)],
        crashes=r"Dimension out of range|not enough values to unpack \(expected 3, got 2\)",
        only=ALONE,
    ),
    mistake("size-hard-coded/attend", scale=lambda z, q, k, h: z / 2**0.5, only=ALONE),
    mistake("weights-returned", weigh=_identity, only=ALONE),
    mistake(
        "scores-returned/attend",
        {"softmax": _identity, "weigh": _identity},
        {"scale": _identity, "softmax": _identity, "weigh": _identity},
        only=ALONE,
    ),
    mistake(
        "softmax-over-queries/attend",
        # Scores of x with itself are symmetric, so transposing changes nothing.
        softmax=[lambda z: z.softmax(0), lambda z: z.exp() / z.exp().sum(1)],
        weigh=lambda w, v: w.mT @ v,
        only=ALONE,
    ),
    mistake("/context-added", weigh=lambda w, v: v + w @ v, only=ALONE),
    mistake("key-all-axes-reversed/attend", crashes="dimensions of batch2 tensor", only=ALONE),
]

LESSON = Lesson(0, "Start here", EXERCISES)
