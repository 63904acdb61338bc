"""The table of mistakes, whose words checker, tracer, bug hunt and grades share.

They are in ``data/mistakes.txt``. "# …" names a section, followed by its mistakes: "key: title",
then, indented, why it matters and what to do. A title may take two lines: it ends with the first
line that ends with a full stop. A key's part after a slash separates mistakes of one id that look
different in different exercises. "/…" has no public id; "…/traced" is what a trace says, with
{names} for what it saw.

How a mistake is made is registered elsewhere, under its key: replaced steps in
``exercises.attention_mistakes`` and in a lesson's ``exercises.py``, methods in
``experiments.faulty_attention``, what a trace shows in ``tracing.rules.warnings``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

PATH = Path(__file__).parent / "data" / "mistakes.txt"


class Row(NamedTuple):
    """One mistake: its key, what was done, why it matters and what to do, and where to read."""

    key: str
    title: str
    why: str
    section: str

    @property
    def id(self) -> str:
        """The public id; empty if there is none."""
        return self.key.partition("/")[0]

    @property
    def text(self) -> str:
        """Its title, and why it matters."""
        return f"{self.title} {self.why}".rstrip()

    @property
    def place(self) -> str:
        """The lesson and heading to go back to, such as ``3, “How large is …?”``."""
        return f"{self.lesson}, “{self.section.split(': ', 1)[1]}”"

    @property
    def lesson(self) -> int:
        """The number of the lesson that explains it."""
        return int(self.section.split(",")[0])


def _rows(table: str) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    section = ""
    for entry in re.split(r"\n(?=\S)", table.strip()):
        if entry.startswith("# "):
            section = entry.removeprefix("# ")
            continue
        title, _, why = f"{entry}\n".partition(".\n")
        key, title = " ".join(title.split()).split(": ", 1)
        if key in rows:
            raise ValueError(f"two mistakes have the key {key}")
        rows[key] = Row(key, f"{title}.", " ".join(why.split()), section)
    return rows


ROWS = _rows(PATH.read_text(encoding="utf-8"))
