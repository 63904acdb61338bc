"""The picture of a weighted sum holds its parts and their sum."""

import torch

from mha_course.lessons.l05_weighted_sum.pictures import weighted_sum


def test_a_mixture_shows_its_parts_and_their_sum(draw):
    weights, v = draw(5).softmax(0), draw(5, 3, seed=1)
    figure = weighted_sum(weights, v, list("abcde"))
    meshes = [ax.collections[0] for ax in figure.axes[:-1] if ax.collections]
    pictures = [mesh.get_array() for mesh in meshes]
    assert [mesh.axes.yaxis_inverted() for mesh in meshes] == [True, True, False]
    assert torch.allclose(torch.tensor(pictures[1]), weights[:, None] * v)
    assert torch.allclose(torch.tensor(pictures[2][0]), weights @ v)
