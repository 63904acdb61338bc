"""Lesson 11's picture holds the numbers that it is given."""

import pytest
import torch

from mha_course.errors import ShapeError
from mha_course.lessons.l11_kv_cache.pictures import decoding_step

NAMES = ["the", "grey", "cat", "that", "chased"]


def test_one_step_draws_all_keys_and_one_query():
    weights = torch.tensor([0.1, 0.2, 0.3, 0.1, 0.3])
    figure = decoding_step(torch.randn(6), torch.randn(5, 6), torch.randn(5, 6), weights, NAMES)
    query, keys, bars, values, context = (ax for ax in figure.axes)
    for ax, rows in ((query, 1), (keys, 5), (values, 5), (context, 1)):
        shown = ax.collections[0].get_array()
        assert (~shown.mask).any(1).sum() == rows if shown.mask.any() else shown.shape[0] == rows
    assert [bar.get_width() for bar in bars.patches] == pytest.approx(weights.tolist())
    with pytest.raises(ShapeError, match="decoding_step"):
        decoding_step(torch.randn(1, 2, 6), torch.randn(5, 6), torch.randn(5, 6), weights, NAMES)
