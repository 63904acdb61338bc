"""Lesson 10, Positions."""

from typing import TYPE_CHECKING

from mha_course.lessons import load_on_demand

if TYPE_CHECKING:
    from mha_course.lessons.l10_positions.lab import RotaryLab
else:
    __getattr__ = load_on_demand(__name__, RotaryLab="lab")

__all__ = ["RotaryLab"]
