"""The card with working buttons, if widgets can be shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def live_card(
    kind: str, content: dict[str, Any], respond: Callable[[str, str], dict[str, Any]]
) -> dict[str, Any]:
    """Return a card for a front end to show, or nothing without widgets.

    Args: as for ``widgets.card.Card``.
    """
    try:
        from mha_course.widgets.card import Card  # noqa: PLC0415 (slow to load, seldom needed)
    except ImportError:
        return {}
    return Card(kind, content, respond).view()
