"""Watch a masked-word model learn: what its heads look at, before, during and after.

Axes: L layers, H heads, T = S tokens of a sentence.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from torch import Tensor

from mha_course.datasets.grammar import Sentence, sentences
from mha_course.example import SENTENCE, encode
from mha_course.experiments import head_analysis
from mha_course.models import MaskedWordModel

_COUNT = 300  # sentences about pairs of nouns that no model was trained on


@dataclass(frozen=True)
class Snapshot:
    """A model after so many steps.

    ``model`` is a copy of it; ``pronoun`` (L, H), each head's mean weight from a pronoun to its noun, and
    ``accuracy``, the share of hidden pronouns that are guessed, 0 to 1: both on sentences about pairs of nouns that
    are not trained on.
    """

    step: int
    model: MaskedWordModel
    pronoun: Tensor
    accuracy: float

    @property
    def best(self) -> tuple[int, int]:
        """The layer and the head that look most from pronouns to their nouns."""
        layer, head = divmod(int(self.pronoun.argmax()), self.pronoun.size(1))
        return layer, head

    def weights(self, sentence: str = SENTENCE) -> Tensor:
        """Return what all heads look at in one sentence of at most 15 words of the grammar, (L, H, T, S)."""
        ids, _ = encode([sentence.split()])  # (1, S)
        return self.model.attention_weights(ids)[:, 0]


def look(model: MaskedWordModel, step: int) -> Snapshot:
    """Take a snapshot of a model after so many steps; nothing in it changes.

    >>> from mha_course.example import new_model
    >>> look(new_model(0), 0).pronoun.shape
    torch.Size([2, 4])
    """
    texts, kept = _unseen(), copy.deepcopy(model).eval().requires_grad_(False)
    pronoun = head_analysis.relation_weights(head_analysis.all_weights(kept, texts), texts, "pronoun")  # (L, H)
    return Snapshot(step, kept, pronoun, head_analysis.accuracy(kept, texts, "pronoun"))


def watched(model: MaskedWordModel, batches: Iterable[Any], at: Collection[int], seen: list[Snapshot]) -> Iterator[Any]:
    """Hand batches on as they are, and before those numbered in ``at`` append a snapshot of the model to ``seen``."""
    for step, batch in enumerate(batches):
        if step in at:
            seen.append(look(model, step))
        yield batch


@cache
def _unseen() -> tuple[Sentence, ...]:
    """Return the sentences that are measured on."""
    return tuple(sentences(_COUNT, "test", seed=2))
