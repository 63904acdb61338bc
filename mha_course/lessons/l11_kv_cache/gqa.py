"""What happens to the trained model if its heads have to share keys and values.

Axes: G key-value heads.
"""

from __future__ import annotations

import copy

from mha_course import example
from mha_course.caching import GroupedQueryAttention
from mha_course.datasets.grammar import sentences
from mha_course.experiments.head_analysis import accuracy
from mha_course.models import MaskedWordModel, masked_word_loss, train

TRAINING_STEPS = 3000  # of the model that ships
SHARE = 0.05
RELATIONS = ("pronoun", "adjective", "state")


def group_kv_heads(model: MaskedWordModel, num_kv_heads: int) -> MaskedWordModel:
    """Return a copy with fewer key-value heads in each layer, each the mean of a group.

    Raises: ShapeError unless they divide the heads. Reference: Ainslie et al. 2023, GQA,
        section 2.1, figure 4.
    """
    grouped = copy.deepcopy(model)
    for block in grouped.blocks:
        shared = GroupedQueryAttention.from_multi_head(block.attention, num_kv_heads)
        block.register_module("attention", shared)
    return grouped.requires_grad_(False)


def uptrain(model: MaskedWordModel, share: float = SHARE) -> MaskedWordModel:
    """Return a copy trained for a fraction of the shipped model's steps, on one thread.

    Reference: Ainslie et al. 2023, GQA, sections 2.1 and 3.1.
    """
    trained = copy.deepcopy(model).requires_grad_(True).train()
    steps = round(share * TRAINING_STEPS)
    batches = example.training_batches(1)
    train(trained, batches, masked_word_loss, steps=steps, lr=1e-3, progress=False)
    return trained.eval().requires_grad_(False)


def guesses(model: MaskedWordModel) -> list[float]:
    """Return the fraction of hidden words guessed right, by relation, in 500 held-out sentences."""
    texts = sentences(500, "test", seed=2)
    return [round(float(accuracy(model, texts, name)), 3) for name in RELATIONS]
