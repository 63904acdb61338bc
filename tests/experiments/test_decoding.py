"""Lesson 11's rooms: decoding with and without a cache, counted work, published sizes, shared
heads, pictures.
"""

import itertools

import pytest
import torch

from mha_course import example, masks
from mha_course.attention import MultiHeadAttention, attention
from mha_course.caching import GroupedQueryAttention
from mha_course.errors import ShapeError
from mha_course.experiments import decoding
from mha_course.lessons.l11_kv_cache import gqa, model_sizes
from mha_course.lessons.l11_kv_cache.pictures import decoding_step, kv_sharing
from mha_course.tracing.op_counter import OpCounter

B, S, C, H, D = 2, 7, 24, 4, 6
NAMES = ["the", "grey", "cat", "that", "chased"]


def modules():
    torch.manual_seed(0)
    return [
        MultiHeadAttention(C, H).double(),
        *(GroupedQueryAttention(C, H, g).double() for g in (1, 2, 4)),
    ]


@pytest.mark.parametrize("module", modules(), ids=["H", "G=1", "G=2", "G=4"])
def test_with_and_without_a_cache_equal_the_whole(module, draw):
    x = draw(B, S, C)
    whole, _ = module(x, mask=masks.causal_mask(S))
    assert torch.allclose(decoding.without_cache(module, x), whole, atol=1e-12)
    assert torch.allclose(decoding.with_cache(module, x), whole, atol=1e-12)
    assert torch.allclose(decoding.with_cache(module, x, (3, 1, 3)), whole, atol=1e-12)
    ways = decoding.splits(S)  # with each of which tests of decode_chunk decode
    assert len(set(ways)) == 2 ** (S - 1)
    assert {sum(chunks) for chunks in ways} == {S}


@pytest.mark.parametrize("chunks", [(3, 3), (7, 0), ()])
def test_chunks_must_make_up_the_sequence(chunks, draw):
    with pytest.raises(ShapeError, match=r"the chunks must make up the sequence"):
        decoding.with_cache(modules()[0], draw(B, S, C), chunks)


def test_reads_agree_with_finite_differences(draw):
    q, k, v = (draw(1, 1, S, D, seed=n) for n in range(3))
    mask, step = masks.causal_mask(S), 1e-6
    reads = decoding.reads(q, k, v, mask)
    for i, name in enumerate("qkv"):
        want = torch.zeros(S, S, D, dtype=torch.float64)
        for s, d in itertools.product(range(S), range(D)):
            rows = []
            for sign in (1, -1):
                parts = [part.clone() for part in (q, k, v)]
                parts[i][0, 0, s, d] += sign * step
                rows.append(attention(*parts, mask)[0][0, 0].sum(-1))
            want[:, s, d] = (rows[0] - rows[1]) / (2 * step)
        assert torch.allclose(reads[name], want.norm(dim=-1), atol=1e-7), name


@pytest.mark.parametrize("tokens", [1, 2, 30])
def test_work_is_what_the_formulas_say(tokens):
    cached, again = decoding.step_flops(C, H, tokens)
    assert (cached.projections, cached.attention) == (8 * C * C, 4 * tokens * C)
    assert (again.projections, again.attention) == (8 * tokens * C * C, 4 * tokens**2 * C)
    assert cached.total == 8 * C * C + 4 * tokens * C


def test_cache_bytes_are_those_of_tensors():
    model = model_sizes.Published("toy", 3, 4, 2, 6, 10.0, 50, "here")
    made = [torch.zeros(2, 5, 2, 7, 6, dtype=torch.float16) for _ in range(model.layers)]
    assert model.cache_bytes(7, batch=5) == sum(x.numel() * x.element_size() for x in made)
    assert model.cache_bytes(7, num_kv_heads=1, bytes_per_value=4) == 2 * 3 * 7 * 6 * 4
    assert (model.kind, model.weight_bytes) == ("GQA", 20)
    assert (
        model.flops_per_byte == 2
    )  # a number of 2 bytes serves 2 query heads, with a multiply-add each


def test_latents_are_cached_in_the_place_of_keys_and_values():
    model = next(model for model in model_sizes.MODELS if model.latent)
    made = torch.zeros(5, 7, model.latent, dtype=torch.float16)
    assert model.cache_bytes(7, batch=5) == model.layers * made.numel() * made.element_size()
    as_heads = torch.zeros(2, 128, 128, dtype=torch.float16)  # keys and values of a token and layer
    assert (
        model.cache_bytes(1, num_kv_heads=128)
        == model.layers * as_heads.numel() * as_heads.element_size()
    )
    q, absorbed = torch.zeros(1, 128, 1, 576), torch.zeros(1, 1, 7, 576)
    with OpCounter() as counter:
        weights = q @ absorbed.mT
        weights @ absorbed[..., :512]
    assert sum(counter.flops_by_op.values()) / (7 * 576 * 2) == pytest.approx(model.flops_per_byte)


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
    assert isinstance(
        model.blocks[0].attention, MultiHeadAttention
    )  # the original is left as it was


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


@pytest.mark.train
def test_runs_that_ship_come_out_again():
    for start in ("mean of the group", "drawn anew"):
        again, shipped = gqa.uptrained(start, 1), gqa.load()[start]["1"]
        for rate, found in again.items():
            assert found == pytest.approx(shipped[rate], abs=0.15), (
                start,
                rate,
            )  # processors round differently


def test_one_step_draws_all_keys_and_one_query():
    weights = torch.tensor([0.1, 0.2, 0.3, 0.1, 0.3])
    figure = decoding_step(torch.randn(6), torch.randn(5, 6), torch.randn(5, 6), weights, NAMES)
    query, keys, bars, values, context = (ax for ax in figure.axes)
    for ax, rows in ((query, 1), (keys, 5), (values, 5), (context, 1)):
        shown = ax.images[0].get_array()
        assert (~shown.mask).any(1).sum() == rows if shown.mask.any() else shown.shape[0] == rows
    assert [bar.get_width() for bar in bars.patches] == pytest.approx(weights.tolist())
    with pytest.raises(ShapeError, match="decoding_step"):
        decoding_step(torch.randn(1, 2, 6), torch.randn(5, 6), torch.randn(5, 6), weights, NAMES)


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_sharing_draws_neighbours_together(groups):
    (ax,) = kv_sharing(6, (groups,)).axes
    ends = [tuple(line.get_xdata()) for line in ax.lines]
    assert [start for start, _ in ends] == list(range(6))
    below = [below for _, below in ends]
    assert below == sorted(below)
    assert len(set(below)) == groups
    assert [below.count(place) for place in set(below)] == [6 // groups] * groups
