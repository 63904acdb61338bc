"""The runs that ship for lesson 16 come out again."""

import pytest

from mha_course.experiments import precomputed
from mha_course.experiments.head_tasks import TwoTokens
from mha_course.lessons.l16_why_many_heads import head_runs


@pytest.mark.weekly
def test_two_hundred_runs_ship_as_they_come_out():
    shipped = precomputed.load()
    assert [len(runs) for runs in shipped.difference.values()] == [200] * 3
    made = [
        (head_runs.difference(4, head_runs.SEEDS[:1]), shipped.difference[4]),
        (head_runs.difference(2, head_runs.SEEDS[1:2]), shipped.difference[2][5:]),
    ]
    for some, kept in made:  # on another processor a run may differ
        assert sum(abs(one - other) < 0.05 for one, other in zip(some, kept, strict=False)) >= 4
    assert max(shipped.difference[1]) < TwoTokens().bound
    assert min(shipped.difference[4]) > 0.99


@pytest.mark.weekly
def test_thin_heads_ship_as_they_come_out():
    """The quickest of the runs that ship, made again for fewer steps: the order is theirs."""
    shipped = precomputed.load().thin
    for heads in (1, 8):
        made = head_runs.thin(heads, runs=1, steps=200)
        assert list(made) == list(shipped[heads])
        for name, (r2,) in made.items():
            assert sum(shipped[heads][name]) / 3 == pytest.approx(r2, abs=0.15), name
    assert made["v"][0] > 0.85 > made["q and k"][0] > made["q, k and v"][0]
