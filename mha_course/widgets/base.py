"""What all widgets share: how they talk to the browser, and their static pictures.

Options and state go down to the browser, one event at a time comes up; see protocol.js.
"""

from __future__ import annotations

import base64
import json
import os
import re
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mha_course import plots
from mha_course.colours import css_variables
from mha_course.plots.figures import SITE, figure_html
from mha_course.widgets.controls import Control
from mha_course.widgets.learner_function import INTERRUPTED, error_line

HERE = Path(__file__).parent
# what draws a widget on a slide or a page of the site, where there is no kernel
DECK_VIEW = "application/vnd.mha-course.deck+json"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_IMPORT = re.compile(r'^import (\{[^}]*\}) from "([^"]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const|let) (\w+))", re.MULTILINE)
_DEFAULT = re.compile(r"^export default .*$", re.MULTILINE)


def answer_script(name: str, *, folder: Path) -> str:
    """Return a script as one expression, whose value is what the script exports."""
    return f"(() => {{\n{esm(name, folder=folder).replace('export default', 'return')}\n}})()"


def esm(name: str, *, folder: Path) -> str:
    """Join a script and all that it imports to the one module that a widget may have.

    Each imported file becomes a function that is called once and returns what the file exports, so
    two files may use the same names for themselves.
    """
    variables: dict[Path, str] = {}
    modules: list[str] = []

    def linked(file: Path) -> str:
        text = file.read_text(encoding="utf-8")
        return _IMPORT.sub(
            lambda match: f"const {match[1]} = {module((file.parent / match[2]).resolve())};", text
        )

    def module(file: Path) -> str:
        """Put a file before all that imports it, and return the variable that has its exports."""
        if file not in variables:
            text = _DEFAULT.sub("", linked(file))
            variables[file] = f"{file.stem}_{len(variables)}"
            body = _EXPORT.sub("", text)
            exports = ", ".join(_EXPORT.findall(text))
            modules.append(
                f"const {variables[file]} = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();"
            )
        return variables[file]

    main = _EXPORT.sub("", linked(folder / name))
    return "\n".join([*modules, main])


def style(sheet: Path) -> str:
    """Join the style sheet of a widget to the colours and to what all pictures share."""
    texts = [file.read_text(encoding="utf-8") for file in (HERE / "picture.css", sheet)]
    return "\n".join([css_variables(), *texts])


def standalone(widget: Any, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return what draws a widget without a kernel: name, script, style, and state with base64.

    Args: overrides are what ``without_kernel`` of the widget returned.
    """
    traits = {name: getattr(widget, name) for name in widget.keys if not name.startswith("_")}
    state = json.dumps({**traits, **overrides}, default=_encoded)
    scripts = {"esm": str(widget._esm), "css": str(widget._css)}
    return {"name": type(widget).__name__, **scripts, "state": state}


def _encoded(value: Any) -> dict[str, str] | None:
    """Write bytes as JSON can; a script needs nothing else that is not JSON, such as a layout."""
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else None


class CourseWidget(anywidget.AnyWidget):
    """A picture that answers to controls; if it cannot, a static figure shows, with ``text``.

    ``options`` do not change. ``state`` is what is drawn: its ``serial`` is that of the event it
    answers, ``values`` are those of the controls, and ``trouble`` says what went wrong; the picture
    is then the last good one. ``event`` is what the browser sends, with a serial number.

    A subclass sets ``_esm`` and ``_css`` to the files next to it, and ``text`` (one sentence). It
    does what an event asks in ``_receive``, and says in ``_drawn`` what there is to draw. The
    static figure is ``static`` (HTML that needs no script and no style sheet), or what ``picture``
    draws; on the site a widget is live unless ``without_kernel`` returns None.
    """

    text: str
    static: str = ""
    options = traitlets.Dict().tag(sync=True)
    state = traitlets.Dict({"serial": 0, "trouble": "", "values": {}}).tag(sync=True)
    event = traitlets.Dict().tag(sync=True, echo_update=False)

    # ipywidgets 7 defines this method, and IPython prefers it to _repr_mimebundle_: the static
    # picture would be lost.
    _ipython_display_ = None

    def __init__(self, controls: Iterable[Control] = (), **traits: Any) -> None:
        self._controls = {control.name: control for control in controls}
        self.values = {name: control.start for name, control in self._controls.items()}
        self._lock = threading.RLock()  # events may come in another thread than the one of cells
        super().__init__(**traits)

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {self.text}"

    def _receive(self, event: Mapping[str, Any]) -> None:
        """Do what the browser asks; what this raises is shown in place."""

    def _drawn(self) -> dict[str, Any]:
        """Return what the state holds besides the controls: what the browser draws."""
        return {}

    def _state_after(self, event: Mapping[str, Any], trouble: str = "") -> dict[str, Any]:
        serial = event.get("serial", self.state["serial"])
        controls = self._controls.items()
        values = {name: control.write(self.values[name]) for name, control in controls}
        return {"serial": serial, "trouble": trouble, "values": values, **self._drawn()}

    def _show(self, event: Mapping[str, Any]) -> None:
        """Do what an event asks, and show what came of it, or what went wrong."""
        with self._lock:
            trouble = ""
            try:
                self._receive(event)
            except Exception as error:
                trouble = error_line(error)
            self.state = self._state_after(event, trouble)

    @traitlets.observe("event")
    def _answer(self, change: dict[str, Any]) -> None:
        try:
            self._show(change["new"])
        except KeyboardInterrupt:  # the kernel was interrupted, and must answer again
            self.state = self._state_after(change["new"], INTERRUPTED)

    def without_kernel(self) -> dict[str, Any] | None:
        """Return what a page without a kernel needs besides; None if only a kernel can answer.

        Its ``answerer``, if there is one, answers events: see without_kernel.js.
        """
        return {}

    def picture(self) -> Axes | Figure:
        """Draw what a page without JavaScript shows."""
        raise NotImplementedError(f"{type(self).__name__} needs a static picture")

    def png(self) -> bytes:
        """Return the static picture as PNG."""
        with plots.unregistered():
            return plots.png(self.picture())

    def svg(self) -> bytes:
        """Return the static picture as SVG, for light and dark pages."""
        with plots.unregistered():
            return plots.svg(self.picture())

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        view = {"version_major": 2, "version_minor": 1, "model_id": self.model_id}
        data: dict[str, Any] = {"text/plain": repr(self), WIDGET_VIEW: view}
        overrides = self.without_kernel() if SITE in os.environ else None
        if overrides is not None:
            data[DECK_VIEW] = standalone(self, overrides)
        data["text/html"] = self.static or figure_html(self.svg(), self.text)
        return data, {}
