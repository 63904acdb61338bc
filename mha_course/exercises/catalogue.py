"""All exercises of the course, in the order of its lessons."""

from __future__ import annotations

from mha_course.exercises.inputs import EXERCISES as MECHANISM
from mha_course.exercises.inputs import Exercise
from mha_course.exercises.probes_beyond import BEYOND

EXERCISES: dict[str, tuple[Exercise, ...]] = {**MECHANISM, **BEYOND}
