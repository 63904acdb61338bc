"""Lesson 14, Vision."""

from typing import TYPE_CHECKING

from mha_course.lessons import load_on_demand

if TYPE_CHECKING:
    from mha_course.lessons.l14_vision.lab import PatchLab
else:
    __getattr__ = load_on_demand(__name__, PatchLab="lab")

__all__ = ["PatchLab"]
