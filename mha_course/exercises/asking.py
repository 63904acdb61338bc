"""What a question of a lesson is, and how its answers are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch


@dataclass(frozen=True)
class Question:
    """One question.

    ``choices`` maps what can be picked to the reason why it is wrong (empty for the right one); without
    choices the answer is typed. ``letters`` are the axes of a shape, which will do as an answer. ``wrong`` maps
    typed answers to reasons, ``nudge`` is for all others.
    """

    text: str
    answer: Callable[[], str]
    because: str
    choices: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    nudge: str = "Work it out once more, one axis at a time."
    tolerance: float = 0.0
    letters: str = ""  # a shape may be answered by its axes, too


def shape_of(tensor: torch.Tensor) -> str:
    """Write a shape as a learner types it."""
    return ", ".join(map(str, tensor.shape))
