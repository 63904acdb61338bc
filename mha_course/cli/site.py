"""The reading site: an index, and each lesson as one page that needs no network and no Python.

Lessons are executed for it as for decks, and the same renderer writes both. Widgets answer in the
page, questions unfold their answers, exercises their hints. What stands under "Deeper" is folded.
Without JavaScript all of it can be read: pictures stand in the places of widgets.
"""

from __future__ import annotations

import re
import shutil
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from mha_course import example
from mha_course.cli import launch, rendering
from mha_course.cli.authoring import HIDDEN, MOVES, lessons
from mha_course.cli.rendering import HEADING, Part, words
from mha_course.exercises.catalogue import QUESTIONS
from mha_course.exercises.hint_ladder import ladder
from mha_course.exercises.predictions import verdict
from mha_course.lessons.l00_start_here.masked_word_model import Look
from mha_course.markup import prose
from mha_course.questions import Question
from mha_course.widgets import HeadExplorer
from mha_course.widgets.base import esm

NAME = "Multi-head attention, step by step"
PARTS = {0: "Part I: the module, step by step", 8: "Part II: what is built on it", 16: "Part III"}
SUMMARY = "summary.html"  # a page of its own, to print
SHEETS = ("base.css", "site.css")
_BADGE = re.compile(r"\[!\[Open in (\w+)\]\([^)]*\)\]\(([^)]+)\)")
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16' fill='none' "
    "stroke='%230b7285' stroke-width='2.4'%3E%3Cpath d='M2 13C2 1 14 1 14 13'/%3E%3C/svg%3E"
)


@dataclass
class Page:
    """A lesson on its way to HTML: what is written so far, and what was met on the way."""

    name: str
    title: str = ""
    lead: str = ""
    badges: dict[str, str] = field(default_factory=dict)
    contents: list[str] = field(default_factory=list)
    views: list[Any] = field(default_factory=list)  # of the widgets that live
    blocks: list[str] = field(default_factory=list)
    folded: int = 0  # the level of the heading whose section is folded, if one is open

    def read(self, cell: NotebookNode) -> None:
        """Add a cell."""
        if cell.cell_type == "markdown":
            text = cell.metadata.get("site", {}).get("text", cell.source)
            self._read_words(text.replace(f"../mha_course/data/{SUMMARY}", SUMMARY))
        elif cell.source.startswith("predict("):
            self.blocks.append(_question(QUESTIONS[rendering.name_in(cell)]))
        elif cell.source.startswith("check("):
            self.blocks.append(self._exercise(rendering.name_in(cell)))
        elif not cell.source.startswith("progress("):  # which is the learner's
            self._read_code(cell)

    def _read_words(self, source: str) -> None:
        heading = HEADING.match(source)
        below = HEADING.sub("", source)
        if heading and not self.title:
            self.title = heading[2]
            self.badges = dict(_BADGE.findall(below))
            self.lead = words(below)
            return
        if heading:
            self._open(len(heading[1]), heading[2])
        if below.strip():
            self.blocks.append(Part("words", words(below)).html)

    def _open(self, level: int, text: str) -> None:
        """Begin a section; one that goes deeper is folded up to the next heading as high."""
        if level <= self.folded:
            self.close()
        anchor = rendering.anchor(text)
        heading = f'<h{level} id="{anchor}">{rendering.line(text)}</h{level}>'
        if text.startswith("Deeper:") and not self.folded:
            self.folded = level
            heading = f'<details class="deeper"><summary>{heading}</summary>'
        self.blocks.append(heading)
        if level == 2:
            kind = "deep" if self.folded else "core"
            link = f'<a href="#{anchor}">{rendering.line(text.removeprefix("Deeper: "))}</a>'
            self.contents.append(f'<li class="{kind}">{link}</li>')

    def close(self) -> None:
        """End a section that is folded."""
        self.blocks += ["</details>"] if self.folded else []
        self.folded = 0

    def _read_code(self, cell: NotebookNode) -> None:
        """Add what a cell shows; the code that only draws is folded below it."""
        code = rendering.python(cell.source)
        shown = rendering.outputs(cell.get("outputs", []))
        self.views += [part.view for part in shown if part.view]
        anchor = f'<span id="{cell.id}"></span>'  # links from saved lessons lead to it
        parts = [part.html for part in shown]
        if MOVES.search(cell.source):
            parts.insert(0, anchor)
        if HIDDEN & set(cell.metadata.get("tags", ())):
            first = escape(re.split("[:\n]", cell.source)[0].strip("# "))  # a comment
            folded = f'<details class="listing"><summary>{first}</summary>{code}</details>'
            self.blocks += [*parts, folded]
        else:
            self.blocks += [code, *parts]

    def _exercise(self, name: str) -> str:
        """Say where an exercise is done, with its hints, each folded."""
        links = " or ".join(f'<a href="{url}">{where}</a>' for where, url in self.badges.items())
        text = f"Write it in JupyterLab, or in {links}: there, every mistake is named."
        hints = ladder(name)
        items = [*map(prose, hints[:3]), *(f"<pre>{escape(code)}</pre>" for code in hints[3:])]
        folds = (_fold(f"Hint {n}", each, "fold") for n, each in enumerate(items, start=1))
        return f'<aside class="exercise"><p>{text}</p>{"".join(folds)}</aside>'

    def html(self, before: str, after: str, number: int, address: str) -> str:
        """Return the page, with links to those before and after it."""
        self.close()
        listed = "".join(self.contents)
        folded = f"<details open><summary>Contents</summary><ol>{listed}</ol></details>"
        contents = f'<nav class="contents" aria-label="Contents">{folded}</nav>'
        links = "".join(f'<a href="{url}">Open in {name}</a>' for name, url in self.badges.items())
        links += f'<a href="{launch.repository()}">Get the course</a>'
        top = f'<h1>{rendering.line(self.title)}</h1><div class="lead">{self.lead}</div>'
        body = (
            f'{_top()}<div class="page">{contents}'
            f'<main><article>{top}<p class="badges">{links}</p>{"".join(self.blocks)}</article>'
            f'<nav class="pager" aria-label="Lessons">{before}{after}</nav></main></div>'
        )
        text = f"Lesson {number} of a course in multi-head attention, with pictures that answer."
        return _page(f"{self.title} · {NAME}", body, self.views, text, address, f"{self.name}.html")


def _fold(title: str, content: str, kind: str) -> str:
    return f'<details class="{kind}"><summary>{title}</summary><div>{content}</div></details>'


def _question(asked: Question) -> str:
    """Write a question; each choice unfolds whether it is right, and why."""
    folds = []
    for choice in asked.choices:
        kind = "right" if choice == asked.right else "wrong"
        folds.append(_fold(escape(choice), verdict(asked, choice), f"choice {kind}"))
    answer = f"<strong>{escape(asked.right)}.</strong> {escape(asked.answers[asked.right])}"
    folds = folds or [_fold("Show the answer", answer, "choice")]
    text = f"<p><strong>Predict.</strong> {escape(asked.text)}</p>"
    return Part("question", text + "".join(folds)).html


def _top() -> str:
    theme = '<button type="button" class="theme" hidden aria-label="Light or dark">◐</button>'
    still = "Without JavaScript, the pictures on this page do not move."
    return (
        f'<header class="masthead"><a href="index.html">{NAME}</a>{theme}</header>'
        f'<noscript><p class="still">{still}</p></noscript>'
    )


def _page(title: str, body: str, views: rendering.Views, text: str, address: str, name: str) -> str:
    """Write a page, and in its head what search engines and previews read."""
    facts = {"title": title, "description": text, "type": "article", "url": address + name}
    facts["image"] = f"{address}preview.png"
    tags = [f'<meta property="og:{key}" content="{escape(fact)}">' for key, fact in facts.items()]
    tags += [
        f'<meta name="description" content="{escape(text)}">',
        f'<link rel="icon" href="{_ICON}">',
    ]
    head = "".join([*tags, '<meta name="twitter:card" content="summary_large_image">'])
    script = esm("site.js", folder=rendering.HERE)
    return rendering.page(title, body, views, sheets=SHEETS, script=script, head=head)


def read(notebook: NotebookNode, name: str) -> Page:
    """Read an executed notebook."""
    page = Page(name)
    for cell in notebook.cells:
        page.read(cell)
    return page


def build(numbers: Sequence[str], folder: Path, address: str, *, saved: bool = False) -> None:
    """Write the pages of some lessons, of all without numbers, executed unless saved.

    Raises: ShapeError for a number without a lesson, nbclient's error where a cell fails.
    """
    pages = []
    for path in lessons(numbers):
        notebook = nbformat.read(path, as_version=4)
        if not saved:
            rendering.execute(notebook, "SITE")
        pages.append(read(notebook, path.stem))
        print(f"read {path.stem}", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    write(pages, folder, address)


def write(pages: Sequence[Page], folder: Path, address: str) -> None:
    """Write pages, their index, a preview picture, and a map of the site for search engines."""
    for at, page in enumerate(pages):
        before = _link(pages[at - 1], "prev", "Before") if at else "<span></span>"
        after = _link(pages[at + 1], "next", "Next") if at + 1 < len(pages) else ""
        text = page.html(before, after, int(page.name[:2]), address)
        (folder / f"{page.name}.html").write_text(text, encoding="utf-8")
    (folder / "index.html").write_text(_index(pages, address), encoding="utf-8")
    (folder / "preview.png").write_bytes(_preview())
    shutil.copyfile(launch.PACKAGE / "data" / SUMMARY, folder / SUMMARY)
    names = ["", *(f"{page.name}.html" for page in pages)]
    places = "".join(f"<url><loc>{escape(address + name)}</loc></url>" for name in names)
    sitemap = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{places}</urlset>\n'
    (folder / "sitemap.xml").write_text(f'<?xml version="1.0" encoding="UTF-8"?>\n{sitemap}')


def _link(page: Page, rel: str, word: str) -> str:
    return f'<a rel="{rel}" href="{page.name}.html"><small>{word}</small>{escape(page.title)}</a>'


def _index(pages: Sequence[Page], address: str) -> str:
    readme = (launch.COURSE / "README.md").read_text(encoding="utf-8")
    table = [line.strip("| ").split(" | ") for line in readme.splitlines()]
    about = {int(row[0]): row[2:] for row in table if row[0].isdecimal()}
    first = next((block for block in pages[0].blocks if block.startswith('<div class="live"')), "")
    rows = ""
    for page in pages:
        number = int(page.name[:2])
        text, minutes = about[number]
        rows += f"</ul><h2>{PARTS[number]}</h2><ul>" if number in PARTS else ""
        rows += (
            f'<li><a href="{page.name}.html">{escape(page.title)}</a> '
            f"<small>{minutes} min</small><br>{rendering.line(text)}</li>"
        )
    repository = launch.repository()
    links = " or ".join(f'<a href="{url}">in {name}</a>' for name, url in pages[0].badges.items())
    commands = (
        f"git clone {repository} && cd {repository.rpartition('/')[2]}\npython3 -m mha_course"
    )
    body = (
        f'{_top()}<main class="index"><h1>{NAME}</h1><p>Attention decides which words a word takes '
        "something from. Point at a word to see where it looks. Then let <em>cat</em> and "
        "<em>dogs</em> change places: a small trained model answers in this page.</p>"
        f"{first}<p>Twenty lessons build this in PyTorch, step by step. Read them here, and write "
        f"the exercises in Jupyter, where every mistake is named: {links}, or on your own machine "
        f"with Python 3.11 or newer:</p><pre>{commands}</pre><ul>{rows}</ul></main>"
    )
    text = "Twenty lessons that build multi-head attention in PyTorch, with pictures that answer."
    return _page(NAME, body, pages[0].views[:1] if first else [], text, address, "")


def _preview() -> bytes:
    words = example.SENTENCE.split()
    shown = HeadExplorer(Look()(example.SENTENCE)[0], queries=words, head=1, follow="it")
    return shown.png()


def main(argv: Sequence[str]) -> int:
    """Build the site and say where it lies; return the exit status."""

    def run(chosen: Namespace) -> str:
        build(chosen.numbers, chosen.out, chosen.address.rstrip("/") + "/", saved=chosen.saved)
        return f"The site is in {chosen.out}: open index.html there. It needs no network."

    address = launch.pages(launch.repository())
    options: dict[str, dict[str, Any]] = {
        "out": {"required": True, "type": Path, "help": "the folder to write"},
        "address": {"default": address, "help": "where it will be published"},
    }
    return rendering.command("site", argv, run, **options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
