"""Lessons for those who do not see pictures, or do not want motion: what can be told from the
files.

What needs a browser is in test_pages.py (keys, names, marks of the focus) and in test_players.py
(motion).
"""

import re

import nbformat
import pytest
from lessons import LESSONS, prose, read
from tags import Tags

from mha_course.cli import authoring

EMPTY_WORDS = {"here", "this", "link", "click here", "more", "this page", "read more", "see here"}


def headings(notebook):
    """Return the level and the words of each heading, in order, but not what is code."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            text = re.sub(r"(?ms)^(```|~~~).*?^\1", "", cell.source)
            found += [
                (len(marks), words.strip())
                for marks, words in re.findall(r"(?m)^(#{1,6})\s+(.*)$", text)
            ]
    return found


def heading_problems(notebook):
    """Say which headings are out of order: one h1, at the top, and no level left out."""
    levels = [level for level, _ in headings(notebook)]
    if levels.count(1) != 1 or levels[0] != 1:
        yield f"headings of the first level: {levels.count(1)}"
    for before, (after, words) in zip(levels, headings(notebook)[1:], strict=False):
        if after > before + 1:
            yield f"“{words}” jumps from level {before} to {after}"
    yield from (
        f"an empty heading of level {level}" for level, words in headings(notebook) if not words
    )


def problems_of_html(text):
    """Say what is wrong with pictures and tables in HTML."""
    headed = True
    for tag, given in Tags(text).found:
        if tag == "img" and not (given.get("alt") or "").strip():
            yield "a picture without alt text"
        if tag == "svg" and not (given.get("aria-label") or given.get("aria-hidden")):
            yield "a drawing without a name"
        if tag == "table":
            headed = False
        if tag in ("th", "caption"):
            headed = True
    if not headed:
        yield "a table without a caption and without a heading of a row or column"


def picture_problems(notebook):
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            yield from (f"{cell.id}: {problem}" for problem in problems_of_html(cell.source))
            yield from (
                f"{cell.id}: {place} without alt text"
                for place in re.findall(r"!\[\s*\]\(([^)]*)\)", cell.source)
            )
        for output in cell.get("outputs", []):
            page = output.get("data", {}).get("text/html", "")
            yield from (f"{cell.id}: {problem}" for problem in problems_of_html(page))


def link_problems(text):
    prose = re.sub(r"(?s)```.*?```|`[^`]*`", "code", text)
    for words, target in re.findall(
        r"(?<!!)\[((?:!\[[^\]]*\]\([^)]*\)|[^\[\]])*)\]\(([^)\s]+)\)", prose
    ):
        told = re.sub(r"!\[([^\]]*)\]\([^)]*\)", r"\1", words).strip(" *_.")
        if not re.search(r"\w", told) or told.lower() in EMPTY_WORDS:
            yield f"the link to {target} says “{told}”"
        if re.match(r"https?://", told):
            yield f"the link to {target} is an address, not words"


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_can_be_read_without_seeing_it(path):
    notebook = read(path)
    problems = [*heading_problems(notebook), *picture_problems(notebook)]
    assert [*problems, *link_problems(prose(notebook))] == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGES.md", "TEACHING.md"])
def test_a_page_beside_the_lessons_can_be_read_without_seeing_it(name):
    path = authoring.ROOT / name
    if not path.exists():
        pytest.skip(f"no {name}")
    page = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_markdown_cell(path.read_text(encoding="utf-8"))]
    )
    problems = [
        *heading_problems(page),
        *picture_problems(page),
        *link_problems(page.cells[0].source),
    ]
    assert problems == []
