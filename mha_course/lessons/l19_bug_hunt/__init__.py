"""Lesson 19, Bug hunt."""

from typing import TYPE_CHECKING

from mha_course.lessons import load_on_demand

if TYPE_CHECKING:
    from mha_course.lessons.l19_bug_hunt.lab import ProbeLab
else:
    __getattr__ = load_on_demand(__name__, ProbeLab="lab")

__all__ = ["ProbeLab"]
