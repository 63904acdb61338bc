"""A task that needs wide heads: look up the content stored with a key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mha_course.experiments.head_tasks import Task


@dataclass(frozen=True)
class AssociativeRecall(Task):
    """Look up the content stored with a key: the query token has one of 16 tokens' random keys.

    Channels: 0 to 15 the key, 16 to 30 the content, 31 the flag of the query token.
    """

    width: int = 32

    def draw(self, runs: int, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return x (runs, N, 17, 32) and targets (runs, N, 15)."""
        dice: dict[str, Any] = {"generator": generator, "device": "cpu"}
        x = torch.randn(runs, count, 17, self.width, **dice)  # (runs, N, 17, C)
        position = torch.randint(16, (runs, count, 1), **dice) + 1  # (runs, N, 1)
        at = position[..., None].expand(-1, -1, -1, self.width)  # (runs, N, 1, C)
        chosen = x.gather(2, at)[:, :, 0]  # (runs, N, C)
        x[:, :, 1:, 31] = 0.0
        x[:, :, 0, :16] = chosen[..., :16]
        x[:, :, 0, 16:31] = 0.0
        x[:, :, 0, 31] = 1.0
        return x, chosen[..., 16:31]
