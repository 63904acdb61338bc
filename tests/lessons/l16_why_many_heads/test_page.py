"""What lesson 16 says of heads, for other seeds and widths than those of its page."""

import pytest
import torch
from lessons import LESSONS, code_cells, read
from torch import nn

from mha_course import attention
from mha_course.experiments import head_tasks
from mha_course.experiments.head_tasks import TwoTokens, learn
from mha_course.lessons.l16_why_many_heads.exercises import build_subtractor


@pytest.fixture(scope="module")
def kinds():
    """Return the page's own kinds of attention: its cell is run."""
    cells = {cell.id: cell.source for cell in code_cells(read(LESSONS[16]))}
    defined = {}
    exec(cells["kinds-code"], defined)
    return defined["kinds"]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "d", "width"), [(1, 6, 24), (2, 8, 32)])
def test_a_minus_cures_the_difference_and_a_second_head_the_pair(kinds, seed, d, width):
    difference, pair = TwoTokens("difference", d, width), TwoTokens("pair", d, width)
    shared = {"runs": 10, "seed": seed, "steps": 400}
    for name, (heads, weigh) in kinds.items():
        of_difference = learn(difference, heads, weigh=weigh, **shared)
        of_pair = learn(pair, heads, weigh=weigh, **shared)
        assert of_difference.parameters == 4 * width * (width + 1)
        negative = name in ("one head, raw scores", "one head, minus")
        if heads == 2:
            assert (of_difference.r2 > 0.99).any()
            assert of_pair.r2.min() > 0.95
        else:
            assert of_difference.r2.min() > 0.95 if negative else of_difference.r2.max() < 0.6
            assert of_pair.r2.max() < 0.6


@pytest.mark.slow
def test_two_layers_of_one_thin_head_solve_both():
    options = {"num_layers": 2, "score_dim": 12, "value_dim": 12, "runs": 10, "seed": 3}
    for target in ("difference", "pair"):
        assert (learn(TwoTokens(target), 1, **options).r2 > 0.99).sum() >= 7


def two_heads(d, signs):
    """Return the heads of build_subtractor as the attention that runs train."""
    w_q, w_k, w_v, w_o = build_subtractor(d)
    layer = head_tasks.ParallelAttention(1, 3 * d, 2, torch.Generator()).requires_grad_(False)
    for name, w in (("w_q", w_q), ("w_k", w_k), ("w_v", w_v), ("w_o", w_o.T)):
        getattr(layer, name).copy_(w.view(1, 2, 3 * d // 2, 3 * d))
    layer.w_o.mul_(torch.tensor(signs)[:, None, None])
    for name in ("b_q", "b_k", "b_v", "b_o"):
        getattr(layer, name).zero_()
    return nn.ModuleList([layer])


@pytest.mark.parametrize("d", [2, 6, 10])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_hand_made_heads_subtract_at_other_widths_and_seeds(d, seed):
    task = TwoTokens(d=d, width=3 * d)
    measured = {
        signs: head_tasks.measure(two_heads(d, signs), task, torch.Generator().manual_seed(seed))
        for signs in ((1.0, 1.0), (1.0, -1.0), (1.0, 0.0))
    }
    solved, added, head_0 = (r2.item() for r2 in measured.values())
    assert solved == pytest.approx(1, abs=1e-4)
    assert added == pytest.approx(-1, abs=0.2)  # c_a + c_b: twice the variance in errors
    assert head_0 == pytest.approx(0.5, abs=0.1)


def test_only_the_product_of_values_and_outputs_has_a_sign():
    w_q, w_k, w_v, w_o = build_subtractor(4)
    x = torch.randn(3, 9, 12, dtype=torch.float64)
    both, _ = attention.multi_head_attention(x, w_q, w_k, -w_v, -w_o, 2)
    assert torch.equal(both, attention.multi_head_attention(x, w_q, w_k, w_v, w_o, 2)[0])
