"""What attention costs against the formulas."""

import pytest

from mha_course.lessons.l07_multi_head_attention import head_costs


@pytest.mark.parametrize("heads", [1, 4])
def test_costs_are_those_of_the_formula(heads):
    counted = head_costs.cost(24, heads, batch=2, tokens=7)
    projections, products = 4 * 2 * 2 * 7 * 24 * 24, 2 * 2 * 2 * 7 * 7 * 24
    assert counted.flops == projections + products
    assert counted.parameters == 4 * (24 * 24 + 24)
