"""Shared heads: means of groups, and uptraining."""

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
