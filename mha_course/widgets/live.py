"""What pictures drawn in the browser share: a static twin in HTML, and a sentence that says what they show."""

from __future__ import annotations

from typing import Any

import anywidget

from mha_course.saving import WIDGET_VIEW


class Live(anywidget.AnyWidget):
    """A picture that runs in the browser; where it cannot, its ``twin`` shows, and ``text`` says what is to be seen.

    A subclass sets ``text`` (one sentence) and ``twin`` (HTML that needs no script and no style sheet) before
    it is displayed, and ``_esm`` and ``_css`` to the files beside it.
    """

    text: str
    twin: str

    _ipython_display_ = None  # ipywidgets 7 would bypass the bundle

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {self.text}"

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        view = {"version_major": 2, "version_minor": 1, "model_id": self.model_id}
        return {"text/plain": repr(self), "text/html": self.twin, WIDGET_VIEW: view}, {}
