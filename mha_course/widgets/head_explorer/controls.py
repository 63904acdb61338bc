"""The controls of a learner's function: its parameters become controls, and controls become its
arguments.

Axes: T query tokens, S key tokens.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mha_course.errors import ShapeError, require
from mha_course.widgets.controls import (
    ChoiceControl,
    Control,
    NumberControl,
    TextControl,
    ToggleControl,
)
from mha_course.widgets.head_explorer.maps import PLACE

NAMES = ("temperature", "scale", "mask", "sentence")
MASKS = ("none", "causal", "window of 3")
GIVEN = "as given"  # a mask that is none of these


def controls_of(function: Any, sentence: str, mask: str) -> list[Control]:
    """Choose a control for each parameter of a function by its name; ``sentence`` and ``mask`` are
    where two start.

    Raises: ShapeError if a parameter is no control and has no default.
    """
    expected = "def recompute(temperature): …"
    got = type(function).__name__
    require(callable(function), PLACE, "recompute must be a function", expected=expected, got=got)
    defaults = _parameters(function)
    require(bool(defaults), PLACE, "recompute must have a parameter", expected=expected, got="none")
    starts = {**defaults, "mask": mask, "sentence": defaults.get("sentence") or sentence}
    return [_control(name, starts[name]) for name in defaults]


def read_values(controls: Mapping[str, Control], sent: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that were sent; one that makes no sense is that of the start."""
    values = {}
    for name in controls.keys() & sent.keys():
        try:
            values[name] = controls[name].read(PLACE, sent[name])
        except ShapeError:
            values[name] = controls[name].start
    return values


def _parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the parameters that become controls, with their defaults."""
    signature = inspect.signature(getattr(function, "forward", function))
    known = {}
    for one in signature.parameters.values():
        default = None if one.default is one.empty else one.default
        if one.name in NAMES or _is_number(default):
            known[one.name] = default
        elif one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            rule = f"recompute has no control for its parameter {one.name!r}"
            expected = f"{', '.join(NAMES)}, or a number as default"
            raise ShapeError(
                PLACE, rule, expected=expected, got=f"recompute{signature}", fix=f"{one.name}=1.0"
            )
    return known


def _is_number(default: Any) -> bool:
    return isinstance(default, (bool, int, float)) and math.isfinite(default)


def _control(name: str, default: Any) -> Control:
    """Choose a control by the name of a parameter and by its default."""
    if name == "sentence":
        return TextControl(name, name, default)
    if name == "mask":
        return ChoiceControl(name, name, "menu", tuple(dict.fromkeys((*MASKS, default))), default)
    if name in ("temperature", "scale"):
        start = float(default) if _is_number(default) and default > 0 else 1.0
        return NumberControl(name, name, start, start / 10, start * 10, "log")
    if isinstance(default, bool):
        return ToggleControl(name, name, default)
    if isinstance(default, int):
        least, most = (
            (1, max(8, 4 * default)) if default > 0 else (2 * default, 8 if default == 0 else 0)
        )
        return NumberControl(name, name, default, least, most, "whole")
    low, high = sorted((0.0, 2 * default)) if default else (-1.0, 1.0)
    return NumberControl(name, name, default, low, 1.0 if 0 < default < 1 else high)


def choice_of_mask(hidden: NDArray[np.bool_]) -> str:
    """Return which choice of a mask hides what is hidden in all maps (L · B, M, T, S)."""
    first = hidden[0, 0]
    if not first.any() or (hidden != first).any():
        return "none"  # a menu cannot say a mask for each head
    allowed = torch.from_numpy(~first)
    same = [
        one
        for one in MASKS[1:]
        if torch.equal(mask_from_choice(one, first.shape, allowed), allowed)
    ]
    return same[0] if same else GIVEN


def mask_from_choice(choice: str, size: tuple[int, ...], given: Tensor) -> Any:
    """Make the mask that was chosen, (T, S), bool, True = may attend; None lets all be seen.

    The T queries are the last of S tokens, as with a cache. The given mask, on the device of all
    masks, may have been made for other tokens.
    """
    T, S = size
    late = max(S - T, 0)
    causal = torch.ones(T, S, dtype=torch.bool, device=given.device).tril(late)
    window = causal.triu(late - 2)
    return {
        "causal": causal,
        "window of 3": window,
        GIVEN: given if given.shape == size else None,
    }.get(choice)


def split_result(result: Any) -> tuple[Any, Any, Any]:
    """Take apart what a function returned: weights, and queries and keys where it names them."""
    if not isinstance(result, tuple):
        return result, None, None
    if len(result) not in (2, 3) or not all(
        isinstance(names, list | tuple) for names in result[1:]
    ):
        expected = "weights, (weights, queries) or (weights, queries, keys)"
        got = f"({', '.join(type(one).__name__ for one in result)})"
        fix = "weights alone" if len(result) == 2 else None
        raise ShapeError(
            PLACE, "a tuple must hold weights, then tokens", expected=expected, got=got, fix=fix
        )
    return result[0], result[1], result[2] if len(result) == 3 else None
