"""Lesson 14, Vision."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from mha_course.exercises.spec import Exercise, Lesson, mistake, question
from mha_course.lessons.l14_vision import vision


def _grid(x: Tensor, n: int) -> Tensor:
    return x.unflatten(3, (-1, n)).unflatten(2, (-1, n))


def _inside_out(order: tuple[int, ...]) -> Callable[[Tensor, int], Tensor]:
    """Return patchify that cuts each side into n pieces, and brings the axes into an order."""

    def patchify(x: Tensor, n: int) -> Tensor:
        cut = x.unflatten(3, (n, -1)).unflatten(2, (n, -1))
        return cut.permute(order).reshape(len(x), -1, 3 * n * n)

    return patchify


def _sides_exchanged(x: Tensor, n: int) -> Tensor:
    cut = x.reshape(len(x), 3, x.size(3) // n, n, x.size(2) // n, n)
    return cut.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


def _four_by_four(x: Tensor, n: int) -> Tensor:
    return x.reshape(len(x), 3, x.size(2) // 4, 4, x.size(3) // 4, 4).permute(0, 2, 4, 1, 3, 5)


MISTAKES = [
    mistake("patchify-without-permute", patchify=lambda x, n: x.reshape(x.size(0), -1, 3 * n * n)),
    mistake(
        "unfold-without-permute",
        patchify=lambda x, n: x.unfold(2, n, n).unfold(3, n, n).reshape(len(x), -1, 3 * n * n),
    ),
    mistake(
        "patchify-channels-last",
        patchify=lambda x, n: _grid(x, n).permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2),
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
        "In memory an image lies channel after channel, row after row. Which axes must be "
        "neighbours before a patch can be flattened?",
        "Cut height and width into patches and pixels, bring the two patch axes to the front "
        "with `permute`, and flatten. It is the head split in two directions.",
        "Cut (B, 3, H, W) into (B, 3, H/P, P, W/P, P), reorder it as (B, H/P, W/P, 3, P, P), and "
        "flatten it to (B, N, 3·P·P).",
        line="cut = images.unflatten(3, (-1, patch_size)).unflatten(2, (-1, patch_size))  # (B, "
        "3, H/P, P, W/P, P)\n"
        "return cut.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)  # (B, N, 3·P·P)",
        drawn=lambda d: (d.normal(d.B, 3, d.T * d.D, d.S * d.D), d.D),
        axes="B N 3*P*P",
        done="You can turn an image into a sequence. Move the image one patch to the right: which "
        "tokens go where?",
    ),
    Exercise(
        vision.add_class_token,
        "The class token is one vector. How does it get into every image of the batch?",
        "`expand` shows one vector B times, and `torch.cat` joins along the tokens. The class "
        "token goes first.",
        "Expand class_token (C,) to (B, 1, C). Join it with (B, N, C) along axis 1, which gives "
        "(B, N + 1, C).",
        drawn=lambda d: (d("BSC"), d("C")),
        axes="B N+1 C",
        done="You can give an image a token that gathers. Which row of the weights shows what it "
        "attends to?",
    ),
]

QUESTIONS = {
    "patches-shape": question(
        "Images (2, 3, 20, 28) are cut into patches of 4 by 4 pixels, and each patch is "
        "flattened. What is the shape of the result?",
        "2, 35, 48 → 5 rows of 7 patches are 35 tokens, and each holds 3 · 4 · 4 numbers.",
        "2, 35, 16 → A patch holds three channels.",
        "2, 140, 48 → Count again: 20 / 4 rows of 28 / 4 patches.",
        "2, 5, 7, 48 → That is the shape before rows and columns become one axis. Attention "
        "wants a sequence.",
        "2, 3, 35, 16 → The channels belong in the patch: a token sees all three.",
        nudge="How many patches fit down, how many across? How many numbers are in one?",
    ),
    "patch-beneath": question(
        "There are 5 rows of 7 patches, numbered from 0, row by row. Which number does the "
        "patch directly below patch 0 have?",
        "7 → A row has 7 patches, 0 to 6, so the next row starts with 7. Neighbours in the image "
        "may be far apart in the sequence.",
        "1 → That is the patch to its right.",
        "5 → That would be right if patches were counted column by column, or if a row had 5.",
        "28 → Those are pixels. A row has 28 / 4 patches.",
        units="patch number",
        nudge="How many patches are in a row? The count continues in the next row.",
    ),
    "patch-order": question(
        "A patch of 4 by 4 pixels is flattened as (channel, row, column). Which are its first "
        "four numbers?",
        "✔ four pixels of the top row, red → The last axis runs fastest: along a row of pixels, "
        "then row by row, then channel by channel.",
        "red, green and blue of the first pixel, and red of the next → That is (row, column, "
        "channel), the order of image files and matplotlib. A trained Linear would then "
        "multiply the wrong numbers.",
        "four pixels of the left column, red → That is (channel, column, row).",
    ),
    "vit-tokens": question(
        "ViT-B/16 reads images of 224 by 224 pixels in patches of 16 by 16. How many tokens enter "
        "its first block?",
        "197 → 14 · 14 patches are 196, and the class token makes 197.",
        "196 → Those are the patches. One more token comes before them.",
        "14 → That is one row of patches.",
        "50176 → Those are the pixels. Attention over them would need 50,176² scores per head.",
        "256 → Those are the pixels of one patch.",
        units="tokens",
        nudge="How many patches fit across, and how many down? What is put in front of them?",
    ),
    "shuffled-patches": question(
        "A vision transformer without position embeddings reads an image, then the same image "
        "with its patches shuffled. What does the class token answer?",
        "✔ the same → Attention sums over the patches, and a sum does not know their order. Such "
        "a model cannot tell the two apart.",
        "the same numbers, shuffled alike → The outputs of the patches move with the patches. The "
        "class token was not shuffled.",
        "something else → What would tell it that something moved? It knows what each patch shows, "
        "but not where it is.",
    ),
    "votes-of-patches": question(
        "Two colours, four pictures: red and red, blue and blue, red and blue, blue and red. Each "
        "shape gives one number that depends on its colour alone; a sum above 0 means “same”, "
        "below 0 “different”. For how many pictures can the answer be right at most?",
        "3 → For both “same” pictures both numbers must be above 0, and then red plus "
        "blue is above 0. Give one picture up: red 1, blue -2.",
        "4 → Then 2 · red > 0, 2 · blue > 0, and red + blue < 0. Try to find two such numbers.",
        "2 → That is guessing. One more is possible: give red and blue opposite signs.",
        nudge="Write down the four sums and the sign that each should have.",
        units="pictures",
        also=("3 of 4", "3 out of 4", "3/4", "three"),
    ),
}

LESSON = Lesson(14, "Vision", EXERCISES, QUESTIONS)
