"""The base of the labs: controls described as data, a picture of a few panels, and a sentence that
reads it.

The browser asks (``request``) with what was moved; Python answers (``view``) with the numbers to
draw. The browser
has one question on its way at a time, and then asks the newest: a slow answer never piles up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import traitlets
from matplotlib.figure import Figure
from torch import Tensor

from mha_course.errors import ShapeError, require
from mha_course.widgets.base import (
    INTERRUPTED,
    LearnerFunctionError,
    StaticFallbackWidget,
    error_line,
    esm,
    style,
)
from mha_course.widgets.controls import Control
from mha_course.widgets.labs import static
from mha_course.widgets.labs.panels import PALETTES, Panels

HERE = Path(__file__).parent


class Lab(StaticFallbackWidget):
    """Move a control, and see what becomes of the numbers.

    A subclass sets ``question``, gives its controls to ``__init__``, and draws in ``draw``, whose
    arguments are the controls' values by name. ``values`` holds them. Each move calls ``reconcile``
    first, where one control may set others. What ``draw`` raises is shown in place, the last
    picture stays, and the next move tries again.
    """

    needs_kernel = True
    question = ""
    hint = ""
    draw: Callable[..., tuple[Panels, str]]
    _esm = esm("lab.js", folder=HERE)
    _css = style(HERE / "lab.css")
    spec = traitlets.Dict().tag(sync=True)
    request = traitlets.Dict().tag(sync=True)
    view = traitlets.Dict().tag(sync=True)

    def __init__(self, controls: Sequence[Control]) -> None:
        self._controls = {control.name: control for control in controls}
        self.values: dict[str, Any] = {control.name: control.start for control in controls}
        self.text = ""
        self._panels = Panels()
        self._serial = 0
        self._lock = threading.RLock()
        words = {"kind": type(self).__name__, "question": self.question, "hint": self.hint}
        specs = [control.spec() for control in controls]
        super().__init__(
            spec={**words, "controls": specs, "start": self._written(), "palettes": PALETTES}
        )
        self._move({})

    def reconcile(self, values: dict[str, Any], moved: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values after some were moved: where one control sets another, a subclass does
        it here.
        """
        del moved
        return values

    def set(self, **values: Any) -> None:
        """Move controls from Python: ``lab.set(temperature=2)``.

        Raises: ShapeError for a control or a value that there is not.
        """
        unknown = sorted(values.keys() - self._controls.keys())
        place = type(self).__name__
        rule = "no control has this name"
        expected = ", ".join(self._controls)
        require(not unknown, place, rule, expected=expected, got=", ".join(unknown))
        self._move(
            {name: self._controls[name].accept(place, value) for name, value in values.items()}
        )

    def picture(self) -> Figure:
        """Draw the same panels without a browser."""
        return static.figure(self.question, self._panels)

    @traitlets.observe("request")
    def _answer(self, change: dict[str, Any]) -> None:
        """Do what the browser asks; it may report in another thread than the one that runs
        cells.
        """
        asked = change["new"]
        place = type(self).__name__
        try:
            whole = {name: self._whole(name, sent) for name, sent in asked["moved"].items()}
            moved = {name: self._controls[name].read(place, sent) for name, sent in whole.items()}
        except (ShapeError, KeyError, AttributeError) as error:
            return self._reply(asked, f"⚠ {error_line(error)}")
        try:
            self._move(moved, asked)
        except KeyboardInterrupt:  # somebody stopped the kernel: it answers again
            self._reply(asked, f"⚠ {INTERRUPTED}")

    def _whole(self, name: str, sent: Any) -> Any:
        """Return what was sent; None in a list, for what stays as it is, comes from a bar or a tip
        that is dragged.
        """
        before = self.values[name]
        if not (isinstance(sent, list) and isinstance(before, list) and len(sent) == len(before)):
            return sent
        return [old if new is None else new for new, old in zip(sent, before, strict=True)]

    def _move(self, moved: Mapping[str, Any], asked: Mapping[str, Any] | None = None) -> None:
        with self._lock:
            trouble = ""
            self.values = self.reconcile({**self.values, **moved}, moved)
            try:
                self._panels, self.text = self.draw(**self.values)
            except Exception as error:  # shown to whoever moved the control
                trouble = f"⚠ {error_line(error)}"
                self.text = self.text or trouble
            self._reply(asked or {}, trouble)

    def _reply(self, asked: Mapping[str, Any], trouble: str) -> None:
        self._serial += 1
        self.view = {
            "serial": self._serial,
            "asker": asked.get("asker"),
            "number": asked.get("number"),
            "values": self._written(),
            "panels": list(self._panels),
            "text": self.text,
            "trouble": trouble,
        }

    def _written(self) -> dict[str, Any]:
        return {name: control.write(self.values[name]) for name, control in self._controls.items()}


class LearnerFunction:
    """A function that the learner wrote, with the course's own in reserve.

    ``caption`` is the end of the sentence: whose function it was.
    """

    def __init__(
        self, place: str, name: str, function: Any, reference: Callable[..., Tensor]
    ) -> None:
        rule = f"{name} must be a function"
        got = type(function).__name__
        require(function is None or callable(function), place, rule, expected="a callable", got=got)
        self.name = name
        self.function = function
        self.reference = reference
        self.caption = "" if function is None else f" Computed by your {name}."

    def __call__(self, *tensors: Tensor, shape: Sequence[int]) -> Tensor:
        """Return what the function makes of the tensors; where it is not written yet, what the
        course's does.
        """
        if self.function is None:
            return self.reference(*tensors)
        try:
            result = self.function(*tensors)
        except Exception as error:
            raise LearnerFunctionError(f"your {self.name}: {error_line(error)}") from error
        if result is None:
            self.caption = f" Your {self.name} returns nothing yet: computed by the course's."
            return self.reference(*tensors)
        self.caption = f" Computed by your {self.name}."
        if not isinstance(result, Tensor) or tuple(result.shape) != tuple(shape):
            got = tuple(result.shape) if isinstance(result, Tensor) else type(result).__name__
            rule = "the result must be a tensor of the right shape"
            raise ShapeError(f"your {self.name}", rule, expected=str(tuple(shape)), got=str(got))
        return result
