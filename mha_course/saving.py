"""What JupyterLab calls before it saves a notebook, so that the saved file needs no kernel to be read."""

from __future__ import annotations

from typing import Any

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def drop_widget_views(model: dict[str, Any], **_: Any) -> None:
    """Drop the live view of each widget that has a static twin: without its kernel it would be an error box."""
    content = model.get("content")
    if model.get("type") != "notebook" or not isinstance(content, dict):
        return
    for cell in content.get("cells", []):
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if {"image/png", "text/html"} & set(data):
                data.pop(WIDGET_VIEW, None)
