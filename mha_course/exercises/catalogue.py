"""All exercises of the course, in the order of its lessons."""

from __future__ import annotations

from mha_course.exercises.probes import EXERCISES as MECHANISM
from mha_course.exercises.probes import Exercise
from mha_course.exercises.probes_beyond import BEYOND

EXERCISES: dict[str, tuple[Exercise, ...]] = {**MECHANISM, **BEYOND}
