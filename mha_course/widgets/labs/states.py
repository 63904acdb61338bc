"""All states of a lab with few of them, packed for a page that has no kernel to ask."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from itertools import product
from math import prod
from typing import Any

from mha_course.widgets.controls import ChoiceControl, Control, ToggleControl
from mha_course.widgets.learner_function import error_line

MOST = 500


def are_few(controls: Iterable[Control]) -> bool:
    """Return whether the controls, all of them choices and switches, have at most 500 states."""
    options = [_options(control) for control in controls]
    return all(options) and prod(map(len, options)) <= MOST


def packed(lab: Any, controls: Mapping[str, Control]) -> str:
    """Draw a lab (Lab) in all its states, and return them as compressed JSON in base64.

    ``panels`` are all that differ; a state names its own by their places. ``lands`` says where a
    move ends that sets other controls too, by state, control and value.
    """
    drawn: dict[str, int] = {}
    states: dict[str, list[Any]] = {}
    lands: dict[str, Any] = {}
    every = [
        dict(zip(controls, options, strict=True))
        for options in product(*map(_options, controls.values()))
    ]
    for values in every:
        if lab.reconcile(values, {}) != values:  # no move ends there
            continue
        written = _written(controls, values)
        trouble, panels, text = "", None, ""
        try:
            panels, text = lab.draw(**values)
        except Exception as error:  # of a learner's function: shown in place, as with a kernel
            trouble = error_line(error)
        places = panels and [drawn.setdefault(json.dumps(each), len(drawn)) for each in panels]
        key = json.dumps(list(written.values()), separators=(",", ":"))
        states[key] = [places, text, trouble]
        for name, control in controls.items():
            for option in _options(control):
                moved = {**values, name: option}
                end = lab.reconcile(moved, {name: option})
                if end != moved:
                    way = json.dumps([key, name, control.write(option)], separators=(",", ":"))
                    lands[way] = _written(controls, end)
    table = {"panels": list(map(json.loads, drawn)), "states": states, "lands": lands}
    text = json.dumps(table, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _options(control: Control) -> tuple[Any, ...]:
    if isinstance(control, ChoiceControl):
        return control.options
    return (False, True) if isinstance(control, ToggleControl) else ()


def _written(controls: Mapping[str, Control], values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: control.write(values[name]) for name, control in controls.items()}
