"""What single heads of a layer are worth, against heads made by hand."""

import pytest
from rewriting import generator

from mha_course.experiments.head_tasks import ParallelAttention, TwoTokenSum
from mha_course.lessons.l06_concatenation.exercises import build_subtractor
from mha_course.lessons.l17_what_heads_do.pruning import prune


@pytest.fixture
def hand_made():
    """The two heads of lesson 6."""
    w_q, w_k, w_v, w_o = build_subtractor(6)
    layer = ParallelAttention(1, 18, 2, generator()).requires_grad_(False)
    for name, w in (("w_q", w_q), ("w_k", w_k), ("w_v", w_v), ("w_o", w_o.T)):
        getattr(layer, name).copy_(w.view(1, 2, 9, 18))
    for name in ("b_q", "b_k", "b_v", "b_o"):
        getattr(layer, name).zero_()
    return layer


def test_pruning_cuts_heads_and_refitting_is_least_squares(hand_made):
    """Head 0 fetches c_a, so alone it explains half; both together explain all."""
    task = TwoTokenSum(width=18)
    for refit in (False, True):
        assert prune(hand_made, task, [0], refit=refit).item() == pytest.approx(0.5, abs=0.05)
    hand_made.w_o.mul_(0.3)
    assert prune(hand_made, task, [0, 1], refit=False).item() < 0.6
    assert prune(hand_made, task, [0, 1], refit=True).item() == pytest.approx(1, abs=1e-4)
