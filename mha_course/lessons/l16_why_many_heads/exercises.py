"""Lesson 16, Why many heads."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mha_course import attention as reference
from mha_course.exercises.inputs import draw
from mha_course.exercises.spec import Exercise, Lesson
from mha_course.mistakes import ROWS


def build_subtractor(d: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return w_q, w_k, w_v, w_o, each (3d, 3d): two heads give c_a - c_b at the query token.

    Channels of a token: 0 to d - 1 its content c, d the flag a, d + 1 the flag b, d + 2 marks the
    query token, the rest 0. Output channels 0 to d - 1 hold the difference. Head h has the rows
    from h · 3d/2 on.
    """
    width, half = 3 * d, 3 * d // 2
    w_q, w_k, w_v, w_o = torch.zeros(4, width, width, dtype=torch.float64)
    for head, sign in ((0, 1.0), (1, -1.0)):
        first = head * half
        w_q[first, d + 2] = 100.0  # the query token asks …
        w_k[first, d + head] = 100.0  # … for the flagged token
        for channel in range(d):
            w_v[first + channel, channel] = 1.0  # which passes on its content …
            w_o[channel, first + channel] = sign  # … to be added or subtracted
    return w_q, w_k, w_v, w_o


def flagged_tokens(d: int) -> tuple[Tensor, Tensor]:
    """Return tokens (64, 9, 3d) and the positions of a, of b and of the query token, (3, 64)."""
    draws = torch.arange(64)
    x = torch.zeros(64, 9, 3 * d, dtype=torch.float64)
    x[:, :, :d] = draw(64, 9, d, seed=1)
    x[:, 0, d + 2] = 1.0
    places = torch.stack((*(draw(64, 8, seed=2).argsort(-1) + 1).T[:2], 0 * draws))
    for flag in (0, 1):
        x[draws, places[flag], d + flag] = 1.0
    return x, places


def four_matrices(builder: Callable[..., Any], d: int) -> list[Tensor]:
    """Return a builder's result. Raises: ValueError unless it is four matrices (3d, 3d)."""
    answer = builder(d)
    instead = "None" if answer is None else ""
    if isinstance(answer, Tensor) and answer.dim() != 3:  # which would be the four, stacked
        instead = "one tensor"
    weights = [] if instead else [torch.as_tensor(w).detach().double() for w in answer]
    shapes = [tuple(w.shape) for w in weights]
    if shapes != [(3 * d, 3 * d)] * 4:
        returned = instead or f"{len(shapes)} of shapes {shapes}"
        expected = f"four matrices ({3 * d}, {3 * d})"
        raise ValueError(f"for d = {d} it should return {expected}, but returned {returned}")
    return weights


def subtract(builder: Callable[..., Any], d: int) -> Tensor:
    """Attend to flagged tokens with hand-made weights; return the query token's output, (64, d)."""
    w_q, w_k, w_v, w_o = four_matrices(builder, d)
    x, _ = flagged_tokens(d)
    q, k, v = (reference.split_heads(x @ w.T, 2) for w in (w_q, w_k, w_v))
    return (reference.merge_heads(reference.attention(q, k, v)[0]) @ w_o.T)[:, 0, :d]


A, B, ASKER = PLACES = ("token a", "token b", "the query token")
ALL = "all tokens alike"


class Head(NamedTuple):
    """What one of a learner's heads does for the query token."""

    sees: str  # one of PLACES, or ALL, or nothing
    weights: list[float]  # at each of PLACES
    times: float  # the factor of the content it adds; NaN if it adds something else


def heads_of(w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, d: int) -> list[Head]:
    """Find where each head looks, if the same in all draws, and what it adds."""
    x, places = flagged_tokens(d)
    q, k = (reference.split_heads(x @ w.T, 2) for w in (w_q, w_k))
    weights = reference.attention(q, k, k)[1][:, :, 0]  # 64 drawings, 2 heads, 9 keys
    heads = []
    for row, value, output in zip(weights.unbind(1), w_v.chunk(2), w_o.chunk(2, 1), strict=True):
        at = row.gather(1, places.T)  # 64 drawings, 3 places
        others = torch.stack([row.scatter(1, place[:, None], 0.0).amax(-1) for place in places], 1)
        sees = [name for name, above in zip(PLACES, (at > others).all(0), strict=True) if above]
        sees = [ALL] if row.max() - row.min() < 1e-6 else sees
        path = output[:d] @ value[:, : d + 3]  # from the content and the three marks
        times = path.diagonal().mean()
        plain = torch.allclose(path, times * torch.eye(d, d + 3, dtype=path.dtype), atol=1e-6)
        heads.append(Head("".join(sees), at.mean(0).tolist(), float(times) if plain else math.nan))
    return heads


def in_words(number: int, head: Head) -> str:
    """Describe what a head does."""
    weights = dict(zip(PLACES, head.weights, strict=True))
    places = [head.sees] if head.sees else [A, B]
    attends_to = ALL
    if head.sees != ALL:
        attends_to = " and ".join(f"{place} with weight {weights[place]:.3g}" for place in places)
    brings = {
        1.0: "adds its content",
        -1.0: "subtracts its content",
        0.0: "brings nothing of its content to channels 0 to d - 1",
    }
    does = brings.get(round(head.times, 6), f"adds its content {head.times:.2f} times")
    if math.isnan(head.times):
        does = "brings other channels than 0 to d - 1, or mixes them up"
    return f"head {number} attends to {attends_to} and {does}"


def _mistake_of(first: Head, second: Head, exchanged: set[str]) -> str | None:
    """Name the mistake of two heads; exchanged is where they look with w_q and w_k swapped."""
    sees = {first.sees, second.sees}
    if first.sees == second.sees and first.sees in (A, B):
        return "same-place-twice"
    if ASKER in sees or exchanged == {A, B} != sees:
        return "looks-for-the-asker"
    if sees != {A, B}:
        return None
    if min(max(first.weights), max(second.weights)) < 0.9999:
        return "lead-too-small"
    of_a, of_b = (first.times, second.times) if first.sees == A else (second.times, first.times)
    if of_a * of_b > 0:
        return "sum-not-difference"
    return "heads-exchanged" if of_a < 0 < of_b else None


def tell_where_heads_look(builder: Callable[..., Any], d: int) -> tuple[str | None, str]:
    """Name the mistake in four matrices, and say what the two heads do."""
    w_q, w_k, w_v, w_o = four_matrices(builder, d)
    first, second = heads_of(w_q, w_k, w_v, w_o, d)
    exchanged = {head.sees for head in heads_of(w_k, w_q, w_v, w_o, d)}
    name = _mistake_of(first, second, exchanged)
    own_rows = f"from rows of its own: 0 to {3 * d // 2 - 1} for head 0, the others for head 1."
    advice = f"Each should bring channels 0 to d - 1 once, {own_rows} In w_o they are columns."
    if name:
        advice = ROWS[name].why
    elif {ALL, ""} & {first.sees, second.sees}:
        advice = f"{ROWS['looks-for-the-asker'].why} Each makes its scores {own_rows}"
    summary = f"{in_words(0, first)}, and {in_words(1, second)}"
    reference = "See lesson 16, Why many heads: Do it: two heads that subtract."
    return name, f"With d = {d}, {summary}. {advice} {reference}"


EXERCISES = [
    Exercise(
        build_subtractor,
        "If head 0 fetches c_a and head 1 fetches c_b, where can the minus sign come from?",
        "w_q reads the query token's channel, w_k that of the flag: where both are large, the "
        "score is large. w_v passes on the content. See “Do it: two heads that subtract”.",
        "Four matrices (3d, 3d) of zeros. Head h owns the rows from h · 3d/2 on, and in w_o the "
        "columns. It needs one entry in w_q, one in w_k, d in w_v, and d in w_o, which carry its "
        "sign.",
        line="for head, sign in ((0, 1.0), (1, -1.0)):\n"
        "    first = head * 3 * d // 2\n"
        "    w_q[first, d + 2] = w_k[first, d + head] = 100.0\n"
        "    for channel in range(d):\n"
        "        w_v[first + channel, channel] = 1.0\n"
        "        w_o[channel, first + channel] = sign",
        special_cases=[("", lambda: (2,)), ("", lambda: (4,)), ("", lambda: (8,))],
        drawn=lambda d: (2 * d.D,),
        axes="draw d",
        run=subtract,
        diagnose=tell_where_heads_look,
        done="You built a behaviour by hand: two heads subtract. Next: where else could the minus "
        "sign go?",
        tolerance=1e-3,
    ),
]

LESSON = Lesson(16, "Why many heads", EXERCISES)
