"""Exercises: ``check`` judges an answer, ``hint`` helps, ``predict`` asks, ``solution`` and ``progress`` show."""

from mha_course.exercises.hinting import hint
from mha_course.exercises.judging import NAMES, Report, check, solution
from mha_course.exercises.keeping import progress
from mha_course.exercises.predicting import predict
from mha_course.exercises.questions import QUESTIONS

__all__ = ["NAMES", "QUESTIONS", "Report", "check", "hint", "predict", "progress", "solution"]
