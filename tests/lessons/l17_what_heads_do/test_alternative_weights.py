"""Other weights with the same output, inside a whole model."""

import torch

from mha_course import example
from mha_course.lessons.l17_what_heads_do import alternative_weights
from mha_course.lessons.l17_what_heads_do.exercises import other_weights


def test_other_maps_leave_the_output_alone():
    model = example.trained_model()
    ids, _ = example.encode([example.SENTENCE.split()])
    logits, computed, used = alternative_weights.run_with_weights(model, ids, other_weights)
    assert torch.allclose(logits.float(), model(ids), atol=1e-4)
    assert torch.allclose(computed[:, None].float(), model.attention_weights(ids), atol=1e-5)
    assert (used - computed).abs().sum(-1).max() > 0.2
    wrong, *_ = alternative_weights.run_with_weights(
        model, ids, lambda weights, v: weights.roll(1, -1)
    )
    assert not torch.allclose(wrong.float(), model(ids), atol=0.1)
