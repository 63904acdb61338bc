"""What lesson 12 draws and counts: one row in blocks, tiles, operations, and its lab."""

import itertools
import math

import pytest
import torch

from mha_course import flash
from mha_course.lessons.l12_flash_attention import online_softmax, pictures
from mha_course.lessons.l12_flash_attention.lab import TilingLab

TOKENS = ["the", "grey", "cat", "that", "chased", "the", "loud", "dogs", "was", "hungry"]


@pytest.fixture
def scores(draw):
    return 3 * draw(10, 10, seed=1)


def words(ax):
    return " ".join(text.get_text() for text in ax.texts)


@pytest.mark.parametrize("block_size", [1, 3, 4, 10, 99])
def test_running_numbers_are_those_of_the_row_so_far(scores, block_size):
    for row in scores:
        for step in online_softmax.running(row, block_size):
            seen = row[: step.last + 1]
            assert step.maximum == pytest.approx(seen.max().item())
            assert step.maximum + math.log(step.total) == pytest.approx(seen.logsumexp(0).item())
            assert 0 <= step.shrink <= 1
        assert step.last == 9


def test_hidden_scores_add_nothing():
    row = torch.tensor([-torch.inf, -torch.inf, 0.5, -torch.inf, -torch.inf])
    steps = online_softmax.running(row, 2)
    assert [(step.total, step.shrink) for step in steps] == [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0)]


def test_one_row_is_drawn_with_the_numbers_of_each_block(scores):
    top, bottom = pictures.online_softmax(scores[0], 4).axes
    for before, step in itertools.pairwise(online_softmax.running(scores[0], 4)):
        assert f"max {step.maximum:.1f}" in words(top)
        line = f"{before.total:.2f} × {step.shrink:.2f} + {step.added:.2f} = {step.total:.2f}"
        assert line in words(bottom)
    assert [bar.get_height() for bar in top.patches] == pytest.approx(scores[0].tolist())


def panels(lab):
    """Return the matrix of scores, the sums, and the table."""
    assert lab.state["trouble"] == ""
    return lab.state["panels"]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", [4, 3, 5, 8])
def test_the_lab_walks_through_all_tiles(scores, size, causal):
    lab = TilingLab(scores, TOKENS)
    lab.set(size=size, causal=causal)
    visited = flash.blocks(10, 10, size, causal=causal)
    visible = scores.masked_fill(torch.ones(10, 10).triu(1).bool() & causal, -torch.inf)
    for number, (rows, columns) in enumerate(visited, start=1):
        lab.set(tile=number)
        held, sums, table = panels(lab)
        want = torch.zeros(10, 10, dtype=torch.float64)
        want[rows, columns] = visible[rows, columns].masked_fill(
            visible[rows, columns].isneginf(), 0.0
        )
        assert torch.allclose(torch.tensor(held["values"], dtype=torch.float64), want, rtol=1e-3)
        so_far = visible[rows, : columns.stop]
        total = (so_far - so_far.amax(1, keepdim=True)).exp().sum(1)
        assert sums["values"][rows] == pytest.approx(total.tolist(), rel=1e-3)
        assert [line[1] for line in table["rows"]] == [f"{m:.1f}" for m in so_far.amax(1).tolist()]
        assert f"Tile {number} of {len(visited)}: " in lab.text
        row, column, tall, wide = held["tiles"][held["at"]]
        assert (rows, columns) == (slice(row, row + tall), slice(column, column + wide))
        seen = torch.zeros(10, 10, dtype=torch.bool)
        seen[rows, columns] = True
        assert torch.equal(torch.tensor(held["hidden"]) == 0, seen & ~visible.isneginf())
    final = (visible - visible.amax(1, keepdim=True)).exp().sum(1)
    assert sums["values"] == pytest.approx(final.tolist(), rel=1e-3)
    lab.set(causal=not causal)
    assert lab.values["tile"] == 1  # it begins again


def test_the_lab_says_which_row_shrinks_most():
    rising = torch.tensor([0.0, 0.0, 2.0, 3.0]).repeat(4, 1)
    rising[1, 3] = 5.0
    lab = TilingLab(rising, ["a", "b", "c", "d"])
    lab.set(size=3)
    assert "each begins with the maximum that it finds" in lab.text
    lab.set(tile=2)
    assert (
        "“b” meets a larger score, 5.0: its sum shrinks by the factor 0.050: 1.27 × 0.050 + 1.00 "
        "= 1.06." in lab.text
    )
    lab = TilingLab(-rising, ["a", "b", "c", "d"])
    lab.set(size=3, tile=2)
    assert "nothing shrinks" in lab.text
