"""Browser controls as data: controls.js builds them, Python checks what they send."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from mha_course.errors import require

Kind = Literal[
    "slider", "choice", "menu", "toggle", "linear", "log", "whole", "text", "painted"
]  # fmt: skip
# What a control may hold, where it is no number.
TYPES: dict[str, tuple[Any, str]] = {"toggle": (bool, "True or False"), "text": (str, "a str")}


@dataclass(frozen=True)
class Control:
    """A named control and its initial value.

    Args:
        kind: a ``slider`` over options, a ``choice`` of buttons or a ``menu``; a ``toggle``; a
            number on a ``linear`` or a ``log`` scale, or a ``whole`` one; a line of ``text``; or
            ``painted`` in the picture itself: dragged bars or filled cells.
        options: the values of a slider, choice or menu, identified in the browser by index.
        words: the options' labels, by default as Python writes them.
        low, high: the range of a number.
    """

    name: str
    label: str
    kind: Kind
    start: Any
    options: tuple[Any, ...] = ()
    words: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 1.0

    @property
    def values(self) -> tuple[Any, ...]:
        """Return all possible values, or none if they cannot be listed."""
        return (False, True) if self.kind == "toggle" else self.options

    def spec(self) -> dict[str, Any]:
        """Return the browser's data for the control."""
        spec: dict[str, Any] = {"name": self.name, "label": self.label, "kind": self.kind}
        if self.options:
            return spec | {"words": list(self.words or map(str, self.options))}
        if self.kind == "text":
            return spec | {"start": self.start}
        if self.kind in ("linear", "log", "whole"):
            return spec | {"start": self.start, "low": self.low, "high": self.high}
        return spec

    def accept(self, place: str, value: Any) -> Any:
        """Return a value set from Python, or raise ShapeError."""
        if self.options:
            expected = f"one of {', '.join(map(repr, self.options))}"
            rule = f"{self.name} has no such value"
            require(value in self.options, place, rule, expected=expected, got=repr(value))
            return self.options[self.options.index(value)]
        types, expected = TYPES.get(self.kind, ((int, float), "a finite number"))
        fits = isinstance(value, types) and (types is bool or not isinstance(value, bool))
        fits = fits and (isinstance(value, str) or math.isfinite(value))
        rule = f"{self.name} has no such value"
        require(fits, place, rule, expected=expected, got=repr(value))
        if self.kind in ("toggle", "text"):
            return value
        return round(value) if self.kind == "whole" else float(value)

    def read(self, place: str, sent: Any) -> Any:
        """Decode a value sent by the browser, or raise ShapeError."""
        if not self.options:
            return self.accept(place, sent)
        valid = isinstance(sent, int) and 0 <= sent < len(self.options)
        rule = f"{self.name} has no such value"
        expected = f"a number from 0 to {len(self.options) - 1}"
        require(valid, place, rule, expected=expected, got=repr(sent))
        return self.options[sent]

    def write(self, value: Any) -> Any:
        """Encode a value for the browser."""
        return self.options.index(value) if self.options else value
