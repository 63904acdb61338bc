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
    known = [[False] * n + [True] * (23 - n) for n in periods]
    assert induction.is_known(ids).tolist() == known


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
    assert induction.accuracy(logits, ids) == 1
    assert induction.accuracy(-logits, ids) == 0
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


def test_averaged_weights_are_the_same_for_all_words():
    """By hand, one sequence after the other; one alone is its own mean."""
    model = induction.AttentionOnly(1, 2, 24)
    ids = induction.repeated_words(5, generator())
    averaged = induction.logits_by_position(model, ids)
    assert torch.allclose(induction.logits_by_position(model, ids[:1]), model(ids[:1]), atol=1e-5)
    assert not torch.allclose(averaged, model(ids), atol=1e-3)
    mean = model.weights_and_logits(ids)[0][0].mean(0)  # (H, S, S)
    (layer,) = model.layers
    for row, want in zip(ids, averaged, strict=True):
        x = model.embed(row[None])[0]
        values = layer.v_proj(x)
        context = torch.cat((mean[0] @ values[:, :12], mean[1] @ values[:, 12:]), -1)
        assert torch.allclose(model.to_words(x + layer.out_proj(context)), want, atol=1e-5)


@pytest.mark.parametrize(("part", "other"), [("positions", "words"), ("words", "positions")])
def test_keys_of_one_part_leave_out_the_other(part, other, monkeypatch):
    """Where only one part is there, keys of it change nothing, and keys of the other are alike."""
    model, ids = induction.AttentionOnly(1, 2, 24), induction.repeated_words(5, generator())
    with torch.no_grad():
        if part == "positions":
            model.words.weight.zero_()
        else:
            monkeypatch.setattr(induction, "sinusoidal_encoding", lambda *_, **__: torch.zeros(()))
        assert torch.allclose(
            induction.logits_with_keys_of(part, model, ids), model(ids), atol=1e-6
        )
        alike = induction.logits_with_keys_of(other, model, ids)
        assert not torch.allclose(alike, model(ids), atol=1e-4)
        model.layers[0].k_proj.weight.zero_()
        assert torch.allclose(alike, model(ids), atol=1e-6)


def test_the_report_of_one_layer_judges_each_kind_on_its_own_words():
    model = induction.learn(1, 2, 24, steps=30).model
    repeated = induction.repeated_words(400, generator())
    pieces = induction.words_in_pieces(300, generator())
    report = induction.single_layer_report(model, repeated, pieces)
    with torch.no_grad():
        assert report["repeated"] == induction.accuracy(model(repeated), repeated)
        assert report["pieces"] == induction.accuracy(model(pieces), pieces)
    for name in ("positions", "words"):
        logits = induction.logits_with_keys_of(name, model, repeated)
        assert report[name] == induction.accuracy(logits, repeated)
    averaged = induction.logits_by_position(model, repeated)
    assert report["averaged"] == induction.accuracy(averaged, repeated)
    assert len(set(report.values())) == len(report)


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
