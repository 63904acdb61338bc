"""The page that sums up Part I, in the lesson; it can also be opened and printed by itself."""

from __future__ import annotations

import re
from pathlib import Path

from IPython.display import display

from mha_course import markup

PAGE = Path(__file__).parents[2] / "data" / "summary.html"


def show_summary() -> None:
    """Show the body of the page."""
    body = PAGE.read_text(encoding="utf-8").partition("<body>")[2].partition("</body>")[0]
    left = re.sub("<(t[hd])>", rf'<\1 style="{markup.LEFT}">', body)  # JupyterLab sets them right
    display({"text/html": left.strip(), "text/plain": f"The page {PAGE.name}"}, raw=True)
