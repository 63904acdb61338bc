"""Experiments and costs against theory; charts and drawings show what they are given."""

import math

import pytest
import torch

from mha_course import plots
from mha_course.errors import ShapeError
from mha_course.experiments import costs, scaling


@pytest.mark.parametrize("head_dim", [8, 64, 256])
def test_the_spread_of_scores_is_that_of_theory(head_dim):
    assert scaling.saturation(head_dim, 1.0).spread == pytest.approx(math.sqrt(head_dim), rel=0.03)
    assert scaling.saturation(head_dim, math.sqrt(head_dim)).spread == pytest.approx(1, rel=0.03)


def test_saturation_grows_without_scaling_and_stays_with_it():
    raw = [scaling.saturation(width, 1.0) for width in (8, 64, 256, 1024)]
    scaled = [scaling.saturation(width, math.sqrt(width)) for width in (8, 64, 256, 1024)]
    tops, entropies = [found.top for found in raw], [found.entropy for found in raw]
    assert tops == sorted(tops)
    assert entropies == sorted(entropies, reverse=True)
    assert raw[-1].at_scores.median() < 0.01
    assert scaled[-1].at_scores.median() > 0.5
    assert raw[-1].at_q.mean() > raw[0].at_q.mean() > scaled[0].at_q.mean()
    assert all(found.entropy == pytest.approx(3.68, abs=0.05) for found in scaled)
    for found in raw:
        assert torch.allclose(found.weights.sum(-1), torch.ones(400, dtype=torch.float64))
        assert torch.equal(found.weights, found.weights.sort(-1, descending=True).values)


def test_gradients_of_the_experiment_are_those_of_softmax():
    """At the scores of one row the gradient is w * (g - w · g); its length must be what is reported."""
    found = scaling.saturation(16, 4.0, count=3, seed=5)
    generator = torch.Generator().manual_seed(5)
    q, k = (torch.randn(3, n, 16, generator=generator, dtype=torch.float64) for n in (1, 64))
    v, upstream = (torch.randn(3, n, 16, generator=generator, dtype=torch.float64) for n in (64, 1))
    w = (q @ k.mT / 4).softmax(-1)
    g = upstream @ v.mT
    gradient = w * (g - (w * g).sum(-1, keepdim=True))
    assert torch.allclose(found.at_scores, gradient[:, 0].norm(dim=-1))
    assert torch.allclose(found.at_q, (gradient @ k / 4)[:, 0].norm(dim=-1))


def test_an_experiment_that_cannot_be_run():
    with pytest.raises(ValueError, match="head_dim and divisor must be positive, got 0 and 1"):
        scaling.saturation(0, 1)


def test_divisors_by_name():
    assert scaling.divisors(64, 8) == {"√D": 8, "nothing": 1, "D": 64, "√d_model": math.sqrt(512)}


@pytest.mark.parametrize("heads", [1, 4])
def test_costs_are_those_of_the_formula(heads):
    found = costs.cost(24, heads, batch=2, tokens=7)
    projections, products = 4 * 2 * 2 * 7 * 24 * 24, 2 * 2 * 2 * 7 * 7 * 24
    assert found.flops == projections + products
    assert found.parameters == 4 * (24 * 24 + 24)
    assert found.weight_bytes == 2 * heads * 7 * 7 * 4
    assert found.patterns == heads


def test_curves_draw_every_line_under_its_name():
    ax = plots.curves([1, 2, 4], {"one": [1, 2, 3], "two": [3.0, 2.0, 1.0]}, xlabel="n", ylabel="times")
    assert [line.get_ydata().tolist() for line in ax.get_lines()] == [[1, 2, 3], [3, 2, 1]]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["one", "two"]


def test_a_mixture_shows_its_parts_and_their_sum(draw):
    weights, v = draw(5).softmax(0), draw(5, 3, seed=1)
    figure = plots.weighted_sum(weights, v, list("abcde"))
    pictures = [ax.images[0].get_array() for ax in figure.axes if ax.images]
    assert torch.allclose(torch.tensor(pictures[1]), weights[:, None] * v)
    assert torch.allclose(torch.tensor(pictures[2][0]), weights @ v)


def test_cost_of_heads_that_do_not_fit():
    with pytest.raises(ShapeError, match="num_heads must divide d_model"):
        costs.cost(10, 3, batch=1, tokens=2)


def test_r2_by_head_width_draws_every_run():
    ax = plots.r2_by_head_width({1: [0.9, 1.0], 4: [0.4, 0.6]}, 32)
    assert [bar.get_height() for bar in ax.patches] == pytest.approx([0.95, 0.5])
    assert [len(dots.get_offsets()) for dots in ax.collections] == [2, 2]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1 × 32", "4 × 8"]
