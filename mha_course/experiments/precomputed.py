"""Figures that ship, because they take too long for a lesson: ``data/heads.json``.

Each lesson keeps what makes its own in its ``precompute``: in lesson 16's folder
``python -m mha_course.lessons.l16_why_many_heads.precompute`` makes all of them again, and with
names of parts behind it, such as ``thin``, these alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

PATH = Path(__file__).parents[1] / "data" / "heads.json"


class Precomputed(NamedTuple):
    """What was found, for each number of heads, or for each seed that training began with."""

    # R² of 200 runs on TwoTokenSum, of seeds that lesson 16 does not use; the same with a rate of
    # 0.003, and with two layers of one head, for each width of the head.
    difference: dict[int, list[float]]
    slower: dict[int, list[float]]
    two_layers: dict[int, list[float]]
    # R² of every run on AssociativeRecall, by what is made as thin as D = C / H.
    thin: dict[int, dict[str, list[float]]]
    # ``head_analysis.pronoun_report`` of models trained as the one that ships.
    starts: dict[int, dict[str, Any]]
    one_layer: dict[int, dict[str, float]]  # ``single_layer_report`` of lesson 17's induction
    divisors: dict[int, dict[str, float]]  # the loss with each of lesson 3's divisors
    translation: dict[int, dict[str, Any]]  # ``translation.alignment_report`` of lesson 9
    short: dict[int, dict[str, Any]]  # as starts, after as many steps as lesson 13 makes
    vision: dict[int, dict[str, Any]]  # ``vision_start`` of lesson 14
    language: dict[int, dict[str, Any]]  # ``pronouns.report`` of lesson 15


def load() -> Precomputed:
    """Return the figures that ship."""
    parts = json.loads(PATH.read_text(encoding="utf-8"))
    return Precomputed(
        **{name: {int(key): value for key, value in parts[name].items()} for name in parts}
    )


def remake(parts: Mapping[str, tuple[Callable[[int], Any], Sequence[int]]]) -> None:
    """Make parts again, all or those named on the command line, and keep them with the others.

    Args: parts are fields of Precomputed, each with what makes a figure, and its keys.
    """
    figures = json.loads(PATH.read_text(encoding="utf-8"))
    for name in sys.argv[1:] or parts:
        make, keys = parts[name]
        figures[name] = {key: make(key) for key in keys}
    PATH.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def rounded(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report of numbers and lists of numbers with three decimals."""
    return {
        name: round_all(x) if isinstance(x, list) else round(x, 3) for name, x in report.items()
    }


def round_all(numbers: Sequence[float]) -> list[float]:
    """Return numbers with three decimals."""
    return [round(value, 3) for value in numbers]
