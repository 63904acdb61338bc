"""The card that answers in place, where widgets can be shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def live_card(
    kind: str, content: dict[str, Any], respond: Callable[[str, str], dict[str, Any]]
) -> dict[str, Any]:
    """Return a card as front ends show it, or nothing without widgets.

    Args: as of ``widgets.card.Card``.
    """
    try:
        from mha_course.widgets.card import Card  # noqa: PLC0415 (slow to load, seldom needed)
    except ImportError:
        return {}
    return Card(kind, content, respond).view()
