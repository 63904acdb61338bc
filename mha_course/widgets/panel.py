"""A picture and a sentence that follow a few controls."""

from __future__ import annotations

import asyncio
import html
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets as W
import traitlets
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mha_course import plots
from mha_course.plots.figures import figure_html
from mha_course.plots.words import visible
from mha_course.widgets.base import StaticFallback, error_line, esm

HERE = Path(__file__).parent


class _Helper(anywidget.AnyWidget):
    """Gives the controls beside it what ipywidgets lacks: names to be read aloud, and word of a kernel that is gone."""

    _esm = esm("panel.js", folder=HERE)
    _css = HERE / "panel.css"
    asked = traitlets.Dict().tag(sync=True, echo_update=False)
    answered = traitlets.Int(0).tag(sync=True)

    @traitlets.observe("asked")
    def _answer(self, change: dict[str, Any]) -> None:
        self.answered = change["new"]["number"]


class Panel(StaticFallback, W.VBox):  # type: ignore[misc]
    """Draw anew whenever a control moves.

    Args:
        draw: takes the controls' values by name, returns a picture and the sentence that says what it shows.
        controls: ipywidgets with a ``value``, by the names that draw takes.

    Without a kernel the picture of the last reading shows instead. What ``draw`` raises is shown in place, and
    the next move of a control tries again.
    """

    def __init__(self, draw: Callable[..., tuple[Axes | Figure, str]], **controls: Any) -> None:
        self._draw, self._controls = draw, controls
        self._image, self.text, self._png = W.HTML(), "", b""
        self._due = False  # whether a drawing waits for the main thread
        row = W.HBox(list(controls.values()), layout={"flex_flow": "row wrap"})
        super().__init__([row, _Helper(), self._image])
        self.add_class("mha-panel")
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:  # no kernel: controls then move in the main thread only
            self._loop = None
        for control in controls.values():
            control.observe(self._follow, names="value")
            control.style.description_width = "initial"  # as wide as the word
        self._redraw()

    def png(self) -> bytes:
        """Return the picture of the last reading."""
        return self._png

    def _follow(self, _: Any = None) -> None:
        """Redraw in the main thread: JupyterLab may report a control in another, and matplotlib bears only one."""
        if self._loop is None or threading.current_thread() is threading.main_thread():
            self._redraw()
        elif not self._due:  # else the one that waits will see this value too
            self._due = True
            self._loop.call_soon_threadsafe(self._redraw)

    def _redraw(self) -> None:
        self._due = False
        try:
            with plots.unregistered():
                picture, text = self._draw(**{name: control.value for name, control in self._controls.items()})
                self.text, self._png = visible(" ".join(text.split())), plots.png(picture)
        except Exception as error:  # shown to whoever moved the control
            self._image.value = f"<p>⚠ {html.escape(error_line(error))}</p>"
            return
        self._image.value = figure_html(self._png, self.text)
