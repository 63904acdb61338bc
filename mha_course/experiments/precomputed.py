"""Precomputed figures that take too long for a lesson: ``data/figures.json``.

``cli.makers`` makes them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

PATH = Path(__file__).parents[1] / "data" / "figures.json"


class Precomputed(NamedTuple):
    """Measurements, by number of heads, training seed, or name."""

    # R² of 200 runs on TwoTokens' difference, with seeds that lesson 16 does not use
    difference: dict[int, list[float]]
    two_layers: dict[str, list[float]]  # R² of 100 runs of two one-head layers, by target
    # R² of every run on AssociativeRecall, by what is narrowed to D = C / H.
    thin: dict[int, dict[str, list[float]]]
    one_layer: dict[int, dict[str, float]]  # ``induction.accuracies`` of lesson 17
    divisors: dict[int, dict[str, float]]  # the loss with each of lesson 3's divisors
    translation: dict[int, dict[str, Any]]  # ``translation.alignment_report`` of lesson 9
    # ``head_analysis.pronoun_report`` of models trained for as many steps as in lesson 13
    short: dict[int, dict[str, Any]]
    vision: dict[int, dict[str, Any]]  # ``vision_start`` of lesson 14
    language: dict[int, dict[str, Any]]  # ``pronouns.report`` of lesson 15
    bug_hunt: dict[str, list[Any]]  # ``costs.measure`` of lesson 19


def load() -> Precomputed:
    """Return the shipped figures; digit keys, which JSON turns into strings, become ints again."""
    by_name: dict[str, Any] = {}
    for name, figures in json.loads(PATH.read_text(encoding="utf-8")).items():
        by_name[name] = {int(key) if key.isdigit() else key: figures[key] for key in figures}
    return Precomputed(**by_name)


def save(figures: Precomputed) -> None:
    """Replace the shipped figures, one per line."""
    entries = []
    for name, series in figures._asdict().items():
        rows = [f" {json.dumps(str(key))}: {json.dumps(value)}" for key, value in series.items()]
        entries.append(f'"{name}": {{\n' + ",\n".join(rows) + "\n}")
    PATH.write_text("{\n" + ",\n".join(entries) + "\n}\n", encoding="utf-8")
