"""What a slide is made of: words with mathematics, code, pictures and questions, as HTML that asks
for nothing else.
"""

from __future__ import annotations

import html
import re

import mistune
from latex2mathml.converter import convert
from nbformat import NotebookNode
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from mha_course.exercises.spec import Question
from mha_course.widgets.base import DECK_VIEW

_PRIME = '<mo lspace="0" rspace="0">&#x02032;</mo>'
LONG = 105  # columns from which on lines of output are broken
_CODE_OR_MATHS = re.compile(r"(```.*?```|`[^`]*`)|\$\$(.+?)\$\$|\$([^$]+?)\$", re.DOTALL)
_BADGE = re.compile(r"^\[!\[.*\n?", re.MULTILINE)
_FIGURE = re.compile(
    r'<figure[^>]*><img width="[^"]*" (src="[^"]*" '
    r'alt="[^"]*")[^>]*><figcaption[^>]*>(.*?)</figcaption>',
    re.DOTALL,
)


class _Renderer(mistune.HTMLRenderer):
    """HTML in which code is highlighted and links between lessons lead to their decks."""

    def block_code(self, code: str, info: str | None = None) -> str:
        """Highlight what is Python, or says nothing else."""
        return python(code) if info in (None, "python") else f"<pre>{html.escape(code)}</pre>"

    def link(self, text: str, url: str, title: str | None = None) -> str:
        """Turn NN_name.ipynb into NN_name.html."""
        return super().link(text, re.sub(r"^(\d\d_\w+)\.ipynb", r"\1.html", url), title)


_MARKDOWN = mistune.create_markdown(renderer=_Renderer(escape=True), plugins=["table"])


def words(text: str) -> str:
    """Turn Markdown into HTML and $…$ into MathML; badges are left out."""
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        if match[1]:
            return match[1]
        kept.append(maths(match[2] or match[3], block=bool(match[2])))
        return f"\ue000{len(kept) - 1}\ue001"

    page = str(_MARKDOWN(_CODE_OR_MATHS.sub(keep, _BADGE.sub("", text))))
    return re.sub("\ue000(\\d+)\ue001", lambda match: kept[int(match[1])], page)


def maths(formula: str, *, block: bool) -> str:
    """Turn LaTeX into MathML: a little room around the names of functions, none around ∞, and
    primes in full size.
    """
    formula = re.sub(r"(\\(?:sin|cos|ln|tanh))\b\s*(?=[^(\s])", r"\\,\1\\, ", formula)
    made = str(convert(formula.strip(), display="block" if block else "inline"))
    made = made.replace("<mo>&#x0221E;</mo>", "<mi>&#x0221E;</mi>")
    return re.sub(
        r"<msup>(<m\w>[^<]*</m\w>)<mi>&#x02032;</mi></msup>", rf"<mrow>\1{_PRIME}</mrow>", made
    )


def python(source: str) -> str:
    """Highlight code."""
    return str(
        highlight(
            source.strip("\n"), PythonLexer(), HtmlFormatter(cssclass="python", wrapcode=True)
        )
    )


def styles() -> str:
    """Return the colours of code, for light and dark."""
    light = HtmlFormatter(style="xcode")
    dark = HtmlFormatter(style="github-dark")
    return f"{light.get_style_defs('.python')}\n{dark.get_style_defs('.dark .python')}"


def outputs(cell: NotebookNode) -> list[str]:
    """Return the outputs of a cell: widgets that are live, pictures with their sentence, HTML, and
    text.
    """
    parts: list[str] = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        page = data.get("text/html", "")
        if DECK_VIEW in data:
            parts.append(live(data[DECK_VIEW]))
        elif picture := _FIGURE.search(page):
            parts.append(
                f"<figure><img {picture[1]}><figcaption><p>{picture[2]}</p></figcaption></figure>"
            )
        elif page:
            parts.append(f'<div class="html">{page}</div>')
        else:
            text = output.get("text", data.get("text/plain", "")).rstrip()
            wide = " wide" if max(map(len, text.split("\n"))) > LONG else ""
            parts.append(f'<pre class="said{wide}">{html.escape(text)}</pre>')
    return parts


def live(widget: dict[str, str]) -> str:
    """Return the place of a widget, with its state."""
    state = widget["state"].replace("<", "\\u003c")
    return (
        f'<div class="live" data-widget="{widget["name"]}" data-alive><script '
        f'type="application/json">{state}</script></div>'
    )


def script(widget: dict[str, str]) -> str:
    """Return the script of a widget as one that sets what live.js draws with."""
    body = widget["esm"].replace("export default", f"(window.widgets ??= {{}}).{widget['name']} =")
    return f"(() => {{\n{body}\n}})();"


def question(asked: Question) -> tuple[str, str]:
    """Return a question with its choices, and its answer with the reason."""
    choices = "".join(f"<li>{html.escape(choice)}</li>" for choice in asked.choices)
    listed = f"<ol>{choices}</ol>" if choices else ""
    text = f'<p class="ask"><strong>Predict.</strong> {html.escape(asked.text)}</p>{listed}'
    right = html.escape(asked.right)
    reason = html.escape(asked.answers[asked.right])
    return (
        f'<div class="question">{text}</div>',
        f'<div class="answer"><p><strong>{right}:</strong> {reason}</p></div>',
    )
