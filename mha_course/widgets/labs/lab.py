"""The base of the labs: controls described as data, panels, and a sentence about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

from mha_course.errors import ShapeError, require
from mha_course.plots.scales import palettes
from mha_course.widgets.base import CourseWidget, esm, style
from mha_course.widgets.controls import Control
from mha_course.widgets.labs import states, static
from mha_course.widgets.labs.panels import Panels

HERE = Path(__file__).parent


class Lab(CourseWidget):
    """Move a control, and see what happens to the numbers.

    A subclass sets ``question``, passes its controls to ``__init__``, and draws in ``draw``, whose
    arguments are the controls' values by name, also in ``values``. Each move first calls
    ``reconcile``, where one control may set others. If ``draw`` raises, the error is shown in
    place, the last picture stays, and the next move tries again.
    """

    question = ""
    hint = ""
    keys_hint = ""  # follows the hint, except on touch screens
    draw: Callable[..., tuple[Panels, str]]
    _esm = esm("lab.js", folder=HERE)
    _css = style(HERE / "lab.css")

    def __init__(self, controls: Sequence[Control]) -> None:
        self.text = ""
        self._panels = Panels()
        options = {
            "kind": type(self).__name__,
            "question": self.question,
            "hint": self.hint,
            "keys": self.keys_hint,
            "controls": [control.spec() for control in controls],
            "start": {control.name: control.write(control.start) for control in controls},
            "palettes": palettes(),
        }
        super().__init__(controls, options=options)
        self._show({"moved": {}})
        self.text = self.text or f"⚠ {self.state['trouble']}"

    def reconcile(self, values: dict[str, Any], moved: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values after a move; a subclass may let one control set another."""
        del moved
        return values

    def set(self, **values: Any) -> None:
        """Move controls from Python: ``lab.set(temperature=2)``.

        Raises: ShapeError for an unknown control or value.
        """
        unknown = sorted(values.keys() - self._controls.keys())
        place = type(self).__name__
        rule = "no control has this name"
        expected = ", ".join(self._controls)
        require(not unknown, place, rule, expected=expected, got=", ".join(unknown))
        moved = {}
        for name, value in values.items():
            control = self._controls[name]
            moved[name] = control.write(control.accept(place, value))
        self._show({"moved": moved})

    def without_kernel(self) -> dict[str, Any] | None:
        """Return a compressed table of all states; None if there are too many."""
        if not states.are_few(self._controls.values()):
            return None
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # with many small products, threads would only wait for each other
        try:
            return {"answerer": states.packed(self, self._controls)}
        finally:
            torch.set_num_threads(threads)

    def picture(self) -> Figure:
        """Draw the same panels without a browser."""
        return static.figure(self.question, self._panels)

    def _receive(self, event: Mapping[str, Any]) -> None:
        place = type(self).__name__
        moved = {}
        for name, sent in event["moved"].items():
            moved[name] = self._controls[name].read(place, sent)
        self.values = self.reconcile({**self.values, **moved}, moved)
        self._panels, self.text = self.draw(**self.values)

    def _drawn(self) -> dict[str, Any]:
        return {"panels": list(self._panels), "text": self.text}


class PageLab(Lab):
    """A lab whose own script computes all states, with a kernel or without; Python draws the first.

    ``state`` follows the browser.
    """

    def set(self, **values: Any) -> None:
        """Raise ShapeError: the controls move in the browser only."""
        rule = "its controls move in the browser only"
        raise ShapeError(type(self).__name__, rule, expected="a move there", got=repr(values))

    def without_kernel(self) -> dict[str, Any]:
        """Return nothing: the script needs no table of states."""
        return {}
