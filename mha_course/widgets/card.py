"""A card that asks or answers: text, buttons or a field below it, and what they bring."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ipywidgets as W

from mha_course.colours import css_variables
from mha_course.widgets.base import WIDGET_VIEW, CourseWidget, esm

HERE = Path(__file__).parent
Respond = Callable[[str, str], dict[str, Any]]


class _Face(CourseWidget):
    """All of a card except the widgets that its buttons bring, which ``bring`` shows."""

    _esm = esm("card.js", folder=HERE)
    _css = css_variables() + (HERE / "card.css").read_text(encoding="utf-8")

    def __init__(
        self, content: dict[str, Any], respond: Respond, bring: Callable[[Sequence[W.Widget]], None]
    ) -> None:
        self._respond = respond
        self._bring = bring
        self._answered = {"buttons": content.pop("buttons", [])}
        super().__init__(options=content)
        self.state = self._state_after({})

    def _receive(self, event: Mapping[str, Any]) -> None:
        changed = self._respond(event["action"], event["text"])
        if "widgets" in changed:
            self._bring(changed.pop("widgets"))
        self._answered |= changed

    def _drawn(self) -> dict[str, Any]:
        return self._answered


class Card(W.VBox):  # type: ignore[misc]
    """Show HTML, and answer in place what its buttons or its field ask.

    Args:
        kind: by which card.css colours it.
        content: ``html``; below it ``choices`` (each its text, whether it is right, and the HTML of
            its reason), which it ``sends`` or not, or a ``field``, and then ``details``; or
            ``buttons`` (each its action, its label, and whether it is done).
        respond: ``respond(action, text)`` returns what changes of it: ``right`` (None where it
            cannot be read) and ``reason`` of what was typed, ``buttons``, ``parts`` (HTML) and
            ``widgets`` to show below.
    """

    def __init__(self, kind: str, content: dict[str, Any], respond: Respond) -> None:
        self._face = _Face(dict(content), respond, self._bring)
        super().__init__([self._face])
        self.add_class("mha-card")
        self.add_class(f"mha-{kind}")

    def view(self) -> dict[str, Any]:
        """Return the data by which a front end shows it."""
        return {WIDGET_VIEW: {"version_major": 2, "version_minor": 1, "model_id": self.model_id}}

    def _bring(self, widgets: Sequence[W.Widget]) -> None:
        self.children = (self._face, *widgets)
