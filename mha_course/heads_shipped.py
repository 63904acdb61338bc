"""Figures of lesson 16 that took too long for a lesson, and the command that makes them.

``python3 -m mha_course.heads_shipped`` trains heads of many widths (three minutes) and the model of the running
example from other starts (two minutes each), and writes ``data/heads.json``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mha_course import example, heads_tables
from mha_course.grammar import sentences
from mha_course.heads_task import LookUp, learn
from mha_course.models import MaskedWordModel

SHIPPED = Path(__file__).parent / "data" / "heads.json"
HEADS, RUNS, STEPS = (1, 2, 4, 8, 16), 3, 1000
STARTS = (0, 1, 2, 3, 4)


def load() -> tuple[dict[int, list[float]], dict[int, dict[str, Any]]]:
    """Return R² of every run for each number of heads, and a report (see ``report``) for each start."""
    data = json.loads(SHIPPED.read_text(encoding="utf-8"))
    return tuple({int(key): value for key, value in data[name].items()} for name in ("thin", "starts"))  # type: ignore


def thin(num_heads: int, *, runs: int = RUNS, steps: int = STEPS) -> list[float]:
    """Let runs learn to look up one of 16 keys with so many heads; return their R²."""
    return [round(value, 3) for value in learn(LookUp(), num_heads, runs=runs, steps=steps).r2.tolist()]


def report(model: MaskedWordModel) -> dict[str, Any]:
    """Measure the pronoun's head of a model on sentences about pairs of nouns that it was not trained on.

    Returns: ``weights``, of every head from pronoun to noun, ``accuracy`` on hidden pronouns, ``without`` the head
    that looks most.
    """
    texts = sentences(1000, "test", seed=16)
    weights = heads_tables.looks(model, texts, ["pronoun"])[0]
    best = heads_tables.places(model)[int(weights.argmax())]
    with_all, without = (
        float(heads_tables.accuracies(m, texts, ["pronoun"])) for m in (model, heads_tables.without(model, [best]))
    )
    rounded = [round(value, 3) for value in weights.tolist()]
    return {"weights": rounded, "accuracy": round(with_all, 3), "without": round(without, 3)}


def main(argv: Sequence[str] = ()) -> None:
    """Make all figures again and write them; starts may be named."""
    starts = [int(number) for number in argv] or STARTS
    data = {
        "thin": {heads: thin(heads) for heads in HEADS},
        "starts": {start: report(example.train_model(start)[0]) for start in starts},
    }
    SHIPPED.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
