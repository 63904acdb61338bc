"""Lecture decks: each notebook as one HTML file that needs no network, made from its cells and
their metadata.

Every cell says in ``slideshow.slide_type`` what it becomes: ``slide`` and ``subslide`` begin a
slide, ``-`` goes on the same one, ``fragment`` too, and waits for a key; ``notes`` are for the
lecturer alone, ``skip`` is left out. The first cell of a section also has ``lecture``: its
``minutes`` and its ``notes``. On any cell, ``lecture.show`` is ``output``, ``code`` or ``both``,
and ``lecture.text`` is what a lecturer shows instead of words that are for a reader: those of a
Markdown cell, or the sentence below a picture. Lessons are executed for their decks: pictures are
drawn for a room, and widgets that need no kernel are live. The page itself puts what has no room on
a slide on the next, and joins slides that are half empty: deck.js.
"""

from __future__ import annotations

import argparse
import html
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import nbformat
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

from mha_course.cli import launch, rendering
from mha_course.cli.rendering import HEADING, Part, words
from mha_course.cli.stub_source import stub_name
from mha_course.errors import ShapeError, require
from mha_course.exercises.catalogue import QUESTIONS, find_exercise
from mha_course.sources import plain_source
from mha_course.widgets.base import esm

DECKS = launch.ROOT / "decks"
TYPES = ("slide", "subslide", "fragment", "-", "notes", "skip")
SHOWS = ("output", "code", "both")


@dataclass
class Slide:
    """One slide: the heading above it, its parts, and what the lecturer alone sees."""

    heading: str
    parts: list[Part] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    minutes: float = 0.0  # of the section that begins here
    title: bool = False


def build(
    numbers: Sequence[str] = (),
    *,
    solutions: bool = False,
    saved: bool = False,
    folder: Path = DECKS,
) -> list[Path]:
    """Write the decks of some lessons, of all without numbers, and an index; return what was
    written.

    Args: numbers are such as ``"3"`` or ``"03"``; with solutions, each exercise is followed by its
        reference; saved takes the outputs that the notebooks have, in which pictures are small and
        no widget is live.
    Raises: ShapeError for a number without a lesson, or a cell without a slide type.
    """
    paths = rendering.lessons(numbers)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for path in paths:
        written.append(folder / f"{path.stem}.html")
        written[-1].write_text(deck(path, solutions=solutions, saved=saved), encoding="utf-8")
        print(f"built {written[-1].name}", flush=True)
    (folder / "index.html").write_text(_index(folder), encoding="utf-8")
    return [*written, folder / "index.html"]


def deck(path: Path, *, solutions: bool = False, saved: bool = False) -> str:
    """Return the deck of a notebook as one page of HTML."""
    notebook = nbformat.read(path, as_version=4)
    if not saved:
        rendering.execute(notebook, "SLIDE")
    found = slides(notebook, path.stem, solutions=solutions)
    title = html.escape(found[0].heading)
    foot = f'<footer><span>{title}</span><output></output><i class="progress"></i></footer>'
    return rendering.page(
        found[0].heading,
        "\n".join(["<main>", *map(_section, found), foot, "</main>"]),
        (part.view for slide in found for part in slide.parts if part.view),
        sheets=("base.css", "deck.css"),
        script=esm("deck.js", folder=rendering.HERE),
    )


def slides(notebook: NotebookNode, name: str, *, solutions: bool = False) -> list[Slide]:
    """Gather the cells of a notebook to slides. Raises: ShapeError, which names the cell."""
    found: list[Slide] = []
    for cell in notebook.cells:
        kind, lecture = _checked(cell, f"slides: {name}, cell {cell.id}")
        if kind == "notes":
            found[-1].notes.append(words(cell.source))
        elif kind != "skip":
            _add(found, cell, kind, lecture)
            stub = stub_name(cell.source) if solutions and cell.cell_type == "code" else None
            if stub:
                answer = f'<p class="lead">A solution of <code>{stub}</code></p>'
                reference = find_exercise(stub, "slides").reference
                code = rendering.python(plain_source(reference, opening=True, checks=True))
                parts = [Part("words", answer), Part("code", code)]
                found.append(Slide(found[-1].heading, parts))
    return found


def _checked(cell: NotebookNode, where: str) -> tuple[str, dict[str, Any]]:
    """Return what a cell becomes, and what the lecturer wrote. Raises: ShapeError."""
    kind = cell.metadata.get("slideshow", {}).get("slide_type")
    lecture: dict[str, Any] = cell.metadata.get("lecture", {})
    rule = "slide_type is missing or unknown"
    fix = "set it in JupyterLab's property inspector"
    require(kind in TYPES, where, rule, expected=f"one of {', '.join(TYPES)}", got=kind, fix=fix)
    show = lecture.get("show", "both")
    expected = f"one of {', '.join(SHOWS)}"
    require(
        show in SHOWS,
        where,
        "lecture.show is unknown",
        expected=expected,
        got=show,
        fix="change it",
    )
    return kind, lecture


def _add(found: list[Slide], cell: NotebookNode, kind: str, lecture: dict[str, Any]) -> None:
    """Put a cell on a new slide, or on the one before; a live widget has one of its own."""
    heading = HEADING.match(cell.source) if cell.cell_type == "markdown" else None
    above = heading[2] if heading else found[-1].heading if found else ""
    empty = bool(found) and not found[-1].parts and found[-1].heading == above
    if not found or (kind in ("slide", "subslide") and not empty):
        found.append(Slide(above, title=bool(heading and heading[1] == "#")))
    first = found[-1]
    for part in _parts(cell, lecture):
        before = found[-1].parts
        if before and "live" in (before[-1].kind, part.kind):
            found.append(Slide(above))
        found[-1].parts.append(replace(part, waits=part.waits or kind == "fragment"))
    first.minutes += lecture.get("minutes", 0)
    if "notes" in lecture:
        first.notes.insert(0, words(lecture["notes"]))


def _parts(cell: NotebookNode, lecture: dict[str, Any]) -> list[Part]:
    """Return the parts of a cell: paragraphs, or its code and what came out."""
    if cell.cell_type == "markdown":
        below = HEADING.sub("", lecture.get("text", cell.source).strip())
        paragraphs = re.split(r"(?<![,:])\n\n+(?![ \ta-z])", below)  # else it goes on
        return [Part("words", words(text)) for text in paragraphs if text]
    if cell.source.startswith("predict("):
        asked, answer = rendering.question(QUESTIONS[rendering.name_in(cell)])
        return [asked, replace(answer, waits=True)]
    outputs = rendering.outputs(cell)
    hidden = "drawing" in cell.metadata.get("tags", ())
    drawn = hidden or any(part.kind != "text" for part in outputs)
    show = lecture.get("show", "output" if drawn else "both")
    code = [Part("code", rendering.python(cell.source))] if show != "output" else []
    if "text" in lecture and all(part.kind != "live" for part in outputs):
        caption = words(lecture["text"])
        pictures = (part for part in outputs if part.kind == "picture")
        outputs = [replace(part, caption=caption) for part in pictures]
    return code + (outputs if show != "code" else [])


def _section(slide: Slide) -> str:
    """Write one slide as HTML."""
    heading = rendering.line(slide.heading)  # there may be code or mathematics in it
    title, level = (' class="title"', 1) if slide.title else ("", 2)
    notes = f'<aside class="notes" hidden>{"".join(slide.notes)}</aside>' if slide.notes else ""
    minutes = f' data-minutes="{slide.minutes:g}"' if slide.minutes else ""
    return (
        f'<section{title} tabindex="-1"{minutes}><h{level}>{heading}</h{level}>'
        f'<div class="content">{"".join(part.html for part in slide.parts)}</div>{notes}</section>'
    )


def _index(folder: Path) -> str:
    """List the decks that lie in a folder."""
    rows = ""
    for path in sorted(folder.glob("[0-9][0-9]_*.html")):
        title = path.read_text(encoding="utf-8").partition("<title>")[2].partition("</title>")[0]
        rows += f'<li><a href="{path.name}">{title}</a></li>'
    body = f"<main class=index><h1>Decks</h1><ul>{rows}</ul></main>"
    return rendering.page("Decks", body, sheets=("base.css", "site.css"))


def main(argv: Sequence[str]) -> int:
    """Build lecture decks and say where they lie; return the exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m mha_course slides")
    parser.add_argument("numbers", nargs="*", help="such as 00 03; all without")
    parser.add_argument("--solutions", action="store_true", help="a solution after each exercise")
    parser.add_argument(
        "--saved", action="store_true", help="take the outputs that the notebooks have"
    )
    chosen = parser.parse_args(argv)
    if not chosen.saved:
        print("Every lesson is executed for its deck. All of them take about four minutes.")
    try:
        written = build(chosen.numbers, solutions=chosen.solutions, saved=chosen.saved)
    except (ShapeError, CellExecutionError) as error:
        print(f"mha_course: {error}", file=sys.stderr)
        return 1
    print(
        f"All decks are listed in {written[-1]}. They need no network; S opens the speaker's "
        f"window."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
