"""Moves make no new numbers: rerun on positions, they show names, orders and cuts."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from mha_course.tracing import trace

B, S, H, D = 3, 5, 4, 6
C = H * D
SHUFFLED = (B, 12, 4, 5)


# A move, the axes of what it moves and the sizes of these, and what becomes of them.
MOVES = {
    "patches_that_overlap": (lambda x: F.unfold(x, (2, 3)), SHUFFLED, "? ? ?"),
    "halves": (lambda x: x.hsplit([2])[0], (B, S, C), "B S C"),
    "one_token_of_one": (lambda x: x[:, :1].split([1, 0], 1)[0], (B, S, C), "B S C"),
    "two_steps_at_once": (lambda x: x[:, :2, ::2][:, ::2], (B, S, C), "B S ?"),
    "copies_by_a_tensor": (
        lambda x: x.repeat_interleave(torch.tensor([1, 3, 2]), 0),
        (B, S, C),
        "? S C",
    ),
}


@pytest.mark.parametrize("name", MOVES)
def test_names_follow_the_numbers(name):
    move, shape, expected = MOVES[name]
    given = "B Ch Y X" if len(shape) == 4 else "B S C"
    found = trace(move, torch.randn(shape), axes=given, sizes={"H": H} if "S" in given else {})
    assert " ".join(found.steps[-1].axes) == expected
    assert found.warnings == found.questions == found.notes == ()


def test_a_tensor_that_no_memory_holds_is_followed():
    found = trace(
        lambda x: x[:, 1:].unsqueeze(1).transpose(1, 2).chunk(2, -1)[1].squeeze(2),
        torch.zeros(1, 1, 1).expand(10**4, 10**5, 10**3),
        axes="B S C",
    )
    assert found.steps[-1].axes == ("B", "S", "?")


# Two axes of the same size, and the same factors in a different order


def folded(x):
    return x.view(B, S, H, D).transpose(1, 2).reshape(B * H, S, D)


def hidden(mask_of):
    return lambda x, mask: (folded(x) @ folded(x).mT).masked_fill(mask_of(mask), -1e9).softmax(-1)


def in_module(mask_of):
    module = nn.MultiheadAttention(C, H, batch_first=True)
    return lambda x, mask: module(x, x, x, attn_mask=mask_of(mask))


def windows(x, *order):
    return x.view(B, 2, 4, 3, 4, D).permute(0, 1, 3, *order, 5).reshape(B * 6, 16, D)


def beside_windows(*order):
    return lambda x, positions: windows(x, 2, 4) + windows(positions, *order)


def pictures(rows, columns):
    return lambda x, _: windows(x, 2, 4).view(B, rows, columns, 4, 4, D)


def beside_copies(copy):
    return lambda x, bias: x.repeat(7, 1, 1) @ x.repeat(7, 1, 1).mT + copy(bias)


TEXTS = (torch.randn(B, S, C), torch.rand(B, S, S) > 0.5), ("B S C", "B T S")
PICTURES = (torch.randn(B, 8, 12, D),) * 2, ("B Y X D",) * 2
ORDERS = {  # the right program, the wrong one, and what is said about it
    "mask": (
        hidden(lambda m: m.repeat_interleave(H, 0)),
        hidden(lambda m: m.repeat(H, 1, 1)),
        TEXTS,
        "fold-order-mixed: heads and sentences are swapped",
    ),
    "mask_of_the_module": (
        in_module(lambda m: m.repeat_interleave(H, 0)),
        in_module(lambda m: m.repeat(H, 1, 1)),
        TEXTS,
        "fold-order-mixed: heads and sentences are swapped",
    ),
    "copies": (
        beside_copies(lambda bias: bias.repeat(7, 1, 1)),
        beside_copies(lambda bias: bias.repeat_interleave(7, 0)),
        TEXTS,
        "broadcast-of-different-axes: broadcasting lines up copies*B with B*copies",
    ),
    "rows_and_columns_in_windows": (
        beside_windows(2, 4),
        beside_windows(4, 2),
        PICTURES,
        "broadcast-of-different-axes: broadcasting lines up (4 of Y)*(4 of X) with "
        "(4 of X)*(4 of Y)",
    ),
    "rows_and_columns_of_windows": (
        pictures(2, 3),
        pictures(3, 2),
        PICTURES,
        "reshape-across-axes: this reshape cuts across Y/4 and X/4",
    ),
}


@pytest.mark.parametrize("name", ORDERS)
def test_the_same_factors_in_another_order_are_another_axis(name):
    right, wrong, (tensors, axes), text = ORDERS[name]
    sizes = {"H": H} if "S" in axes[0] else {}
    first, second = (trace(fn, *tensors, axes=axes, sizes=sizes) for fn in (right, wrong))
    assert first.warnings == first.questions == ()
    assert [step.warning[: len(text)] for step in second.warnings] == [text]


# Pieces of joined tokens, and pixels


def jointly(x, y):
    both = torch.cat([y, x], 1)
    text, image = ((both @ both.mT).softmax(-1) @ both).split([y.size(1), x.size(1)], 1)
    return y + text, x + image


def with_relative_rows(q, k, rows):
    scores = torch.einsum("byxd,bvud->byxvu", q, k)
    return (scores + rows[None, :, None, :, None]).flatten(3).softmax(-1)


def test_pieces_of_joined_tokens_have_their_names_again():
    found = trace(jointly, torch.randn(B, 7, C), torch.randn(B, S, C), axes=["B S C", "B T C"])
    assert [step.axes for step in found.steps[-2:]] == [("B", "T", "C"), ("B", "S", "C")]
    assert found.warnings == found.questions == ()


def test_a_bias_of_pixels_is_no_mask_and_rows_are_no_tokens():
    pixels = torch.randn(2, B, 4, S, D)
    found = trace(with_relative_rows, *pixels, torch.randn(4, 4), axes=["B Y X D"] * 2 + ["Y Y"])
    assert found.steps[0].axes == ("B", "Y'", "X'", "Y", "X")
    assert found.warnings == found.questions == ()
