"""The words of a comparison are those of torch.allclose."""

import math

import pytest
import torch

from mha_course.experiments.agreement import compare


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
