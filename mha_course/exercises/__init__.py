"""Exercises: ``check`` judges an answer, ``predict`` a guess, ``solution`` shows the reference."""

from mha_course.exercises.judging import NAMES, Report, check, solution
from mha_course.exercises.predicting import predict
from mha_course.exercises.questions import QUESTIONS

__all__ = ["NAMES", "QUESTIONS", "Report", "check", "predict", "solution"]
