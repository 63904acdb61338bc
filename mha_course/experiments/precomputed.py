"""Figures of lesson 16 that took too long for a lesson, and the command that makes them.

``python3 -m mha_course.experiments.precomputed`` trains one, two and four heads on the difference of two contents fifty
times each (two minutes), heads of many widths (two minutes) and the model of the running example from other starts
(two minutes each), and writes ``data/heads.json``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from mha_course import example
from mha_course.datasets.grammar import sentences
from mha_course.experiments import head_analysis
from mha_course.experiments.head_tasks import AssociativeRecall, TwoTokenSum, learn
from mha_course.models import MaskedWordModel

PATH = Path(__file__).parents[1] / "data" / "heads.json"
HEADS, RUNS, STEPS = (1, 2, 4, 8, 16), 3, 1000
SEEDS = tuple(range(300, 310))
STARTS = (0, 1, 2, 3, 4)


@dataclass(frozen=True)
class Precomputed:
    """What the command found.

    ``difference`` are R² of 50 runs on TwoTokenSum for each number of heads, of seeds that the lesson does not use;
    ``thin`` R² of every run on AssociativeRecall for each number of heads, which get thinner; ``starts`` a report
    (see ``report``) for each start.
    """

    difference: dict[int, list[float]]
    thin: dict[int, list[float]]
    starts: dict[int, dict[str, Any]]


def load() -> Precomputed:
    """Return the figures that ship."""
    data = json.loads(PATH.read_text(encoding="utf-8"))
    return Precomputed(**{part: {int(key): value for key, value in found.items()} for part, found in data.items()})


def difference(num_heads: int, seeds: Sequence[int] = SEEDS, *, runs: int = 5, steps: int = 500) -> list[float]:
    """Let runs learn the difference of two contents with so many heads, for every seed; return their R²."""
    found = [learn(TwoTokenSum(), num_heads, seed=seed, runs=runs, steps=steps).r2 for seed in seeds]
    return [value for r2 in found for value in _rounded(r2)]


def thin(num_heads: int, *, runs: int = RUNS, steps: int = STEPS) -> list[float]:
    """Let runs learn to look up one of 16 keys with so many heads; return their R²."""
    return _rounded(learn(AssociativeRecall(), num_heads, runs=runs, steps=steps, count=64).r2)


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


def _rounded(numbers: Tensor) -> list[float]:
    """Return numbers with three decimals."""
    return [round(value, 3) for value in numbers.tolist()]


def _short(found: dict[str, Any]) -> dict[str, Any]:
    """Return a report with three decimals, as it ships."""
    return {
        name: [round(x, 3) for x in value] if isinstance(value, list) else round(value, 3)
        for name, value in found.items()
    }


def main(argv: Sequence[str] = ()) -> None:
    """Compute all figures and write them; starts may be named."""
    starts = [int(number) for number in argv] or STARTS
    data = {
        "difference": {heads: difference(heads) for heads in (1, 2, 4)},
        "thin": {heads: thin(heads) for heads in HEADS},
        "starts": {start: _short(report(example.train_model(start)[0])) for start in starts},
    }
    PATH.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
