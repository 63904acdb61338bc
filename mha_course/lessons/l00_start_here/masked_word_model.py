"""The trained masked-word model for pages without a kernel; its JavaScript is beside this."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from mha_course import example
from mha_course.datasets.grammar import vocabulary

SCRIPT = Path(__file__).with_suffix(".js")
# Of the last layer, what comes after its attention weights.
UNUSED = ("out_proj", "feed_forward", "norm2")


def exported_weights() -> bytes:
    """Return what the last layer's attention needs: a header's length, the header, float32 numbers.

    The header is JSON: ``shapes`` by the weights' names, in the order of their numbers, and the
    ``vocabulary``. All is little-endian.

    >>> len(exported_weights()) < 160_000
    True
    """
    model = example.trained_model()
    last = f"encoder.layers.{len(model.blocks) - 1}."
    needed = {
        name: tensor
        for name, tensor in model.state_dict().items()
        if not name.startswith(("encoder.norm.", "to_words."))
        and not (name.startswith(last) and any(part in name for part in UNUSED))
    }
    shapes = {name: tuple(tensor.shape) for name, tensor in needed.items()}
    header = json.dumps({"shapes": shapes, "vocabulary": vocabulary()}).encode()
    numbers = [tensor.numpy().astype("<f4").tobytes() for tensor in needed.values()]
    return b"".join([struct.pack("<I", len(header)), header, *numbers])
