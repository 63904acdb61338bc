"""The search index: the headings and text of all pages, in a script next to them.

A page opened from a file may load only scripts. It loads this one when its menu is first opened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import unescape
from pathlib import Path

from mha_course.cli.pages import Page

NAME = "search-text.js"
_HEADING = re.compile(r'<h\d id="([^"]*)">(.*?)<(?:/h|a class="anchor")')
_TEXT = re.compile('<figure|<div class="(?:words|lead|live|python)"')  # without answers
_INLINE = re.compile(r"<script.*?</script>|</?(?:span|code|em|strong|a|m\w+)\b[^>]*>", re.DOTALL)


def write(pages: Sequence[Page], folder: Path) -> None:
    """Write the text of pages as the script that search.js loads."""
    sections = [section for page in pages for section in sections_of(page)]
    text = json.dumps(sections, ensure_ascii=False, separators=(",", ":"))
    (folder / NAME).write_text(f"window.sections = {text};\n", encoding="utf-8")


def sections_of(page: Page) -> list[dict[str, str]]:
    """Return the sections of a page: address, lesson, heading, and the text below the heading."""
    sections: list[dict[str, str]] = []
    for block in page.blocks:
        if heading := _HEADING.search(block.html):
            address = f"{page.name}.html#{heading[1]}"
            named = {"lesson": page.title, "heading": words(heading[2])}
            sections.append({"address": address, **named, "text": ""})
        elif sections and _TEXT.match(block.html) and "data-alone" not in block.marks:
            sections[-1]["text"] += f" {words(block.html)}"
    return sections


def words(html: str) -> str:
    """Return the text of some HTML, without its scripts."""
    return " ".join(unescape(re.sub("<[^>]+>", " ", _INLINE.sub("", html))).split())
