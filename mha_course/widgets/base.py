"""What pictures drawn in the browser share: a static twin, and a sentence that says what they show."""

from __future__ import annotations

import base64
import textwrap
import warnings
from pathlib import Path
from typing import Any

import anywidget
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mha_course import plots

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def esm(*names: str, folder: Path) -> str:
    """Join scripts to one module: a name is looked up in the folder, then among those that widgets share."""
    shared = Path(__file__).parent
    files = [folder / name if (folder / name).exists() else shared / name for name in names]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def present(picture: Any) -> None:
    """Display a picture that answers to controls, and print its ``text``: what it shows at the start."""
    display(picture)
    print(textwrap.fill(f"At the start: {picture.text}", plots.LINE))


class Live(anywidget.AnyWidget):
    """A picture that runs in the browser; where it cannot, its twin shows, and ``text`` says what is to be seen.

    A subclass sets ``text`` (one sentence) before it is displayed, and ``_esm`` and ``_css`` to the files beside it.
    Its twin is ``twin`` (HTML that needs no script and no style sheet), or what ``picture`` draws when it is displayed.
    """

    text: str
    twin: str = ""

    _ipython_display_ = None  # ipywidgets 7 would bypass the bundle

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {self.text}"

    def show(self) -> None:
        """Display the picture, and print what it shows at the start."""
        present(self)

    def picture(self) -> Axes | Figure:
        """Draw the twin."""
        raise NotImplementedError(f"{type(self).__name__} needs a twin or a picture")

    def png(self) -> bytes:
        """Return the picture as PNG."""
        with plots.unregistered(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)  # a box stands for an emoji
            return plots.png(self.picture())

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        view = {"version_major": 2, "version_minor": 1, "model_id": self.model_id}
        if self.twin:
            return {"text/plain": repr(self), "text/html": self.twin, WIDGET_VIEW: view}, {}
        png = self.png()
        data = {"text/plain": repr(self), "image/png": base64.b64encode(png).decode(), WIDGET_VIEW: view}
        return data, {"image/png": {"alt": self.text, "width": plots.display_width(png)}}
