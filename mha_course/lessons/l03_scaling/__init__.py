"""Lesson 3, Scores and scaling."""

from typing import TYPE_CHECKING

from mha_course.lessons import load_on_demand

if TYPE_CHECKING:
    from mha_course.lessons.l03_scaling.lab import ScalingLab
else:
    __getattr__ = load_on_demand(__name__, ScalingLab="lab")

__all__ = ["ScalingLab"]
