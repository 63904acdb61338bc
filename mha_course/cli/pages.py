"""A lesson as one page, which also presents itself: cells become blocks, and blocks go on slides.

Every cell says in ``slideshow.slide_type`` what it is in a talk: ``slide`` and ``subslide`` begin a
slide; ``-`` and ``fragment`` stay on the same one, and a fragment waits for a key; ``notes`` are
only for the lecturer, ``skip`` only for readers. A slide's heading is ``lecture.claim``, which also
begins a slide. Paragraphs are the speaker's notes; formulas, tables, quotations and exercises go on
the slide. ``lecture.text`` goes there instead, or below a picture. The first cell of a section also
has its ``minutes`` and ``notes``. ``lecture.show`` is ``output``, ``code`` or ``both``.

The page holds each picture and each widget once. Each block on a slide says on which one, and
present.js moves it there and back.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from typing import Any

from nbformat import NotebookNode

from mha_course.cli import launch, rendering
from mha_course.cli.authoring import HIDDEN, MOVES
from mha_course.cli.rendering import HEADING, block, words
from mha_course.errors import require
from mha_course.exercises.catalogue import EXERCISES, QUESTIONS
from mha_course.exercises.hint_ladder import ladder
from mha_course.exercises.predictions import verdict
from mha_course.markup import prose
from mha_course.questions import Question
from mha_course.sources import plain_source

SUMMARY = "summary.html"  # a separate page, to print
TYPES = ("slide", "subslide", "fragment", "-", "notes", "skip")
_BADGE = re.compile(r"\[!\[Open in (\w+)\]\([^)]*\)\]\(([^)]+)\)")
_DEFINED = re.compile(r"(?:def|class) (\w+)")  # at the start of a cell
_ON_SLIDE = re.compile(r"\$\$|\||>|```|\*\*(?:Exercise|Case)")  # how such a paragraph begins


@dataclass(eq=False)
class Slide:
    """One slide: its heading, in Markdown, and its notes for the speaker."""

    heading: str
    section: str
    title: bool = False
    minutes: float = 0.0  # of the section that begins here
    notes: str = ""  # of the section that begins here, in HTML
    kinds: list[str] = field(default_factory=list)  # of the blocks that it shows


@dataclass
class Block:
    """A piece of a page, in HTML, and the slide that shows it or has it in its notes."""

    html: str
    section: str
    slide: Slide | None = None
    marks: tuple[str, ...] = ()  # attributes: data-slide or data-notes, data-waits, data-alone


@dataclass
class Page:
    """A lesson being turned into HTML: what is written so far, and the current state."""

    name: str
    solutions: bool | None = None  # on slides, or nowhere; None: only as the last hint
    title: str = ""
    badges: dict[str, str] = field(default_factory=dict)
    contents: list[tuple[str, str]] = field(default_factory=list)  # sections, with their lines
    views: list[Any] = field(default_factory=list)  # of the widgets that live
    blocks: list[Block] = field(default_factory=list)
    slides: list[Slide] = field(default_factory=list)
    slide: Slide = field(default_factory=lambda: Slide("", "", title=True))  # that goes on
    section: str = ""  # the heading of the current section
    folded: int = 0  # the heading level of the open folded section, if any

    def read(self, cell: NotebookNode) -> None:
        """Add a cell. Raises: ShapeError, naming the cell, for an unknown slide type."""
        kind, lecture = _checked(cell, f"slides: {self.name}, cell {cell.id}")
        if cell.cell_type == "markdown":
            text = cell.metadata.get("site", {}).get("text", cell.source)
            self._read_words(text.replace(f"../mha_course/data/{SUMMARY}", SUMMARY), kind, lecture)
            return
        if kind not in ("skip", "notes"):
            self._turn(kind, lecture, self.slide.heading)
        if cell.source.startswith("predict("):
            question = _question(QUESTIONS[rendering.name_in(cell)])
            self._show(question, "question", kind)
        elif cell.source.startswith("check("):
            self.add(self._exercise(rendering.name_in(cell)))
        elif not cell.source.startswith("progress("):  # which is the learner's
            self._read_code(cell, kind, lecture)

    def _read_words(self, source: str, kind: str, lecture: dict[str, Any]) -> None:
        heading = HEADING.match(source)
        below = HEADING.sub("", source).strip()
        title = bool(heading and heading[1] == "#")
        if heading and title:
            self.title = heading[2]
            self.badges = dict(_BADGE.findall(below))
        if heading:
            self._open(len(heading[1]), heading[2])
        if kind not in ("skip", "notes"):
            above = heading[2] if heading else self.slide.heading
            self._turn(kind, lecture, above, title=title)
        if title:
            self._show(f'<div class="lead">{words(below)}</div>', "words", kind)
            self.add(self._links())
        elif "text" in lecture or kind in ("skip", "notes"):
            self._note(below, kind)
            self._show_alone(lecture.get("text", ""), kind)
        else:
            paragraphs = [text for text in re.split(r"\n\n+(?![ \ta-z])", below) if text]
            for on_slide, group in groupby(paragraphs, lambda text: bool(_ON_SLIDE.match(text))):
                text = "\n\n".join(group)
                if on_slide:
                    self._show(block("words", words(text)), "words", kind)
                else:
                    self._note(text, kind)

    def _note(self, text: str, kind: str) -> None:
        """Add paragraphs that are the speaker's notes, if the cell is part of the talk."""
        html = block("words", words(text))
        if text and kind == "skip":
            self.add(html)
        elif text:
            self.add(html, self.slide, "data-notes")

    def _turn(self, kind: str, lecture: dict[str, Any], topic: str, *, title: bool = False) -> None:
        """Begin a slide if the cell does; keep its section's notes for the speaker."""
        above = lecture.get("claim") or topic
        if not self.slides or kind in ("slide", "subslide") or "claim" in lecture:
            self._begin(Slide(above, self.section, title))
        self.slide.minutes += lecture.get("minutes", 0)
        if "notes" in lecture:
            heading = f"<p><strong>{rendering.line(topic)}</strong></p>"
            self.slide.notes += heading + words(lecture["notes"])

    def _begin(self, slide: Slide) -> None:
        """Begin a slide; an empty one that began a section takes the new heading instead."""
        if self.slide.minutes and not self.slide.kinds and not self.slide.title:
            self.slide.heading = slide.heading
            return
        self._drop_empty()
        self.slides.append(slide)
        self.slide = slide

    def _drop_empty(self) -> None:
        """Drop a slide that shows nothing and begins no section; its notes go to the one before."""
        empty = self.slide
        if empty.kinds or empty.title or empty.minutes:
            return
        before = self.slides[self.slides.index(empty) - 1]
        for item in self.blocks:
            if item.slide is empty:
                item.slide = before
        self.slides.remove(empty)

    def _show(self, html: str, content: str, kind: str, *marks: str) -> None:
        """Add a block that a slide shows; no slide has two pictures."""
        if kind in ("skip", "notes"):
            self.add(html)
            return
        kinds = self.slide.kinds
        if kinds and ("live" in (*kinds, content) or content == "picture" in kinds):
            self.slide = Slide(self.slide.heading, self.section)
            self.slides.append(self.slide)
        self.slide.kinds.append(content)
        waits = ["data-waits"] if kind == "fragment" else []
        self.add(html, self.slide, "data-slide", *waits, *marks)

    def _show_alone(self, text: str, kind: str) -> None:
        """Add words that are on the slide and not on the page."""
        if text and kind not in ("skip", "notes"):
            self._show(block("words", words(text)), "words", kind, "data-alone")

    def add(self, html: str, slide: Slide | None = None, *marks: str) -> None:
        """Add a block, with attributes that say how a slide shows it."""
        self.blocks.append(Block(html, self.section, slide, marks))

    def _open(self, level: int, text: str) -> None:
        """Begin a section; a "Deeper" one is folded up to the next heading of its level."""
        if level <= self.folded:
            self.close()
        anchor = rendering.anchor(text)
        title = rendering.line(text)
        link = f'<a class="anchor" href="#{anchor}" aria-label="Link to this section">#</a>'
        folds = text.startswith("Deeper:") and not self.folded
        if level == 1:  # no line break inside “Multi-head”
            title = re.sub(r"\w+-\w+", r'<span class="unbroken">\g<0></span>', title)
        elif not folds:
            title += link
        heading = f'<h{level} id="{anchor}">{title}</h{level}>'
        if level < 3:
            self.section = text
        if folds:  # a summary may contain no link
            self.folded = level
            heading = f'<details class="deeper"><summary>{heading}</summary>{link}'
        self.add(heading)
        if level == 2:
            kind = "deep" if self.folded else "core"
            link = f'<a href="#{anchor}">{rendering.line(text.removeprefix("Deeper: "))}</a>'
            self.contents.append((text, f'<li class="{kind}">{link}</li>'))

    def close(self) -> None:
        """End the folded section."""
        if self.folded:
            self.add("</details>")
        self.folded = 0

    def _read_code(self, cell: NotebookNode, kind: str, lecture: dict[str, Any]) -> None:
        """Add what a cell shows; fold code that only draws below it."""
        code = rendering.python(cell.source)
        results = rendering.outputs(cell.get("outputs", []))
        self.views += [output.view for output in results if output.view]
        hidden = bool(HIDDEN & set(cell.metadata.get("tags", ())))
        drawn = any(output.kind != "text" for output in results)
        show = lecture.get("show", "output" if hidden or drawn else "both")
        if MOVES.search(cell.source):
            self.add(f'<span id="{cell.id}"></span>')  # links from saved lessons lead to it
        if not hidden:
            self._show(code, "code", "skip" if show == "output" else kind)
        pictures = [output for output in results if output.kind == "picture"]
        chosen = pictures if pictures and {"claim", "text"} & set(lecture) else results
        for output in results:
            talks = output in chosen and show != "code"
            self._show(output.html, output.kind, kind if talks else "skip")
        if hidden:
            caption = escape(re.split("[:\n]", cell.source)[0].strip("# "))  # a comment
            title = f'<summary title="{caption}" aria-label="Code: {caption}">&lt;/&gt;</summary>'
            self.add(f'<details class="listing">{title}{code}</details>')
        self._show_alone(lecture.get("text", ""), kind)
        defined = _DEFINED.match(cell.source)
        if self.solutions and defined and defined[1] in EXERCISES:
            answer = Slide(f"A solution of `{defined[1]}`", self.section)
            self.slides.append(answer)  # what follows goes on the slide before it
            solved = plain_source(EXERCISES[defined[1]].reference, opening=True, checks=True)
            self.add(rendering.python(solved), answer, "data-slide", "data-alone")

    def _links(self) -> str:
        links = [f'<a href="{url}">Open in {name}</a>' for name, url in self.badges.items()]
        links.append(f'<a href="{launch.repository()}">Get the course</a>')
        return f'<p class="badges">{"".join(links)}</p>'

    def _exercise(self, name: str) -> str:
        """Say where to do an exercise, with its hints, each folded."""
        links = " or ".join(f'<a href="{url}">{site}</a>' for site, url in self.badges.items())
        text = f"Write it in JupyterLab, or in {links}: there, every mistake is named."
        hints = ladder(name)[: 3 if self.solutions is False else None]
        items = [*map(prose, hints[:3]), *(f"<pre>{escape(code)}</pre>" for code in hints[3:])]
        folds = (_fold(f"Hint {n}", hint, "fold") for n, hint in enumerate(items, start=1))
        return f'<aside class="exercise"><p>{text}</p>{"".join(folds)}</aside>'

    def end(self) -> None:
        """Close what is still open after the last cell."""
        self.close()
        self._drop_empty()

    def body(self, below: str, *, presented: bool = False) -> str:
        """Return the page's contents, its blocks, its slides' data, and what comes below."""
        numbers = {slide: number for number, slide in enumerate(self.slides)}
        article = "".join(_written(block, numbers) for block in self.blocks)
        talk = json.dumps(list(map(_told, self.slides))).replace("<", "\\u003c")
        listed = "".join(line for _, line in self.contents)
        folded = f"<details><summary>Contents</summary><ol>{listed}</ol></details>"
        opens = " data-presented" if presented else ""
        return (
            f'<div class="page"><nav class="contents" aria-label="Contents">{folded}</nav>'
            f'<main id="text"><article>{article}</article>{below}</main></div>'
            f'<script type="application/json" id="talk"{opens}>{talk}</script>'
        )


def _checked(cell: NotebookNode, place: str) -> tuple[str, dict[str, Any]]:
    """Return what a cell is in a talk, and what the lecturer wrote. Raises: ShapeError."""
    kind = cell.metadata.get("slideshow", {}).get("slide_type")
    lecture = dict(cell.metadata.get("lecture", {}))
    expected = f"one of {', '.join(TYPES)}"
    problem, fix = "slide_type is missing or unknown", "set it in JupyterLab's property inspector"
    require(kind in TYPES, place, problem, expected=expected, got=kind, fix=fix)
    return kind, lecture


def _written(block: Block, numbers: dict[Slide, int]) -> str:
    """Return a block as HTML that says which slide shows it, or has it in its notes."""
    if block.slide is None:
        return block.html
    role, *marks = block.marks
    attributes = " ".join([f'{role}="{numbers[block.slide]}"', *marks])
    return re.sub(r"^<\w+", rf"\g<0> {attributes}", block.html, count=1)


def _told(slide: Slide) -> dict[str, Any]:
    """Return what present.js needs to know of a slide."""
    return {
        "heading": rendering.line(slide.heading),  # it may contain code or mathematics
        "title": slide.title,
        "minutes": slide.minutes,
        "notes": slide.notes,
    }


def _fold(title: str, content: str, kind: str, *marks: str) -> str:
    attributes = " ".join([f'class="{kind}"', *marks])
    return f"<details {attributes}><summary>{title}</summary><div>{content}</div></details>"


def _question(question: Question) -> str:
    """Write a question; each choice unfolds a verdict with the reason; in a talk, the right one
    unfolds by itself.
    """
    folds = []
    for choice in question.choices:
        content = verdict(question, choice)
        if choice == question.right:
            folds.append(_fold(escape(choice), content, "choice right", "data-waits"))
        else:
            folds.append(_fold(escape(choice), content, "choice wrong"))
    reason = question.answers[question.right]
    answer = f"<strong>{escape(question.right)}.</strong> {escape(reason)}"
    folds = folds or [_fold("Show the answer", answer, "choice", "data-waits")]
    text = f"<p><strong>Predict.</strong> {escape(question.text)}</p>"
    return block("question", text + "".join(folds))


def read(notebook: NotebookNode, name: str, *, solutions: bool | None = None) -> Page:
    """Read an executed notebook. Raises: ShapeError for a cell without a slide type."""
    page = Page(name, solutions=solutions)
    for cell in notebook.cells:
        page.read(cell)
    page.end()
    return page
