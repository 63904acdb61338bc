"""What can be moved in the browser, as data: controls.js builds it, Python checks what it sends."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from mha_course.errors import require


class Control:
    """Something with a name that can be moved, and the value that it starts with.

    ``kind`` is by which controls.js knows how to build it, ``sent`` what else the browser builds it
    from.
    """

    name: str
    label: str
    kind: str
    start: Any
    sent: ClassVar[tuple[str, ...]] = ()

    def spec(self) -> dict[str, Any]:
        """Return what the browser builds the control from."""
        return {name: getattr(self, name) for name in ("name", "label", "kind", *self.sent)}

    def accept(self, place: str, value: Any) -> Any:
        """Return a value that was set from Python, or raise ShapeError."""
        raise NotImplementedError

    def read(self, place: str, sent: Any) -> Any:
        """Return the value that the browser means by what it sent, or raise ShapeError."""
        return self.accept(place, sent)

    def write(self, value: Any) -> Any:
        """Return a value as the browser knows it."""
        return value


@dataclass(frozen=True)
class ChoiceControl(Control):
    """One of several values: a ``slider`` over them, a ``choice`` of buttons, or a ``menu``.

    ``words`` are how the values are written, by default as Python writes them. The browser knows a
    value by its place.
    """

    name: str
    label: str
    kind: str
    options: tuple[Any, ...]
    start: Any
    words: tuple[str, ...] = ()

    def accept(self, place: str, value: Any) -> Any:
        """Return the option that equals a value, or raise ShapeError."""
        expected = f"one of {', '.join(map(repr, self.options))}"
        rule = f"{self.name} has no such value"
        require(value in self.options, place, rule, expected=expected, got=repr(value))
        return self.options[self.options.index(value)]

    def read(self, place: str, sent: Any) -> Any:
        """Return the option at a place, or raise ShapeError."""
        valid = isinstance(sent, int) and 0 <= sent < len(self.options)
        rule = f"{self.name} has no such value"
        expected = f"a number from 0 to {len(self.options) - 1}"
        require(valid, place, rule, expected=expected, got=repr(sent))
        return self.options[sent]

    def write(self, value: Any) -> int:
        """Return the place of an option."""
        return self.options.index(value)

    def spec(self) -> dict[str, Any]:
        """Return what the browser builds the control from."""
        return {**super().spec(), "words": list(self.words or map(str, self.options))}


@dataclass(frozen=True)
class ToggleControl(Control):
    """Yes or no."""

    name: str
    label: str
    start: bool = False
    kind: str = "toggle"

    def accept(self, place: str, value: Any) -> bool:
        """Return True or False as they are, or raise ShapeError."""
        rule = f"{self.name} is a switch"
        valid = isinstance(value, bool)
        require(valid, place, rule, expected="True or False", got=repr(value))
        return bool(value)


@dataclass(frozen=True)
class NumberControl(Control):
    """A number from low to high; the scale is ``linear``, ``log`` or ``whole`` (whole numbers)."""

    name: str
    label: str
    start: float
    low: float
    high: float
    kind: str = "linear"
    sent = ("start", "low", "high")

    def accept(self, place: str, value: Any) -> float:
        """Return a finite number, rounded where the scale is ``whole``, or raise ShapeError."""
        number = isinstance(value, int | float) and not isinstance(value, bool)
        finite = number and math.isfinite(value)
        rule = f"{self.name} is a number"
        require(finite, place, rule, expected="a finite number", got=repr(value))
        return round(value) if self.kind == "whole" else float(value)


@dataclass(frozen=True)
class TextControl(Control):
    """A line that is typed."""

    name: str
    label: str
    start: str
    kind: str = "text"
    sent = ("start",)

    def accept(self, place: str, value: Any) -> str:
        """Return a text as it is, or raise ShapeError."""
        rule = f"{self.name} is a text"
        require(isinstance(value, str), place, rule, expected="a str", got=repr(value))
        return str(value)


@dataclass(frozen=True)
class PaintedControl(Control):
    """Numbers that are moved in the picture itself: bars that are dragged, cells that are painted.

    ``check`` takes what was sent or set, and returns it as lists, or raises ShapeError.
    """

    name: str
    start: Any
    check: Callable[[Any], Any]
    label: str = ""
    kind: str = "painted"

    def accept(self, place: str, value: Any) -> Any:
        """Return what ``check`` makes of a value."""
        del place
        return self.check(value)
