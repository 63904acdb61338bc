"""What the launcher's JupyterLab server does differently; only the server imports it."""

from __future__ import annotations

from typing import Any

from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection


class PromptConnection(ZMQChannelsWebsocketConnection):
    """A kernel's connection to the browser that sends small messages at once.

    Without it a small answer of the kernel may lie 40 ms in the server: it waits until the browser has confirmed the
    message before it (Nagle's algorithm), which the browser puts off (delayed acknowledgement).
    """

    def connect(self) -> Any:
        """Connect, and let nothing wait."""
        self.websocket_handler.set_nodelay(True)
        return super().connect()
