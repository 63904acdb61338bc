"""The trained masked-word model for an explorer, with or without a kernel."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from torch import Tensor

from mha_course import example
from mha_course.datasets.grammar import PRONOUNS, sentences, vocabulary, word_classes
from mha_course.widgets.base import answer_script

HERE = Path(__file__).parent
# The parts of the last layer after its attention weights.
UNUSED = ("out_proj", "feed_forward", "norm2")


class Look:
    """Return the last layer's weights for a sentence, (1, 1, H, S, S).

    >>> Look()("the cat ate").shape
    torch.Size([1, 1, 4, 3, 3])
    """

    def __call__(self, sentence: str) -> Tensor:
        """Run the model. Raises: SentenceError for unknown words."""
        ids, _ = example.encode([sentence])
        return example.trained_model().attention_weights(ids)[-1:]

    def suggestions(self) -> dict[str, Any]:
        """Return words and sentences to choose from instead of typing."""
        with_pronoun = [s for s in sentences(40, "test", seed=0) if "pronoun" in s.pairs]
        return {
            "classes": [words for words in word_classes() if len(words) > 1],
            "nouns": [*PRONOUNS],
            "verbs": ["was", "were"],
            "sentences": [" ".join(s.words) for s in with_pronoun],
        }

    def without_kernel(self) -> dict[str, Any]:
        """Return the script that answers without a kernel, and its data."""
        script = answer_script("answer.js", folder=HERE)
        return {"script": script, "data": exported_weights()}


def exported_weights() -> bytes:
    """Return the last layer's weights: the header's length, the header, float32 numbers.

    The header is JSON: ``shapes`` by weight name, in storage order, and the ``vocabulary``. All is
    little-endian.

    >>> len(exported_weights()) < 160_000
    True
    """
    model = example.trained_model()
    last_layer = f"encoder.layers.{len(model.blocks) - 1}."
    needed = {
        name: tensor
        for name, tensor in model.state_dict().items()
        if not name.startswith(("encoder.norm.", "to_words."))
        and not (name.startswith(last_layer) and any(pattern in name for pattern in UNUSED))
    }
    shapes = {name: tuple(tensor.shape) for name, tensor in needed.items()}
    header = json.dumps({"shapes": shapes, "vocabulary": vocabulary()}).encode()
    numbers = [tensor.numpy().astype("<f4").tobytes() for tensor in needed.values()]
    return b"".join([struct.pack("<I", len(header)), header, *numbers])
