"""Experiments and costs against theory; charts and drawings show what they are given."""

import math

import pytest
import torch

from mha_course import example, plots
from mha_course.experiments import costs
from mha_course.experiments.agreement import compare
from mha_course.lessons.l03_scaling import scaling
from mha_course.lessons.l05_weighted_sum.pictures import weighted_sum
from mha_course.models import masked_word_loss


@pytest.mark.parametrize("head_dim", [8, 64, 256])
def test_the_spread_of_scores_is_that_of_theory(head_dim):
    assert scaling.saturation(head_dim, 1.0).spread == pytest.approx(math.sqrt(head_dim), rel=0.03)
    assert scaling.saturation(head_dim, math.sqrt(head_dim)).spread == pytest.approx(1, rel=0.03)


def test_gradients_of_the_experiment_are_those_of_softmax():
    """At the scores of one row the gradient is w * (g - w · g); its length must be what is
    reported.
    """
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


@pytest.mark.parametrize("head_dim", [32, 128])
def test_fresh_linears_spread_scores_by_a_third_of_theory(head_dim):
    """nn.Linear draws its weight from ± 1 / √C, of variance 1 / (3C), so the numbers of q and k
    have variance 1/3.
    """
    drawn = scaling.draw_fresh(head_dim, 4)
    assert drawn.q.var() == pytest.approx(1 / 3, rel=0.05)
    assert drawn.k.var() == pytest.approx(1 / 3, rel=0.05)
    assert scaling.by_divisors(drawn, [1.0])[0].spread == pytest.approx(
        math.sqrt(head_dim) / 3, rel=0.05
    )


def test_another_divisor_is_another_scale_of_the_same_model(monkeypatch):
    """Before its first update, the model is the untrained one with q as much larger as the divisor
    is smaller.
    """
    ids = torch.randint(2, 100, (4, 9), generator=torch.Generator().manual_seed(0))
    batch = ids, torch.ones(4, 1, 1, 9, dtype=torch.bool), ids
    monkeypatch.setattr(example, "training_batches", lambda seed: iter([batch]))
    for divisor in (1.0, math.sqrt(12), 12.0):
        model = example.new_model(0)
        for block in model.blocks:
            for parameter in block.attention.q_proj.parameters():
                parameter.data *= math.sqrt(12) / divisor
        assert scaling.train_with(divisor, 0, steps=1) == pytest.approx(
            [masked_word_loss(model, *batch).item()]
        )


@pytest.mark.parametrize("heads", [1, 4])
def test_costs_are_those_of_the_formula(heads):
    found = costs.cost(24, heads, batch=2, tokens=7)
    projections, products = 4 * 2 * 2 * 7 * 24 * 24, 2 * 2 * 2 * 7 * 7 * 24
    assert found.flops == projections + products
    assert found.parameters == 4 * (24 * 24 + 24)
    assert found.weight_bytes == 2 * heads * 7 * 7 * 4
    assert found.patterns == heads


def test_curves_draw_every_line_under_its_name():
    ax = plots.curves(
        [1, 2, 4], {"one": [1, 2, 3], "two": [3.0, 2.0, 1.0]}, xlabel="n", ylabel="times"
    )
    assert [line.get_ydata().tolist() for line in ax.get_lines()] == [[1, 2, 3], [3, 2, 1]]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["one", "two"]


def test_a_mixture_shows_its_parts_and_their_sum(draw):
    weights, v = draw(5).softmax(0), draw(5, 3, seed=1)
    figure = weighted_sum(weights, v, list("abcde"))
    pictures = [ax.images[0].get_array() for ax in figure.axes if ax.images]
    assert torch.allclose(torch.tensor(pictures[1]), weights[:, None] * v)
    assert torch.allclose(torch.tensor(pictures[2][0]), weights @ v)


@pytest.mark.parametrize(
    ("by", "atol", "said"),
    [(0.0, 0.0, "the same"), (1e-7, 1e-5, "the same"), (1e-7, 0.0, "different, by up to 0.00"),
     (2.0, 1e-5, "different, by up to 2.00"), (math.nan, 1e-5, "different, by up to nan")],
)  # fmt: skip
def test_words_of_a_comparison_are_those_of_allclose(by, atol, said):
    one, other = torch.zeros(2, 3), torch.zeros(2, 3)
    other[1, 2] = by
    assert compare(one, other, atol=atol) == compare(other, one, atol=atol) == said
    assert (said == "the same") == torch.allclose(one, other, rtol=0, atol=atol)
    assert compare(one.bool(), one.bool()) == "the same"
