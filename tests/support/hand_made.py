"""The two heads of lesson 16 that subtract, as the attention that several runs train."""

from rewriting import generator

from mha_course.experiments.head_tasks import ParallelAttention
from mha_course.lessons.l16_why_many_heads.exercises import build_subtractor


def hand_made_heads():
    w_q, w_k, w_v, w_o = build_subtractor(6)
    layer = ParallelAttention(1, 18, 2, generator()).requires_grad_(False)
    for name, w in (("w_q", w_q), ("w_k", w_k), ("w_v", w_v), ("w_o", w_o.T)):
        getattr(layer, name).copy_(w.view(1, 2, 9, 18))
    for name in ("b_q", "b_k", "b_v", "b_o"):
        getattr(layer, name).zero_()
    return layer
