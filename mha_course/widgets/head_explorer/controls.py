"""The controls of a learner's function: its parameters become controls, and controls become its arguments.

Axes: T query tokens, S key tokens.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from mha_course.errors import ShapeError, require
from mha_course.widgets.controls import ChoiceControl, Control, NumberControl, TextControl, ToggleControl
from mha_course.widgets.head_explorer.maps import PLACE

FOUR = ("temperature", "scale", "mask", "sentence")
MASKS = ("none", "causal", "window of 3", "painted")


class RecomputeControls:
    """Turn a function into controls by the names of its parameters, and call it with their values.

    ``sentence`` and ``mask`` are where controls of these names start.

    Raises: ShapeError if a parameter is no control and has no default.
    """

    def __init__(self, function: Callable[..., Any], sentence: str, mask: str) -> None:
        expected, got = "def recompute(temperature): …", type(function).__name__
        require(callable(function), PLACE, "recompute must be a function", expected=expected, got=got)
        self._function = function
        defaults, self._positional = _parameters(function)
        require(bool(defaults), PLACE, "recompute must have a parameter", expected=expected, got="none")
        starts = {"mask": mask}
        if not isinstance(defaults.get("sentence"), str) or not defaults["sentence"]:
            starts["sentence"] = sentence
        self.controls = {name: _control(name, starts.get(name, default)) for name, default in defaults.items()}

    def specs(self) -> list[dict[str, Any]]:
        """Return what the browser builds the controls from."""
        return [control.spec() for control in self.controls.values()]

    def start(self) -> dict[str, Any]:
        """Return where the controls start, as the browser knows it."""
        return {name: control.write(control.start) for name, control in self.controls.items()}

    def read(self, sent: Mapping[str, Any]) -> dict[str, Any]:
        """Return the value of each control; where the browser sent none that makes sense, its start."""
        values = {}
        for name, control in self.controls.items():
            try:
                values[name] = control.read(PLACE, sent.get(name))
            except ShapeError:
                values[name] = control.start
        return values

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """Call the function with a value for each control."""
        named = dict(values)
        first = [named.pop(name) for name in self._positional]
        return self._function(*first, **named)


def _parameters(function: Callable[..., Any]) -> tuple[dict[str, Any], Sequence[str]]:
    """Return the parameters that become controls, with their defaults, and which of them are given by position."""
    by_position = dict.fromkeys(FOUR), FOUR
    try:
        signature = inspect.signature(getattr(function, "forward", function))
    except (TypeError, ValueError):  # some builtins have none
        return by_position
    parameters = [one for one in signature.parameters.values() if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    known = [one for one in parameters if one.name in FOUR or _is_number(one.default)]
    unknown = [one.name for one in parameters if one not in known and one.default is one.empty]
    named = any(one.name in FOUR for one in known)
    if (unknown or not known) and not named and _takes_four(signature):
        return by_position
    if unknown:
        rule = f"recompute has no control for its parameter {unknown[0]!r}"
        expected = f"{', '.join(FOUR)}, or a number as default"
        raise ShapeError(PLACE, rule, expected=expected, got=f"recompute{signature}", fix=f"{unknown[0]}=1.0")
    defaults = {one.name: None if one.default is one.empty else one.default for one in known}
    return defaults, [one.name for one in known if one.kind is one.POSITIONAL_ONLY]


def _is_number(default: Any) -> bool:
    return isinstance(default, (bool, int, float)) and math.isfinite(default)


def _takes_four(signature: inspect.Signature) -> bool:
    try:
        signature.bind(*FOUR)
    except TypeError:
        return False
    return True


def _control(name: str, default: Any) -> Control:
    """Choose a control by the name of a parameter and by its default."""
    if name == "sentence":
        return TextControl(name, name, default)
    if name == "mask":
        return ChoiceControl(name, name, "menu", MASKS, default)
    number = default if isinstance(default, (int, float)) and not isinstance(default, bool) else None
    if name == "temperature":
        start = number if number and 0.1 <= number <= 10 else 1.0
        return NumberControl(name, name, start, 0.1, 10.0, "log")
    if name == "scale":
        start = float(number) if number and number > 0 else 1.0
        return NumberControl(name, name, start, start / 10, start * 10, "log")
    if isinstance(default, bool):
        return ToggleControl(name, name, default)
    if isinstance(default, int):
        least, most = (1, max(8, 4 * default)) if default > 0 else (2 * default, 8 if default == 0 else 0)
        return NumberControl(name, name, default, least, most, "whole")
    low, high = sorted((0.0, 2 * default)) if default else (-1.0, 1.0)
    return NumberControl(name, name, default, low, 1.0 if 0 < default < 1 else high)


def mask_from_choice(choice: str, size: tuple[int, int], painted: Sequence[str] | None, device: Any) -> Any:
    """Make the mask that was chosen, (T, S), bool, True = may attend; None lets all be seen.

    The T queries are the last of S tokens, as with a cache. painted: a string of 0 and 1 for each row, 1 = may attend;
    it may have been painted for other tokens.
    """
    T, S = size
    full = torch.ones(T, S, dtype=torch.bool, device=device)
    late = max(S - T, 0)
    if choice == "causal":
        return full.tril(late)
    if choice == "window of 3":
        return full.tril(late).triu(late - 2)
    if choice != "painted":
        return None
    if painted:
        cells = torch.tensor([[cell == "1" for cell in row[:S]] for row in painted[:T]])
        full[: cells.size(0), : cells.size(1)] = cells.to(full.device)
    return full


def paint(mask: Any) -> list[str]:
    """Write a mask (T, S) as the browser does."""
    return ["".join("01"[int(cell)] for cell in row) for row in np.asarray(mask, dtype=bool)]


def split_result(result: Any) -> tuple[Any, Any, Any]:
    """Take apart what a function returned: weights, and queries and keys where it names them."""
    if not isinstance(result, tuple):
        return result, None, None
    if len(result) not in (2, 3) or not all(_is_tokens(one) for one in result[1:]):
        expected = "weights, (weights, queries) or (weights, queries, keys)"
        got = f"({', '.join(type(one).__name__ for one in result)})"
        fix = "weights alone" if len(result) == 2 else None
        raise ShapeError(PLACE, "a tuple must hold weights, then tokens", expected=expected, got=got, fix=fix)
    return result[0], result[1], result[2] if len(result) == 3 else None


def _is_tokens(names: Any) -> bool:
    """Return whether these are words, or lists of words."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        return False
    return all(isinstance(one, str) or _is_tokens(one) for one in names)
