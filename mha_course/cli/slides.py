"""Lecture decks: each notebook as one HTML file that needs no network, made from its cells and
their metadata.

Every cell says in ``slideshow.slide_type`` what it becomes: ``slide`` and ``subslide`` begin a
slide, ``-`` goes on the same one, ``fragment`` too, and waits for a key; ``notes`` are for the
lecturer alone, ``skip`` is left out. What a slide says is its heading: ``lecture.claim``, which
begins a slide as well. Paragraphs go to the notes; formulas, tables, quotations and exercises stay.
``lecture.text`` is shown instead, and stands below a picture in place of its sentence. The first
cell of a section also has its ``minutes`` and ``notes``. ``lecture.show`` is ``output``, ``code``
or ``both``; ``lecture.draw`` names a function of the lesson's ``pictures`` that draws a picture for
the slide alone, behind that of the cell. Lessons are executed for their decks: pictures are drawn
for a room, one on a slide, and widgets are live. The page itself puts what has no room on a slide
on the next: deck.js.
"""

from __future__ import annotations

import html
import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from mha_course.cli import authoring, launch, rendering
from mha_course.cli.rendering import HEADING, Part, words
from mha_course.errors import require
from mha_course.exercises.catalogue import EXERCISES, QUESTIONS
from mha_course.sources import plain_source
from mha_course.widgets.base import esm

DECKS = launch.ROOT / "decks"
TYPES = ("slide", "subslide", "fragment", "-", "notes", "skip")
SHOWS = ("output", "code", "both")
DEFINED = re.compile(r"(?:def|class) (\w+)")  # by a cell that begins with it
SHOWN = re.compile(r"\$\$|\||>|```|\*\*(?:Exercise|Case)")  # how a paragraph begins that stays
SENTENCE = re.compile(r".+?[.?!:](?=\s|$)|.+", re.DOTALL)


@dataclass
class Slide:
    """One slide: the heading above it, its parts, and what the lecturer alone sees."""

    heading: str
    parts: list[Part] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # of the section that begins here
    prose: list[str] = field(default_factory=list)  # Markdown: what the lesson says here
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
    paths = authoring.lessons(numbers)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for path in paths:
        notebook = nbformat.read(path, as_version=4) if saved else executed(path)
        written.append(folder / f"{path.stem}.html")
        written[-1].write_text(deck(notebook, path.stem, solutions=solutions), encoding="utf-8")
        print(f"built {written[-1].name}", flush=True)
    (folder / "index.html").write_text(_index(folder), encoding="utf-8")
    return [*written, folder / "index.html"]


def executed(path: Path) -> NotebookNode:
    """Execute a lesson in the style of slides; what ``lecture.draw`` draws is kept beside outputs.

    What it draws is for the deck alone: without it, the outputs are those of a page.
    """
    notebook = nbformat.read(path, as_version=4)
    lesson = notebook.cells
    pictures = f"mha_course.lessons.l{path.stem}.pictures"
    drawing = {}
    notebook.cells = []
    for cell in lesson:
        notebook.cells.append(cell)
        if "draw" in _of(cell):
            source = f"import {pictures}\n{pictures}.{_of(cell)['draw']}()"
            drawing[cell.id] = nbformat.v4.new_code_cell(source)
            notebook.cells.append(drawing[cell.id])
    rendering.execute(notebook, "SLIDE")
    notebook.cells = lesson
    for cell in lesson:
        if cell.id in drawing:
            cell.metadata["drawn"] = drawing[cell.id].outputs
    return notebook


def deck(notebook: NotebookNode, name: str, *, solutions: bool = False) -> str:
    """Return the deck of a notebook, with the outputs that it has, as one page of HTML."""
    found = slides(notebook, name, solutions=solutions)
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
    answers: list[tuple[int, Slide]] = []
    for cell in notebook.cells:
        kind, lecture = _checked(cell, f"slides: {name}, cell {cell.id}")
        if kind == "notes":
            found[-1].prose.append(cell.source)
        elif kind != "skip":
            _add(found, cell, kind, lecture)
            defined = DEFINED.match(cell.source)
            if solutions and defined and defined[1] in EXERCISES:
                stub = defined[1]
                reference = EXERCISES[stub].reference
                code = rendering.python(plain_source(reference, opening=True, checks=True))
                answers.append((len(found), Slide(f"A solution of `{stub}`", [Part("code", code)])))
    _begin(found, Slide(""), "slide")
    found.pop()
    for place, answer in reversed(answers):
        found.insert(place, answer)
    return found


def _of(cell: NotebookNode) -> dict[str, Any]:
    return dict(cell.metadata.get("lecture", {}))


def _checked(cell: NotebookNode, where: str) -> tuple[str, dict[str, Any]]:
    """Return what a cell becomes, and what the lecturer wrote. Raises: ShapeError."""
    kind = cell.metadata.get("slideshow", {}).get("slide_type")
    lecture = _of(cell)
    expected = f"one of {', '.join(TYPES)}"
    what, fix = "slide_type is missing or unknown", "set it in JupyterLab's property inspector"
    require(kind in TYPES, where, what, expected=expected, got=kind, fix=fix)
    show = lecture.get("show", "both")
    expected = f"one of {', '.join(SHOWS)}"
    what, fix = "lecture.show is unknown", "change it"
    require(show in SHOWS, where, what, expected=expected, got=show, fix=fix)
    return kind, lecture


def _add(found: list[Slide], cell: NotebookNode, kind: str, lecture: dict[str, Any]) -> None:
    """Put a cell on a new slide, or on the one before; no slide has two pictures."""
    heading = HEADING.match(cell.source) if cell.cell_type == "markdown" else None
    topic: str = heading[2] if heading else found[-1].heading if found else ""
    above: str = lecture.get("claim") or topic
    if not found or kind in ("slide", "subslide") or "claim" in lecture:
        _begin(found, Slide(above, title=bool(heading and heading[1] == "#")), kind)
    first = found[-1]
    first.minutes += lecture.get("minutes", 0)
    if "notes" in lecture:
        first.notes += [f"<p><strong>{rendering.line(topic)}</strong></p>", words(lecture["notes"])]
    parts, prose = _parts(cell, lecture)
    first.prose += prose
    for part in parts:
        seen = [before.kind for before in found[-1].parts]
        if seen and ("live" in (*seen, part.kind) or ("picture" == part.kind in seen)):
            found.append(Slide(above))
        found[-1].parts.append(replace(part, waits=part.waits or kind == "fragment"))


def _begin(found: list[Slide], new: Slide, kind: str) -> None:
    last = found[-1] if found else new
    if last.parts or last.title or last is new:
        found.append(new)
    elif not last.minutes:  # it has notes alone, of what was seen before it
        found[-2].prose += last.prose
        found[-1] = new
    elif kind == "slide":
        lead = SENTENCE.match("".join(last.prose[:1]))
        last.parts.append(Part("words", words(lead[0] if lead else "")))
        found.append(new)
    else:
        last.heading = new.heading


def _parts(cell: NotebookNode, lecture: dict[str, Any]) -> tuple[list[Part], list[str]]:
    """Return the parts of a cell, and its paragraphs that are for the notes."""
    if cell.cell_type == "markdown":
        below = HEADING.sub("", cell.source.strip())
        paragraphs = [text for text in re.split(r"\n\n+(?![ \ta-z])", below) if text]
        stay = [text for text in paragraphs if SHOWN.match(text) or cell.source.startswith("# ")]
        shown = [lecture["text"]] if "text" in lecture else stay
        notes = [text for text in paragraphs if text not in shown]
        return [Part("words", words(text)) for text in shown if text], notes
    drawn_outputs = cell.metadata.get("drawn", [])
    outputs = rendering.outputs([*cell.get("outputs", []), *drawn_outputs])
    pictures = [part for part in outputs if part.kind == "picture"]
    if {"claim", "text", "draw"} & set(lecture):
        caption = words(lecture.get("text", ""))
        pictures = [replace(part, caption=caption) for part in pictures]
        outputs = pictures or outputs
    if cell.source.startswith("predict("):
        question = QUESTIONS[rendering.name_in(cell)]
        asked, answer = rendering.question(question)
        return [*pictures, asked, replace(answer, waits=True)], [question.answers[question.right]]
    hidden = "drawing" in cell.metadata.get("tags", ())
    drawn = "draw" not in lecture and any(part.kind != "text" for part in outputs)
    show = lecture.get("show", "output" if hidden or drawn else "both")
    code = [Part("code", rendering.python(cell.source))] if show != "output" else []
    return code + (outputs if show != "code" else []), []


def _section(slide: Slide) -> str:
    heading = rendering.line(slide.heading)  # there may be code or mathematics in it
    title, level = (' class="title"', 1) if slide.title else ("", 2)
    notes = f'<aside class="notes" hidden>{"".join(slide.notes)}</aside>' if slide.notes else ""
    prose = words("\n\n".join(slide.prose))
    notes += f'<aside class="prose" hidden>{prose}</aside>' if prose else ""
    minutes = f' data-minutes="{slide.minutes:g}"' if slide.minutes else ""
    return (
        f'<section{title} tabindex="-1"{minutes}><h{level}>{heading}</h{level}>'
        f'<div class="content">{"".join(part.html for part in slide.parts)}</div>{notes}</section>'
    )


def _index(folder: Path) -> str:
    rows = ""
    for path in sorted(folder.glob("[0-9][0-9]_*.html")):
        title = path.read_text(encoding="utf-8").partition("<title>")[2].partition("</title>")[0]
        rows += f'<li><a href="{path.name}">{title}</a></li>'
    body = f"<main class=index><h1>Decks</h1><ul>{rows}</ul></main>"
    return rendering.page("Decks", body, sheets=("base.css", "site.css"))


def main(argv: Sequence[str]) -> int:
    """Build lecture decks and say where they lie; return the exit status."""

    def run(chosen: Namespace) -> str:
        if not chosen.saved:
            print("Every lesson is executed for its deck. All of them take about four minutes.")
        *_, index = build(chosen.numbers, solutions=chosen.solutions, saved=chosen.saved)
        return (
            f"All decks are listed in {index}. They need no network; S opens the speaker's window."
        )

    solutions = {"action": "store_true", "help": "a solution after each exercise"}
    return rendering.command("slides", argv, run, solutions=solutions)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
