"""What lesson 16 says of the heads that it trains."""

import pytest
import torch

from mha_course.experiments import precomputed
from mha_course.experiments.head_tasks import TwoTokenSum, learn
from mha_course.lessons.l16_why_many_heads.paths import path_rows

DIFFERENCE = TwoTokenSum(d=6, sign=-1)


@pytest.mark.slow
def test_one_head_stays_below_its_bound_and_more_heads_or_layers_pass_it():
    one, two, four = (learn(DIFFERENCE, heads) for heads in (1, 2, 4))
    assert one.parameters == two.parameters == four.parameters == 2400
    assert one.r2.min() > 0.45
    assert one.r2.max() < DIFFERENCE.bound
    assert two.r2.max() > 0.99
    assert (four.r2 > 0.99).sum() >= 4
    w_v, w_o = two.layers[0].w_v[..., :6], two.layers[0].w_o[..., :6]
    products = (w_o.mT @ w_v)[two.r2 > 0.99]  # (runs, H, 6, 6)
    times = products.diagonal(dim1=-2, dim2=-1)
    assert (times.mean(-1).prod(-1) < 0).all()
    assert (products - torch.diag_embed(times)).abs().max() < 0.1
    assert learn(TwoTokenSum(d=6, sign=1), 1).r2.min() > 0.99
    assert learn(TwoTokenSum(d=1, sign=-1), 1).r2.max() > 0.98
    dropped = learn(DIFFERENCE, 2, identical_heads=True, dropout=0.1)
    by_head = [weight for weight in dropped.layers.parameters() if weight.dim() > 2]
    apart = torch.stack([(w[:, 0] - w[:, 1]).abs().flatten(1).amax(1) for w in by_head])
    assert apart.amax(0).min() > 0.01


@pytest.mark.slow
def test_two_layers_build_on_each_other_and_take_turns():
    deep = learn(DIFFERENCE, 1, num_layers=2)
    rows = path_rows(deep, DIFFERENCE)
    assert [row[1] for row in rows] == pytest.approx(deep.r2.tolist())
    left = [row[-1] for row in rows]
    assert min(left) < DIFFERENCE.bound < max(left) < 0.97
    assert all(0 < weight <= 1 for row in rows for weight in row[2:4])


def test_counts_of_two_hundred_runs():
    shipped = precomputed.load()
    solved = {name: sum(r2 > 0.99 for r2 in runs) for name, runs in shipped.difference.items()}
    assert solved == {1: 0, 2: 159, 4: 200}
    assert (200 - solved[2]) / 200 == 0.205
    assert sum(r2 > 0.99 for r2 in shipped.slower[2]) == 123
    deep = [sum(r2 > 0.99 for r2 in runs) for runs in shipped.two_layers.values()]
    assert deep == [192, 195]
    thin = {
        what: [sum(shipped.thin[heads][what]) / 3 for heads in (4, 8, 16)]
        for what in ("q, k and v", "q and k", "v")
    }
    assert min(thin["v"]) > 0.95 > thin["q, k and v"][0] > thin["q, k and v"][1]
    assert thin["q, k and v"][2] < thin["q and k"][2] < 0.8
