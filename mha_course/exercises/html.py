"""The pieces of HTML that reports, hints, questions and progress are made of, and the live card.

Only tags and inline styles that JupyterLab keeps in an untrusted notebook: no script, no class, no
style sheet.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from html import escape
from typing import Any

from mha_course.tracing.render import written_out

LEFT = "text-align:left"


def box(color: str, content: str) -> str:
    """Set HTML apart by a coloured line at its left."""
    # No overflow-wrap:anywhere, which JupyterLab takes away where it does not trust the notebook.
    style = f"border-left:4px solid {color};padding:2px 12px;margin:4px 0;overflow-wrap:break-word"
    return f'<div style="{style}">{content}</div>'


def heading(title: str, name: str) -> str:
    """Write what a box is, and of which exercise."""
    return f"<strong>{escape(title)}</strong> <code>{escape(name)}</code>"


def foreign(text: str, most: int = 300) -> str:
    """Return a text that somebody else wrote so that it keeps its place: cut where it is long, and
    set apart.

    Letters that run from right to left would turn round what stands beside them, so marks isolate
    them. Signs that
    are not seen, and turn all that follows, are written out.
    """
    text = text if len(text) <= most else f"{text[: most - 1]}…"
    shown = written_out(text)
    turned = any(unicodedata.bidirectional(sign) in ("R", "AL") for sign in shown)
    return f"\N{FIRST STRONG ISOLATE}{shown}\N{POP DIRECTIONAL ISOLATE}" if turned else shown


def prose(text: str) -> str:
    """Escape a text, and set as code what stands between backticks."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def live(
    kind: str, content: dict[str, Any], respond: Callable[[str, str], dict[str, Any]]
) -> dict[str, Any]:
    """Return a card that answers in place, as front ends show it; nothing where there are no
    widgets.

    Args: as of ``widgets.card.Card``.
    """
    try:
        from mha_course.widgets.card import Card  # noqa: PLC0415 (slow to load, and needed only where it is shown)
    except ImportError:
        return {}
    return Card(kind, content, respond).view()
