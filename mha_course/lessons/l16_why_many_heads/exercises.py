"""Lesson 16, Why many heads."""

from __future__ import annotations

from mha_course.exercises.spec import Lesson

LESSON = Lesson(16, "Why many heads", [])
