"""Recompute the figures that ship: ``python -m mha_course.cli.makers NAME [KEY …]``.

Without a name it prints a table of them. With keys, such as a seed, it makes only those figures.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from mha_course import example
from mha_course.experiments import precomputed
from mha_course.experiments.head_analysis import pronoun_report
from mha_course.lessons.l03_scaling import scaling
from mha_course.lessons.l09_cross_attention import translation
from mha_course.lessons.l14_vision import vision
from mha_course.lessons.l15_language_model import pronouns
from mha_course.lessons.l16_why_many_heads import head_runs
from mha_course.lessons.l17_what_heads_do import induction
from mha_course.lessons.l19_bug_hunt import costs
from mha_course.markup import columns


class Maker(NamedTuple):
    """What makes the figures of one field of Precomputed."""

    make: Callable[[Any], Any]  # of a key
    keys: Sequence[Any]
    seconds: int  # per figure, on one idle core
    about: str
    decimals: int = 3


def short_start(seed: int) -> dict[str, Any]:
    """Train the running example's model as briefly as in lesson 13, and report on it."""
    return pronoun_report(example.train_model(seed, steps=800, progress=False)[0])


MAKERS = {
    "divisors": Maker(
        scaling.divisor_losses, range(3), 215, "lesson 3: training with other divisors than √D", 4
    ),
    "translation": Maker(translation.alignment, range(12), 2, "lesson 9: where translators attend"),
    "short": Maker(short_start, (101, 102, 103), 14, "lesson 13: its model from other seeds"),
    "vision": Maker(vision.vision_start, range(5), 7, "lesson 14: its model from other seeds"),
    "language": Maker(
        pronouns.report_from, (*range(7), 201, 202), 6, "lesson 15: its model from other seeds"
    ),
    "difference": Maker(head_runs.difference, (1, 2, 4), 90, "lesson 16: 200 runs with H heads"),
    "two_layers": Maker(
        head_runs.two_layers, ("difference", "pair"), 30, "lesson 16: 100 runs of two layers"
    ),
    "thin": Maker(head_runs.thin, head_runs.HEADS, 8, "lesson 16: H heads that look up a key"),
    "one_layer": Maker(induction.one_layer, range(3), 25, "lesson 17: induction with one layer"),
    "bug_hunt": Maker(costs.measure, costs.CASES, 30, "lesson 19: what each mistake costs"),
}


def rounded(figure: Any, decimals: int) -> Any:
    """Round all numbers of a figure, in lists and dicts too, to this many decimals."""
    if isinstance(figure, dict):
        return {name: rounded(value, decimals) for name, value in figure.items()}
    if isinstance(figure, list | tuple):
        return [rounded(value, decimals) for value in figure]
    return round(figure, decimals) if isinstance(figure, float) else figure


def remake(name: str, keys: Sequence[Any]) -> None:
    """Recompute these figures of a field, and save each one as soon as it is ready."""
    maker = MAKERS[name]
    for key in keys:
        figures = precomputed.load()
        getattr(figures, name)[key] = rounded(maker.make(key), maker.decimals)
        precomputed.save(figures)


def main(argv: Sequence[str]) -> int:
    """Print the table, or make the figures named."""
    parser = argparse.ArgumentParser(prog="python -m mha_course.cli.makers", description=__doc__)
    parser.add_argument("name", nargs="?", choices=MAKERS)
    parser.add_argument("keys", nargs="*", help="by default all of them")
    chosen = parser.parse_args(argv)
    if chosen.name is None:
        rows = [
            (name, f"{len(maker.keys)} of {maker.seconds} s", maker.about)
            for name, maker in MAKERS.items()
        ]
        print(columns([("name", "figures", "what"), *rows]))
        return 0
    known = {str(key): key for key in MAKERS[chosen.name].keys}
    if unknown := [key for key in chosen.keys if key not in known]:
        parser.error(f"{chosen.name} has no key {unknown[0]}: it has {', '.join(known)}")
    torch.set_num_threads(1)  # the models are so small that a second thread slows them down
    remake(chosen.name, [known[key] for key in chosen.keys or known])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
