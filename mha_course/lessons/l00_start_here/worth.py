"""How much the second layer's attention improves the model's guess."""

from __future__ import annotations

from mha_course import example
from mha_course.datasets.grammar import sentences
from mha_course.experiments.head_analysis import around_attention

SUBJECTS = ("so", "because_subject", "because_object")  # where the pronoun is a subject
