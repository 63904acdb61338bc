"""Shared heads: means of groups, other starts, uptraining, and the runs that ship."""

import pytest
import torch

from mha_course import example
from mha_course.attention import MultiHeadAttention
from mha_course.caching import GroupedQueryAttention
from mha_course.lessons.l11_kv_cache import gqa


def test_shared_heads_are_means_in_every_layer():
    model = example.trained_model()
    shared = gqa.group_kv_heads(model, 2)
    ids, mask = example.encode([example.SENTENCE.split()])
    for block, other in zip(model.blocks, shared.blocks, strict=True):
        assert isinstance(other.attention, GroupedQueryAttention)
        heads = block.attention.k_proj.weight.unflatten(0, (4, 12))
        assert torch.allclose(other.attention.k_proj.weight[:12], (heads[0] + heads[1]) / 2)
    assert not torch.allclose(shared(ids, mask), model(ids, mask), atol=0.1)
    assert torch.allclose(gqa.group_kv_heads(model, 4)(ids, mask), model(ids, mask), atol=1e-4)
    assert isinstance(model.blocks[0].attention, MultiHeadAttention)  # the original stays


def test_uptraining_trains_a_copy_for_its_share_of_the_steps():
    shared = gqa.group_kv_heads(example.trained_model(), 2)
    before = {name: tensor.clone() for name, tensor in shared.state_dict().items()}
    trained = gqa.uptrain(shared, 2 / gqa.TRAINING_STEPS)
    assert all(torch.equal(shared.state_dict()[name], tensor) for name, tensor in before.items())
    assert not torch.equal(trained.to_words.weight, shared.to_words.weight)
    assert not trained.training
    assert not any(parameter.requires_grad for parameter in trained.parameters())


def test_other_starts_of_shared_heads_are_the_first_of_a_group_or_new():
    model = example.trained_model()
    first, anew = (gqa.group_kv_heads(model, 2, start) for start in ("first", "anew"))
    other = gqa.group_kv_heads(model, 2, "anew", seed=1)
    for block, kept, new, newer in zip(
        model.blocks, first.blocks, anew.blocks, other.blocks, strict=True
    ):
        for name in ("k_proj", "v_proj"):
            heads = getattr(block.attention, name).weight.unflatten(0, (4, 12))
            assert torch.equal(
                getattr(kept.attention, name).weight.unflatten(0, (2, 12)), heads[[0, 2]]
            )
            drawn = getattr(new.attention, name).weight
            assert not torch.isclose(drawn, getattr(newer.attention, name).weight).all(-1).any()
            assert drawn.abs().max() <= 48**-0.5  # as nn.Linear begins
        assert torch.equal(new.attention.q_proj.weight, block.attention.q_proj.weight)
    assert not torch.equal(
        anew.blocks[0].attention.k_proj.weight, anew.blocks[1].attention.k_proj.weight
    )


@pytest.mark.weekly
def test_runs_that_ship_come_out_again():
    for start in ("mean of the group", "drawn anew"):
        again, shipped = gqa.uptrained(start, 1), gqa.load()[start]["1"]
        for rate, found in again.items():
            # processors round differently
            assert found == pytest.approx(shipped[rate], abs=0.15), (start, rate)


def test_the_more_of_the_old_heads_is_kept_the_more_comes_back():
    starts = ("mean of the group", "first of the group", "drawn anew", "a new model")
    for rate in ("0.001", "0.003"):
        runs = [[run[rate][0] for run in gqa.load()[start].values()] for start in starts]
        for mean, first, anew, new in zip(*runs, strict=True):
            assert mean > first > anew > new


def test_sharing_shrinks_the_cache_and_not_the_work_of_attention():
    found = [gqa.costs_of(groups) for groups in (8, 4, 2, 1)]
    assert [kept for *_, kept in found] == [768, 384, 192, 96]  # 2 · G · 12 numbers of 4 bytes
    assert len({attending for *_, attending, _ in found}) == 1
    parameters, projections, *_ = zip(*found, strict=True)
    assert sorted(parameters, reverse=True) == list(parameters)
    assert sorted(projections, reverse=True) == list(projections)
