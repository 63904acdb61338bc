"""Controls for a learner's function: its parameters become controls, whose values become arguments.

Axes: T query tokens, S key tokens.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mha_course.errors import ShapeError, require
from mha_course.widgets.controls import Control
from mha_course.widgets.head_explorer.maps import PLACE

NAMES = ("temperature", "scale", "mask", "sentence")
MASKS = ("none", "causal", "window of 3")
GIVEN = "as given"  # any other mask


def controls_of(function: Any, sentence: str, hidden: NDArray[np.bool_]) -> list[Control]:
    """Choose a control for each parameter of a function by its name; ``sentence`` and the mask
    ``hidden`` give two initial values.

    Raises: ShapeError if a parameter is not a control and has no default.
    """
    expected = "def recompute(temperature): …"
    got = type(function).__name__
    require(callable(function), PLACE, "recompute must be a function", expected=expected, got=got)
    defaults = _parameters(function)
    require(bool(defaults), PLACE, "recompute must have a parameter", expected=expected, got="none")
    starts = defaults | {"mask": choice_of_mask(hidden)}
    starts["sentence"] = defaults.get("sentence") or sentence
    return [_control(name, starts[name]) for name in defaults]


def _parameters(function: Callable[..., Any]) -> dict[str, Any]:
    signature = inspect.signature(getattr(function, "forward", function))
    defaults = {}
    for name, parameter in signature.parameters.items():
        has_default = parameter.default is not parameter.empty
        default = parameter.default if has_default else None
        variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if name in NAMES or _is_number(default):
            defaults[name] = default
        elif not has_default and not variadic:
            rule = f"recompute has no control for its parameter {name!r}"
            expected = f"{', '.join(NAMES)}, or a number as default"
            got = f"recompute{signature}"
            raise ShapeError(PLACE, rule, expected=expected, got=got, fix=f"{name}=1.0")
    return defaults


def _is_number(default: Any) -> bool:
    return isinstance(default, (bool, int, float)) and math.isfinite(default)


def _control(name: str, default: Any) -> Control:
    """Choose a control from a parameter's name and default."""
    if name == "sentence":
        return Control(name, "Change the words", "text", default)
    if name == "mask":
        return Control(name, name, "menu", default, tuple(dict.fromkeys((*MASKS, default))))
    if name in ("temperature", "scale"):
        start = float(default) if _is_number(default) and default > 0 else 1.0
        return Control(name, name, "log", start, low=start / 10, high=start * 10)
    if isinstance(default, bool):
        return Control(name, name, "toggle", default)
    if isinstance(default, int):
        least = 1 if default > 0 else 2 * default
        most = max(8, 4 * default) if default >= 0 else 0
        return Control(name, name, "whole", default, low=least, high=most)
    low, high = sorted((0.0, 2 * default)) if default else (-1.0, 1.0)
    return Control(name, name, "linear", default, low=low, high=1.0 if 0 < default < 1 else high)


def choice_of_mask(hidden: NDArray[np.bool_]) -> str:
    """Return the mask choice that matches the hidden cells of all maps (L · B, M, T, S)."""
    first = hidden[0, 0]
    if not first.any() or (hidden != first).any():
        return "none"  # a menu cannot offer a mask per head
    allowed = torch.from_numpy(~first)
    for choice in MASKS[1:]:
        if torch.equal(mask_from_choice(choice, first.shape, allowed), allowed):
            return choice
    return GIVEN


def mask_from_choice(choice: str, size: tuple[int, ...], original: Tensor) -> Any:
    """Make the chosen mask, (T, S), bool, True = may attend; None hides nothing.

    The T queries are the last of S tokens, as with a cache. The given mask, which sets the device,
    may be for other tokens.
    """
    T, S = size
    late = max(S - T, 0)
    causal = torch.ones(T, S, dtype=torch.bool, device=original.device).tril(late)
    if choice == "causal":
        return causal
    if choice == "window of 3":
        return causal.triu(late - 2)
    return original if choice == GIVEN and original.shape == size else None


def split_result(result: Any) -> tuple[Any, Any, Any]:
    """Split a function's result: weights, and queries and keys if given."""
    if not isinstance(result, tuple):
        return result, None, None
    names = result[1:]
    if len(names) not in (1, 2) or not all(isinstance(words, list | tuple) for words in names):
        rule = "a tuple must hold weights, then tokens"
        expected = "weights, (weights, queries) or (weights, queries, keys)"
        got = f"({', '.join(type(item).__name__ for item in result)})"
        fix = "weights alone" if len(result) == 2 else None
        raise ShapeError(PLACE, rule, expected=expected, got=got, fix=fix)
    return result[0], names[0], names[1] if len(names) == 2 else None
