"""Decks for lecturers: the site's pages, opening as slides, with or without solutions."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mha_course.cli import launch, plans, rendering, site
from mha_course.cli.pages import Page, Slide

DECKS = launch.ROOT / "decks"


def build(
    numbers: Sequence[str] = (),
    *,
    plan: int = 0,
    solutions: bool = False,
    saved: bool = False,
    folder: Path = DECKS,
) -> Path:
    """Write the decks of some lessons, or of all, or one deck for a plan; return the index, or that
    deck.

    Args: numbers are such as ``"3"`` or ``"03"``; plan is a number of minutes in ``plans.PLANS``;
        with solutions, each exercise is followed by its reference; saved uses the notebooks' stored
        outputs, in which no widget is live.
    Raises: ShapeError for an unknown lesson, or a cell without a slide type.
    """
    stops = plans.stops(plan) if plan else []
    chosen = sorted({str(lesson) for lesson, _ in stops}) or numbers
    pages = site.read_lessons(chosen, saved=saved, solutions=solutions)
    address = launch.pages(launch.repository())
    if plan:
        site.write([joined(plan, pages)], folder, address, presented=True)
        return folder / f"plan_{plan}.html"
    site.write(pages, folder, address, presented=True)
    site.write_index(pages, folder, address)
    return folder / "index.html"


def joined(length: int, lessons: Sequence[Page]) -> Page:
    """Join the parts of lessons that a plan uses into one page."""
    plan = plans.PLANS[length]
    page = Page(f"plan_{length}", title=plan.title)
    page.slides.append(Slide(plan.title, "", title=True))
    page.add(f"<h1>{plan.title}</h1>")
    page.add(f'<div class="lead">{rendering.words(plan.text)}</div>', page.slides[0], "data-slide")
    for number, sections in plans.stops(length):
        lesson = next(x for x in lessons if int(x.name[:2]) == number)
        page.views += lesson.views
        for section in sections:
            page.slides += [slide for slide in lesson.slides if slide.section == section]
            blocks = [block for block in lesson.blocks if block.section == section]
            page.blocks += [replace(block, html=_moved(block.html, number)) for block in blocks]
            lines = [line for heading, line in lesson.contents if heading == section]
            page.contents += [(section, _moved(line, number)) for line in lines]
    return page


def _moved(html: str, lesson: int) -> str:
    """Make the anchors of several lessons differ, and link to the published lessons."""
    html = re.sub(r'(<(?:h\d|span) id="|href="#)', rf"\g<1>{lesson}-", html)
    return re.sub(r'href="(?=\d\d_\w+\.html)', f'href="{launch.pages(launch.repository())}', html)


def main(argv: Sequence[str]) -> int:
    """Build lecture decks and say where they are; return the exit status."""

    def run(chosen: Namespace) -> str:
        if not chosen.saved:
            print("Every lesson is executed for its deck. All of them take about three minutes.")
        options = {"plan": chosen.plan, "solutions": chosen.solutions, "saved": chosen.saved}
        begin = build(chosen.numbers, **options)
        return f"Begin with {begin}. It needs no network; ? lists the keys."

    lengths = list(plans.PLANS)
    options: dict[str, dict[str, Any]] = {
        "solutions": {"action": "store_true", "help": "a solution after each exercise"},
        "plan": {"type": int, "default": 0, "choices": lengths, "help": "a deck of this many min"},
    }
    return rendering.command("slides", argv, run, **options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
