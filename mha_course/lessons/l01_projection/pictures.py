"""Lesson 1's experiment with a trained head."""

from __future__ import annotations

from torch import Tensor, nn

from mha_course import example

SENTENCE = "the grey cat that chased the loud dogs {} hungry , so <mask> ate greedily"


def exchanged_guesses() -> list[tuple[str, str, str]]:
    """Guess a hidden pronoun, then again with the values of “cat” and “dogs” swapped in head 1.

    Returns: rows with a verb and both guesses.
    """
    model, words = example.trained_model(), SENTENCE.split()
    cat, dogs = words.index("cat"), words.index("dogs")

    def exchange(linear: nn.Module, inputs: tuple[Tensor], value: Tensor) -> Tensor:
        value[0, [cat, dogs], 12:24] = value[0, [dogs, cat], 12:24]
        return value

    def guesses() -> list[str]:
        sentences = (SENTENCE.format(verb) for verb in ("was", "were"))
        return ["{} {:.2f}".format(*example.guess(text, model=model)[0]) for text in sentences]

    before = guesses()
    hook = model.blocks[1].attention.v_proj.register_forward_hook(exchange)  # called after v_proj
    after = guesses()
    hook.remove()
    return list(zip(("was", "were"), before, after, strict=True))
