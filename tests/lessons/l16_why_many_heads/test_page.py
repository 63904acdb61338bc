"""What lesson 16 says of heads, for other seeds and widths than those of its page."""

import pytest
from lessons import LESSONS, code_cells, read

from mha_course.experiments.head_tasks import TwoTokens, learn


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
