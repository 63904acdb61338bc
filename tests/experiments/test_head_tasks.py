"""The tasks that one head cannot do, the attention that learns them, and what it learns."""

import math

import pytest
import torch
from rewriting import generator, refused
from torch import nn

from mha_course.attention import MultiHeadAttention
from mha_course.errors import ShapeError
from mha_course.experiments import head_tasks
from mha_course.experiments.head_tasks import ParallelAttention, TwoTokens, learn

# The tasks


def test_targets_are_what_the_flags_say():
    x, target = TwoTokens(d=5).draw(2, 40, generator())
    assert x.shape == (2, 40, 9, 24)
    flags = x[..., 5:8]
    assert torch.equal(flags[:, :, 0], torch.tensor([0.0, 0.0, 1.0]).expand(2, 40, 3))
    assert torch.equal(flags.sum((2, 3)), torch.full((2, 40), 3.0))
    assert flags.sum(-1).max() == 1  # a and b are different tokens
    c_a, c_b = ((x[..., :5] * x[..., 5 + n, None]).sum(2) for n in (0, 1))
    assert torch.allclose(target, c_a - c_b)
    assert not x[..., 8:].any()
    assert not x[:, :, 0, :5].any()
    pair = TwoTokens("pair", d=5).draw(2, 40, generator())[1]
    assert torch.allclose(pair, torch.cat((c_a, c_b), -1))


def test_the_bound_is_that_of_the_proof():
    """The best weights explain ½ of each direction but one, which may be explained fully."""
    a, b = torch.rand(2, 100_000, generator=generator(), dtype=torch.float64)
    best = float(((a - b).square() / (2 * (a.square() + b.square()))).max())
    for d in (1, 2, 8):
        assert TwoTokens(d=d).bound == pytest.approx((1 + (d - 1) * best) / d, abs=1e-3)


# The attention


def as_module(layers, run):
    """Return the course's module with the parameters of one run."""
    module = MultiHeadAttention(24, layers.w_q.size(1))
    with torch.no_grad():
        for name, linear in (("q", module.q_proj), ("k", module.k_proj), ("v", module.v_proj)):
            linear.weight.copy_(getattr(layers, f"w_{name}")[run].flatten(0, 1))
            linear.bias.copy_(getattr(layers, f"b_{name}")[run].flatten())
        module.out_proj.weight.copy_(layers.w_o[run].flatten(0, 1).T)
        module.out_proj.bias.copy_(layers.b_o[run])
    return module


def test_parallel_attention_is_multi_head_attention():
    """Each run holds the course's module."""
    layers = ParallelAttention(2, 24, 4, generator())
    x = torch.randn(2, 3, 7, 24, generator=generator(1))
    out = layers(x[:, :, :2], x)
    for run in range(2):
        want, _ = as_module(layers, run)(x[run])
        assert torch.allclose(out[run], want[:, :2], atol=1e-5)


def test_layers_add_to_the_stream():
    layers = nn.ModuleList(ParallelAttention(2, 24, heads, generator(heads)) for heads in (1, 3))
    x = torch.randn(2, 4, 7, 24, generator=generator(1))
    total = head_tasks.read(layers, x)
    for run in range(2):
        first, second = (as_module(layer, run) for layer in layers)
        stream = x[run] + first(x[run])[0]
        assert torch.allclose(total[run], (stream + second(stream)[0] - x[run])[:, 0], atol=1e-5)


def test_thin_parts_have_their_own_width_and_weights_are_what_weigh_says():
    layers = ParallelAttention(2, 24, 4, generator(), score_dim=5, value_dim=7)
    assert layers.w_q.shape == layers.w_k.shape == (2, 4, 5, 24)
    assert layers.w_v.shape == layers.w_o.shape == (2, 4, 7, 24)
    x = torch.randn(2, 3, 7, 24, generator=generator(1))
    nothing = ParallelAttention(2, 24, 4, generator(), weigh=lambda q, k: 0 * (q @ k.mT))
    assert torch.allclose(nothing(x, x), nothing.b_o[:, None, None].expand_as(x))


def test_every_number_of_heads_starts_with_the_same_numbers():
    starts = [ParallelAttention(2, 24, heads, generator()) for heads in (1, 2, 3, 8)]
    for layers in starts:
        assert sum(p.numel() for p in layers.parameters()) / 2 == 2400
        assert torch.equal(layers.w_k.flatten(1), starts[0].w_k.flatten(1))
        assert layers.w_k.abs().max() <= 1 / math.sqrt(24)


# What is learned


def test_the_same_seed_gives_the_same_bits_and_leaves_the_random_state_alone():
    before = torch.get_rng_state()
    found = [learn(TwoTokens(), 2, runs=2, steps=5, seed=seed).r2 for seed in (1, 1, 2)]
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
    assert torch.equal(torch.get_rng_state(), before)


def test_what_cannot_be_learned_is_said():
    message = "learn: runs and steps must be positive. expected 1 or more, got runs=5, steps=0"
    refused(lambda: learn(TwoTokens(), 2, steps=0), message)
    with pytest.raises(ShapeError, match="ParallelAttention: num_heads must divide width"):
        learn(TwoTokens(), 5)
