"""Figures of lessons 3 and 13 to 17 that took too long for a lesson.

``python -m mha_course.experiments.precomputed`` makes them in about an hour: ``data/heads.json``. With names of parts
behind it, such as ``thin``, it makes these alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from mha_course import example
from mha_course.datasets.grammar import sentences
from mha_course.experiments import head_analysis
from mha_course.experiments.head_tasks import AssociativeRecall, TwoTokenSum, learn
from mha_course.lessons.l03_scaling import scaling
from mha_course.lessons.l14_vision import shapes, vision
from mha_course.lessons.l15_language_model import pronouns
from mha_course.models import MaskedWordModel, seeded, train

PATH = Path(__file__).parents[1] / "data" / "heads.json"
HEADS = (1, 2, 4, 8, 16)
SEEDS = tuple(range(400, 440))
STARTS = (0, 1, 2, 3, 4)
DIVISOR_SEEDS = (0, 1, 2)
SHORT_STARTS, SHORT_STEPS = (101, 102, 103), 800  # of lesson 13
VISION_STARTS, VISION_STEPS = (0, 1, 2, 3, 4), 300  # of lesson 14
LANGUAGE_STARTS = (0, 1, 2, 3, 4, 5, 6, 201, 202)


class Precomputed(NamedTuple):
    """What the command found, for each number of heads, or for each start."""

    difference: dict[int, list[float]]  # R² of 200 runs on TwoTokenSum, of seeds that the lesson does not use
    slower: dict[int, list[float]]  # the same with a rate of 0.003
    two_layers: dict[int, list[float]]  # the same with two layers of one head, for each width of the head
    thin: dict[int, dict[str, list[float]]]  # R² of every run on AssociativeRecall, for what is as thin as D = C / H
    starts: dict[int, dict[str, Any]]  # see ``report``
    divisors: dict[int, dict[str, float]]  # for every seed, the ``final_loss`` with each of ``scaling.divisors``
    short: dict[int, dict[str, Any]]  # as starts, after as many steps as lesson 13 makes
    vision: dict[int, dict[str, Any]]  # see ``vision_start``
    language: dict[int, dict[str, Any]]  # see ``pronouns.report``


def load() -> Precomputed:
    """Return the figures that ship."""
    data = json.loads(PATH.read_text(encoding="utf-8"))
    return Precomputed(**{part: {int(key): value for key, value in found.items()} for part, found in data.items()})


def final_loss(seed: int, divisor: float) -> float:
    """Train the model of the running example with another divisor; return the mean loss of the last 100 steps."""
    losses = scaling.train_with(divisor, seed)
    return round(sum(losses[-100:]) / 100, 4)


def difference(num_heads: int, seeds: Sequence[int] = SEEDS, **options: Any) -> list[float]:
    """Let five runs learn the difference of two contents with so many heads, for every seed; return their R²."""
    runs = [learn(TwoTokenSum(), num_heads, seed=seed, **options).r2.tolist() for seed in seeds]
    return [value for r2 in runs for value in _rounded(r2)]


def two_layers(head_dim: int, seeds: Sequence[int] = SEEDS) -> list[float]:
    """Let five runs learn the same with two layers of one head of some width, for every seed; return their R²."""
    return difference(1, seeds, num_layers=2, score_dim=head_dim, value_dim=head_dim)


def thin(num_heads: int, *, runs: int = 3, steps: int = 1000) -> dict[str, list[float]]:
    """Let runs learn to look up one of 16 keys with heads of which all, q and k, or v alone are thin: their R²."""
    task = AssociativeRecall()
    wide = {"q, k and v": {}, "q and k": {"value_dim": task.width}, "v": {"score_dim": task.width}}
    return {
        name: _rounded(learn(task, num_heads, runs=runs, steps=steps, **options).r2.tolist())
        for name, options in wide.items()
    }


def report(model: MaskedWordModel) -> dict[str, Any]:
    """Measure the pronoun's head of a model on sentences about pairs of nouns that it was not trained on.

    Returns: ``weights`` of every head from pronoun to noun, ``accuracy`` on hidden pronouns, and the accuracy
    ``without`` the head that has the largest weight; nothing is rounded.
    """
    texts = sentences(1000, "test", seed=16)
    weights = head_analysis.relation_table(model, texts, ["pronoun"])[0]
    best = head_analysis.all_heads(model)[int(weights.argmax())]
    ablated = head_analysis.ablate_heads(model, [best])
    intact, without = (float(head_analysis.accuracies(m, texts, ["pronoun"])) for m in (model, ablated))
    return {"weights": weights.tolist(), "accuracy": intact, "without": without}


def _rounded(numbers: list[float]) -> list[float]:
    return [round(value, 3) for value in numbers]


def _rounded_report(found: dict[str, Any]) -> dict[str, Any]:
    return {name: _rounded(x) if isinstance(x, list) else round(x, 3) for name, x in found.items()}


def _report_from(start: int, **training: Any) -> dict[str, Any]:
    return _rounded_report(report(example.train_model(start, **training)[0]))


def short_start(seed: int) -> dict[str, Any]:
    """Train the masked-word model of lesson 13 from a start, and report on it with three decimals."""
    return _report_from(seed, steps=SHORT_STEPS, progress=False)


def vision_start(seed: int) -> dict[str, Any]:
    """Train the vision transformer of lesson 14 from a start.

    Returns: the share of right answers on pictures not trained on, and for each head of layer 0 the colour of shape
        that gets most of the class token's weight, and how much.
    """
    with seeded(seed):
        model = vision.VisionTransformer()
    pictures = shapes.draw(1000, torch.Generator().manual_seed(99))
    batches = vision.training_batches(1)
    train(model, batches, vision.answer_loss, steps=VISION_STEPS, lr=3e-3, progress=False)
    most, colours = vision.weights_by_colour(model, pictures)[0].max(-1)  # (H,)
    return {
        "accuracy": round(vision.accuracy(model, pictures), 3),
        "colours": [list(shapes.COLOURS)[number] for number in colours.tolist()],
        "weights": _rounded(most.tolist()),
    }


def language_start(seed: int) -> dict[str, Any]:
    """Train the language model of lesson 15 from a start, and report on it with three decimals."""
    return _rounded_report(pronouns.report_from(seed))


def _divisor_losses(seed: int) -> dict[str, float]:
    return {name: final_loss(seed, by) for name, by in scaling.divisors(12, 4).items()}


PARTS: dict[str, tuple[Callable[[int], Any], Sequence[int]]] = {  # what makes a figure, and for what
    "difference": (difference, (1, 2, 4)),
    "slower": (partial(difference, lr=0.003), (2,)),
    "two_layers": (two_layers, (12, 24)),
    "thin": (thin, HEADS),
    "starts": (_report_from, STARTS),
    "divisors": (_divisor_losses, DIVISOR_SEEDS),
    "short": (short_start, SHORT_STARTS),
    "vision": (vision_start, VISION_STARTS),
    "language": (language_start, LANGUAGE_STARTS),
}

if __name__ == "__main__":
    figures = json.loads(PATH.read_text(encoding="utf-8"))
    for part in sys.argv[1:] or PARTS:
        make, keys = PARTS[part]
        figures[part] = {key: make(key) for key in keys}
    PATH.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
