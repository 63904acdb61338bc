"""The predictions of lessons 9 and 10, on cross-attention and positions, as data. Right answers are computed."""

from __future__ import annotations

from mha_course.exercises.asking import Question

QUESTIONS: dict[str, Question] = {}
