"""Who reads a mask how."""

import pytest
import torch

from mha_course.errors import ShapeError
from mha_course.lessons.l08_masks import mask_conventions


def test_converted_everybody_sees_what_was_meant():
    mask = torch.tensor([True, True, False])
    readings = mask_conventions.mask_readings(mask)
    assert all(torch.equal(reading.converted, mask) for reading in readings)
    given = [reading.given.tolist() for reading in readings]
    meant, opposite, everything = [True, True, False], [False, False, True], [True] * 3
    assert given == [meant, meant, opposite, opposite, everything]


@pytest.mark.parametrize(
    "mask", [torch.ones(3).bool(), torch.zeros(3).bool(), torch.tensor([1, 0, 1])]
)
def test_a_mask_that_hides_all_or_nothing_tells_nothing(mask):
    with pytest.raises(ShapeError, match="mask_readings: mask must hide some keys, not all"):
        mask_conventions.mask_readings(mask)
