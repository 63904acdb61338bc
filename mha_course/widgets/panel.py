"""A picture and a sentence that follow a few controls, redrawn by Python."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import traitlets
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mha_course import plots
from mha_course.errors import require
from mha_course.markup import visible
from mha_course.plots.figures import display_width, image_html
from mha_course.widgets.controls import Control
from mha_course.widgets.labs.lab import Lab
from mha_course.widgets.labs.panels import Panels

FEW = 8  # values shown as buttons; more become a slider
PICTURES = 150  # stored in a page without a kernel
WHOLE = 480  # pixels up to which a picture shrinks to fit a phone; a wider one scrolls, to be read


class Panel(Lab):
    """Redraw whenever a control moves.

    Args:
        draw: takes the controls' values by name, returns a picture and a sentence about it.
        controls: by name, the values to choose from, starting with the first; a mapping from words
            to values is a menu.

    Without a kernel, the last picture is shown; the site has all of them if there are few. If
    ``draw`` raises, the error is shown in place, and the next move tries again.
    """

    def __init__(
        self,
        draw: Callable[..., tuple[Axes | Figure, str]],
        **controls: Sequence[Any] | Mapping[str, Any],
    ) -> None:
        rule = "draw must be callable"
        expected = "a function that returns a picture and a sentence"
        require(callable(draw), "Panel", rule, expected=expected, got=repr(draw)[:60])
        self._draw = draw
        self._svg = b""
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:  # no kernel: then controls move only in the main thread
            self._loop = None
        listed = [_control(name, values) for name, values in controls.items()]
        super().__init__(listed)

    def without_kernel(self) -> dict[str, Any] | None:
        """Return the pictures of all states, if there are few."""
        few = prod(len(control.options) for control in self._controls.values()) <= PICTURES
        shown = self._svg
        try:
            return super().without_kernel() if few else None
        finally:
            self._svg = shown  # not what the other states look like

    def svg(self) -> bytes:
        """Return the picture that is shown."""
        return self._svg or super().svg()

    def draw(self, **values: Any) -> tuple[Panels, str]:
        """Call the function; return its picture as the only panel, and its sentence."""
        with plots.unregistered():
            picture, sentence = self._draw(**values)
            text = visible(" ".join(sentence.split()))
            self._svg = plots.svg(picture)
        width = display_width(self._svg)
        least = 0 if width <= WHOLE else width  # see lab.css
        html = f'<div style="--width: {least}px">{image_html(self._svg, text)}</div>'
        return ({"kind": "picture", "title": "", "note": "", "html": html},), text

    @traitlets.observe("event")
    def _answer(self, change: dict[str, Any]) -> None:
        """Draw in the main thread, as matplotlib must: JupyterLab may report in another."""
        if self._loop is None or threading.current_thread() is threading.main_thread():
            super()._answer(change)
        else:
            self._loop.call_soon_threadsafe(super()._answer, change)


def _control(name: str, values: Sequence[Any] | Mapping[str, Any]) -> Control:
    label = name.replace("_", " ")
    if isinstance(values, Mapping):
        options = tuple(values.values())
        return Control(name, label, "menu", options[0], options, tuple(values))
    options = tuple(values)
    if len(options) <= FEW:
        return Control(name, label, "choice", options[0], options)
    return Control(name, label, "slider", options[0], options)
