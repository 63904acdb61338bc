"""What can be moved in the browser, described as data: the browser builds the control, Python checks what it sends.

Every control has a ``name``, a ``start``, and four methods: ``spec`` describes it to controls.js, ``write`` says how
the browser knows a value, ``read`` is the way back, and ``accept`` checks a value that was set from Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mha_course.errors import require


@dataclass(frozen=True)
class ChoiceControl:
    """One of several values: a ``slider`` over them, a ``choice`` of buttons, or a ``menu``.

    ``words`` are how the values are written, by default as Python writes them. The browser knows a value by its place.
    """

    name: str
    label: str
    kind: str
    options: tuple[Any, ...]
    start: Any
    words: tuple[str, ...] = ()

    def spec(self) -> dict[str, Any]:
        """Return what the browser builds the control from."""
        words = self.words or tuple(map(str, self.options))
        return {"name": self.name, "label": self.label, "kind": self.kind, "words": list(words)}

    def accept(self, place: str, value: Any) -> Any:
        """Return a value that somebody set, or raise ShapeError."""
        expected, rule = f"one of {', '.join(map(repr, self.options))}", f"{self.name} has no such value"
        require(value in self.options, place, rule, expected=expected, got=repr(value))
        return self.options[self.options.index(value)]

    def read(self, place: str, sent: Any) -> Any:
        """Return the value that the browser means by its place, or raise ShapeError."""
        known = isinstance(sent, int) and 0 <= sent < len(self.options)
        rule, expected = f"{self.name} has no such value", f"a number from 0 to {len(self.options) - 1}"
        require(known, place, rule, expected=expected, got=repr(sent))
        return self.options[sent]

    def write(self, value: Any) -> int:
        """Return the place by which the browser knows a value."""
        return self.options.index(value)


class _PlainControl:
    """A control whose values are the same in Python and in the browser."""

    def accept(self, place: str, value: Any) -> Any:
        """Return a value that somebody set, or raise ShapeError."""
        raise NotImplementedError

    def read(self, place: str, sent: Any) -> Any:
        """Return the value that the browser sent, or raise ShapeError."""
        return self.accept(place, sent)

    def write(self, value: Any) -> Any:
        """Return a value as the browser knows it."""
        return value


@dataclass(frozen=True)
class ToggleControl(_PlainControl):
    """Yes or no."""

    name: str
    label: str
    start: bool = False

    def spec(self) -> dict[str, Any]:
        """Return what the browser builds the control from."""
        return {"name": self.name, "label": self.label, "kind": "toggle"}

    def accept(self, place: str, value: Any) -> bool:
        """Return a value that somebody set, or raise ShapeError."""
        known = isinstance(value, bool)
        require(known, place, f"{self.name} is a switch", expected="True or False", got=repr(value))
        return bool(value)


@dataclass(frozen=True)
class NumberControl(_PlainControl):
    """Any number from low to high: a slider whose scale is ``linear``, ``log`` or ``whole``, of whole numbers."""

    name: str
    label: str
    start: float
    low: float
    high: float
    scale: str = "linear"

    def spec(self) -> dict[str, Any]:
        """Return what the browser builds the control from."""
        ends = {"start": self.start, "low": self.low, "high": self.high}
        return {"name": self.name, "label": self.label, "kind": self.scale, **ends}

    def accept(self, place: str, value: Any) -> float:
        """Return a value that somebody set, or raise ShapeError."""
        finite = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        require(finite, place, f"{self.name} is a number", expected="a finite number", got=repr(value))
        return round(value) if self.scale == "whole" else float(value)


@dataclass(frozen=True)
class TextControl(_PlainControl):
    """A line that is typed."""

    name: str
    label: str
    start: str

    def spec(self) -> dict[str, Any]:
        """Return what the browser builds the control from."""
        return {"name": self.name, "label": self.label, "kind": "text", "start": self.start}

    def accept(self, place: str, value: Any) -> str:
        """Return a value that somebody set, or raise ShapeError."""
        require(isinstance(value, str), place, f"{self.name} is a text", expected="a str", got=repr(value))
        return str(value)


@dataclass(frozen=True)
class PaintedControl(_PlainControl):
    """Numbers that are moved in the picture itself: bars that are dragged, cells that are painted.

    ``check`` takes what was sent or set, and returns it as lists, or raises ShapeError.
    """

    name: str
    start: Any
    check: Callable[[Any], Any]

    def spec(self) -> dict[str, Any]:
        """Return what the browser builds the control from: nothing, since the picture has it."""
        return {"name": self.name, "label": "", "kind": "painted"}

    def accept(self, place: str, value: Any) -> Any:
        """Return a value that somebody set, or raise ShapeError."""
        del place
        return self.check(value)


Control = ChoiceControl | ToggleControl | NumberControl | TextControl | PaintedControl
