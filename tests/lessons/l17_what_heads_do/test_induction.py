"""Repeated words, which of them are known, and the attention-only model that continues them."""

import math

import pytest
import torch
from rewriting import generator

from mha_course.lessons.l17_what_heads_do import induction


def test_repeated_words_are_different_ones_and_then_the_same_again():
    ids = induction.repeated_words(50, generator())
    assert ids.shape == (50, 24)
    periods = [len(set(row)) for row in ids.tolist()]
    assert set(periods) == set(range(6, 13))
    for row, n in zip(ids, periods, strict=True):
        assert torch.equal(row[n:], row[:-n])
    assert induction.is_known(ids).tolist() == [[False] * n + [True] * (23 - n) for n in periods]


def test_pieces_are_cut_out_anywhere_and_known_inside():
    ids = induction.words_in_pieces(200, generator())
    assert ids.shape == (200, 24)
    starts = set()
    for row, known in zip(ids.tolist(), induction.is_known(ids).tolist(), strict=True):
        assert len(set(row[:12])) == 12
        for place in range(12, 24, 3):
            start = row.index(row[place])
            starts.add(start)
            assert row[place : place + 3] == row[start : start + 3]
            assert known[place : place + 2] == [True, True]
        assert not any(known[:11])
    assert starts == set(range(10))


def test_only_words_that_are_known_are_asked_for():
    """A model that always says the right word there, and nothing elsewhere, has no loss."""
    ids = induction.repeated_words(9, generator())

    def knows(words):
        return 99.0 * (torch.arange(32) == ids[:, 1:, None]) * induction.is_known(ids)[..., None]

    assert induction.known_loss(knows, ids) < 1e-6
    logits = torch.cat((knows(ids), torch.zeros(9, 1, 32)), 1)
    assert [induction.accuracy(given, ids) for given in (logits, -logits)] == [1, 0]
    assert induction.known_loss(lambda words: torch.zeros(9, 23, 32), ids).item() == pytest.approx(
        math.log(32)
    )


def test_copying_from_a_fixed_distance_is_as_good_as_the_commonest_divisor():
    """The best distance for a place is a multiple of most lengths that can have come back there."""
    right = known = 0
    for place in range(7, 24):
        lengths = range(6, min(12, place - 1) + 1)
        known += len(lengths)
        right += max(sum(back % n == 0 for n in lengths) for back in range(1, place + 1))
    ids = induction.repeated_words(8000, generator())
    assert induction.accuracy_of_copying(ids) == pytest.approx(right / known, abs=0.01)
    assert induction.accuracy_of_copying(torch.tensor([[7, 4, 9, 7, 4, 9, 7]])) == 1
    assert induction.accuracy_of_copying(torch.tensor([[7, 4, 7, 4], [7, 4, 5, 7]])) == 1


def test_attention_alone_is_causal_and_has_a_map_for_each_layer():
    model = induction.AttentionOnly(2, 4)
    ids = induction.repeated_words(3, generator())
    weights, logits = model.weights_and_logits(ids)
    assert weights.shape == (2, 3, 4, 24, 24)
    assert torch.equal(model(ids), logits)
    later = ids.clone()
    later[:, 12:] = 0
    assert torch.allclose(model(later)[:, :12], logits[:, :12], atol=1e-6)
    assert not torch.allclose(model(later)[:, 12:], logits[:, 12:], atol=1e-3)
