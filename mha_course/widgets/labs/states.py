"""All states of a small lab, packed for a page without a kernel."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

from mha_course.widgets.controls import Control
from mha_course.widgets.learner_function import error_line

MOST = 20_000  # states that are drawn in half a minute


def are_few(controls: Iterable[Control]) -> bool:
    """Return whether the controls' values can be listed, and give few enough states."""
    sizes = [len(control.values) for control in controls]
    return all(sizes) and prod(sizes) <= MOST


def packed(lab: Any, controls: Mapping[str, Control]) -> str:
    """Draw a lab in all its states, and return them as compressed JSON in base64.

    ``panels`` are all distinct panels; a state has its values, and the indices of its panels.
    ``outcomes`` gives the final state of a move that also sets other controls.
    """
    start = lab.values
    drawn: dict[str, int] = {}
    places: dict[str, int] = {}  # of states, by their values
    states: list[list[Any]] = []
    moves: list[tuple[int, str, str, str]] = []
    waiting = [start]
    while waiting:
        lab.values = waiting.pop()
        written = _written(controls, lab.values)
        if json.dumps(written) in places:
            continue
        place = places[json.dumps(written)] = len(states)
        panels, text, trouble = None, "", ""
        try:
            panels, text = lab.draw(**lab.values)
        except Exception as error:  # from a learner's function: shown in place, as with a kernel
            trouble = error_line(error)
        indices = panels and [drawn.setdefault(json.dumps(panel), len(drawn)) for panel in panels]
        states.append([written, indices, text, trouble])
        for name, control in controls.items():
            for option in control.values:
                moved = {**lab.values, name: option}
                waiting.append(lab.reconcile(moved, {name: option}))
                if waiting[-1] != moved:
                    end = json.dumps(_written(controls, waiting[-1]))
                    moves.append((place, name, json.dumps(control.write(option)), end))
    lab.values = start
    outcomes = {f"{place} {name} {value}": places[end] for place, name, value, end in moves}
    table = {"panels": list(map(json.loads, drawn)), "states": states, "outcomes": outcomes}
    text = json.dumps(table, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _written(controls: Mapping[str, Control], values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: control.write(values[name]) for name, control in controls.items()}
