"""The controls of a learner's function: its parameters become controls, and controls become its
arguments.

Axes: T query tokens, S key tokens.
"""

from __future__ import annotations

import inspect
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
GIVEN = "as given"  # a mask that is none of these


def controls_of(function: Any, sentence: str, hidden: NDArray[np.bool_]) -> list[Control]:
    """Choose a control for each parameter of a function by its name; ``sentence`` and the mask of
    what is ``hidden`` are where two start.

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
        if name in NAMES:
            defaults[name] = default
        elif not has_default and not variadic:
            rule = f"recompute has no control for its parameter {name!r}"
            expected = f"{', '.join(NAMES)}, or a default"
            got = f"recompute{signature}"
            raise ShapeError(PLACE, rule, expected=expected, got=got, fix=f"{name}=1.0")
    return defaults


def _control(name: str, default: Any) -> Control:
    """Choose a control by the name of a parameter and by its default."""
    if name == "sentence":
        return Control(name, "Change the words", "text", default)
    if name == "mask":
        return Control(name, name, "menu", default, tuple(dict.fromkeys((*MASKS, default))))
    start = float(default or 1)
    return Control(name, name, "log", start, low=start / 10, high=start * 10)


def choice_of_mask(hidden: NDArray[np.bool_]) -> str:
    """Return which choice of a mask hides what is hidden in all maps (L · B, M, T, S)."""
    first = hidden[0, 0]
    if not first.any() or (hidden != first).any():
        return "none"  # a menu cannot say a mask for each head
    allowed = torch.from_numpy(~first)
    for choice in MASKS[1:]:
        if torch.equal(mask_from_choice(choice, first.shape, allowed), allowed):
            return choice
    return GIVEN


def mask_from_choice(choice: str, size: tuple[int, ...], original: Tensor) -> Any:
    """Make the mask that was chosen, (T, S), bool, True = may attend; None lets all be seen.

    The T queries are the last of S tokens, as with a cache. The given mask, on the device of all
    masks, may have been made for other tokens.
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
    """Split what a function returned: weights, and queries and keys where it names them."""
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
