"""``check`` judges an answer, ``hint`` helps, ``predict`` and ``review`` ask."""

from mha_course.exercises.catalogue import NAMES, QUESTIONS
from mha_course.exercises.checker import check
from mha_course.exercises.hint_ladder import hint, solution
from mha_course.exercises.predictions import predict
from mha_course.exercises.progress_store import progress
from mha_course.exercises.report import Report
from mha_course.exercises.reviews import review

__all__ = [
    "NAMES",
    "QUESTIONS",
    "Report",
    "check",
    "hint",
    "predict",
    "progress",
    "review",
    "solution",
]
