"""The inputs on which answers are judged: sizes that all differ, nothing symmetric, no bias of 0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mha_course.exercises import references


@dataclass(frozen=True)
class Exercise:
    """One exercise: the reference, the probe that makes its arguments, and the names of its result's axes."""

    reference: Callable[..., Any]
    probe: Callable[[], tuple[Any, ...]]
    axes: tuple[str, ...]


def draw(*shape: int, seed: int) -> Tensor:
    """Return normal float64 numbers, the same everywhere: drawn on the CPU from a seed."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


EXERCISES = {
    "similarity": Exercise(references.similarity, lambda: (draw(5, 24, seed=1),), ("S", "S")),
    "project": Exercise(
        references.project,
        lambda: (draw(2, 5, 24, seed=1), draw(18, 24, seed=2), draw(18, seed=3)),
        ("B", "S", "out"),
    ),
    "project_qkv": Exercise(
        references.project_qkv,
        lambda: (draw(2, 5, 24, seed=1), draw(72, 24, seed=2), draw(72, seed=3)),
        ("B", "S", "C"),
    ),
}
