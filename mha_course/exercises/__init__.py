"""``check`` judges an answer, ``hint`` helps, ``predict`` and ``review`` ask."""

import os
import sys

from mha_course.exercises.catalogue import NAMES, QUESTIONS
from mha_course.exercises.checker import check
from mha_course.exercises.hint_ladder import hint, solution
from mha_course.exercises.predictions import predict
from mha_course.exercises.progress_table import progress
from mha_course.exercises.report import Report
from mha_course.exercises.reviews import review
from mha_course.exercises.take_home import solved

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
    "solved",
]

# Every lesson imports this module once, so this is where it says how to keep answers.
if "google.colab" in sys.modules:
    print("Colab does not keep this page: File ▸ Save a copy in Drive keeps your answers.")
    print("Answers that pass are also in my_attention.py, in the folder on the left: download it.")
elif "BINDER_LAUNCH_HOST" in os.environ:
    print("Binder does not keep this page: File ▸ Download keeps your answers.")
    print("Answers that pass are also in my_attention.py, in the folder on the left: download it.")
