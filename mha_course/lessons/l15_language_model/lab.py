"""The lab of lesson 15: the model's likely next words, and the text it writes."""

from __future__ import annotations

import torch

from mha_course.lessons.l15_language_model import language_model
from mha_course.lessons.l15_language_model.causal_model import (
    CausalLanguageModel,
    next_token_probabilities,
)
from mha_course.lessons.l15_language_model.parsing import recognise
from mha_course.models.language import WORDS
from mha_course.widgets.controls import Control
from mha_course.widgets.labs.lab import Lab
from mha_course.widgets.labs.panels import Panels, bars, table

TEMPERATURES = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0)
STARTS = (
    "the grey cat",
    "",
    "the",
    "the grey cat begged the loud dogs because",
    "the loud dogs near the old king",
)
TOP_K = (1, 2, 5, 10, None)
LINES, SHOWN = 6, 9


class SamplingLab(Lab):
    """Change a language model's temperature and top-k; see next-word probabilities and sentences
    change.

    Args: model comes from ``language_model.train_language_model``.
    """

    question = "How bold may it be before it talks nonsense?"
    hint = "At temperature 0 the likeliest word is always taken."

    def __init__(self, model: CausalLanguageModel) -> None:
        self._model = model
        self._read = {start: language_model.prompt(start).to(model.device) for start in STARTS}
        names = tuple(start or "<start>" for start in STARTS)
        controls = [
            Control("temperature", "temperature", "slider", 1.0, TEMPERATURES),
            Control("top_k", "top-k", "choice", None, TOP_K, (*map(str, TOP_K[:-1]), "all")),
            Control("start", "words so far", "menu", STARTS[0], STARTS, names),
            Control("seed", "dice", "slider", 0, tuple(range(30))),
        ]
        super().__init__(controls)

    def without_kernel(self) -> None:
        """Return None: six sentences for each of 7,500 states would take minutes."""

    def draw(
        self, temperature: float, top_k: int | None, start: str, seed: int
    ) -> tuple[Panels, str]:
        """Draw the next word's probabilities, and some sentences, marking any the grammar cannot
        make.
        """
        with torch.no_grad():
            logits = self._model(self._read[start])[:, -1]  # (1, V)
        # greedy takes only the likeliest word
        chances = next_token_probabilities(logits, temperature or 1.0, top_k if temperature else 1)
        best = chances[0].topk(SHOWN)
        names = [WORDS[number] for number in best.indices.tolist()]
        written = language_model.write(
            self._model, LINES, temperature=temperature, top_k=top_k, seed=seed, start=start
        )
        right = [recognise(words) is not None for words in written]
        texts = [" ".join(words) for words in written]
        marks = ["✓" if is_right else "✗" for is_right in right]
        title = f"the next word: {SHOWN} of {len(WORDS)}"
        note = "✓: the grammar could have made it"
        panels: Panels = (
            bars(title, names, best.values, highlighted=[0], note="probability"),
            table("it writes", ("sentence", ""), list(zip(texts, marks, strict=True)), note),
        )
        begun = f"After “{start}”" if start else "At the start of a sentence"
        choice = f"top {top_k}" if top_k else "all words"
        return panels, (
            f"Temperature {temperature:g}, {choice}. {begun} the likeliest next word is "
            f"“{names[0]}”, with {best.values[0]:.2f}. The grammar could have made {sum(right)} "
            f"of {LINES} sentences."
        )
