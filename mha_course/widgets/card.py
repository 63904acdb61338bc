"""A card that asks or answers: text, buttons or a field below it, and their results."""

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
    """A card without the widgets that its buttons add, which ``bring`` shows."""

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
    """Show HTML, and answer its buttons or its field in place.

    Args:
        kind: selects its colours in card.css.
        content: ``html``; below it ``choices`` (each with text, whether it is right, and its reason
        as HTML), which it ``sends`` or not, or a ``field``, and then ``details``; or ``buttons``
        (each with action, label, and whether it is done).
        respond: ``respond(action, text)`` returns the changes: ``right`` (None if unreadable) and
            ``reason`` for a typed answer, ``buttons``, ``parts`` (HTML) and ``widgets`` to show
            below.
    """

    def __init__(self, kind: str, content: dict[str, Any], respond: Respond) -> None:
        self._face = _Face(dict(content), respond, self._bring)
        super().__init__([self._face])
        self.add_class("mha-card")
        self.add_class(f"mha-{kind}")

    def view(self) -> dict[str, Any]:
        """Return the data that a front end displays."""
        return {WIDGET_VIEW: {"version_major": 2, "version_minor": 1, "model_id": self.model_id}}

    def _bring(self, widgets: Sequence[W.Widget]) -> None:
        self.children = (self._face, *widgets)
