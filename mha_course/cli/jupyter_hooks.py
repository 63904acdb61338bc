"""What the course changes in JupyterLab's server: what is dropped on saving, and how small messages
are sent.
"""

from __future__ import annotations

import re
from typing import Any

from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def drop_widget_views(model: dict[str, Any], **_: Any) -> None:
    """Drop progress bars, and the live view of widgets with a static picture: without a kernel they
    are error boxes.
    """
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


class PromptConnection(ZMQChannelsWebsocketConnection):
    """A kernel's connection to the browser that sends small messages at once.

    Without it a small answer of the kernel may lie 40 ms in the server: it waits until the browser
    has confirmed the message before it (Nagle's algorithm), which the browser puts off (delayed
    acknowledgement).
    """

    def connect(self) -> Any:
        """Connect, and let nothing wait."""
        self.websocket_handler.set_nodelay(True)
        return super().connect()
