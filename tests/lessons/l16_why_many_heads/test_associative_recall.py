"""The task of looking up what is stored with a key."""

import torch
from rewriting import generator
from torch.nn import functional as F

from mha_course.lessons.l16_why_many_heads.associative_recall import AssociativeRecall


def test_what_is_looked_up_stands_beside_the_key():
    x, target = AssociativeRecall().draw(2, 30, generator())
    distances = (x[:, :, 1:, :16] - x[:, :, :1, :16]).norm(dim=-1)  # (runs, N, 16)
    places = distances.argmin(-1) + 1  # (runs, N)
    assert torch.equal(target, x[torch.arange(2)[:, None], torch.arange(30), places, 16:31])
    assert torch.equal(x[..., 31], F.one_hot(torch.zeros(2, 30, dtype=torch.long), 17).float())
    assert not x[:, :, 0, 16:31].any()
