"""What pictures drawn in the browser share: a static picture, and a sentence that says what they
show.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mha_course import plots
from mha_course.errors import SentenceError, ShapeError
from mha_course.markup import visible
from mha_course.plots.figures import figure_html

HERE = Path(__file__).parent
INTERRUPTED = "your function was interrupted; move a control to call it again"
COURSES = "These numbers are the course's."
YOURS = "These numbers are your function's."
# what draws a widget on a slide, where there is no kernel
DECK_VIEW = "application/vnd.mha-course.deck+json"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
MOST = 300  # letters of an error
_IMPORT = re.compile(r'^import (\{[^}]*\}) from "([^"]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const|let) (\w+))", re.MULTILINE)
_DEFAULT = re.compile(r"^export default .*$", re.MULTILINE)


def esm(name: str, *, folder: Path) -> str:
    """Join a script and all that it imports to the one module that a widget may have.

    A file that is imported becomes a function that is called once, and an import takes names from
    what it returned:
    so files may use the same names for themselves, as they may where node or eslint reads them.
    """
    variables: dict[Path, str] = {}
    parts: list[str] = []

    def linked(file: Path) -> str:
        """Return the text of a file, its imports taken from what stands before it."""
        text = file.read_text(encoding="utf-8")
        return _IMPORT.sub(
            lambda found: f"const {found[1]} = {module((file.parent / found[2]).resolve())};", text
        )

    def module(file: Path) -> str:
        """Put a file that is imported before all that needs it, and return the variable that holds
        what it exports.
        """
        if file not in variables:
            text = _DEFAULT.sub("", linked(file))
            variables[file] = f"{file.stem}_{len(variables)}"
            body = _EXPORT.sub("", text)
            exports = ", ".join(_EXPORT.findall(text))
            parts.append(
                f"const {variables[file]} = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();"
            )
        return variables[file]

    main = _EXPORT.sub("", linked(folder / name))
    return "\n".join([*parts, main])


def style(sheet: Path) -> str:
    """Join the style sheet of a widget to what all share."""
    return "\n".join(file.read_text(encoding="utf-8") for file in (HERE / "picture.css", sheet))


def alone(widget: Any) -> dict[str, Any]:
    """Return what draws a widget without a kernel: its name, script, style and state, in which
    bytes are base64.
    """
    names = [name for name in widget.keys if not name.startswith("_")]
    state = json.dumps({name: getattr(widget, name) for name in names}, default=_encoded)
    return {
        "name": type(widget).__name__,
        "esm": str(widget._esm),
        "css": str(widget._css),
        "state": state,
    }


def _encoded(value: Any) -> dict[str, str] | None:
    """Write bytes as JSON can; a script has no use for what else is no JSON, such as the layout of
    ipywidgets.
    """
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else None


class LearnerFunctionError(Exception):
    """Something that a learner's function raised; its text says which function, and what."""


def error_line(error: Exception) -> str:
    """Say in one line what went wrong; an error of ours says it without its kind."""
    if isinstance(error, SentenceError):
        near = (
            f"; near ones: {error.fix}"
            if error.fix
            else f" (expected {error.expected}, got {error.got})"
        )
        words = error.rule + near
    else:
        words = " ".join(str(error).split())
        words = (
            words
            if isinstance(error, ShapeError | LearnerFunctionError)
            else f"{type(error).__name__}: {words}"
        )
    return visible(words if len(words) <= MOST else f"{words[: MOST - 1]}…")


class StaticFallbackWidget(anywidget.AnyWidget):
    """A picture that answers to controls; where it cannot, a static figure shows, whose caption is
    ``text``.

    A subclass sets ``_esm`` and ``_css`` to the files beside it, and ``text`` (one sentence) before
    it is displayed. The static figure is ``static`` (HTML that needs no script and no style sheet),
    or what ``picture`` draws; on a slide it is live if it ``needs_kernel`` not.
    """

    text: str
    static: str = ""
    needs_kernel = False

    # ipywidgets 7 defines this method, and IPython prefers it to _repr_mimebundle_: the static
    # picture would be lost.
    _ipython_display_ = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {self.text}"

    def picture(self) -> Axes | Figure:
        """Draw the static picture."""
        raise NotImplementedError(f"{type(self).__name__} needs a static picture")

    def png(self) -> bytes:
        """Return the static picture as PNG."""
        with plots.unregistered():
            return plots.png(self.picture())

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        view = {"version_major": 2, "version_minor": 1, "model_id": self.model_id}
        data: dict[str, Any] = {"text/plain": repr(self), WIDGET_VIEW: view}
        if plots.figures.style.get() is plots.figures.SLIDE and not self.needs_kernel:
            return data | {DECK_VIEW: alone(self)}, {}
        return data | {"text/html": self.static or figure_html(self.png(), self.text)}, {}


class RecomputingWidget(StaticFallbackWidget):
    """Numbers that a learner's function may replace: the browser asks with a serial number, and so
    it is answered.

    A subclass keeps the function in ``_recompute``, which it calls in ``_call``; ``_keep`` takes
    what it returned, ``_message`` is what the browser draws, ``_describe`` sets ``text``. What goes
    wrong is said in place, and the last picture stays.
    """

    _recompute: Any = None
    _call: Callable[[dict[str, Any]], Any]
    _keep: Callable[[Any], None]
    _message: Callable[[], dict[str, Any]]
    _describe: Callable[[], None]
    expected = ""  # what the function returns
    packet = traitlets.Dict().tag(sync=True)
    trouble = traitlets.Dict({"serial": 0, "text": ""}).tag(sync=True)
    options = traitlets.Dict().tag(sync=True)  # what does not change
    request = traitlets.Dict({"serial": 0}).tag(sync=True, echo_update=False)

    def _try(self, request: dict[str, Any]) -> str:
        """Call the function and keep what it returned; return what went wrong, or nothing."""
        try:
            result = self._call(request)
        except SentenceError as error:  # while somebody types
            return error_line(error)
        except Exception as error:
            return f"your function: {error_line(error)}"
        if result is None:
            return f"your function returns nothing yet (None): expected {self.expected}"
        try:
            self._keep(result)
        except Exception as error:
            return (
                f"your function returned something else: "
                f"{error_line(error).removeprefix(f'{type(self).__name__}: ')}"
            )
        return ""

    @traitlets.observe("request")
    def _answer(self, change: dict[str, Any]) -> None:
        request = change["new"]
        if self._recompute is None or not request.get("serial"):
            return  # nothing was asked
        try:
            trouble = self._try(request)
        except KeyboardInterrupt:  # somebody stopped the kernel: it answers again
            trouble = INTERRUPTED
        if trouble:
            self.trouble = {"serial": request["serial"], "text": trouble}
        else:
            self._describe()
            self.packet = {**self._message(), "serial": request["serial"]}
