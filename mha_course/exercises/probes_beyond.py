"""The inputs on which answers of Part II are judged, and how those are run that are not compared number by number."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mha_course import caching, flash, masks, positions
from mha_course.exercises import beyond as r
from mha_course.exercises.inputs import Exercise, draw, qkv, square, weights
from mha_course.models import vision
from mha_course.tracing.torch_internals import DispatchMode, OpOverload

B, T, S, C, H, D, H_KV = 2, 5, 7, 24, 4, 6, 2


class HeldError(Exception):
    """Raised when an answer makes the whole matrix of scores."""


class _Watch(DispatchMode):
    """Raise as soon as a tensor has a row for each query and a column for each key."""

    def __init__(self, queries: int, keys: int) -> None:
        super().__init__()
        self.full = (queries, keys)

    def ran(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Look at the result alone."""
        if isinstance(out, Tensor) and tuple(out.shape[-2:]) == self.full:
            raise HeldError("All T x S scores are held at once. Work through one block of keys after the other.")


def in_blocks(answer: Callable[..., Any], q: Tensor, k: Tensor, v: Tensor, block_size: int) -> Any:
    """Run tiled attention, and see that no full matrix of scores is made."""
    with _Watch(q.size(2), k.size(2)):
        return answer(q, k, v, block_size)


def wire(answer: Callable[..., Any], x: Tensor, first: Tensor, second: Tensor) -> Any:
    """Give an encoder block four callables that do not commute."""
    return answer(
        x,
        lambda t: (t @ first).tanh() + t.mean(1, keepdim=True),
        lambda t: (t @ second).relu() + 0.3,
        lambda t: (t - t.mean(-1, keepdim=True)) * 1.5,
        lambda t: torch.nn.functional.layer_norm(t, t.shape[-1:]) - 0.2,
    )


def write_on(answer: Callable[..., Any], ids: Tensor, table: Tensor) -> Any:
    """Let a model whose next word depends on the last two words write four words."""

    def model(words: Tensor) -> Tensor:
        before = torch.cat((words[:, :1], words[:, :-1]), 1)
        return table[words] + table[before].flip(-1)

    return answer(model, ids, 4)


def with_dtype(answer: Callable[..., Any], mask: Tensor, dtype: torch.dtype) -> Any:
    """Return an additive mask, and whether it has the dtype that was asked for."""
    made = answer(mask, dtype)
    return (made, torch.tensor(made.dtype == dtype)) if isinstance(made, Tensor) else (made, torch.tensor(True))


def same_context(answer: Callable[..., Any], weights_: Tensor, v: Tensor) -> Any:
    """Return what other weights must keep, and two numbers that say whether they are weights, and others."""
    other = answer(weights_, v)
    kept = (other @ v, other.sum(-1))
    flags = ((other < -1e-9).sum(), ((other - weights_).abs().amax() < 1e-3).sum())
    return (*kept, torch.stack([flag.to(v.dtype) for flag in flags]))


def _caches() -> tuple[Tensor, ...]:
    return draw(B, 1, C, seed=1), draw(B, H, S, D, seed=2), draw(B, H, S, D, seed=3), *square(4, 5, 6, 7)


def _cross(mask: tuple[Tensor, ...], queries: int = T) -> Callable[[], tuple[Any, ...]]:
    return lambda: (draw(B, queries, C, seed=1), draw(B, S, C, seed=2), *square(3, 4, 5, 6), H, *mask)


def _memory_mask() -> Tensor:
    return torch.tensor([[True] * 5 + [False] * 2, [True] * 7])[:, None, None, :]


def _hidden() -> Tensor:
    return draw(T, S, seed=8) > 0


def _typed(dtype: torch.dtype) -> tuple[Any, ...]:
    return _hidden(), dtype


def _conventions() -> list[tuple[Tensor, str]]:
    seen = _hidden()
    additive = torch.zeros(T, S, dtype=torch.float64).masked_fill(~seen, -torch.inf)
    return [(seen, "bool"), (seen, "sdpa"), (~seen, "multihead"), (~seen, "seaborn"), (additive, "additive")]


_SCORES, _OUT = ("B", "H", "T", "S"), ("B", "T", "C")
BEYOND: dict[str, tuple[Exercise, ...]] = {
    "causal_mask": (Exercise(masks.causal_mask, lambda: (S,), ("S", "S")),),
    "padding_mask": (Exercise(masks.padding_mask, lambda: (torch.tensor([4, 7, 1, 6]), S), ("B", "1", "1", "S")),),
    "combine_masks": (
        Exercise(
            masks.combine_masks,
            lambda: (masks.causal_mask(S), masks.padding_mask(torch.tensor([4, 6]), S)),
            ("B", "1", "S", "S"),
        ),
    ),
    "causal_mask_for_cache": (Exercise(masks.causal_mask_for_cache, lambda: (3, 8), ("new", "total")),),
    "to_attend": tuple(Exercise(masks.to_attend, partial(tuple, given), ("T", "S")) for given in _conventions()),
    "additive_mask": tuple(
        Exercise(masks.additive_mask, partial(_typed, dtype), (("T", "S"), ()), with_dtype)
        for dtype in (torch.float64, torch.float32)
    ),
    "cross_attention": tuple(
        Exercise(r.cross_attention, _cross(*given), (_OUT, _SCORES)) for given in (((),), ((_memory_mask(),),), ((), S))
    ),
    "sinusoidal_encoding": (Exercise(positions.sinusoidal_encoding, lambda: (9, 14), ("S", "C"), tolerance=1e-5),),
    "rope": (
        Exercise(
            positions.rope,
            lambda: (draw(B, H, S, D, seed=1), torch.arange(S) + 3),
            ("B", "H", "S", "D"),
            tolerance=1e-5,  # angles are often made in float32
        ),
    ),
    "decode_step": (
        Exercise(caching.decode_step, lambda: (*_caches(), H), (("B", "1", "C"), *[("B", "H", "P+1", "D")] * 2)),
    ),
    "repeat_kv": (Exercise(caching.repeat_kv, lambda: (draw(B, H_KV, S, D, seed=1), H), ("B", "H", "S", "D")),),
    "kv_cache_bytes": (
        Exercise(caching.kv_cache_bytes, lambda: (3, 2, 11, 4, 6, 2)),
        Exercise(caching.kv_cache_bytes, lambda: (5, 1, 7, 2, 8, 4)),
    ),
    "online_softmax": (
        Exercise(flash.online_softmax, lambda: (3 * draw(B, H, T, 11, seed=1), 4), (("B", "H", "T"),) * 2),
    ),
    "tiled_attention": (Exercise(flash.tiled_attention, lambda: (*qkv(), 3), ("B", "H", "T", "D"), in_blocks),),
    "layer_norm": (
        Exercise(
            r.layer_norm,
            lambda: (0.01 * draw(B, S, C, seed=1) + 0.5, draw(C, seed=2), draw(C, seed=3)),
            ("B", "S", "C"),
        ),
    ),
    "encoder_block": (
        Exercise(r.encoder_block, lambda: (draw(B, S, C, seed=1), *square(2, 3)), ("B", "S", "C"), wire),
    ),
    "patchify": (Exercise(vision.patchify, lambda: (draw(B, 3, 8, 12, seed=1), 4), ("B", "N", "3*P*P")),),
    "add_class_token": (
        Exercise(vision.add_class_token, lambda: (draw(B, S, C, seed=1), draw(C, seed=2)), ("B", "N+1", "C")),
    ),
    "next_token_targets": (
        Exercise(
            r.next_token_targets, lambda: (torch.randint(0, 99, (B, S), generator=_seeded(1)),), (("B", "S-1"),) * 2
        ),
    ),
    "generate": (
        Exercise(
            r.generate,
            lambda: (torch.randint(0, 13, (B, S), generator=_seeded(2)), draw(13, 13, seed=3)),
            ("B", "S+steps"),
            write_on,
        ),
    ),
    "ablate_heads": (Exercise(r.ablate_heads, lambda: (draw(B, H, S, D, seed=1), [1, 3]), ("B", "H", "S", "D")),),
    "other_weights": (
        Exercise(
            r.other_weights,
            lambda: ((0.3 * draw(T, 9, seed=1)).softmax(-1), draw(9, 4, seed=2)),
            (("T", "D"), ("T",), ("checks",)),
            same_context,
        ),
    ),
    "relation_score": (Exercise(r.relation_score, lambda: (weights()[0, :, :, :T], [(0, 3), (4, 1), (2, 2)]), ("H",)),),
}


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
