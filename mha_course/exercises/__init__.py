"""Exercises: ``check`` judges an answer, ``hint`` helps, ``predict`` asks, ``solution`` and ``progress`` show."""

from mha_course.exercises.checker import NAMES, Report, check, solution
from mha_course.exercises.hint_ladder import hint
from mha_course.exercises.predictions import predict
from mha_course.exercises.progress_store import progress
from mha_course.exercises.questions import QUESTIONS

__all__ = ["NAMES", "QUESTIONS", "Report", "check", "hint", "predict", "progress", "solution"]
