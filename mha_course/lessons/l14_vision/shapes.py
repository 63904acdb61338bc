"""Synthetic pictures: three coloured shapes on a background, with noise. The question is about the
left and the right one.

Axes: B pictures, two of each scene; height and width are in pixels (H is for heads).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

HEIGHT, WIDTH = 20, 28
PART = 8  # columns of pixels for each shape, a whole number of patches
STARTS = (0, 12, 20)  # the first column of each part
COLOURS = {
    "red": (0.95, 0.10, 0.10),
    "yellow": (0.95, 0.95, 0.10),
    "cyan": (0.10, 0.95, 0.95),
    "blue": (0.10, 0.10, 0.95),
}
KINDS = ("square", "disc")
ANSWERS = ("different", "same")
# pixel values before noise
_HALF = 3.0
_RADIUS = 3.4
_MARGIN = 3.5
_NOISE = 0.08


class Pictures(NamedTuple):
    """Images, the right answers, and the shapes from left to right."""

    images: Tensor  # (B, 3, height, width), from 0 to 1
    same: Tensor  # (B,), 1 where the left and the right shape have one colour
    shapes: Tensor  # (B, height, width), True on the pixels of the left and the right shape
    colours: Tensor  # (B, 3), numbers of COLOURS
    kinds: Tensor  # (B, 3), numbers of KINDS

    def describe(self, number: int) -> str:
        """Describe one picture in words, from left to right.

        >>> draw(4, torch.Generator().manual_seed(0)).describe(0)
        'a red disc, a blue disc, a red disc'
        """
        names = list(COLOURS)
        pairs = zip(self.colours[number].tolist(), self.kinds[number].tolist(), strict=True)
        return ", ".join(f"a {names[colour]} {KINDS[kind]}" for colour, kind in pairs)


def draw(count: int, generator: torch.Generator) -> Pictures:
    """Draw pictures, reproducibly from a generator's state.

    Pictures 2n and 2n + 1 have the same patches in two orders, with different answers: two shapes
    share a colour, and the third is in the middle in one picture and at the side in the other.
    """
    dice: dict[str, Any] = {"generator": generator, "device": generator.device}
    scenes = (count + 1) // 2
    twice = torch.randint(0, len(COLOURS), (scenes,), **dice)  # (B,)
    once = (twice + torch.randint(1, len(COLOURS), (scenes,), **dice)) % len(COLOURS)  # (B,)
    colours = torch.stack((twice, once, twice), dim=1)  # (B, 3)
    kinds = torch.randint(0, len(KINDS), (scenes, 3), **dice)  # (B, 3)
    images, covered = _paint(colours, kinds, dice)
    # how many parts each picture of a pair is rotated by: 0 in one, 1 or 2 in the other
    shifts = torch.randint(1, 3, (scenes, 1), **dice).expand(-1, 2).clone()  # (B, 2)
    shifts.scatter_(1, torch.randint(0, 2, (scenes, 1), **dice), 0)
    order = (torch.arange(3, device=generator.device) + shifts.flatten()[:, None]) % 3
    twins = [tensor.repeat_interleave(2, dim=0) for tensor in (images, covered, colours, kinds)]
    columns = _columns(order)  # (2*B, width)
    images = twins[0].gather(3, columns[:, None, None].expand_as(twins[0]))
    shapes = twins[1].gather(2, columns[:, None].expand_as(twins[1]))
    shapes[:, :, PART : STARTS[2]] = False  # the middle one is not asked about
    colours, kinds = (tensor.gather(1, order) for tensor in twins[2:])
    same = (colours[:, 0] == colours[:, 2]).long()
    return Pictures(*(tensor[:count] for tensor in (images, same, shapes, colours, kinds)))


def _columns(order: Tensor) -> Tensor:
    """Return the source of each column of pixels if the parts are in this order, (B, width)."""
    columns = torch.arange(WIDTH, device=order.device).repeat(len(order), 1)
    starts = torch.tensor(STARTS, device=order.device)
    within = torch.arange(PART, device=order.device)
    for number, start in enumerate(STARTS):
        columns[:, start : start + PART] = starts[order[:, number], None] + within
    return columns


def _paint(colours: Tensor, kinds: Tensor, dice: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Paint three shapes at random positions in their parts.

    Returns: images (B, 3, height, width) and which pixels a shape covers, (B, height, width).
    """
    count, device = len(colours), colours.device
    free = torch.tensor([HEIGHT, PART], device=device) - 2 * _MARGIN
    centres = _MARGIN + free * torch.rand(count, 3, 2, **dice)  # (B, 3, 2), the row and the column
    centres[..., 1] += torch.tensor(STARTS, device=device)
    covered = _cover(centres, kinds)  # (B, 3, height, width)
    background = 0.25 + 0.6 * torch.rand(count, 3, 1, 1, **dice)  # (B, 3, 1, 1)
    palette = torch.tensor(list(COLOURS.values()), device=device)
    images = background.expand(count, 3, HEIGHT, WIDTH)  # (B, 3, height, width)
    for number in range(3):
        paint = palette[colours[:, number]][:, :, None, None]  # (B, 3, 1, 1)
        images = torch.where(covered[:, number, None], paint, images)  # (B, 3, height, width)
    noise = _NOISE * torch.randn(images.shape, **dice)  # (B, 3, height, width)
    return (images + noise).clamp(0, 1), covered.any(1)


def _cover(centres: Tensor, kinds: Tensor) -> Tensor:
    """Return which pixels each shape covers."""
    rows = torch.arange(HEIGHT, device=centres.device) + 0.5
    columns = torch.arange(WIDTH, device=centres.device) + 0.5
    dy = (rows[:, None] - centres[:, :, 0, None, None]).abs()  # (B, 3, height, 1)
    dx = (columns - centres[:, :, 1, None, None]).abs()  # (B, 3, 1, width)
    square = (dy < _HALF) & (dx < _HALF)  # (B, 3, height, width)
    disc = dy.square() + dx.square() < _RADIUS**2  # (B, 3, height, width)
    return torch.where(kinds[:, :, None, None] == 0, square, disc)  # (B, 3, height, width)
