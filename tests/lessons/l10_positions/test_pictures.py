"""Lesson 10's pictures hold the waves and colour the pairs that are rotated together."""

import torch
from torch.testing import assert_close

from mha_course import positions
from mha_course.lessons.l10_positions.pictures import encoding_waves, rope_pairs


def test_drawings_hold_every_cell():
    encoding = positions.sinusoidal_encoding(30, 8)
    figure = encoding_waves(encoding, channels=(0, 5))
    image, lines = figure.axes[0].collections[0], figure.axes[1].lines
    assert_close(torch.tensor(image.get_array()), encoding.T)
    for line, channel in zip(lines, (0, 5), strict=True):
        assert_close(torch.tensor(line.get_ydata()), encoding[:, channel])
    colors = [patch.get_facecolor() for patch in rope_pairs(8).patches]
    for first, other in ((0, 4), (3, 7), (8, 9), (14, 15)):
        assert colors[first] == colors[other]
    assert len(set(colors[:8])) == len(set(colors[8:])) == 4
