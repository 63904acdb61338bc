"""Lesson 5, Weighted sum."""

from typing import TYPE_CHECKING

from mha_course.lessons import load_on_demand

if TYPE_CHECKING:
    from mha_course.lessons.l05_weighted_sum.lab import WeightedSumLab
else:
    __getattr__ = load_on_demand(__name__, WeightedSumLab="lab")

__all__ = ["WeightedSumLab"]
