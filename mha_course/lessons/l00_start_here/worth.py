"""How much the second layer's attention improves the model's guess."""

from __future__ import annotations

from mha_course import example
from mha_course.datasets.grammar import sentences
from mha_course.experiments.head_analysis import around_attention

SUBJECTS = ("so", "because_subject", "because_object")  # where the pronoun is a subject


def right_pronouns() -> tuple[dict[str, float], int]:
    """Hide the pronoun in test sentences, and read the model's guess at two points.

    Returns: the fraction of right guesses before and after the second layer's attention is added,
    and the number of sentences.
    """
    model = example.trained_model()
    texts = [text for text in sentences(1000, "test", seed=0) if text.kind in SUBJECTS]
    ids, mask = example.encode([text.words for text in texts])
    hidden = range(len(texts)), [text.pairs["pronoun"][0][0] for text in texts]
    pronouns = ids[hidden]
    ids[hidden] = example.MASK
    right = {}
    streams = around_attention(model, ids, mask, layer=1)
    for name, stream in zip(("before", "after"), streams, strict=True):
        guesses = model.to_words(model.encoder.norm(stream[hidden])).argmax(-1)
        right[name] = (guesses == pronouns).float().mean().item()
    return right, len(texts)
