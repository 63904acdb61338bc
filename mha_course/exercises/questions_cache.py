"""The predictions of lesson 11, the KV cache, as data. Right answers are computed, not typed."""

from __future__ import annotations

from mha_course.exercises.asking import Question

QUESTIONS: dict[str, Question] = {}
