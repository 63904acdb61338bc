"""The lab of lessons 0 and 17: ablate heads of the trained model, and see its guesses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mha_course import plots
from mha_course.colours import EDGE, OTHER
from mha_course.datasets.grammar import vocabulary, words_of
from mha_course.errors import require
from mha_course.example import MASK, encode, require_texts, trained_model
from mha_course.experiments import head_analysis
from mha_course.models import MaskedWordModel
from mha_course.widgets.controls import Control
from mha_course.widgets.labs.lab import Lab
from mha_course.widgets.labs.panels import Panels, plain, shares

SENTENCES = (
    "the woolly goats heard the sly fox , and <mask> answered it",
    "the woolly goats begged the sly fox because <mask> was hungry",
    "the woolly goats begged the sly fox because <mask> were hungry",
    "the grey cat that chased the loud dogs was hungry , so it <mask> greedily",
    "the grey cat that chased the loud dogs was hungry , so it <mask> quietly",
    "the rusty <mask> near the humble nun was bored and yawned widely",
)
LEAST = 0.05  # the lowest probability shown separately


class AblationLab(Lab):
    """Ablate heads, and compare the guesses for a hidden word in several sentences.

    Args: sentences in the model's words, each with one ``<mask>``; the layer whose heads can be
        ablated, by default all; the heads ablated at first, such as ``"L1 H1"``.
    Raises: ShapeError for an unknown word or head, or if a sentence does not hide exactly one word.
    """

    question = "Which heads do these guesses need?"

    def __init__(
        self,
        sentences: Sequence[str] = SENTENCES,
        *,
        layer: int | None = None,
        ablated: Sequence[str] = (),
    ) -> None:
        self._model = trained_model()
        require_texts("AblationLab", sentences)
        for sentence in sentences:
            hidden = words_of(sentence).count("<mask>")
            rule = "one word must be hidden"
            got = f"{hidden} in {sentence!r}"
            require(hidden == 1, "AblationLab", rule, expected="one <mask>", got=got)
        full = guesses(self._model, sentences) if sentences else ()
        self._full = dict(zip(sentences, full, strict=True))
        every = head_analysis.all_heads(self._model)
        heads = [head for head in every if layer in (None, head[0])]
        rule = "there is no such layer"
        expected = f"0 to {len(self._model.blocks) - 1}"
        require(bool(heads), "AblationLab", rule, expected=expected, got=repr(layer))
        names = [f"L{layer} H{head}" for layer, head in heads]
        rule = "ablated must name heads"
        exist = isinstance(ablated, list | tuple) and set(ablated) <= set(names)
        require(exist, "AblationLab", rule, expected=", ".join(names), got=repr(ablated))
        words = names if layer is None else [f"head {head}" for _, head in heads]
        subject = "L1 H0 is head 0 of layer 1; both are" if layer is None else "Heads are"
        self.hint = f"{subject} counted from 0. Try one head, then pairs, then leave only one on."
        keys = [name.lower().replace(" ", "_") for name in names]
        self._heads = dict(zip(keys, zip(heads, words, strict=True), strict=True))
        toggles = zip(keys, words, names, strict=True)
        verb = "ablate" if layer is None else "switch off"  # lesson 17's word, and lesson 0's
        super().__init__(
            [
                Control(key, f"{verb} {word}", "toggle", name in ablated)
                for key, word, name in toggles
            ]
        )

    def draw(self, **ablated: bool) -> tuple[Panels, str]:
        """Draw a row of guesses for each sentence, above a line for the guess with all heads on."""
        off = [self._heads[key] for key, is_off in ablated.items() if is_off]
        model = head_analysis.ablate_heads(self._model, [head for head, _ in off])
        rows = []
        best = []
        changed = 0
        after = guesses(model, list(self._full)) if self._full else ()
        for (sentence, full), ablated_guess in zip(self._full.items(), after, strict=True):
            bar = {"parts": _parts(full, ablated_guess), "mark": plain(full.max())}
            rows.append({"name": sentence, "numbers": [], **bar})
            best.append(f"“{_word(ablated_guess)}” {ablated_guess.max():.2f}")
            changed += _word(full) != _word(ablated_guess)
        note = (
            "In quotes: the guessed words. Blue: the guess with all heads on; the line below it "
            "marks how likely it was. Orange: a word that beats it."
        )
        title = "the hidden word, all heads on"
        text = f"All heads on: {', '.join(best)}."
        if off:
            heads = ", ".join(word for _, word in off)
            title = f"the hidden word without {heads if len(off) == 1 else f'{len(off)} heads'}"
            text = f"Without {heads}: {', '.join(best)}; {changed} of {len(best)} guesses change."
        return (shares(title, rows, note=note),), text


@torch.no_grad()
def guesses(model: MaskedWordModel, sentences: Sequence[str]) -> Tensor:
    """Return every word's probability, (B, V), for the word each sentence hides."""
    ids, mask = encode(list(sentences))
    return model(ids, mask)[ids == MASK].softmax(-1)


def _word(probabilities: Tensor) -> str:
    return vocabulary()[int(probabilities.argmax())]


def _parts(full: Tensor, current: Tensor) -> list[dict[str, Any]]:
    """Return the guess with all heads, others now likely, and the rest together."""
    best = int(full.argmax())
    words = current.argsort(descending=True).tolist()
    likely = [number for number in words if number != best and current[number] >= LEAST]
    beaten = int(current.argmax()) != best
    colors = [plots.BAR, plots.ACCENT if beaten else OTHER, *[OTHER] * len(likely)]
    names = [f"“{vocabulary()[number]}”" for number in (best, *likely)]
    values = [float(current[number]) for number in (best, *likely)]
    rows = list(zip(names, values, colors, strict=False))
    rows.append(("others", 1 - sum(values), EDGE))
    return [{"name": name, "value": plain(value), "color": color} for name, value, color in rows]
