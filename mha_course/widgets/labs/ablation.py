"""The lab of lesson 16: switch heads of the trained model off, and see what it guesses then."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mha_course.datasets.grammar import vocabulary
from mha_course.errors import require
from mha_course.example import MASK, encode, trained_model
from mha_course.experiments import head_analysis
from mha_course.models import MaskedWordModel
from mha_course.widgets.controls import ChoiceControl, ToggleControl
from mha_course.widgets.labs.lab import Lab
from mha_course.widgets.labs.panels import Panels, bars

SENTENCES = (
    "the woolly goats heard the sly fox , and <mask> answered it",
    "the woolly goats begged the sly fox because <mask> was hungry",
    "the woolly goats begged the sly fox because <mask> were hungry",
    "the grey cat that chased the loud dogs was hungry , so it <mask> greedily",
    "the grey cat that chased the loud dogs was hungry , so it <mask> quietly",
    "the rusty <mask> near the humble nun was bored and yawned widely",
)
GUESSES = 6


class AblationLab(Lab):
    """Ablate heads, and compare the guesses for a hidden word.

    Args: sentences of the small world, each with one ``<mask>``; the heads ablated at the start, as ``"L1 H1"``.
    Raises: ShapeError for an unknown word, another number of hidden words, or a head that does not exist.
    """

    question = "Which heads does this guess need?"
    hint = "L1 H0 is head 0 of layer 1; both are counted from 0. Try one head, then pairs."

    def __init__(self, sentences: Sequence[str] = SENTENCES, *, ablated: Sequence[str] = ()) -> None:
        self._model = trained_model()
        for sentence in sentences:
            hidden = sentence.split().count("<mask>")
            got = f"{hidden} in {sentence!r}"
            require(hidden == 1, "AblationLab", "one word must be hidden", expected="one <mask>", got=got)
        self._full = {sentence: guesses(self._model, sentence) for sentence in sentences}
        names = head_analysis.head_names(self._model)
        known, rule = set(ablated) <= set(names), "ablated must name heads"
        require(known, "AblationLab", rule, expected=", ".join(names), got=repr(list(ablated)))
        self._places = dict(zip(map(_control, names), head_analysis.all_heads(self._model), strict=True))
        super().__init__(
            [
                ChoiceControl("sentence", "sentence", "menu", tuple(sentences), sentences[0]),
                *(ToggleControl(_control(name), f"silence {name}", name in ablated) for name in names),
            ]
        )

    def draw(self, sentence: str, **ablated: bool) -> tuple[Panels, str]:
        """Draw what is guessed with all heads, and without the ablated ones."""
        off = [place for name, place in self._places.items() if ablated[name]]
        full, left = self._full[sentence], guesses(head_analysis.ablate_heads(self._model, off), sentence)  # (V,) each
        likely = torch.maximum(full, left).topk(GUESSES).indices
        words = [vocabulary()[number] for number in likely]
        who = ", ".join(f"L{layer} H{head}" for layer, head in off)
        best, now = (vocabulary()[int(found.argmax())] for found in (full, left))
        panels = (
            bars("with all heads", words, full[likely], lit=[words.index(best)], note="probability"),
            bars(
                f"without {who}" if off else "no head is silent",
                words,
                left[likely],
                lit=[words.index(now)],
                note="probability",
            ),
        )
        text = f"“{sentence}”: with all heads, “{best}” has {full.max():.2f}."
        if not off:
            return panels, text
        rest = "" if now == best else f", and “{best}” {left[full.argmax()]:.2f}"
        return panels, f"{text} Without {who}, “{now}” has {left.max():.2f}{rest}."


@torch.no_grad()
def guesses(model: MaskedWordModel, sentence: str) -> Tensor:
    """Return the probability of every word (V) for the one that is hidden."""
    ids, mask = encode([sentence.split()])
    return model(ids, mask)[0, int((ids[0] == MASK).nonzero())].softmax(-1)


def _control(name: str) -> str:
    """Return the name of a head's toggle: ``l1_h0`` for L1 H0."""
    return name.lower().replace(" ", "_")
