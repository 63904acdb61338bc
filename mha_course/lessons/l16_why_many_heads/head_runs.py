"""Runs on two tasks, with many kinds of heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from mha_course.experiments.head_tasks import TwoTokens, learn
from mha_course.lessons.l16_why_many_heads.associative_recall import AssociativeRecall

HEADS = (1, 2, 4, 8, 16)
SEEDS = tuple(range(400, 440))
TWO_LAYERS = {"num_heads": 1, "num_layers": 2, "score_dim": 12, "value_dim": 12}


def difference(num_heads: int, seeds: Sequence[int] = SEEDS) -> list[float]:
    """Train five runs per seed on the difference of two contents; return their R²."""
    runs = [learn(TwoTokens(), num_heads, seed=seed).r2.tolist() for seed in seeds]
    return [value for r2 in runs for value in r2]


def two_layers(target: Literal["difference", "pair"]) -> list[float]:
    """Train a hundred runs of two one-head layers on a target; return their R²."""
    task = TwoTokens(target)
    runs = [learn(task, runs=50, seed=seed, **TWO_LAYERS).r2.tolist() for seed in (500, 501)]
    return runs[0] + runs[1]


def thin(num_heads: int, *, runs: int = 3, steps: int = 1000) -> dict[str, list[float]]:
    """Train runs to look up one of 16 keys, with all, q and k, or v narrow; return their R²."""
    task = AssociativeRecall()
    wide: dict[str, dict[str, Any]] = {
        "q, k and v": {},
        "q and k": {"value_dim": task.width},
        "v": {"score_dim": task.width},
    }
    return {
        name: learn(task, num_heads, runs=runs, steps=steps, **options).r2.tolist()
        for name, options in wide.items()
    }
