"""Read a typed answer: a number, a shape, or a choice by its words or its label."""

from __future__ import annotations

import contextlib
import math
import re
import string
from collections.abc import Sequence

from mha_course.questions import Question


def read_answer(question: Question, text: str) -> str | None:
    """Return which of a question's answers a text means, or None."""
    if _plain(text) in map(_plain, question.also):
        return question.right
    if question.choices:
        return _choice(question, text)
    if "," in question.right:
        for answer in question.answers:
            letters = question.letters if answer == question.right else ""
            if _is_shape(text, answer, letters):
                return answer
        return None
    return _typed_number(question, text)


def has_form(question: Question, text: str) -> bool:
    """Return True if a text has the form of an answer, right or wrong."""
    if read_answer(question, text) is not None:
        return True
    if question.choices:
        return False
    # A wrong shape still has the form of one, so it is marked and not asked about again.
    if "," in question.right:
        return all(
            len(axis) == 1 or axis.isdigit() or axis in _axes(question.letters)
            for axis in _axes(text)
        )
    return bool(_numbers(text, question.units))


def _bare(text: str) -> str:
    """Drop case, quotes and a final full stop, and write a minus as Python does."""
    return text.replace("−", "-").casefold().rstrip(". ").strip("\"'`“”‘’ ").rstrip(". ")


def _plain(text: str) -> str:
    """Also drop spaces, and brackets around the text."""
    return "".join(_bare(text).split()).strip("()[]")


def _choice(question: Question, text: str) -> str | None:
    """Return the choice given by its words, its number or its label."""
    choices = question.choices
    for choice in choices:
        if _plain(choice) == _plain(text):
            return choice
    # Only the right choice may be rounded: a wrong one may be as close to the right number.
    values = _numbers(text, question.units)
    for choice in choices:
        tolerance = question.tolerance if choice == question.right else 0.0
        if _is_near(values, _numbers(choice, question.units)[:1], tolerance):
            return choice
    label = _plain(text)
    labels = string.ascii_lowercase[: len(choices)]
    if "how many" not in question.text.casefold() and not re.search(r"\d", "".join(choices)):
        labels += "123456789"[: len(choices)]  # else a digit could be an answer itself
    return choices[labels.index(label) % len(choices)] if label in tuple(labels) else None


def _typed_number(question: Question, text: str) -> str | None:
    """Return the right answer if a number is close to it, else a wrong one that matches."""
    values = _numbers(text, question.units)
    if _is_near(values, [float(question.right)], question.tolerance):
        return question.right
    for answer in question.answers:
        for value in values:
            if answer != question.right and math.isclose(value, float(answer), rel_tol=0.01):
                return answer
    return None


def _numbers(text: str, units: str = "") -> list[float]:
    """Read a number, in several ways if a comma or point may mark thousands or decimals; [] for
    words.

    Args: units are words that may follow it; if they include ``%``, it may be a percentage.
    """
    match = re.fullmatch(r"(?:about )?([+-]?[\d., ]*\d)\s*(\D*)", _bare(text))
    if match is None or not set(match[2].split()) <= set(units.casefold().split()):
        return []
    # A percentage is compared as a share of 1.
    scale = 100 if match[2] == "%" else 1
    readings = []
    for number in (
        # 1,024 and 1 024 as thousands; 0,5 with a decimal comma; 1.024 as thousands.
        re.sub(r"[, ](?=\d{3}(?!\d))", "", match[1]),
        match[1].replace(",", "."),
        re.sub(r"(?<!\b0)\.(?=\d{3}(?!\d))", "", match[1]),
    ):
        with contextlib.suppress(ValueError):
            readings.append(float(number) / scale)
    return readings


def _is_near(values: Sequence[float], targets: Sequence[float], tolerance: float) -> bool:
    return any(abs(value - target) <= tolerance + 1e-9 for value in values for target in targets)


def _is_shape(text: str, sizes: str, letters: str) -> bool:
    """Compare a shape: each axis by its size or its letter."""
    answer = _axes(text)
    target = _axes(sizes)
    names = _axes(letters) or target
    return len(answer) == len(target) and all(
        axis in (size, name) for axis, size, name in zip(answer, target, names, strict=True)
    )


def _axes(text: str) -> list[str]:
    """Split a shape at commas, or at spaces if there are none."""
    text = re.sub(r"torch\.size|[()\[\]]", " ", _bare(text))
    axes = text.split(",") if "," in text else text.split()
    return ["".join(axis.split()) for axis in axes]
