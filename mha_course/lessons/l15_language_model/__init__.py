"""Lesson 15, Language model."""

from typing import TYPE_CHECKING

from mha_course.lessons import load_on_demand

if TYPE_CHECKING:
    from mha_course.lessons.l15_language_model.lab import SamplingLab
else:
    __getattr__ = load_on_demand(__name__, SamplingLab="lab")

__all__ = ["SamplingLab"]
