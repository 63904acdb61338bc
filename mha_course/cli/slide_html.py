"""What a slide is made of: words with mathematics, code, pictures and questions, as HTML that asks for nothing else."""

from __future__ import annotations

import base64
import html
import re
from itertools import pairwise

import mistune
from latex2mathml.converter import convert
from nbformat import NotebookNode
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from mha_course.plots import LINE
from mha_course.plots.figures import BESIDE, FINE
from mha_course.widgets.base import DECK_VIEW

LENGTH, SHORT = 700, 130  # letters that one slide of words may hold, and those that get no slide of their own
_PRIME = '<mo lspace="0" rspace="0">&#x02032;</mo>'
LONG = 105  # columns from which on lines of output are broken
_CODE_OR_MATHS = re.compile(r"(```.*?```|`[^`]*`)|\$\$(.+?)\$\$|\$([^$]+?)\$", re.DOTALL)
_BADGE = re.compile(r"^\[!\[.*\n?", re.MULTILINE)
_CHOICE = re.compile(r"<details><summary[^>]*>(.*?)</summary><strong>(.) [^<]*</strong> (.*?)</details>", re.DOTALL)
_TYPED = re.compile(r"<summary>Show the answer</summary>(.*?)</details>", re.DOTALL)
_FIGURE = re.compile(
    r'<figure[^>]*><img width="[^"]*" (src="[^"]*" alt="[^"]*")[^>]*><figcaption[^>]*>(.*?)</figcaption>', re.DOTALL
)
_QUESTION = re.compile(r"<strong>Predict\.</strong> (.*?)<(?:details|br)", re.DOTALL)


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

    def keep(found: re.Match[str]) -> str:
        if found[1]:
            return found[1]
        kept.append(maths(found[2] or found[3], block=bool(found[2])))
        return f"\ue000{len(kept) - 1}\ue001"

    page = str(_MARKDOWN(_CODE_OR_MATHS.sub(keep, _BADGE.sub("", text))))
    return re.sub("\ue000(\\d+)\ue001", lambda found: kept[int(found[1])], page)


def maths(formula: str, *, block: bool) -> str:
    """Turn LaTeX into MathML: a little room around the names of functions, none around ∞, and primes in full size."""
    formula = re.sub(r"(\\(?:sin|cos|ln|tanh))\b\s*(?=[^(\s])", r"\\,\1\\, ", formula)
    made = str(convert(formula.strip(), display="block" if block else "inline"))
    made = made.replace("<mo>&#x0221E;</mo>", "<mi>&#x0221E;</mi>")
    return re.sub(r"<msup>(<m\w>[^<]*</m\w>)<mi>&#x02032;</mi></msup>", rf"<mrow>\1{_PRIME}</mrow>", made)


def pieces(text: str) -> list[str]:
    """Cut Markdown between paragraphs, so that each piece fits a slide, and an exercise has one of its own."""
    found: list[str] = []
    for paragraph in re.split(r"(?<![,:])\n\n+(?![ \ta-z])", text.strip()):  # else a sentence goes on
        items = re.split(r"\n(?=\d\. |- )", paragraph) if size(paragraph) > LENGTH else [paragraph]
        for block in items:
            before, more = size(found[-1]) if found else LENGTH, size(block)
            begins = block.startswith("**Exercise") and before > 2 * SHORT
            if not begins and (before + more <= LENGTH or min(before, more) < SHORT) and found:
                found[-1] += "\n\n" + block
            else:
                found.append(block)
    return found or [""]


def size(text: str) -> int:
    """Estimate how much room Markdown takes, in letters: a formula of its own and a row of a table count as a line."""
    letters = len(re.sub(r"\$\$.+?\$\$", "", re.sub(r"\]\(.*?\)", "", _BADGE.sub("", text)), flags=re.DOTALL))
    return letters + 130 * text.count("$$") // 2 + 25 * text.count("\n|")


def python(source: str) -> str:
    """Highlight code."""
    return str(highlight(source.strip("\n"), PythonLexer(), HtmlFormatter(cssclass="python", wrapcode=True)))


def styles() -> str:
    """Return the colours of code, for light and dark."""
    light, dark = HtmlFormatter(style="xcode"), HtmlFormatter(style="github-dark")
    return f"{light.get_style_defs('.python')}\n{dark.get_style_defs('.dark .python')}"


def outputs(cell: NotebookNode) -> list[str]:
    """Return the outputs of a cell: pictures with their sentence, HTML, and text."""
    found: list[str] = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        page = data.get("text/html", "")
        if DECK_VIEW in data:
            found.append(live(data[DECK_VIEW]))
        elif picture := _FIGURE.search(page):
            found.append(f"<figure><img {picture[1]}><figcaption><p>{picture[2]}</p></figcaption></figure>")
        elif "image/png" in data:
            alt = html.escape(output.metadata.get("image/png", {}).get("alt", ""))
            source = data["image/png"].replace("\n", "")
            found.append(f'<figure><img alt="{alt}" src="data:image/png;base64,{source}"></figure>')
        elif page:
            found.append(f'<div class="html">{page}</div>')
        elif found and found[-1].startswith('<div class="live"'):
            continue  # what it shows at the start
        elif found and found[-1].startswith("<figure>"):
            lines = [line.removeprefix("At the start: ") for line in unwrap(output.get("text", ""))]
            caption = "".join(f"<p>{html.escape(line)}</p>" for line in lines)
            found[-1] = found[-1].replace("</figure>", f"<figcaption>{caption}</figcaption></figure>")
        else:
            text = output.get("text", data.get("text/plain", "")).rstrip()
            wide = " wide" if max(map(len, text.split("\n"))) > LONG else ""
            found.append(f'<pre class="said{wide}">{html.escape(text)}</pre>')
    return found


def live(widget: dict[str, str]) -> str:
    """Return the place of a widget, with its state."""
    state = widget["state"].replace("<", "\\u003c")
    return f'<div class="live" data-widget="{widget["name"]}"><script type="application/json">{state}</script></div>'


def script(widget: dict[str, str]) -> str:
    """Return the script of a widget as one that sets what live.js draws with."""
    body = widget["esm"].replace("export default", f"(window.widgets ??= {{}}).{widget['name']} =")
    return f"(() => {{\n{body}\n}})();"


def columns(said: str) -> int:
    """Return the length of the longest line of an output."""
    return max(map(len, html.unescape(re.sub("<.*?>", "", said)).split("\n")))


def shown_size(figure: str) -> tuple[float, float]:
    """Return the pixels of a slide for which a picture was drawn, from the first bytes of its PNG."""
    head = base64.b64decode(figure.partition("base64,")[2][:32])
    return int.from_bytes(head[16:20], "big") / FINE, int.from_bytes(head[20:24], "big") / FINE


def crowded(parts: list[str]) -> bool:
    """Say whether a picture has too little room among these parts of one slide."""
    figures = [part for part in parts if "<figure>" in part]
    if len(figures) != 1 or len(parts) == 1:
        return len(figures) > 1
    width, height = shown_size(figures[0])
    others = "".join(part for part in parts if part not in figures)
    letters = len(re.sub("<[^>]*>", "", others)) + 60 * others.count("</p>") + 60 * others.count("</li>")
    if width < 1.6 * height and width <= BESIDE[0] + 10 and height <= BESIDE[1] + 10:
        return letters > LENGTH
    caption = len(re.sub("<[^>]*>", "", figures[0])) + 60
    return height + 0.7 * letters + 0.28 * caption > 860  # 80 letters are a line of 57 pixels, 125 one of 35 below


def unwrap(text: str) -> list[str]:
    """Undo the line breaks of plots.show: a line goes on where its last word would not have had room."""
    lines = text.strip("\n").split("\n")
    found = lines[:1]
    for before, line in pairwise(lines):
        if len(before) <= LINE and line.strip() and len(before) + 1 + len(line.split()[0]) > LINE:
            found[-1] += " " + line
        else:
            found.append(line)
    return found


def question(cell: NotebookNode) -> tuple[str, str]:
    """Return a question with its choices, and its answer with the reason. Raises: ValueError where there is none."""
    page = "".join(output.get("data", {}).get("text/html", "") for output in cell.get("outputs", []))
    asked, choices, typed = _QUESTION.search(page), _CHOICE.findall(page), _TYPED.search(page)
    right = [(choice, reason) for choice, sign, reason in choices if sign == "✔"]
    if asked is None or not (right or typed):
        raise ValueError("a question that was not run")
    items = "".join(f"<li>{choice}</li>" for choice, *_ in choices)
    text = f'<p class="ask"><strong>Predict.</strong> {asked[1]}</p>' + (f"<ol>{items}</ol>" if items else "")
    answer = f"<strong>{right[0][0]}:</strong> {right[0][1]}" if right else typed[1] if typed else ""
    return f'<div class="question">{text}</div>', f'<div class="answer"><p>{answer}</p></div>'
