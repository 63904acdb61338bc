"""Lesson 10's picture holds the waves."""

import torch
from torch.testing import assert_close

from mha_course import positions
from mha_course.lessons.l10_positions.pictures import encoding_waves


def test_drawings_hold_every_cell():
    encoding = positions.sinusoidal_encoding(30, 8)
    figure = encoding_waves(encoding, channels=(0, 5))
    image, lines = figure.axes[0].collections[0], figure.axes[1].lines
    assert_close(torch.tensor(image.get_array()), encoding.T)
    for line, channel in zip(lines, (0, 5), strict=True):
        assert_close(torch.tensor(line.get_ydata()), encoding[:, channel])
