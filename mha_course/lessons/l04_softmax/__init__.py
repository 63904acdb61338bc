"""Lesson 4, Softmax."""

from typing import TYPE_CHECKING

from mha_course.lessons import load_on_demand

if TYPE_CHECKING:
    from mha_course.lessons.l04_softmax.lab import SoftmaxLab
else:
    __getattr__ = load_on_demand(__name__, SoftmaxLab="lab")

__all__ = ["SoftmaxLab"]
