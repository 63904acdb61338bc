"""The predictions of lesson 14, vision, as data. Right answers are computed, not typed."""

from __future__ import annotations

import torch

from mha_course.exercises.asking import Question, shape_of
from mha_course.models import vision

_SAME, _MOVED, _OTHER = "the same", "the same numbers, shuffled alike", "something else"


def _beneath() -> str:
    """Mark the first pixel under patch 0, and see in which patch it lies."""
    images = torch.zeros(1, 3, 20, 28)
    images[0, :, 4, 0] = 1.0
    return str(int(vision.patchify(images, 4)[0].sum(-1).argmax()))


def _first_four() -> str:
    """Give every pixel a number that tells what it is, and read the first four of a patch."""
    images = torch.arange(3 * 20 * 28).view(1, 3, 20, 28)
    first = vision.patchify(images, 4)[0, 0, :4].tolist()
    ways = {
        "four pixels of the top row, red": images[0, 0, 0, :4],
        "red, green and blue of the first pixel, and red of the next": images[0, :, 0, :2].T.flatten()[:4],
        "four pixels of the left column, red": images[0, 0, :4, 0],
    }
    return next(name for name, want in ways.items() if want.tolist() == first)


def _tokens() -> str:
    """Count the tokens of ViT-B/16 with a part of its width."""
    model = vision.VisionTransformer((224, 224), 16, d_model=4, num_layers=1)
    return str(model.embed(torch.zeros(1, 3, 224, 224)).size(1))


@torch.no_grad()
def _shuffled() -> str:
    """Take a model's positions away, shuffle the patches of an image, and compare the answers."""
    model = vision.new_model(0)
    assert isinstance(model, vision.VisionTransformer)
    model.position_embedding.zero_()
    images = torch.rand(1, 3, 20, 28, generator=torch.Generator().manual_seed(0))
    patches = vision.patchify(images, 4)  # (1, 35, 48)
    shuffled = vision.unpatchify(patches.flip(1), 4, 7)
    before, after = model(images), model(shuffled)
    if torch.allclose(before, after, atol=1e-5):
        return _SAME
    return _MOVED if torch.allclose(before.flip(-1), after, atol=1e-5) else _OTHER


def _votes() -> str:
    """Look for votes of two colours, one number each, that answer all four pictures by their sum."""
    steps = torch.linspace(-1, 1, 21)
    red, blue = torch.cartesian_prod(steps, steps).T
    best = max(int(right) for right in ((2 * red > 0).int() + (2 * blue > 0).int() + 2 * (red + blue < 0).int()))
    return str(best)


QUESTIONS: dict[str, Question] = {
    "patches-shape": Question(
        "Images (2, 3, 20, 28) are cut into patches of 4 by 4 pixels, each made flat. What is the shape of the result?",
        answer=lambda: shape_of(vision.patchify(torch.zeros(2, 3, 20, 28), 4)),
        because="5 rows of 7 patches are 35 tokens, and each holds 3 · 4 · 4 numbers.",
        wrong={
            "2, 35, 16": "A patch holds three channels.",
            "2, 140, 48": "Count again: 20 / 4 rows of 28 / 4 patches.",
            "2, 5, 7, 48": "That is right before rows and columns are made one axis: attention wants a sequence.",
            "2, 3, 35, 16": "Channels belong into the patch: a token sees all three.",
        },
        nudge="How many patches fit down, how many across? How many numbers are in one?",
    ),
    "patch-beneath": Question(
        "There are 5 rows of 7 patches, numbered from 0, row by row. Which number has the patch right beneath patch 0?",
        answer=_beneath,
        because="A row has 7 patches, 0 to 6, so the next row starts with 7. Neighbours in the image may be far apart "
        "in the sequence.",
        wrong={
            "1": "That is the one to the right.",
            "5": "That would be so if patches were counted column by column, or a row had 5 of them.",
            "28": "Those are pixels. A row has 28 / 4 patches.",
        },
    ),
    "patch-order": Question(
        "A patch is flattened as (channel, row, column). Which are its first four numbers, with P = 4?",
        answer=_first_four,
        because="The last axis runs fastest: along a row of pixels, then row by row, then channel by channel.",
        choices={
            "four pixels of the top row, red": "",
            "red, green and blue of the first pixel, and red of the next": "That is (row, column, channel), as image "
            "files and matplotlib have it. A trained Linear would read other numbers than it knows.",
            "four pixels of the left column, red": "That is (channel, column, row).",
        },
    ),
    "vit-tokens": Question(
        "ViT-B/16 reads images of 224 by 224 pixels in patches of 16 by 16. How many tokens enter its first block?",
        answer=_tokens,
        because="14 · 14 patches are 196, and the class token makes 197.",
        wrong={
            "196": "Those are the patches. One token more comes before them.",
            "14": "That is one row of patches.",
            "50176": "Those are the pixels. Attention over them would need 50,176² scores a head.",
            "256": "Those are the pixels of one patch.",
        },
    ),
    "shuffled-patches": Question(
        "A vision transformer without position embedding reads an image, then the same image with its patches "
        "shuffled. What does the class token answer?",
        answer=_shuffled,
        because="Attention sums over the patches, and a sum does not know their order. To such a model both are one.",
        choices={
            _SAME: "",
            _MOVED: "The patches' results move with the patches. The class token is not among those shuffled.",
            _OTHER: "What would tell it that something moved? It knows what each patch shows, and not where.",
        },
    ),
    "votes-of-patches": Question(
        "Two colours, four pictures: red and red, blue and blue, red and blue, blue and red. Each shape gives one "
        "number that depends on its colour alone; a sum above 0 means “same”, below 0 “different”. For how many "
        "pictures can the answer be right at most?",
        answer=_votes,
        because="For both “same” pictures both numbers must be above 0, and then red plus blue is, too. Give one up: "
        "red 1, blue -2.",
        wrong={
            "4": "Then 2 · red > 0, 2 · blue > 0, and red + blue < 0. Try to find two such numbers.",
            "2": "That is guessing. One more is possible: let red and blue disagree.",
        },
        nudge="Write down the four sums, and what each should be.",
    ),
}
