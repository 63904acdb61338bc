"""Lesson 14, Vision."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from mha_course.exercises.spec import Exercise, Lesson, mistake
from mha_course.lessons.l14_vision import vision


def _grid(x: Tensor, n: int) -> Tensor:
    return x.unflatten(3, (-1, n)).unflatten(2, (-1, n))


def _inside_out(order: tuple[int, ...]) -> Callable[[Tensor, int], Tensor]:
    """Return patchify that cuts each side into n pieces, then permutes the axes."""

    def patchify(x: Tensor, n: int) -> Tensor:
        grid = x.unflatten(3, (n, -1)).unflatten(2, (n, -1))
        return grid.permute(order).reshape(len(x), -1, 3 * n * n)

    return patchify


def _sides_exchanged(x: Tensor, n: int) -> Tensor:
    grid = x.reshape(len(x), 3, x.size(3) // n, n, x.size(2) // n, n)
    return grid.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


def _four_by_four(x: Tensor, n: int) -> Tensor:
    return x.reshape(len(x), 3, x.size(2) // 4, 4, x.size(3) // 4, 4).permute(0, 2, 4, 1, 3, 5)


def _one_pixel_further(x: Tensor, n: int) -> Tensor:
    """Cut as many patches, each only one pixel further than the last."""
    patches = F.unfold(x[:, :, : x.size(2) // n + n - 1, : x.size(3) // n + n - 1], n)
    return patches.mT


MISTAKES = [
    mistake(
        "patchify-without-permute",
        patchify=[
            lambda x, n: x.reshape(x.size(0), -1, 3 * n * n),
            lambda x, n: (
                x.reshape(len(x), 3, x.size(2) // n, x.size(3) // n, n, n)
                .permute(0, 2, 3, 1, 4, 5)
                .reshape(len(x), -1, 3 * n * n)
            ),
        ],
    ),
    mistake("/patches-overlap", patchify=_one_pixel_further),
    mistake(
        "unfold-without-permute",
        patchify=lambda x, n: x.unfold(2, n, n).unfold(3, n, n).reshape(len(x), -1, 3 * n * n),
    ),
    mistake(
        "patchify-channels-last",
        patchify=lambda x, n: _grid(x, n).permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2),
    ),
    mistake(
        "patch-columns-first",
        patchify=lambda x, n: _grid(x, n).permute(0, 2, 4, 1, 5, 3).flatten(3).flatten(1, 2),
    ),
    mistake(
        "patchify-transposed",
        patchify=lambda x, n: _grid(x, n).permute(0, 4, 2, 1, 3, 5).flatten(3).flatten(1, 2),
    ),
    mistake(
        "patchify-cut-inside-out",
        patchify=[_inside_out((0, 3, 5, 1, 2, 4)), _inside_out((0, 2, 4, 1, 3, 5))],
    ),
    mistake("patchify-sides-exchanged", patchify=_sides_exchanged),
    mistake(
        "patch-size-hard-coded",
        patchify=[
            lambda x, n: _four_by_four(x, n).flatten(3).flatten(1, 2),
            lambda x, n: _grid(x, 4).permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2),
            lambda x, n: F.unfold(x, 4, stride=4).mT,
        ],
    ),
    mistake(
        "class-token-not-expanded",
        crashes=r"except in dimension 1|same number of dimensions|range of \[-1, 0\], but got 1",
        only=("add_class_token",),
    ),
    mistake(
        "class-token-wrong-axis", crashes="except in dimension [02]", only=("add_class_token",)
    ),
    mistake(
        "class-token-last", add_class_token=lambda x, c: torch.cat((x, c.expand(len(x), 1, -1)), 1)
    ),
]

EXERCISES = [
    Exercise(
        vision.patchify,
        "In memory, an image is stored channel by channel, row by row. Which axes must be "
        "neighbours before you can flatten a patch?",
        "Cut height and width into patches and pixels, bring the two patch axes to the front with "
        "`permute`, and flatten. It's the head split, in two directions.",
        "Cut (B, 3, H, W) into (B, 3, H/P, P, W/P, P), reorder it as (B, H/P, W/P, 3, P, P), and "
        "flatten it to (B, N, 3·P·P).",
        line="cut = images.unflatten(3, (-1, patch_size)).unflatten(2, (-1, patch_size))  # (B, "
        "3, H/P, P, W/P, P)\n"
        "return cut.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)  # (B, N, 3·P·P)",
        drawn=lambda d: (d.normal(d.B, 3, d.T * d.D, max(d.T, d.S) * d.D), d.D),
        axes="B N 3*P*P",
        done="You can turn an image into a sequence. Move the image one patch to the right: which "
        "tokens go where?",
    ),
    Exercise(
        vision.add_class_token,
        "The class token is one vector. How does it get into every image of the batch?",
        "`expand` shows one vector B times, and `torch.cat` joins along the token axis. The class "
        "token goes first.",
        "Expand class_token (C,) to (B, 1, C). Join it with (B, N, C) along axis 1, which gives "
        "(B, N + 1, C).",
        drawn=lambda d: (d("BSC"), d("C")),
        axes="B N+1 C",
        done="You can give an image a token that gathers. Which row of the weights shows what it "
        "attends to?",
    ),
]

LESSON = Lesson(14, "Vision", EXERCISES)
