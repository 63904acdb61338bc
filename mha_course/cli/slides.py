"""Decks for lecturers: the pages of the site, which open as slides, solutions if asked for."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mha_course.cli import launch, rendering, site

DECKS = launch.ROOT / "decks"


def build(
    numbers: Sequence[str] = (),
    *,
    solutions: bool = False,
    saved: bool = False,
    folder: Path = DECKS,
) -> Path:
    """Write the decks of some lessons, of all without numbers, and an index; return the index.

    Args: numbers are such as ``"3"`` or ``"03"``; with solutions, each exercise is followed by its
        reference; saved takes the outputs that the notebooks have, in which no widget is live.
    Raises: ShapeError for a number without a lesson, or a cell without a slide type.
    """
    pages = site.read_lessons(numbers, saved=saved, solutions=solutions)
    site.write(pages, folder, launch.pages(launch.repository()), presented=True)
    return folder / "index.html"


def main(argv: Sequence[str]) -> int:
    """Build lecture decks and say where they lie; return the exit status."""

    def run(chosen: Namespace) -> str:
        if not chosen.saved:
            print("Every lesson is executed for its deck. All of them take about four minutes.")
        index = build(chosen.numbers, solutions=chosen.solutions, saved=chosen.saved)
        return f"All decks are listed in {index}. They need no network; ? lists the keys."

    options: dict[str, dict[str, Any]] = {
        "solutions": {"action": "store_true", "help": "a solution after each exercise"},
    }
    return rendering.command("slides", argv, run, **options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
