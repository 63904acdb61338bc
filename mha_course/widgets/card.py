"""A card that asks or answers: what was found, buttons or a field below it, and what they bring."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets as W
import traitlets

from mha_course.widgets.base import INTERRUPTED, WIDGET_VIEW, esm

HERE = Path(__file__).parent


class _Face(anywidget.AnyWidget):
    """All of a card but the widgets that its buttons bring."""

    _esm = esm("card.js", folder=HERE)
    _css = HERE / "card.css"
    shown = traitlets.Dict().tag(sync=True)
    asked = traitlets.Dict({"number": 0}).tag(sync=True, echo_update=False)


class Card(W.VBox):  # type: ignore[misc]
    """Show HTML, and answer in place what its buttons or its field ask.

    Args:
        kind: by which card.css colours it.
        content: ``html``; below it ``choices`` (each its text, whether it is right, and the HTML of
            its reason), or a ``field``, and then ``foot``; or ``buttons`` (each its action, its
            label, and whether it is done).
        respond: ``respond(action, text)`` returns what changes of it: ``right`` and ``reason`` of
            what was typed, ``buttons``, ``parts`` (HTML) and ``widgets`` to show below.
    """

    def __init__(
        self, kind: str, content: dict[str, Any], respond: Callable[[str, str], dict[str, Any]]
    ) -> None:
        self._face = _Face(shown=content)
        self._respond = respond
        self._face.observe(self._answer, names="asked")
        super().__init__([self._face])
        self.add_class("mha-card")
        self.add_class(f"mha-{kind}")

    def view(self) -> dict[str, Any]:
        """Return what a front end shows it by."""
        return {WIDGET_VIEW: {"version_major": 2, "version_minor": 1, "model_id": self.model_id}}

    def _answer(self, change: dict[str, Any]) -> None:
        asked = change["new"]
        try:
            changed = self._respond(asked["action"], asked["text"])
        except KeyboardInterrupt:  # somebody stopped the kernel: it answers again
            changed = {"trouble": f"⚠ {INTERRUPTED}"}
        if "widgets" in changed:
            self.children = (self._face, *changed.pop("widgets"))
        self._face.shown = (
            self._face.shown | {"trouble": ""} | changed | {"number": asked["number"]}
        )
