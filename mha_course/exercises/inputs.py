"""The inputs on which answers are judged: sizes that all differ, nothing symmetric, no bias of 0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mha_course import attention as reference
from mha_course.exercises import solutions as r

B, T, S, C, H, D = 2, 5, 7, 24, 4, 6


def call(answer: Callable[..., Any], *arguments: Any) -> Any:
    """Run an answer that is a function."""
    return answer(*arguments)


@dataclass(frozen=True)
class Exercise:
    """One exercise: the reference, its arguments, the axes of its result, and how an answer is run.

    ``run(answer, *arguments)`` gives what is compared with the same of the reference, to ``tolerance`` where
    float32 and float64 would not say.
    """

    reference: Callable[..., Any]
    probe: Callable[[], tuple[Any, ...]]
    axes: tuple[str, ...] | tuple[tuple[str, ...], ...] = ()
    run: Callable[..., Any] = call
    tolerance: float = 0.0


def draw(*shape: int, seed: int) -> Tensor:
    """Return normal float64 numbers, the same everywhere: drawn on the CPU from a seed."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def qkv() -> tuple[Tensor, Tensor, Tensor]:
    """Return q (B, H, T, D), k and v (B, H, S, D)."""
    return draw(B, H, T, D, seed=1), draw(B, H, S, D, seed=2), draw(B, H, S, D, seed=3)


def _mask(queries: int) -> Tensor:
    """Return a mask (B, 1, T, S) in which one row sees nothing."""
    mask = draw(B, 1, queries, S, seed=9) > -0.3
    mask[1, 0, 2] = False
    mask[0, 0, 1] = True  # and one sees everything
    return mask


def weights() -> Tensor:
    """Return weights (B, H, T, S), of which one row is all on one key."""
    shares = draw(B, H, T, S, seed=4).softmax(-1)
    shares[0, 1, 2] = torch.eye(S, dtype=torch.float64)[3]
    return shares


def square(*seeds: int) -> tuple[Tensor, ...]:
    """Return weights (C, C) of about unit gain."""
    return tuple(draw(C, C, seed=seed) / C**0.5 for seed in seeds)


def subtract(builder: Callable[..., Any], d: int) -> Tensor:
    """Let hand-made weights attend to flagged tokens and return what the query token gets, (B, d)."""
    weights = [torch.as_tensor(w).double() for w in builder(d)]
    x = torch.zeros(64, 9, 3 * d, dtype=torch.float64)
    x[:, 1:, :d] = draw(64, 8, d, seed=1)
    x[:, 0, d + 2] = 1.0
    places = draw(64, 8, seed=2).argsort(-1) + 1
    for flag in (0, 1):
        x[torch.arange(64), places[:, flag], d + flag] = 1.0
    q, k, v = (reference.split_heads(x @ w.T, 2) for w in weights[:3])
    return (reference.merge_heads(reference.attention(q, k, v)[0]) @ weights[3].T)[:, 0, :d]


def use_module(cls: Callable[..., Any], x: Tensor, mask: Tensor | None, *parameters: Tensor) -> Any:
    """Build a learner's module, give it these weights and biases in turn, and run it."""
    module = cls(C, H).to(x.dtype)
    names = [f"{proj}.{kind}" for proj in ("q_proj", "k_proj", "v_proj", "out_proj") for kind in ("weight", "bias")]
    with torch.no_grad():
        for name, values in zip(names, parameters, strict=True):
            module.get_parameter(name).copy_(values)
    module.eval()
    return module(x) if mask is None else module(x, mask)


def _parameters() -> tuple[Tensor, ...]:
    return tuple(p for n in range(4) for p in (*square(20 + n), draw(C, seed=30 + n)))


def _whole(mask: tuple[Tensor, ...]) -> Callable[[], tuple[Any, ...]]:
    return lambda: (draw(B, S, C, seed=1), *square(2, 3, 4, 5), H, *mask)


def _module(mask: Tensor | None) -> Callable[[], tuple[Any, ...]]:
    return lambda: (draw(B, S, C, seed=1), mask, *_parameters())


_SCORES, _TOKENS, _HEADS = ("B", "H", "T", "S"), ("B", "S", "C"), ("B", "H", "S", "D")

EXERCISES: dict[str, tuple[Exercise, ...]] = {
    "similarity": (Exercise(r.similarity, lambda: (draw(S, C, seed=1),), ("S", "S")),),
    "project": (
        Exercise(r.project, lambda: (draw(B, S, C, seed=1), draw(18, C, seed=2), draw(18, seed=3)), ("B", "S", "out")),
    ),
    "project_qkv": (
        Exercise(r.project_qkv, lambda: (draw(B, S, C, seed=1), draw(3 * C, C, seed=2), draw(3 * C, seed=3)), _TOKENS),
    ),
    "split_heads": (Exercise(r.split_heads, lambda: (draw(B, S, C, seed=1), H), _HEADS),),
    "split_fused_qkv": (Exercise(r.split_fused_qkv, lambda: (draw(B, S, 3 * C, seed=1), H), _HEADS),),
    "one_head_queries": (
        Exercise(r.one_head_queries, lambda: (draw(B, S, C, seed=1), *square(2), 2, H), ("B", "S", "D")),
    ),
    "attention_scores": (
        Exercise(r.attention_scores, lambda: qkv()[:2], _SCORES),
        Exercise(r.attention_scores, lambda: qkv()[1:], _SCORES),
    ),
    "scaled_scores": (
        Exercise(r.scaled_scores, lambda: qkv()[:2], _SCORES),
        Exercise(r.scaled_scores, lambda: qkv()[1:], _SCORES),
    ),
    "score_form": (Exercise(r.score_form, lambda: (*square(1, 2), 2, H), ("C", "C")),),
    "softmax": (
        Exercise(r.softmax, lambda: (draw(B, H, T, S, seed=1),), _SCORES),
        Exercise(r.softmax, lambda: (1e4 * draw(B, H, T, S, seed=1),), _SCORES),
    ),
    "masked_softmax": (
        Exercise(r.masked_softmax, lambda: (draw(B, H, T, S, seed=1), _mask(T)), _SCORES),
        Exercise(r.masked_softmax, lambda: (draw(B, H, T, S, seed=1), _mask(T)[0, 0]), _SCORES),
    ),
    "entropy": (Exercise(r.entropy, lambda: (weights(),), ("B", "H", "T"), tolerance=1e-6),),
    "weighted_sum": (Exercise(r.weighted_sum, lambda: (weights(), qkv()[2]), ("B", "H", "T", "D")),),
    "self_attention": (
        Exercise(r.self_attention, lambda: (draw(B, S, C, seed=1), *square(2, 3, 4)), (_TOKENS, ("B", "S", "S"))),
    ),
    "merge_heads": (Exercise(r.merge_heads, lambda: (qkv()[1],), _TOKENS),),
    "head_contributions": (Exercise(r.head_contributions, lambda: (qkv()[1], *square(5)), ("B", "H", "S", "C")),),
    "build_subtractor": (Exercise(r.build_subtractor, lambda: (8,), ("B", "d"), subtract, 1e-3),),
    "multi_head_attention": tuple(
        Exercise(r.multi_head_attention, _whole(mask), (_TOKENS, ("B", "H", "S", "S"))) for mask in ((), (_mask(S),))
    ),
    "MultiHeadAttention": tuple(
        Exercise(r.MultiHeadAttention, _module(mask), _TOKENS, use_module) for mask in (None, _mask(S))
    ),
    "parameter_count": (
        Exercise(r.parameter_count, lambda: (24, 4, True)),
        Exercise(r.parameter_count, lambda: (24, 6, False)),
        Exercise(r.parameter_count, lambda: (10, 2, True)),
    ),
    "fold_value_bias": (Exercise(r.fold_value_bias, lambda: (*square(1), draw(C, seed=2), draw(C, seed=3)), ("C",)),),
}
