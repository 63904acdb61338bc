"""Lesson 19, Bug hunt: its questions; the hunt itself is ``hunt``."""

from __future__ import annotations

from mha_course.exercises.spec import Lesson

LESSON = Lesson(19, "Bug hunt", [])
