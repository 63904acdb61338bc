"""What the second layer's attention is worth to the model's guess."""

from __future__ import annotations

import torch

from mha_course import example
from mha_course.datasets.grammar import sentences, vocabulary

SUBJECTS = ("so", "because_subject", "because_object")  # kinds in which the pronoun is a subject


def right_pronouns() -> tuple[dict[str, float], int]:
    """Hide the pronoun of test sentences, and read the model's guess at two places.

    Returns: the share of right guesses before and after the second layer's attention is added, and
    the number of sentences.
    """
    model = example.trained_model()
    first, second = model.blocks
    texts = [text for text in sentences(1000, "test", seed=0) if text.kind in SUBJECTS]
    places = [text.pairs["pronoun"][0][0] for text in texts]
    pairs = list(zip(texts, places, strict=True))
    hidden = [[*text.words[:at], "<mask>", *text.words[at + 1 :]] for text, at in pairs]
    ids, real = example.encode(hidden)
    with torch.no_grad():
        before = first(model.embed(ids), mask=real)  # (B, S, C)
        after = before + second.attention(second.norm1(before), mask=real)[0]
        right = {}
        for name, vectors in {"before": before, "after": after}.items():
            logits = model.to_words(model.encoder.norm(vectors))
            guesses = logits[torch.arange(len(ids)), places].argmax(-1)
            words = [vocabulary()[guess] for guess in guesses]
            agree = [word == text.words[at] for word, (text, at) in zip(words, pairs, strict=True)]
            right[name] = sum(agree) / len(texts)
    return right, len(texts)
