"""The base of all widgets: communication with the browser, and static pictures.

Options and state go to the browser, and one event at a time comes back; see protocol.js.
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
# what draws a widget on slides and pages, where there is no kernel
DECK_VIEW = "application/vnd.mha-course.deck+json"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_IMPORT = re.compile(r'^import (\{[^}]*\}) from "([^"]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const|let) (\w+))", re.MULTILINE)
_DEFAULT = re.compile(r"^export default .*$", re.MULTILINE)


def answer_script(name: str, *, folder: Path) -> str:
    """Return a script as one expression whose value is the script's exports."""
    return f"(() => {{\n{esm(name, folder=folder).replace('export default', 'return')}\n}})()"


def esm(name: str, *, folder: Path) -> str:
    """Join a script and all its imports into the one module that a widget may have.

    Each imported file becomes a function, called once, that returns the file's exports, so that two
    files may use the same local names.
    """
    variables: dict[Path, str] = {}
    modules: list[str] = []

    def linked(file: Path) -> str:
        text = file.read_text(encoding="utf-8")
        return _IMPORT.sub(
            lambda match: f"const {match[1]} = {module((file.parent / match[2]).resolve())};", text
        )

    def module(file: Path) -> str:
        """Put a file before those that import it, and return the variable for its exports."""
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
    """Join a widget's style sheet with the colours and the shared styles."""
    texts = [file.read_text(encoding="utf-8") for file in (HERE / "picture.css", sheet)]
    return "\n".join([css_variables(), *texts])


def standalone(widget: Any, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return what draws a widget without a kernel: name, script, style, and state in base64.

    Args: overrides are the result of the widget's ``without_kernel``.
    """
    traits = {name: getattr(widget, name) for name in widget.keys if not name.startswith("_")}
    state = json.dumps({**traits, **overrides}, default=_encoded)
    scripts = {"esm": str(widget._esm), "css": str(widget._css)}
    return {"name": type(widget).__name__, **scripts, "state": state}


def _encoded(value: Any) -> dict[str, str] | None:
    """Encode bytes for JSON; drop anything else JSON lacks, such as a layout."""
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else None


class CourseWidget(anywidget.AnyWidget):
    """An interactive picture, or else a static figure, with ``text``.

    ``options`` do not change. ``state`` is what is drawn: its ``serial`` is that of the event it
    answers, ``values`` are the controls', and ``trouble`` says what went wrong; the picture is then
    the last good one. ``event`` is what the browser sends, with a serial number.

    A subclass sets ``_esm`` and ``_css`` to the files next to it, and ``text`` (one sentence). It
    handles an event in ``_receive``, and returns what to draw in ``_drawn``. The static figure is
    ``static`` (HTML that needs no script and no style sheet), or what ``picture`` draws; on the
    site a widget is live unless ``without_kernel`` returns None.
    """

    text: str
    static: str = ""
    options = traitlets.Dict().tag(sync=True)
    state = traitlets.Dict({"serial": 0, "trouble": "", "values": {}}).tag(sync=True)
    event = traitlets.Dict().tag(sync=True, echo_update=False)

    # ipywidgets 7 defines this method, and IPython prefers it to _repr_mimebundle_, which would
    # lose the static picture.
    _ipython_display_ = None

    def __init__(self, controls: Iterable[Control] = (), **traits: Any) -> None:
        self._controls = {control.name: control for control in controls}
        self.values = {name: control.start for name, control in self._controls.items()}
        self._lock = threading.RLock()  # events may come in a different thread from cells
        super().__init__(**traits)

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {self.text}"

    def _receive(self, event: Mapping[str, Any]) -> None:
        """Handle the browser's event; errors are shown in place."""

    def _drawn(self) -> dict[str, Any]:
        """Return the state apart from the controls: what the browser draws."""
        return {}

    def _state_after(self, event: Mapping[str, Any], trouble: str = "") -> dict[str, Any]:
        serial = event.get("serial", self.state["serial"])
        controls = self._controls.items()
        values = {name: control.write(self.values[name]) for name, control in controls}
        return {"serial": serial, "trouble": trouble, "values": values, **self._drawn()}

    def _show(self, event: Mapping[str, Any]) -> None:
        """Handle an event, and show the result or the error."""
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
        except KeyboardInterrupt:  # the kernel was interrupted; the next event must work
            self.state = self._state_after(change["new"], INTERRUPTED)

    def without_kernel(self) -> dict[str, Any] | None:
        """Return what a page needs to work without a kernel; None if only a kernel can answer.

        Its ``answerer``, if any, answers events: see without_kernel.js.
        """
        return {}

    def picture(self) -> Axes | Figure:
        """Draw the picture for a page without JavaScript."""
        raise NotImplementedError(f"{type(self).__name__} needs a static picture")

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
