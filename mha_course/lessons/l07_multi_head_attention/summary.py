"""The end of Part I: the learner's own file, and a printable summary."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from IPython.display import display

from mha_course import markup
from mha_course.exercises.take_home import MODULE

PAGE = Path(__file__).parents[2] / "data" / "summary.html"


def show_my_attention() -> None:
    """Say where solved exercises are saved, and show that file if it exists."""
    file = Path(f"{MODULE}.py")
    sentence = f"Answers that pass check are in {file.name}, next to the notebooks."
    page = f"<p>{sentence}</p>"
    if file.exists():
        code = escape(file.read_text(encoding="utf-8"))
        style = "overflow-x:auto;padding:8px 12px;line-height:1.45"
        page += f'<details><summary>Read it</summary><pre style="{style}">{code}</pre></details>'
    display({"text/html": page, "text/plain": sentence}, raw=True)


def show_summary() -> None:
    """Show the body of the page."""
    body = PAGE.read_text(encoding="utf-8").partition("<main>")[2].partition("</main>")[0]
    body = re.sub("(</?h)[12]>", r"\g<1>3>", body)  # below a section's heading
    body = re.sub(r"<td>(?=\()", f'<td style="{markup.CELL}">', body)  # shapes are not broken
    style = markup.CELL.removesuffix(";white-space:nowrap")  # JupyterLab sets cells right
    left = re.sub("<(t[hd])>", rf'<\1 style="{style}">', body)
    display({"text/html": left.strip(), "text/plain": f"The page {PAGE.name}"}, raw=True)
