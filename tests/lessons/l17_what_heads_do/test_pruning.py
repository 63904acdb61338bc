"""What single heads of a layer are worth, against heads made by hand."""

import pytest
from hand_made import hand_made_heads

from mha_course.experiments.head_tasks import TwoTokenSum
from mha_course.lessons.l17_what_heads_do.pruning import prune


def test_pruning_cuts_heads_and_refitting_is_least_squares():
    """Head 0 fetches c_a, so alone it explains half; both together explain all."""
    hand_made, task = hand_made_heads(), TwoTokenSum(width=18)
    for refit in (False, True):
        assert prune(hand_made, task, [0], refit=refit).item() == pytest.approx(0.5, abs=0.05)
    hand_made.w_o.mul_(0.3)
    assert prune(hand_made, task, [0, 1], refit=False).item() < 0.6
    assert prune(hand_made, task, [0, 1], refit=True).item() == pytest.approx(1, abs=1e-4)
