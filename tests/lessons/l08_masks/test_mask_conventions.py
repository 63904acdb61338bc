"""Who reads a mask how."""

import re

import pytest
import torch

from mha_course.errors import ShapeError
from mha_course.lessons.l08_masks import mask_conventions


def test_the_table_says_the_same_as_text_and_as_html():
    found = mask_conventions.mask_readings(
        torch.tensor([True, True, False]), ["the", "<b>", "<pad>"]
    )
    text, html = repr(found), found._repr_html_()
    assert (html.count("✔"), html.count("✘")) == (text.count("✔"), text.count("✘")) == (7, 3)
    assert "<b>" in text
    assert not {"<b>", "<pad>"} & set(re.findall("<.*?>", html))


@pytest.mark.parametrize(
    "mask", [torch.ones(3).bool(), torch.zeros(3).bool(), torch.tensor([1, 0, 1])]
)
def test_a_mask_that_hides_all_or_nothing_tells_nothing(mask):
    with pytest.raises(ShapeError, match="mask_readings: mask must hide some keys, not all"):
        mask_conventions.mask_readings(mask, ["a", "b", "c"])
