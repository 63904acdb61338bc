"""Nine runs of lesson 15's training: which heads attend from a pronoun's position to its noun, and
which are needed.

A pronoun is guessed before it is read, so its position is that of the word before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from mha_course.datasets.grammar import Sentence, sentences
from mha_course.experiments.head_analysis import ablate_heads, all_heads, relation_weights
from mha_course.lessons.l15_language_model import language_model
from mha_course.lessons.l15_language_model.causal_model import CausalLanguageModel
from mha_course.models import language

STEPS = 600  # of lesson 15


def unseen() -> list[Sentence]:
    """Return sentences with a pronoun, about pairs of nouns in an order not seen in training."""
    return [text for text in sentences(1000, "test", seed=998) if "pronoun" in text.pairs]


@torch.no_grad()
def accuracy(model: CausalLanguageModel, texts: Sequence[Sentence]) -> float:
    """Return the fraction of pronouns that are the likeliest word at their position, 0 to 1."""
    ids = language.encode([text.words for text in texts]).to(getattr(model, "device", "cpu"))
    correct = model(ids[:, :-1]).argmax(-1) == ids[:, 1:]  # (N, S-1): entry s is about the word s
    pronouns = [
        (number, place) for number, text in enumerate(texts) for place, _ in text.pairs["pronoun"]
    ]
    rows, places = torch.tensor(pronouns, device=correct.device).T
    return int(correct[rows, places].sum()) / len(pronouns)


def report(model: CausalLanguageModel) -> dict[str, Any]:
    """Measure a model on ``unseen`` sentences.

    Returns: every head's weights from a pronoun's position to its ``noun``, and to that noun's
        ``adjective``; ``accuracy`` on pronouns with all heads, and ``without`` each single head;
        nothing is rounded.
    """
    texts = unseen()
    weights = language_model.weights(model, texts)
    relations = {
        "noun": relation_weights(weights, texts, "pronoun"),
        "adjective": relation_weights(weights, [to_adjective(text) for text in texts], "pronoun"),
    }
    without = [accuracy(ablate_heads(model, [head]), texts) for head in all_heads(model)]
    listed = {name: table.flatten().tolist() for name, table in relations.items()}
    return {**listed, "accuracy": accuracy(model, texts), "without": without}


def to_adjective(text: Sentence) -> Sentence:
    """Point each pronoun of a sentence to its noun's adjective."""
    adjectives = dict(text.pairs["adjective"])  # if each noun has one
    pairs = tuple((place, adjectives[noun]) for place, noun in text.pairs["pronoun"])
    return replace(text, pairs={**text.pairs, "pronoun": pairs})


def report_from(seed: int) -> dict[str, Any]:
    """Train from a seed as in lesson 15, and report on the model."""
    return report(language_model.train_language_model(seed, steps=STEPS, progress=False)[0])
