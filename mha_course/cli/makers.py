"""Make what ships again: ``python -m mha_course.cli.makers NAME [KEY …]``.

With keys, such as a seed, it makes these figures only.
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


class Maker(NamedTuple):
    """What makes the figures of one field of Precomputed."""

    make: Callable[[Any], Any]  # of a key
    keys: Sequence[Any]


def short_start(seed: int) -> dict[str, Any]:
    """Train the running example's model as briefly as in lesson 13, and report on it."""
    return pronoun_report(example.train_model(seed, steps=800, progress=False)[0])


MAKERS = {  # each with the seconds that one figure takes on a quiet core
    "divisors": Maker(scaling.divisor_losses, range(3)),  # 215
    "translation": Maker(translation.alignment, range(12)),  # 2
    "short": Maker(short_start, (101, 102, 103)),  # 14
    "vision": Maker(vision.vision_start, range(5)),  # 7
    "language": Maker(pronouns.report_from, (*range(7), 201, 202)),  # 6
    "difference": Maker(head_runs.difference, (1, 2, 4)),  # 90
    "two_layers": Maker(head_runs.two_layers, ("difference", "pair")),  # 30
    "thin": Maker(head_runs.thin, head_runs.HEADS),  # 8
    "one_layer": Maker(induction.one_layer, range(3)),  # 25
    "bug_hunt": Maker(costs.measure, costs.CASES),  # 30
}


def rounded(figure: Any) -> Any:
    """Return a figure with four decimals, in whatever lists and dicts its numbers are."""
    if isinstance(figure, dict):
        return {name: rounded(value) for name, value in figure.items()}
    if isinstance(figure, list | tuple):
        return [rounded(value) for value in figure]
    return round(figure, 4) if isinstance(figure, float) else figure


def remake(name: str, keys: Sequence[Any]) -> None:
    """Recompute these figures of a field, and save each one as soon as it is ready."""
    for key in keys:
        figures = precomputed.load()
        getattr(figures, name)[key] = rounded(MAKERS[name].make(key))
        precomputed.save(figures)


def main(argv: Sequence[str]) -> int:
    """Make what is named; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m mha_course.cli.makers", description=__doc__)
    parser.add_argument("name", choices=MAKERS)
    parser.add_argument("keys", nargs="*", help="by default all of them")
    chosen = parser.parse_args(argv)
    known = {str(key): key for key in MAKERS[chosen.name].keys}
    torch.set_num_threads(1)  # the models are so small that a second thread slows them down
    remake(chosen.name, [known[key] for key in chosen.keys or known])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
