"""The predictions of the lessons as data. Right answers are computed, not typed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Question:
    """One question.

    ``choices`` maps what can be picked to the reason why it is wrong (empty for the right one); without
    choices the answer is typed. ``wrong`` maps typed answers to reasons, ``nudge`` is for all others.
    """

    text: str
    answer: Callable[[], str]
    because: str
    choices: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    nudge: str = "Work it out once more, one axis at a time."
    tolerance: float = 0.0


QUESTIONS: dict[str, Question] = {}
