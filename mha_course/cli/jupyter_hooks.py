"""What JupyterLab's server drops when a notebook is saved."""

from __future__ import annotations

import re
from typing import Any

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def drop_widget_views(model: dict[str, Any], **_: Any) -> None:
    """Drop progress bars, and live views that have a static picture and would need a kernel."""
    content = model.get("content")
    if model.get("type") != "notebook" or not isinstance(content, dict):
        return
    for cell in content.get("cells", []):
        if "outputs" in cell:
            cell["outputs"] = [output for output in cell["outputs"] if not is_progress(output)]
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if {"image/png", "text/html"} & set(data):
                data.pop(WIDGET_VIEW, None)


def is_progress(output: dict[str, Any]) -> bool:
    """Return whether an output is a live progress bar, as tqdm writes it."""
    data = output.get("data", {})
    return (
        WIDGET_VIEW in data
        and re.search(r"\d+%\|", "".join(data.get("text/plain", ""))) is not None
    )
