"""The divisor of scores: spread and gradients against theory, and what ships."""

import math

import pytest
import torch

from mha_course import example
from mha_course.experiments import precomputed
from mha_course.lessons.l03_scaling import scaling
from mha_course.models import masked_word_loss


@pytest.mark.weekly
def test_training_with_other_divisors_ships_as_it_comes_out():
    """A short run with √D is the model's own."""
    shipped = precomputed.load().divisors
    model, losses = scaling.train_with(math.sqrt(12), 0, steps=300)
    assert losses == pytest.approx(example.train_model(0, steps=300, progress=False)[1], rel=1e-3)
    assert scaling.held_out_loss(model) > max(shipped[0].values())  # longer runs learned more


def test_all_divisors_are_judged_on_the_same_held_out_sentences():
    """No noun pair of training is among them, and the mean is that of all batches."""
    model = example.trained_model()
    held_out = example.training_batches(0, "test")
    losses = [masked_word_loss(model, *next(held_out)).item() for _ in range(3)]
    assert scaling.held_out_loss(model, batches=3) == pytest.approx(sum(losses) / 3)
    assert scaling.held_out_loss(example.new_model(0), batches=3) > 2 * sum(losses) / 3


@pytest.mark.parametrize("head_dim", [8, 64, 256])
def test_the_spread_of_scores_is_that_of_theory(head_dim):
    assert scaling.saturation(head_dim, 1.0).spread == pytest.approx(math.sqrt(head_dim), rel=0.03)
    assert scaling.saturation(head_dim, math.sqrt(head_dim)).spread == pytest.approx(1, rel=0.03)


def test_shares_and_gradients_of_the_experiment_are_those_of_softmax():
    """The gradient at the scores of one row is w * (g - w · g): its length is reported."""
    found = scaling.saturation(16, 0.5)
    q, k, v, upstream = (drawn[:, 0] for drawn in scaling.draw(16))
    w = (q @ k.mT / 0.5).softmax(-1)
    assert torch.allclose(found.weights, w[:, 0].sort(-1, descending=True).values)
    top = w.amax((1, 2))
    assert found.top == pytest.approx(top.mean().item())
    assert found.saturated == pytest.approx((top > 0.99).double().mean().item())
    assert 0 < found.saturated < 1
    g = upstream @ v.mT
    gradient = w * (g - (w * g).sum(-1, keepdim=True))
    at_scores, at_q = scaling.gradients(scaling.draw(16), 0.5)
    assert torch.allclose(at_scores, gradient[:, 0].norm(dim=-1))
    assert torch.allclose(at_q, (gradient @ k / 0.5)[:, 0].norm(dim=-1))


def test_what_people_divide_by():
    assert scaling.divisors(16, 4) == {"√D": 4, "nothing": 1, "D": 16, "√C": 8}


@pytest.mark.parametrize("head_dim", [32, 128])
def test_fresh_linears_spread_scores_by_a_third_of_theory(head_dim):
    """nn.Linear draws weights of variance 1 / (3C), so q and k have variance 1/3."""
    drawn = scaling.draw_fresh(head_dim, 4)
    assert drawn.q.var() == pytest.approx(1 / 3, rel=0.05)
    assert drawn.k.var() == pytest.approx(1 / 3, rel=0.05)
    assert scaling.by_divisors(drawn, [1.0])[0].spread == pytest.approx(
        math.sqrt(head_dim) / 3, rel=0.05
    )


def test_another_divisor_is_another_scale_of_the_same_model(monkeypatch):
    """Before its first update, it is the untrained model with q larger by the divisor."""
    ids = torch.randint(2, 100, (4, 9), generator=torch.Generator().manual_seed(0))
    batch = ids, torch.ones(4, 1, 1, 9, dtype=torch.bool), ids
    monkeypatch.setattr(example, "training_batches", lambda seed: iter([batch]))
    for divisor in (1.0, math.sqrt(12), 12.0):
        model = example.new_model(0)
        for block in model.blocks:
            for parameter in block.attention.q_proj.parameters():
                parameter.data *= math.sqrt(12) / divisor
        assert scaling.train_with(divisor, 0, steps=1)[1] == pytest.approx(
            [masked_word_loss(model, *batch).item()]
        )
