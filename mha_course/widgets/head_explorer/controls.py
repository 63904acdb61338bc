"""What a learner's function can be asked: its parameters become controls, and controls become its arguments.

Axes: T query tokens, S key tokens.
"""

from __future__ import annotations

import base64
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from mha_course.errors import ShapeError

FOUR = ("temperature", "scale", "mask", "sentence")
MASKS = ("none", "causal", "window of 3", "painted")
PLACE = "HeadExplorer"


class Asking:
    """Turn a function into controls by the names of its parameters, and call it with what they say.

    Raises: ShapeError if a parameter is no control and has no default.
    """

    def __init__(self, function: Callable[..., Any], sentence: str, mask: str) -> None:
        if not callable(function):
            rule, got = "recompute must be a function", type(function).__name__
            raise ShapeError(PLACE, rule, expected="def recompute(temperature): …", got=got)
        self._function = function
        self._first, self._named = _parameters(function)
        pairs = [*self._first, *self._named.items()]
        given = next(
            (default for name, default in pairs if name == "sentence" and default and isinstance(default, str)),
            sentence,
        )
        starts = {"sentence": given, "mask": mask}
        self.controls = [_control(name, starts.get(name, default)) for name, default in pairs]
        if not self.controls:
            raise ShapeError(
                PLACE, "recompute must have a parameter", expected="def recompute(temperature): …", got="none"
            )

    def has(self, name: str) -> bool:
        """Say whether there is a control of this name."""
        return any(control["name"] == name for control in self.controls)

    def __call__(self, values: dict[str, Any], mask: torch.Tensor | None) -> Any:
        """Call the function with the controls' values; what has no sensible value stays at its start."""
        given = {control["name"]: _value(control, values.get(control["name"])) for control in self.controls}
        given |= {"mask": mask}
        first = [given[name] for name, _ in self._first]
        return self._function(*first, **{name: given[name] for name in self._named})


def _parameters(function: Callable[..., Any]) -> tuple[list[tuple[str, Any]], dict[str, Any]]:
    """Return the parameters that become controls, with their defaults: by position, and by name."""
    four: list[tuple[str, Any]] = [(name, None) for name in FOUR]
    try:
        signature = inspect.signature(getattr(function, "forward", function))
    except (TypeError, ValueError):  # some builtins have none
        return four, {}
    known, strange = [], []
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        default = None if parameter.default is parameter.empty else parameter.default
        if parameter.name in FOUR or (isinstance(default, (bool, int, float)) and math.isfinite(default)):
            known.append((parameter, default))
        elif parameter.default is parameter.empty:
            strange.append(parameter.name)
    if strange or not known:
        try:
            signature.bind(*FOUR)
        except TypeError:
            pass
        else:
            if not any(parameter.name in FOUR for parameter, _ in known):
                return four, {}
    if strange:
        rule = f"recompute has no control for its parameter {strange[0]!r}"
        expected = f"{', '.join(FOUR)}, or a number as default"
        raise ShapeError(PLACE, rule, expected=expected, got=f"recompute{signature}", fix=f"{strange[0]}=1.0")
    first = [(one.name, default) for one, default in known if one.kind is one.POSITIONAL_ONLY]
    return first, {one.name: default for one, default in known if one.kind is not one.POSITIONAL_ONLY}


def _control(name: str, default: Any) -> dict[str, Any]:
    """Describe one control: its kind, where it starts and how far it goes."""
    if name == "sentence":
        return {"name": name, "kind": "sentence", "start": default}
    if name == "mask":
        return {"name": name, "kind": "mask", "start": default, "choices": list(MASKS)}
    number = default if isinstance(default, (int, float)) and not isinstance(default, bool) else None
    if name == "temperature":
        return {
            "name": name,
            "kind": "log",
            "start": number if number and 0.1 <= number <= 10 else 1.0,
            "low": 0.1,
            "high": 10.0,
        }
    if name == "scale":
        start = float(number) if number and number > 0 else 1.0
        return {"name": name, "kind": "log", "start": start, "low": start / 10, "high": start * 10}
    if isinstance(default, bool):
        return {"name": name, "kind": "check", "start": default}
    if isinstance(default, int):
        ends = (1, max(8, 4 * default)) if default > 0 else (2 * default, 8 if default == 0 else 0)
        return {"name": name, "kind": "whole", "start": default, "low": ends[0], "high": ends[1]}
    low, high = sorted((0.0, 2 * default)) if default else (-1.0, 1.0)
    return {"name": name, "kind": "linear", "start": default, "low": low, "high": 1.0 if 0 < default < 1 else high}


def _value(control: dict[str, Any], value: Any) -> Any:
    """Return what a control says, in the type that the function expects."""
    kind, start = control["kind"], control["start"]
    if kind in ("sentence", "mask"):
        return value if isinstance(value, str) else start
    if kind == "check":
        return value if isinstance(value, bool) else start
    number = value if isinstance(value, (int, float)) and math.isfinite(value) else start
    return round(number) if kind == "whole" else float(number)


def mask_of(choice: str, size: tuple[int, int], painted: dict[str, Any] | None, device: Any) -> torch.Tensor | None:
    """Make the mask that was chosen, (T, S), bool, True = may attend; None lets all be seen.

    Of T tokens the last of S are meant, as with a cache. painted: rows, columns, and their bits in base64.
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
        rows, columns = int(painted["rows"]), int(painted["columns"])
        bits = np.frombuffer(base64.b64decode(painted["bits"]), dtype=np.uint8)
        seen = np.unpackbits(bits, count=rows * columns).reshape(rows, columns).astype(bool)
        full[:rows, :columns] = torch.from_numpy(seen[:T, :S]).to(full.device)
    return full


def paint(mask: Any) -> dict[str, Any]:
    """Write a mask (T, S) as the browser does."""
    bits = np.packbits(np.asarray(mask, dtype=bool).reshape(-1)).tobytes()
    return {"rows": mask.shape[0], "columns": mask.shape[1], "bits": base64.b64encode(bits).decode()}


def parts(result: Any) -> tuple[Any, Any, Any]:
    """Take apart what a function returned: weights, and queries and keys where it names them."""
    if not isinstance(result, tuple):
        return result, None, None
    words = all(_is_tokens(one) for one in result[1:])
    if len(result) not in (2, 3) or not words:
        got = f"({', '.join(type(one).__name__ for one in result)})"
        fix = "weights alone" if len(result) == 2 else None
        rule = "a tuple must hold weights, then tokens"
        raise ShapeError(
            PLACE, rule, expected="weights, (weights, queries) or (weights, queries, keys)", got=got, fix=fix
        )
    return result[0], result[1], result[2] if len(result) == 3 else None


def _is_tokens(names: Any) -> bool:
    """Say whether these are words, or lists of words."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        return False
    return all(isinstance(one, str) or _is_tokens(one) for one in names)
