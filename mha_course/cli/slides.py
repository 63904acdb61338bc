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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

from mha_course.cli import authoring, launch, slide_html
from mha_course.cli.stub_source import stub_name
from mha_course.errors import ShapeError, require
from mha_course.exercises.catalogue import QUESTIONS, find_exercise
from mha_course.sources import plain_source
from mha_course.widgets.base import DECK_VIEW, esm

LESSONS = launch.ROOT / launch.LESSONS
DECKS = launch.ROOT / "decks"
HERE = Path(__file__).parent
TYPES = ("slide", "subslide", "fragment", "-", "notes", "skip")
SHOWS = ("output", "code", "both")
# The first cell of a lesson that is executed for its deck. What a cell sets in a context variable
# holds for the cells after it, and for what the kernel calls later on their behalf.
SLIDE_STYLE = f"""import sys
sys.path.insert(0, {str(launch.ROOT)!r})
from mha_course.plots import figures
figures.style.set(figures.SLIDE)
del figures"""
_LIVE = '<div class="live"'
_HEADING = re.compile(r"\A(#+) (.+?)(?:\n+|$)")
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<style>{style}</style></head><body>
{body}
<script>{script}</script></body></html>
"""


@dataclass
class Slide:
    """One slide: the heading above it, its parts, and what the lecturer alone sees."""

    heading: str
    parts: list[str] = field(default_factory=list)
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
    lessons = {path.name[:2]: path for path in sorted(LESSONS.glob("*.ipynb"))}
    chosen = [number.zfill(2) for number in numbers] or list(lessons)
    for number in chosen:
        place = f"slides: lesson {number}"
        expected = f"one of {', '.join(lessons)}"
        require(
            number in lessons,
            place,
            "there is none",
            expected=expected,
            got=number,
            fix="choose one",
        )
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for number in chosen:
        written.append(folder / f"{lessons[number].stem}.html")
        written[-1].write_text(
            deck(lessons[number], solutions=solutions, saved=saved), encoding="utf-8"
        )
        print(f"built {written[-1].name}", flush=True)
    (folder / "index.html").write_text(_index(folder), encoding="utf-8")
    return [*written, folder / "index.html"]


def deck(path: Path, *, solutions: bool = False, saved: bool = False) -> str:
    """Return the deck of a notebook as one page of HTML."""
    notebook = nbformat.read(path, as_version=4)
    if not saved:
        execute_for_slides(notebook)
    found = slides(notebook, path.stem, solutions=solutions)
    outputs = [
        output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", ())
    ]
    widgets = {data[DECK_VIEW]["name"]: data[DECK_VIEW] for data in outputs if DECK_VIEW in data}
    styles = [(HERE / "deck.css").read_text(encoding="utf-8"), slide_html.styles()]
    scripts = [*map(slide_html.script, widgets.values()), esm("deck.js", folder=HERE)]
    title = html.escape(found[0].heading)
    foot = f'<footer><span>{title}</span><output></output><i class="progress"></i></footer>'
    return _PAGE.format(
        title=title,
        style="".join([*styles, *(widget["css"] for widget in widgets.values())]),
        body="\n".join(["<main>", *map(_section, found), foot, "</main>"]),
        script="\n".join(scripts),
    )


def execute_for_slides(notebook: NotebookNode) -> None:
    """Execute a notebook in a kernel that draws pictures for slides."""
    notebook.cells.insert(0, nbformat.v4.new_code_cell(SLIDE_STYLE))
    authoring.execute(notebook, MHA_COURSE_PROGRESS="off", OMP_NUM_THREADS="1")
    del notebook.cells[0]


def slides(notebook: NotebookNode, name: str, *, solutions: bool = False) -> list[Slide]:
    """Gather the cells of a notebook to slides. Raises: ShapeError, which names the cell."""
    found: list[Slide] = []
    for cell in notebook.cells:
        kind, lecture = _checked(cell, f"slides: {name}, cell {cell.id}")
        if kind == "notes":
            found[-1].notes.append(slide_html.words(cell.source))
        elif kind != "skip":
            _add(found, cell, kind, lecture)
            stub = stub_name(cell.source) if solutions and cell.cell_type == "code" else None
            if stub:
                answer = f'<p class="lead">A solution of <code>{stub}</code></p>'
                reference = find_exercise(stub, "slides").reference
                code = slide_html.python(plain_source(reference, opening=True, checks=True))
                found.append(Slide(found[-1].heading, [f'<div class="words">{answer}</div>', code]))
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
    heading = _HEADING.match(cell.source) if cell.cell_type == "markdown" else None
    above = heading[2] if heading else found[-1].heading if found else ""
    empty = bool(found) and not found[-1].parts and found[-1].heading == above
    if not found or (kind in ("slide", "subslide") and not empty):
        found.append(Slide(above, title=bool(heading and heading[1] == "#")))
    first = found[-1]
    for part in _parts(cell, lecture):
        if found[-1].parts and _LIVE in found[-1].parts[-1] + part:
            found.append(Slide(above))
        found[-1].parts.append(
            f'<div class="fragment">{part}</div>' if kind == "fragment" else part
        )
    first.minutes += lecture.get("minutes", 0)
    if "notes" in lecture:
        first.notes.insert(0, slide_html.words(lecture["notes"]))


def _parts(cell: NotebookNode, lecture: dict[str, Any]) -> list[str]:
    """Return the parts of a cell: paragraphs, or its code and what came out."""
    if cell.cell_type == "markdown":
        below = _HEADING.sub("", lecture.get("text", cell.source).strip())
        paragraphs = re.split(r"(?<![,:])\n\n+(?![ \ta-z])", below)  # else it goes on
        return [f'<div class="words">{slide_html.words(text)}</div>' for text in paragraphs if text]
    if cell.source.startswith("predict("):
        asked, answer = slide_html.question(QUESTIONS[cell.source.split('"')[1]])
        return [asked, f'<div class="fragment">{answer}</div>']
    outputs = slide_html.outputs(cell)
    drawn = "drawing" in cell.metadata.get("tags", ()) or any(
        not part.startswith("<pre") for part in outputs
    )
    show = lecture.get("show", "output" if drawn else "both")
    code = [slide_html.python(cell.source)] if show != "output" else []
    if "text" in lecture and _LIVE not in "".join(outputs):
        caption = f"<figcaption>{slide_html.words(lecture['text'])}</figcaption></figure>"
        pictures = [
            part.partition("<figcaption>")[0] for part in outputs if part.startswith("<figure>")
        ]
        outputs = [picture + caption for picture in pictures]
    return code + (outputs if show != "code" else [])


def _section(slide: Slide) -> str:
    """Write one slide as HTML."""
    heading = re.sub(
        r"^<p>|</p>\s*$", "", slide_html.words(slide.heading)
    )  # there may be code or mathematics in it
    title, level = (' class="title"', 1) if slide.title else ("", 2)
    notes = f'<aside class="notes" hidden>{"".join(slide.notes)}</aside>' if slide.notes else ""
    minutes = f' data-minutes="{slide.minutes:g}"' if slide.minutes else ""
    return (
        f'<section{title} tabindex="-1"{minutes}><h{level}>{heading}</h{level}>'
        f'<div class="content">{"".join(slide.parts)}</div>{notes}</section>'
    )


def _index(folder: Path) -> str:
    """List the decks that lie in a folder."""
    rows = ""
    for path in sorted(folder.glob("[0-9][0-9]_*.html")):
        title = path.read_text(encoding="utf-8").partition("<title>")[2].partition("</title>")[0]
        rows += f'<li><a href="{path.name}">{title}</a></li>'
    style = """:root { color-scheme: light dark } ul { list-style: none; padding: 0 }
        body { font: 20px/1.7 system-ui, sans-serif; margin: 3em auto; max-width: 34em;
          padding: 0 1em;
          color: light-dark(#1b1f24, #e6edf3); background: light-dark(#fff, #12161c) }
        h1, a { color: light-dark(#0b57a4, #7cb7ff) }
          li { border-top: 1px solid light-dark(#d0d7de, #3d444d) }
        a { display: block; padding: .3em 0; text-decoration: none }
          a:hover { text-decoration: underline }"""
    return _PAGE.format(
        title="Decks", style=style, body=f"<h1>Decks</h1><ul>{rows}</ul>", script=""
    )


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
