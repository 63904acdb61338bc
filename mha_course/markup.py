"""Text as HTML, and users' text made safe to show: escaped, isolated, cut to length.

The HTML needs no script, class or style sheet: JupyterLab keeps all of it in an untrusted notebook.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from html import escape

# Control characters, and marks that reorder even surrounding words. The browser has the same list
# in widgets/dom.js.
UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_LINE_ENDS = str.maketrans(dict.fromkeys("\n\r\u0085\u2028\u2029", "⏎") | {"\t": "⇥"})
LEFT = "text-align:left"
CELL = "padding:3px 8px;text-align:left;vertical-align:top;white-space:nowrap"
CAPTION = "max-width:44em;margin-top:6px;line-height:1.45"


def cut(text: str, most: int) -> str:
    """Cut a text to a number of characters, ending in an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def count(number: int, word: str) -> str:
    """Write a number with its noun: ``1 copy``, ``2 copies``."""
    plural = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{number:,} {word if number == 1 else plural}"


def visible(text: str) -> str:
    """Return a text on one line, without marks that reorder it.

    >>> visible("a\\nb\\tc\\u202ed")
    'a⏎b⇥c�d'
    """
    return UNSEEN.sub("�", text.replace("\r\n", "\n").translate(_LINE_ENDS))


def shorten(text: str, most: int = 14) -> str:
    """Shorten a word to fit one line.

    >>> [shorten(word) for word in ("cat", "", " ", "a\\nb", "Donaudampfschifffahrt")]
    ['cat', '(empty)', '␣', 'a⏎b', 'Donaudampfsch…']
    """
    return cut(visible(text[:400]).strip() or ("␣" if text else "(empty)"), most)


def spell_out(text: str) -> str:
    """Write invisible characters as Python escapes; newlines and tabs stay.

    >>> spell_out("a\\nb\\u202ec")
    'a\\nb\\\\u202ec'
    """
    return UNSEEN.sub(lambda sign: sign[0] if sign[0] in "\n\t" else f"\\u{ord(sign[0]):04x}", text)


def isolate(text: str) -> str:
    """Keep right-to-left text from reordering the text around it.

    >>> isolate("cat"), len(isolate("\u05d0"))
    ('cat', 3)
    """
    from_right = any(unicodedata.bidirectional(letter) in ("R", "AL", "AN") for letter in text)
    return f"\N{FIRST STRONG ISOLATE}{text}\N{POP DIRECTIONAL ISOLATE}" if from_right else text


def isolate_word(text: str, most: int = 24) -> str:
    """Make a user's word short and safe for a sentence or label."""
    return isolate(shorten(text, most))


def isolate_text(text: str) -> str:
    """Make users' text, such as a message or code, safe to quote in a sentence."""
    return isolate(spell_out(cut(text, 300)))


def escaped(text: str) -> str:
    """Return the HTML of a user's text."""
    return escape(spell_out(text))


def prose(text: str) -> str:
    """Return the HTML of a text with code in backticks."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def box(color: str, content: str) -> str:
    """Mark HTML with a coloured line on its left."""
    # No overflow-wrap:anywhere, which JupyterLab removes in untrusted notebooks.
    style = f"border-left:4px solid {color};padding:2px 12px;margin:4px 0;overflow-wrap:break-word"
    return f'<div style="{style}">{content}</div>'


def heading(title: str, name: str) -> str:
    """Write a box's heading and its exercise."""
    return f"<strong>{escape(title)}</strong> <code>{escape(name)}</code>"


def figure(content: str, caption: str, attributes: str = "") -> str:
    """Write HTML and its caption as one figure."""
    words = f'<figcaption{attributes} style="{CAPTION}">{escape(caption)}</figcaption>'
    return f'<figure style="margin:8px 0 16px">{content}{words}</figure>'


def table(
    caption: str, heads: Iterable[str], rows: Iterable[str], style: str = "border-collapse:collapse"
) -> str:
    """Write a table; its rows are HTML."""
    head = "".join(f'<th scope="col" style="{CELL}">{escaped(text)}</th>' for text in heads)
    top = f"<thead><tr>{head}</tr></thead>" if head else ""
    title = f'<caption style="{LEFT}">{escaped(caption)}</caption>' if caption else ""
    return f'<table style="{style}">{title}{top}<tbody>{"".join(rows)}</tbody></table>'


def row(cells: Iterable[str], style: str = CELL) -> str:
    """Write a row of a table; its cells are HTML."""
    columns = "".join(f'<td style="{style}">{cell}</td>' for cell in cells)
    return f"<tr>{columns}</tr>"


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Write rows of plain text in aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in rows)
