"""The pieces of HTML that reports, hints, questions and progress are made of.

Only tags and inline styles that JupyterLab keeps in an untrusted notebook: no script, no class, no style sheet.
"""

from __future__ import annotations

import re
from html import escape

LEFT = "text-align:left"


def box(color: str, content: str) -> str:
    """Set HTML apart by a coloured line at its left."""
    return f'<div style="border-left:4px solid {color};padding:2px 12px;margin:4px 0">{content}</div>'


def heading(title: str, name: str) -> str:
    """Write what a box is, and of which exercise."""
    return f"<strong>{escape(title)}</strong> <code>{escape(name)}</code>"


def prose(text: str) -> str:
    """Escape a text, and set as code what stands between backticks."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))
