"""Pictures that the course draws itself: two coloured shapes on a background, with noise.

Axes: B pictures; height and width are in pixels (H is for heads).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

HEIGHT, WIDTH = 20, 28
PART = 12  # columns of pixels that each shape may lie in: the first ones, and the last
COLOURS = {
    "red": (0.95, 0.10, 0.10),
    "yellow": (0.95, 0.95, 0.10),
    "green": (0.10, 0.95, 0.10),
    "cyan": (0.10, 0.95, 0.95),
    "blue": (0.10, 0.10, 0.95),
    "magenta": (0.95, 0.10, 0.95),
}
KINDS = ("square", "disc")
ANSWERS = ("different", "same")
# in pixels, but for the noise
_HALF = 3.0
_RADIUS = 3.4
_MARGIN = 3.5
_NOISE = 0.08


class Pictures(NamedTuple):
    """Images, the right answers, and where the shapes are, the left one first."""

    images: Tensor  # (B, 3, height, width), from 0 to 1
    same: Tensor  # (B,), 1 where both shapes have one colour
    shapes: Tensor  # (B, height, width), True on the pixels of a shape
    colours: Tensor  # (B, 2), numbers of COLOURS
    kinds: Tensor  # (B, 2), numbers of KINDS

    def describe(self, number: int) -> str:
        """Describe one picture in words.

        >>> draw(4, torch.Generator().manual_seed(0)).describe(0)
        'a yellow square and a blue disc'
        """
        names = list(COLOURS)
        pairs = zip(self.colours[number].tolist(), self.kinds[number].tolist(), strict=True)
        return " and ".join(f"a {names[colour]} {KINDS[kind]}" for colour, kind in pairs)


def draw(count: int, generator: torch.Generator) -> Pictures:
    """Draw so many pictures; the same generator draws the same ones.

    Both answers are equally likely. The background has a random colour, so that the mean colour of
    a picture says little of its shapes.
    """
    dice: dict[str, Any] = {"generator": generator, "device": generator.device}
    same = torch.randint(0, 2, (count,), **dice)  # (B,)
    left = torch.randint(0, len(COLOURS), (count,), **dice)  # (B,)
    other = (left + torch.randint(1, len(COLOURS), (count,), **dice)) % len(COLOURS)  # (B,)
    colours = torch.stack((left, torch.where(same == 1, left, other)), dim=1)  # (B, 2)
    kinds = torch.randint(0, len(KINDS), (count, 2), **dice)  # (B, 2)
    free = torch.tensor([HEIGHT, PART], device=generator.device) - 2 * _MARGIN
    centres = _MARGIN + free * torch.rand(count, 2, 2, **dice)  # (B, 2, 2), the row and the column
    centres[:, 1, 1] += WIDTH - PART
    covered = _cover(centres, kinds)  # (B, 2, height, width)
    background = 0.25 + 0.6 * torch.rand(count, 3, 1, 1, **dice)  # (B, 3, 1, 1)
    palette = torch.tensor(list(COLOURS.values()), device=generator.device)
    images = background.expand(count, 3, HEIGHT, WIDTH)  # (B, 3, height, width)
    for number in range(2):
        paint = palette[colours[:, number]][:, :, None, None]  # (B, 3, 1, 1)
        images = torch.where(covered[:, number, None], paint, images)  # (B, 3, height, width)
    noise = _NOISE * torch.randn(images.shape, **dice)  # (B, 3, height, width)
    return Pictures((images + noise).clamp(0, 1), same, covered.any(1), colours, kinds)


def _cover(centres: Tensor, kinds: Tensor) -> Tensor:
    """Return which pixels each shape covers."""
    rows = torch.arange(HEIGHT, device=centres.device) + 0.5
    columns = torch.arange(WIDTH, device=centres.device) + 0.5
    down = (rows[:, None] - centres[:, :, 0, None, None]).abs()  # (B, 2, height, 1)
    across = (columns - centres[:, :, 1, None, None]).abs()  # (B, 2, 1, width)
    square = (down < _HALF) & (across < _HALF)  # (B, 2, height, width)
    disc = down.square() + across.square() < _RADIUS**2  # (B, 2, height, width)
    return torch.where(kinds[:, :, None, None] == 0, square, disc)  # (B, 2, height, width)
