"""The reading site: an index, and each lesson as one page that needs no network and no Python.

The same renderer executes and writes lessons for the site and for decks. Widgets work in the page,
questions unfold their answers, and exercises their hints. Sections under "Deeper" are folded.
Without JavaScript you can still read all of it: pictures replace widgets.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path
from typing import Any

import nbformat

from mha_course.cli import launch, rendering, search
from mha_course.cli.authoring import lessons
from mha_course.cli.pages import SUMMARY, Page, read
from mha_course.colours import page_variables
from mha_course.widgets.base import esm

NAME = "Multi-head attention, step by step"
PARTS = {
    0: "The course: the mechanism, step by step",
    8: "The shelf: what comes next",
    16: "The shelf: looking inside",
}
FIRST, WHOLE_PASS = "00_start_here", "07_multi_head_attention"
CARD = "card.png"  # 1200 by 630, for link previews
MOST_KERNELS = 4  # at a time: each takes up to 1 GiB and one processor
HERE = Path(__file__).parent
SHEETS = ("base.css", "site.css", "present.css")
_PICTURE = re.compile(r'src="data:image/svg\+xml;base64,([^"]+)" alt="([^"]*)"')
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16' fill='none' "
    "stroke='%230b7285' stroke-width='2.4'%3E%3Cpath d='M2 13C2 1 14 1 14 13'/%3E%3C/svg%3E"
)
_HOME = '<a href="index.html">Multi-head attention<span>, step by step</span></a>'
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data: 'self' file:; style-src 'unsafe-inline';
 script-src 'unsafe-inline' 'self' file:">
<meta name="description" content="{text}"><meta name="twitter:card" content="summary_large_image">
<meta property="og:type" content="article"><meta property="og:title" content="{title}">
<meta property="og:description" content="{text}"><meta property="og:url" content="{url}">
<meta property="og:image" content="{card}"><link rel="icon" href="{icon}">
<style>{style}</style></head><body>
<a class="skip" href="#text">Skip to the text</a>
<header class="masthead">{home}
<details class="lessons">
<summary title="Search (/)">Lessons<span hidden> and search</span></summary><div>
<input type="search" hidden placeholder="Search all lessons" aria-label="Search"><output></output>
<ul class="results"></ul><ul>{lessons}</ul></div></details>
<button type="button" class="present" hidden title="Show slides (P)">Present</button>
<button type="button" class="theme" hidden aria-label="Light or dark">◐</button></header>
<noscript><p class="still">Without JavaScript, the pictures on this page do not move.</p></noscript>
{body}
<script>{script}</script></body></html>
"""


def document(
    pages: Sequence[Page],
    title: str,
    text: str,
    body: str,
    views: rendering.Views,
    url: str,
    home: str = _HOME,
) -> str:
    """Join a body with the navigation and the scripts that draw its widgets.

    Args: text and url are for search engines and previews; the card is next to the page; home is
        the first link at its top.
    """
    links = {f"{page.name}.html": page.title for page in pages}
    links |= {SUMMARY: "Part I on one sheet", launch.repository(): "Get the course"}
    rows = (f'<li><a href="{to}">{escape(name)}</a></li>' for to, name in links.items())
    named = {view["name"]: view for view in views}.values()
    sheets = [page_variables(), *((HERE / sheet).read_text(encoding="utf-8") for sheet in SHEETS)]
    script = esm("site.js", folder=HERE)
    return _PAGE.format(
        title=escape(title),
        text=escape(text),
        url=escape(url),
        card=escape(url.rpartition("/")[0] + f"/{CARD}"),
        icon=_ICON,
        style="\n".join([*sheets, rendering.styles(), *(view["css"] for view in named)]),
        home=home,
        lessons="".join(rows),
        body=re.sub('<th(?: scope="col")?([^>]*)></th>', r"<td\1></td>", body),  # heads nothing
        script="\n".join([*map(rendering.script_of, named), script]),
    )


def read_lessons(
    numbers: Sequence[str], *, saved: bool = False, solutions: bool | None = None
) -> list[Page]:
    """Read some lessons, or all if there are no numbers; execute them unless ``saved``.

    Raises: ShapeError for an unknown lesson, or a cell without a slide type; nbclient's error if a
        cell fails.
    """

    def executed(path: Path) -> nbformat.NotebookNode:
        notebook = nbformat.read(path, as_version=4)
        if not saved:
            rendering.execute(notebook)
        return notebook

    pages = []
    paths = lessons(numbers)
    with ThreadPoolExecutor(min(MOST_KERNELS, os.cpu_count() or 1)) as pool:
        for path, notebook in zip(paths, pool.map(executed, paths), strict=True):
            pages.append(read(notebook, path.stem, solutions=solutions))
            print(f"read {path.stem}", flush=True)
    return pages


def build(numbers: Sequence[str], folder: Path, address: str, *, saved: bool = False) -> None:
    """Write the site for some lessons, or for all of them; execute them unless ``saved``."""
    pages = read_lessons(numbers, saved=saved)
    write(pages, folder, address)
    write_index(pages, folder, address)
    names = ["", *(f"{page.name}.html" for page in pages)]
    places = "".join(f"<url><loc>{escape(address + name)}</loc></url>" for name in names)
    sitemap = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{places}</urlset>\n'
    (folder / "sitemap.xml").write_text(f'<?xml version="1.0" encoding="UTF-8"?>\n{sitemap}')


def write(pages: Sequence[Page], folder: Path, address: str, *, presented: bool = False) -> None:
    """Write pages; if ``presented``, they open as slides."""
    folder.mkdir(parents=True, exist_ok=True)
    for at, page in enumerate(pages):
        before = _link(pages[at - 1], "prev", "Before") if at else "<span></span>"
        after = _link(pages[at + 1], "next", "Next") if at + 1 < len(pages) else ""
        pager = f'<nav class="pager" aria-label="Lessons">{before}{after}</nav>'
        body = page.body(pager, presented=presented)
        text = f"{page.title}: a lesson on multi-head attention, with interactive pictures."
        title = f"{page.title} · {NAME}"
        name = f"{page.name}.html"
        written = document(pages, title, text, body, page.views, address + name)
        (folder / name).write_text(written, encoding="utf-8")
    for name in (SUMMARY, CARD):
        shutil.copyfile(launch.PACKAGE / "data" / name, folder / name)


def _link(page: Page, rel: str, word: str) -> str:
    return f'<a rel="{rel}" href="{page.name}.html"><small>{word}</small>{escape(page.title)}</a>'


def write_index(pages: Sequence[Page], folder: Path, address: str) -> None:
    """Write the index page, with its thumbnails and its search script."""
    readme = (launch.COURSE / "README.md").read_text(encoding="utf-8")
    table = [line.strip("| ").split(" | ") for line in readme.splitlines()]
    about = {int(row[0]): row[2:] for row in table if row[0].isdecimal()}
    rows = ""
    for page in pages:
        number = int(page.name[:2])
        text, minutes = about[number]
        rows += f"</ul><h2>{PARTS[number]}</h2><ul>" if number in PARTS else ""
        rows += (
            f'<li>{_thumbnail(page, folder)}<div><a href="{page.name}.html">{escape(page.title)}'
            f"</a> <small>{minutes} min</small><br>{rendering.line(text)}</div></li>"
        )
    repository = launch.repository()
    links = " or ".join(f'<a href="{url}">in {name}</a>' for name, url in pages[0].badges.items())
    commands = (
        f"git clone {repository} && cd {repository.rpartition('/')[2]}\npython3 -m mha_course"
    )
    featured = {page.name: page for page in pages if page.name in (FIRST, WHOLE_PASS)}
    body = (
        f'<main id="text" class="index"><h1>{NAME}</h1>{_opening(featured, pages[0])}'
        "<p>Twenty lessons build this in PyTorch, step by step. Read them here, and write "
        f"the exercises in Jupyter, where every mistake is named: {links}, or on your own machine "
        f"with Python 3.11 or newer:</p><pre>{commands}</pre><ul>{rows}</ul></main>"
    )
    text = "Twenty lessons that build multi-head attention in PyTorch, with interactive pictures."
    views = [view for page in featured.values() for view in page.views[:1]]
    begin = _start(
        pages[0]
    )  # in sight above the picture, too; the course's name is the title below
    written = document(pages, NAME, text, body, views, address, begin)
    (folder / "index.html").write_text(written, encoding="utf-8")
    search.write(pages, folder)


def _opening(featured: Mapping[str, Page], first: Page) -> str:
    """Write the top of the index: the whole pass, which plays once, and the first explorer."""
    html = ""
    links = _start(first)
    if WHOLE_PASS in featured:
        scene = _first_figure(featured[WHOLE_PASS])
        html += (
            "<p>One sentence on its way through a small trained model, with the words on the left. "
            "Watch how <em>it</em> finds out that it stands for <em>cat</em>.</p>"
            f"{scene.replace('<div', '<div data-plays', 1)}"
            "<p>Your turn: choose a word to follow it, or a number to see what it is made of.</p>"
        )
        links += f'<a href="{WHOLE_PASS}.html">How the whole pass works: lesson 7</a>'
    html += f'<p class="badges">{links}</p>'
    if FIRST in featured:
        html += (
            "<h2>Try another sentence</h2><p>The same model answers in this page. Choose a word "
            "to see where it looks. Then swap <em>cat</em> and <em>dogs</em>, or type a sentence."
            f"</p>{_first_figure(featured[FIRST])}"
        )
    return html


def _start(first: Page) -> str:
    return f'<a class="start" href="{first.name}.html">Start lesson {int(first.name[:2])}</a>'


def _first_figure(page: Page) -> str:
    """Return a page's first live widget, or its first figure if none is live."""
    blocks = (block.html for block in page.blocks)
    return next(html for html in blocks if html.startswith(("<figure", '<div class="live"')))


def _thumbnail(page: Page, folder: Path) -> str:
    """Write a page's first picture as a file, which the index loads when it scrolls near."""
    match = _PICTURE.search("".join(block.html for block in page.blocks))
    if not match:
        return ""
    picture = f"{page.name}.svg"
    (folder / picture).write_bytes(base64.b64decode(match[1]))
    return f'<img loading="lazy" src="{picture}" alt="{match[2]}">'


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
