"""Repeated words, the loss on them, and the attention-only model that continues them."""

import math

import pytest
import torch
from rewriting import generator

from mha_course.lessons.l17_what_heads_do import induction


def test_repeated_words_are_different_ones_and_then_the_same_again():
    ids, period = induction.repeated_words(50, generator())
    assert ids.shape == (50, 24)
    assert set(period.flatten().tolist()) == set(range(6, 13))
    for row, n in zip(ids, period.flatten().tolist(), strict=True):
        assert len(set(row[:n].tolist())) == n
        assert torch.equal(row[n:], row[:-n])


def test_only_words_that_stood_there_before_are_asked_for():
    """A model that always says the right word there, and nothing elsewhere, has no loss."""
    ids, period = induction.repeated_words(9, generator())

    def knows(words):
        logits = torch.zeros(9, 23, 32)
        for row in range(9):
            n = int(period[row])
            logits[row, torch.arange(n, 23), ids[row, n + 1 :]] = 99.0
        return logits

    assert induction.repeated_loss(knows, ids, period) < 1e-6
    assert induction.repeated_loss(
        lambda words: torch.zeros(9, 23, 32), ids, period
    ).item() == pytest.approx(math.log(32))


def test_attention_alone_is_causal_and_has_a_map_for_each_layer():
    model = induction.AttentionOnly(2, 4)
    ids, _ = induction.repeated_words(3, generator())
    weights, logits = model.weights_and_logits(ids)
    assert weights.shape == (2, 3, 4, 24, 24)
    assert torch.equal(model(ids), logits)
    later = ids.clone()
    later[:, 12:] = 0
    assert torch.allclose(model(later)[:, :12], logits[:, :12], atol=1e-6)
    assert not torch.allclose(model(later)[:, 12:], logits[:, 12:], atol=1e-3)
