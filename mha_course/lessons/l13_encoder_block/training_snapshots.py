"""Snapshots of what a masked-word model's heads attend to before, during and after training.

Axes: L layers, N sentences, H heads, S tokens of a sentence.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from mha_course.datasets.grammar import sentences
from mha_course.experiments import head_analysis
from mha_course.models import MaskedWordModel


class Snapshot(NamedTuple):
    """A model after some steps, measured on sentences with held-out pairs of nouns."""

    step: int
    pronoun: Tensor  # (L, H), each head's mean weight from a pronoun to its noun
    accuracy: float  # the fraction of hidden pronouns guessed right, 0 to 1

    @property
    def best(self) -> tuple[int, int]:
        """The layer and the head with the largest weight from pronouns to their nouns."""
        layer, head = divmod(int(self.pronoun.argmax()), self.pronoun.size(1))
        return layer, head


def snapshot(model: MaskedWordModel, step: int) -> Snapshot:
    """Take a snapshot of a model after a number of steps, without changing it.

    >>> from mha_course.example import new_model
    >>> snapshot(new_model(0), 0).pronoun.shape
    torch.Size([2, 4])
    """
    texts = sentences(300, "test", seed=2)
    weights = head_analysis.all_weights(model, texts)  # (L, N, H, S, S)
    pronoun = head_analysis.relation_weights(weights, texts, "pronoun")  # (L, H)
    return Snapshot(step, pronoun, head_analysis.accuracy(model, texts, "pronoun"))
