"""The predictions of lessons 9 and 10, cross-attention and positions, as data. Right answers are computed, not typed."""

from __future__ import annotations

from mha_course.exercises.asking import Question

QUESTIONS: dict[str, Question] = {}
