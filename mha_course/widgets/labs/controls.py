"""What can be moved in a lab, described as data: the browser builds the control, Python checks what it sends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mha_course.errors import ShapeError


@dataclass(frozen=True)
class Pick:
    """One of several values: a ``slider`` over them, a ``choice`` of buttons, or a ``menu``.

    ``words`` are how the values are written, by default as Python writes them.
    """

    name: str
    label: str
    kind: str
    options: tuple[Any, ...]
    start: Any
    words: tuple[str, ...] = ()

    def accept(self, place: str, value: Any) -> Any:
        """Return a value that somebody set, or raise ShapeError."""
        if value not in self.options:
            expected, rule = f"one of {', '.join(map(repr, self.options))}", f"{self.name} has no such value"
            raise ShapeError(place, rule, expected=expected, got=repr(value))
        return self.options[self.options.index(value)]

    def read(self, place: str, sent: Any) -> Any:
        """Return the value that the browser means by its number."""
        if not isinstance(sent, int) or not 0 <= sent < len(self.options):
            rule, expected = f"{self.name} has no such value", f"a number from 0 to {len(self.options) - 1}"
            raise ShapeError(place, rule, expected=expected, got=repr(sent))
        return self.options[sent]

    def write(self, value: Any) -> Any:
        """Return what stands for a value in the browser."""
        return self.options.index(value)

    def face(self) -> dict[str, Any]:
        """Return what the browser builds the control from."""
        words = self.words or tuple(map(str, self.options))
        return {"name": self.name, "label": self.label, "kind": self.kind, "words": list(words)}


@dataclass(frozen=True)
class Switch:
    """Yes or no."""

    name: str
    label: str
    start: bool = False

    def accept(self, place: str, value: Any) -> Any:
        """Return a value that somebody set, or raise ShapeError."""
        if not isinstance(value, bool):
            raise ShapeError(place, f"{self.name} is a switch", expected="True or False", got=repr(value))
        return value

    def read(self, place: str, sent: Any) -> Any:
        """Return what the browser sent."""
        return self.accept(place, sent)

    def write(self, value: Any) -> Any:
        """Return what stands for a value in the browser."""
        return value

    def face(self) -> dict[str, Any]:
        """Return what the browser builds the control from."""
        return {"name": self.name, "label": self.label, "kind": "switch"}


@dataclass(frozen=True)
class Drawn:
    """Numbers that are moved in the picture itself: bars that are dragged, cells that are painted.

    ``check`` takes what was sent or set, and returns it as lists, or raises ShapeError.
    """

    name: str
    start: Any
    check: Callable[[Any], Any]

    def accept(self, _place: str, value: Any) -> Any:
        """Return a value that somebody set, or raise ShapeError."""
        return self.check(value)

    def read(self, _place: str, sent: Any) -> Any:
        """Return what the browser sent."""
        return self.check(sent)

    def write(self, value: Any) -> Any:
        """Return what stands for a value in the browser."""
        return value

    def face(self) -> dict[str, Any]:
        """Return what the browser builds the control from: nothing, since the picture has it."""
        return {"name": self.name, "label": "", "kind": "picture"}


Control = Pick | Switch | Drawn
