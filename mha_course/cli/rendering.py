"""Helpers that write pages: outputs become parts, and parts become self-contained HTML."""

from __future__ import annotations

import asyncio
import html
import os
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import mistune
from latex2mathml.converter import convert
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from mha_course.cli import authoring, launch
from mha_course.errors import ShapeError
from mha_course.plots.figures import SITE
from mha_course.widgets.base import DECK_VIEW

_TO_LESSON = re.compile(r'href="(\d\d_\w+)\.ipynb#([^"]*)"')  # as in reports
Views = Iterable[Mapping[str, Any]]  # the script that draws widgets, from widgets.base.standalone
LONG = 105  # columns at which output lines wrap
HEADING = re.compile(r"\A(#+) (.+?)(?:\n+|$)")
_PRIME = '<mo lspace="0" rspace="0">&#x02032;</mo>'
_CODE_OR_MATHS = re.compile(r"(```.*?```|`[^`]*`)|\$\$(.+?)\$\$|\$([^$]+?)\$", re.DOTALL)
_BADGE = re.compile(r"^\[!\[.*\n?", re.MULTILINE)


@dataclass(frozen=True)
class Part:
    """An output as HTML: text, picture, live (a widget that ``view`` draws) or html (any other)."""

    kind: str
    html: str
    view: Mapping[str, Any] = field(default_factory=dict)


def block(kind: str, content: str) -> str:
    """Write HTML of one kind as a block of a page."""
    return f'<div class="{kind}">{content}</div>'


class _Renderer(mistune.HTMLRenderer):
    """Write HTML with highlighted code and links between lessons' pages."""

    def block_code(self, code: str, info: str | None = None) -> str:
        """Highlight code as Python unless another language is named."""
        return python(code) if info in (None, "python") else f"<pre>{html.escape(code)}</pre>"

    def block_html(self, html: str) -> str:
        """Keep <details>; show other HTML as text."""
        return html if html.startswith("<details>") else super().block_html(html)

    def link(self, text: str, url: str, title: str | None = None) -> str:
        """Turn a link to another notebook into a link to its page."""
        return super().link(text, re.sub(r"^(\d\d_\w+)\.ipynb", r"\1.html", url), title)


_MARKDOWN = mistune.create_markdown(renderer=_Renderer(escape=True), plugins=["table"])


def words(text: str) -> str:
    """Turn Markdown into HTML and $…$ into MathML; badges are left out."""
    formulas: list[str] = []

    def keep(match: re.Match[str]) -> str:
        if match[1]:
            return match[1]
        formulas.append(maths(match[2] or match[3], block=bool(match[2])))
        return f"\ue000{len(formulas) - 1}\ue001"

    page = str(_MARKDOWN(_CODE_OR_MATHS.sub(keep, _BADGE.sub("", text))))
    return re.sub("\ue000(\\d+)\ue001", lambda match: formulas[int(match[1])], page)


def line(text: str) -> str:
    """Turn one line of Markdown, such as a heading, into HTML without a paragraph."""
    return words(text).strip().removeprefix("<p>").removesuffix("</p>")


def maths(formula: str, *, block: bool) -> str:
    """Turn LaTeX into MathML: a little space around function names, none around ∞, and primes in
    full size.
    """
    formula = re.sub(r"(\\(?:sin|cos|ln|tanh))\b\s*(?=[^(\s])", r"\\,\1\\, ", formula)
    mathml = str(convert(formula.strip(), display="block" if block else "inline"))
    mathml = mathml.replace("<mo>&#x0221E;</mo>", "<mi>&#x0221E;</mi>")
    return re.sub(
        r"<msup>(<m\w>[^<]*</m\w>)<mi>&#x02032;</mi></msup>", rf"<mrow>\1{_PRIME}</mrow>", mathml
    )


def python(source: str) -> str:
    """Return Python code as HTML, with classes for its colours."""
    formatter = HtmlFormatter(cssclass="python", wrapcode=True)
    return str(highlight(source.strip("\n"), PythonLexer(), formatter))


def styles() -> str:
    """Return the colours of code, for light and dark pages."""
    light, dark = (HtmlFormatter(style=name).style for name in ("xcode", "github-dark"))
    rules = []
    for name, (_, token, _) in HtmlFormatter(style="xcode").class2style.items():
        plain, glowing = (style.style_for_token(token) for style in (light, dark))
        ink = plain["color"] or "1b1f24", glowing["color"] or "e6edf3"
        weight = ";font-weight:600" if plain["bold"] else ""
        rules.append(f".python .{name}{{color:light-dark(#{ink[0]},#{ink[1]}){weight}}}")
    return "\n".join(rules)


def name_in(cell: NotebookNode) -> str:
    """Return the quoted name in a cell such as ``predict("name")``."""
    return str(cell.source.split('"')[1])


def outputs(saved: Iterable[NotebookNode]) -> list[Part]:
    """Return a cell's outputs as parts; a live widget contains its static picture."""
    parts: list[Part] = []
    for output in saved:
        data = output.get("data", {})
        page = authoring.ON_SITE.sub("", data.get("text/html", "")).rstrip("\n")
        page = _TO_LESSON.sub(_to_page, page)
        drawn = picture(page)
        static = drawn or block("html", page)
        if DECK_VIEW in data:
            parts.append(Part("live", _live(data[DECK_VIEW], static), data[DECK_VIEW]))
        elif page:
            parts.append(Part("picture" if drawn else "html", static))
        else:
            printed = output.get("text", data.get("text/plain", "")).rstrip()
            wide = " wide" if max(map(len, printed.split("\n"))) > LONG else ""
            parts.append(Part("text", f'<pre class="said{wide}">{html.escape(printed)}</pre>'))
    return parts


def _to_page(link: re.Match[str]) -> str:
    """Make a link to a notebook's heading lead to the same heading of its page."""
    lesson, heading = link.groups()
    return f'href="{lesson}.html#{anchor(unquote(heading))}"'


def anchor(heading: str) -> str:
    """Return the id that a heading has on its page."""
    return re.sub(r"\W+", "-", heading.lower()).strip("-")


def _live(view: Mapping[str, Any], static: str) -> str:
    """Write a live widget's placeholder: its picture, until it is drawn, and its state."""
    state = view["state"].replace("<", "\\u003c")
    script = f'<script type="application/json">{state}</script>'
    return f'<div class="live" data-widget="{view["name"]}">{static}{script}</div>'


def picture(page: str) -> str:
    """Return a figure of the course, an image with a caption, as HTML; "" for other outputs."""
    try:
        root = ElementTree.fromstring(page)
    except ElementTree.ParseError:
        return ""
    if root.tag != "figure" or [child.tag for child in root] != ["img", "figcaption"]:
        return ""
    width, source, alt = (root[0].get(name, "") for name in ("width", "src", "alt"))
    image = f'<img style="--width: {width}px" src="{source}" alt="{html.escape(alt)}">'
    caption = html.escape(root[1].text or "")
    return f"<figure>{image}<figcaption><p>{caption}</p></figcaption></figure>"


def script_of(widget: Mapping[str, Any]) -> str:
    """Return a widget's script as one that sets what live.js draws with."""
    body = widget["esm"].replace("export default", f"(window.widgets ??= {{}}).{widget['name']} =")
    return f"(() => {{\n{body}\n}})();"


def execute(notebook: NotebookNode) -> None:
    """Execute a notebook with this package, in a kernel that draws for the reading site.

    It may run in a thread without an event loop; the loop that it uses is closed afterwards.
    """
    path = f"{launch.PACKAGE.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    variables = {"MHA_COURSE_PROGRESS": "off", SITE: "on", "PYTHONPATH": path}
    environment = os.environ | variables | {"OMP_NUM_THREADS": "1"}
    asyncio.run(authoring.client_of(notebook).async_execute(env=environment))
    authoring.normalise(notebook)


def command(
    name: str, argv: Sequence[str], run: Callable[[Namespace], str], **options: dict[str, Any]
) -> int:
    """Run a command that builds lessons, and print what it says; return the exit status."""
    parser = ArgumentParser(prog=f"python3 -m mha_course {name}")
    parser.add_argument("numbers", nargs="*", help="such as 00 03; by default all")
    parser.add_argument("--saved", action="store_true", help="use saved outputs, no live widgets")
    for option, settings in options.items():
        parser.add_argument(f"--{option}", **settings)
    try:
        print(run(parser.parse_args(argv)))
    except (ShapeError, CellExecutionError) as error:
        print(f"mha_course: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        expected = "expected a folder that can be written to"
        got = f"got {error.filename} ({error.strerror})"
        fix = "fix: go to a folder of your own and run the same command there"
        print(f"mha_course: {name}: {expected}, {got}, {fix}", file=sys.stderr)
        return 1
    return 0
