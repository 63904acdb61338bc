"""The reading site: an index, and each lesson as one page that needs no network and no Python.

Lessons are executed for it as for decks, and the same renderer writes both. Widgets answer in the
page, questions unfold their answers, exercises their hints. Sections under "Deeper" are folded.
Without JavaScript you can still read all of it: pictures replace widgets.
"""

from __future__ import annotations

import shutil
import sys
from argparse import Namespace
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import nbformat

from mha_course import example
from mha_course.cli import launch, rendering
from mha_course.cli.authoring import lessons
from mha_course.cli.pages import SUMMARY, Page, read
from mha_course.lessons.l00_start_here.masked_word_model import Look
from mha_course.widgets import HeadExplorer
from mha_course.widgets.base import esm

NAME = "Multi-head attention, step by step"
PARTS = {
    0: "The course: the mechanism, step by step",
    8: "The shelf: what comes next",
    16: "The shelf: looking inside",
}
WHOLE_PASS = "07_multi_head_attention"
SHEETS = ("base.css", "site.css", "present.css")
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16' fill='none' "
    "stroke='%230b7285' stroke-width='2.4'%3E%3Cpath d='M2 13C2 1 14 1 14 13'/%3E%3C/svg%3E"
)


def top(pages: Sequence[Page]) -> str:
    """Return what is above every page: the name, the lessons, and what the buttons do."""
    links = [f'<a href="{page.name}.html">{escape(page.title)}</a>' for page in pages]
    rows = "".join(f"<li>{link}</li>" for link in links)
    buttons = (
        '<button type="button" class="present" hidden title="Show slides (P)">Present</button>'
        '<button type="button" class="theme" hidden aria-label="Light or dark">◐</button>'
    )
    still = "Without JavaScript, the pictures on this page do not move."
    return (
        '<a class="skip" href="#text">Skip to the text</a>'
        f'<header class="masthead"><a href="index.html">{NAME}</a>'
        f'<details class="lessons"><summary>Lessons</summary><ul>{rows}</ul></details>'
        f'{buttons}</header><noscript><p class="still">{still}</p></noscript>'
    )


def document(
    title: str, body: str, views: rendering.Views, text: str, address: str, name: str
) -> str:
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


def read_lessons(
    numbers: Sequence[str], *, saved: bool = False, solutions: bool | None = None
) -> list[Page]:
    """Read some lessons, or all without numbers; execute them unless ``saved``.

    Raises: ShapeError for a number without a lesson, or a cell without a slide type; nbclient's
        error where a cell fails.
    """
    pages = []
    for path in lessons(numbers):
        notebook = nbformat.read(path, as_version=4)
        if not saved:
            rendering.execute(notebook)
        pages.append(read(notebook, path.stem, solutions=solutions))
        print(f"read {path.stem}", flush=True)
    return pages


def build(numbers: Sequence[str], folder: Path, address: str, *, saved: bool = False) -> None:
    """Write the site of some lessons, or of all without numbers; execute them unless ``saved``."""
    pages = read_lessons(numbers, saved=saved)
    write(pages, folder, address)
    write_index(pages, folder, address)
    (folder / "preview.png").write_bytes(_preview())
    names = ["", *(f"{page.name}.html" for page in pages)]
    places = "".join(f"<url><loc>{escape(address + name)}</loc></url>" for name in names)
    sitemap = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{places}</urlset>\n'
    (folder / "sitemap.xml").write_text(f'<?xml version="1.0" encoding="UTF-8"?>\n{sitemap}')


def write(pages: Sequence[Page], folder: Path, address: str, *, presented: bool = False) -> None:
    """Write pages, which begin as slides if they are to be presented."""
    folder.mkdir(parents=True, exist_ok=True)
    for at, page in enumerate(pages):
        before = _link(pages[at - 1], "prev", "Before") if at else "<span></span>"
        after = _link(pages[at + 1], "next", "Next") if at + 1 < len(pages) else ""
        pager = f'<nav class="pager" aria-label="Lessons">{before}{after}</nav>'
        body = top(pages) + page.body(pager, presented=presented)
        text = f"{page.title}: a lesson on multi-head attention, with pictures that answer."
        title = f"{page.title} · {NAME}"
        name = f"{page.name}.html"
        written = document(title, body, page.views, text, address, name)
        (folder / name).write_text(written, encoding="utf-8")
    shutil.copyfile(launch.PACKAGE / "data" / SUMMARY, folder / SUMMARY)


def _link(page: Page, rel: str, word: str) -> str:
    return f'<a rel="{rel}" href="{page.name}.html"><small>{word}</small>{escape(page.title)}</a>'


def write_index(pages: Sequence[Page], folder: Path, address: str) -> None:
    """Write the page that leads to the others."""
    readme = (launch.COURSE / "README.md").read_text(encoding="utf-8")
    table = [line.strip("| ").split(" | ") for line in readme.splitlines()]
    about = {int(row[0]): row[2:] for row in table if row[0].isdecimal()}
    living = (block.html for block in pages[0].blocks if block.html.startswith('<div class="live"'))
    first = next(living, "")
    rows = ""
    for page in pages:
        number = int(page.name[:2])
        text, minutes = about[number]
        rows += f"</ul><h2>{PARTS[number]}</h2><ul>" if number in PARTS else ""
        rows += (
            f'<li><a href="{page.name}.html">{escape(page.title)}</a> '
            f"<small>{minutes} min</small><br>{rendering.line(text)}</li>"
        )
    names = [page.name for page in pages]
    begin = f"Start lesson {int(names[0][:2])}"
    watch = f'<a href="{WHOLE_PASS}.html">Watch the whole pass</a>' if WHOLE_PASS in names else ""
    repository = launch.repository()
    links = " or ".join(f'<a href="{url}">in {name}</a>' for name, url in pages[0].badges.items())
    commands = (
        f"git clone {repository} && cd {repository.rpartition('/')[2]}\npython3 -m mha_course"
    )
    body = (
        f'{top(pages)}<main id="text" class="index"><h1>{NAME}</h1>'
        "<p>Attention decides which words a word takes something from. Point at a word to see "
        "where it looks. Then let <em>cat</em> and <em>dogs</em> change places: a small trained "
        "model answers in this page.</p>"
        f'{first}<p class="badges"><a href="{names[0]}.html">{begin}</a>{watch}</p>'
        "<p>Twenty lessons build this in PyTorch, step by step. Read them here, and write "
        f"the exercises in Jupyter, where every mistake is named: {links}, or on your own machine "
        f"with Python 3.11 or newer:</p><pre>{commands}</pre><ul>{rows}</ul></main>"
    )
    text = "Twenty lessons that build multi-head attention in PyTorch, with pictures that answer."
    written = document(NAME, body, pages[0].views[:1] if first else [], text, address, "")
    (folder / "index.html").write_text(written, encoding="utf-8")


def _preview() -> bytes:
    words = example.SENTENCE.split()
    shown = HeadExplorer(Look()(example.SENTENCE)[0], queries=words, head=1, follow="it")
    return shown.png()


def main(argv: Sequence[str]) -> int:
    """Build the site and say where it is; return the exit status."""

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
