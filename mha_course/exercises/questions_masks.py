"""The predictions of lesson 8, masks, as data. Right answers are computed, not typed."""

from __future__ import annotations

from mha_course.exercises.asking import Question

QUESTIONS: dict[str, Question] = {}
