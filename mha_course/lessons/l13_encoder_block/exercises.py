"""Lesson 13, Encoder block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mha_course.exercises.inputs import C, draw, tokens
from mha_course.exercises.spec import Exercise, Lesson, mistake
from mha_course.mistakes import ROWS

Part = Callable[[Tensor], Tensor]
BLOCK = ("encoder_block",)
PARTS = ("attention", "feed_forward", "norm1", "norm2")


def layer_norm(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """Give each token mean 0 and variance 1 over its channels, then scale by gamma and add beta."""
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)  # (B, S, 1), divided by C, not by C - 1
    return gamma * centred / (variance + eps).sqrt() + beta  # (B, S, C)


def encoder_block(
    x: Tensor,
    attention: Callable[[Tensor], Tensor],
    feed_forward: Callable[[Tensor], Tensor],
    norm1: Callable[[Tensor], Tensor],
    norm2: Callable[[Tensor], Tensor],
) -> Tensor:
    """Add attention's output, then feed_forward's, each computed from a normalised copy."""
    x = x + attention(norm1(x))  # (B, S, C)
    return x + feed_forward(norm2(x))  # (B, S, C)


def wire(answer: Callable[..., Any], x: Tensor, first: Tensor, second: Tensor) -> Any:
    """Give an encoder block four callables that do not commute."""
    return answer(
        x,
        lambda t: (t @ first.to(t)).tanh() + t.mean(1, keepdim=True),
        lambda t: (t @ second.to(t)).relu() + 0.3,
        lambda t: (t - t.mean(-1, keepdim=True)) * 1.5,
        lambda t: torch.nn.functional.layer_norm(t, t.shape[-1:]) - 0.2,
    )


def _never_called(answer: Callable[..., Any], *arguments: Tensor) -> tuple[None, str] | None:
    """Find a part that the block never calls."""
    called = set()

    def watched(x: Tensor, *parts: Part) -> Any:
        def watch(name: str, part: Part) -> Part:
            return lambda t: called.add(name) or part(t)  # type: ignore[func-returns-value]

        return answer(x, *map(watch, PARTS, parts))

    wire(watched, *arguments)
    unused = ", ".join(name for name in PARTS if name not in called)
    message = f"You never called {unused}. Each half is x plus what a part returns for norm(x)."
    return (None, message) if unused else None


def _norm(
    axis: Any = -1,
    *,
    correction: int = 0,
    late: bool = False,
    gamma: bool = True,
    beta: bool = True,
    own_eps: float | None = None,
) -> Callable[..., Tensor]:
    """Return layer_norm with another axis, variance or placement of eps, or without a part."""

    def layer_norm(x: Tensor, g: Tensor, b: Tensor, eps: float = 1e-5) -> Tensor:
        eps = eps if own_eps is None else own_eps
        variance = x.var(axis, keepdim=True, correction=correction)
        spread = variance.sqrt() + eps if late else (variance + eps).sqrt()
        return (x - x.mean(axis, keepdim=True)) / spread * (g if gamma else 1) + (b if beta else 0)

    return layer_norm


def _rms(x: Tensor, g: Tensor, b: Tensor, eps: float = 1e-5) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * g + b


def _by_variance(x: Tensor, g: Tensor, b: Tensor, eps: float = 1e-5) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + eps) * g + b


def _clamped(answer: Callable[..., Any], x: Tensor, g: Tensor, b: Tensor, *_: float) -> Any:
    """Find eps used as a lower bound, which shows if it exceeds the variance."""
    centred = (x - x.mean(-1, keepdim=True)) / x.std()
    if not torch.allclose(answer(centred, g, b, 9.0), g * centred / 3 + b, atol=1e-6):
        return None
    return "eps-clamped", ROWS["eps-clamped"].text


# One half of a block: the stream, a part and its norm.


def _right(x: Tensor, part: Part, norm: Part) -> Tensor:
    return x + part(norm(x))


def _without_residual(x: Tensor, part: Part, norm: Part) -> Tensor:
    return part(norm(x))


def _normed_stream(x: Tensor, part: Part, norm: Part) -> Tensor:
    return norm(x) + part(norm(x))


def _post_norm(x: Tensor, part: Part, norm: Part) -> Tensor:
    return norm(x + part(x))


def _normed_part(x: Tensor, part: Part, norm: Part) -> Tensor:
    return x + norm(part(x))


def _block(first: Callable[..., Tensor], second: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda x, attention, feed, norm1, norm2: second(first(x, attention, norm1), feed, norm2)


def _in_some_half(wrong: Callable[..., Tensor]) -> list[Callable[..., Tensor]]:
    return [_block(wrong, wrong), _block(wrong, _right), _block(_right, wrong)]


def _normed_by(pick: Callable[[Part, Part], tuple[Part, Part]]) -> Callable[..., Tensor]:
    """Return encoder_block with other norms, chosen from the two."""
    return lambda x, attention, feed, *norms: encoder_block(x, attention, feed, *pick(*norms))


MISTAKES = [
    mistake("layer-norm-wrong-axis", layer_norm=[*map(_norm, (1, 0, (1, 2), (0, 1), (0, 1, 2)))]),
    mistake("/norm-without-axis", layer_norm=lambda x, g, b, eps=1e-5: x - x.mean(-1)),
    mistake("/part-called-with-three", crashes=r"takes 1 positional .* but \d", only=BLOCK),
    mistake("/norm-not-called", crashes=r"got \(function\)", only=BLOCK),
    mistake("layer-norm-unbiased", layer_norm=_norm(correction=1)),
    mistake(
        "layer-norm-unbiased/std",
        layer_norm=[_norm(correction=1, late=True), _norm(correction=1, own_eps=0.0)],
    ),
    mistake("layer-norm-eps-outside", layer_norm=_norm(late=True)),
    mistake(
        "rms-not-layer-norm", layer_norm=[_rms, lambda x, g, b, eps=1e-5: _rms(x, g, 0 * b, eps)]
    ),
    mistake(
        "layer-norm-no-affine",
        layer_norm=[_norm(gamma=False, beta=False), _norm(beta=False), _norm(gamma=False)],
    ),
    mistake(
        "layer-norm-eps-ignored",
        layer_norm=[_norm(own_eps=own) for own in (1e-5, 0.0, 1e-6, 1e-8, 1e-12)],
    ),
    mistake("beta-before-gamma", layer_norm=lambda x, g, b, eps=1e-5: layer_norm(x, g, g * b, eps)),
    mistake("gamma-beta-exchanged", layer_norm=lambda x, g, b, eps=1e-5: layer_norm(x, b, g, eps)),
    mistake(
        "layer-norm-variance-without-root",
        layer_norm=[_by_variance, lambda x, g, b, eps=1e-5: _by_variance(x, g, b, 0.0)],
    ),
    mistake("residual-missing", encoder_block=_in_some_half(_without_residual)),
    mistake(
        "second-residual-from-input",
        encoder_block=lambda x, attention, feed, norm1, norm2: (
            x + feed(norm2(x + attention(norm1(x))))
        ),
    ),
    mistake("/part-normed", encoder_block=_block(_normed_part, _normed_part)),
    mistake(
        "/feed-forward-first",
        encoder_block=[
            lambda x, attention, feed, *norms: encoder_block(x, feed, attention, *norms),
            lambda x, attention, feed, *norms: encoder_block(x, feed, attention, *norms[::-1]),
        ],
    ),
    mistake(
        "/first-sentence-alone",
        encoder_block=lambda x, attention, feed, *norms: encoder_block(
            x, lambda t: attention(t)[0], feed, *norms
        ),
    ),
    mistake("stream-normed", encoder_block=_in_some_half(_normed_stream)),
    mistake(
        "parallel-block",
        encoder_block=[
            lambda x, attention, feed, norm1, norm2: x + attention(norm1(x)) + feed(norm2(x)),
            lambda x, attention, feed, norm1, norm2: x + attention(norm1(x)) + feed(norm1(x)),
        ],
    ),
    mistake("norms-exchanged", encoder_block=_normed_by(lambda one, other: (other, one))),
    mistake("post-norm-wiring", encoder_block=_block(_post_norm, _post_norm)),
    mistake(
        "norm-shared",
        encoder_block=[
            _normed_by(lambda one, _: (one, one)),
            _normed_by(lambda _, other: (other, other)),
        ],
    ),
]

EXERCISES = [
    Exercise(
        layer_norm,
        "Over which numbers do you take mean and variance: the channels of a token, the tokens, "
        "or the batch?",
        "Subtract the mean, divide by the root of variance plus eps, then stretch by gamma and "
        "shift by beta. The variance divides by C, not by C - 1.",
        "Over the last axis, with the axis kept, mean and variance are (B, S, 1). gamma and beta "
        "are (C).",
        special_cases=[
            ("", lambda: (0.01 * tokens() + 0.5, draw(C, seed=2), draw(C, seed=3))),
            ("Here eps is 0.2.", lambda: (tokens(), draw(C, seed=2), draw(C, seed=3), 0.2)),
        ],
        drawn=lambda d: (d("BSC"), d("C"), d("C"), *d.picks.choice(((), (0.3,), (0.01,)))),
        axes="B S C",
        diagnose=_clamped,
        done="Each token is now normalised on its own. Multiply x by 1000: what happens to the "
        "result?",
    ),
    Exercise(
        encoder_block,
        "In pre-norm, what goes past attention on the residual path: x, or the normalised x?",
        "One pattern, twice: x plus what a part returns for the normalised x. Each part has its "
        "own norm.",
        "Every call maps (B, S, C) to (B, S, C). First comes attention with norm1, then "
        "feed_forward with norm2 on that result.",
        drawn=lambda d: (d("BSC"), *d.matrices("CC", "CC")),
        axes="B S C",
        run=wire,
        diagnose=_never_called,
        done="You can wire a pre-norm block. Let attention and feed_forward return zeros: x comes "
        "out unchanged.",
    ),
]

LESSON = Lesson(13, "Encoder block", EXERCISES)
