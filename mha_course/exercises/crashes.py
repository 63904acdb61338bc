"""Recognise a mistake by how an answer crashes: error texts are often alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

from mha_course.exercises.catalogue import mistakes_of
from mha_course.exercises.mutants import Mutant
from mha_course.exercises.operations import STOPPED, recorded
from mha_course.exercises.rules import Call
from mha_course.exercises.sandbox import Outcome, error_text, last_line
from mha_course.exercises.spec import Exercise, Mistake


def stopping_alike(call: Call, at: int, mutants: Sequence[Mutant]) -> list[Mutant]:
    """Return the mutants that crash on operands of the same shapes as an answer, on one case."""
    operands = _operands(call.run)
    return [mutant for mutant in mutants if _operands(partial(mutant.run, at)) == operands]


def _operands(run: Callable[[], Outcome]) -> list[tuple[int, ...]]:
    """Return the shapes in the operation at which a call crashes."""
    with recorded() as operations:
        run()
    # Only the last one counts: the learner may have caught an earlier error.
    stopped = [x for x in operations if x.name == STOPPED]
    return [tuple(tensor.shape) for operation in stopped[-1:] for tensor in operation.inputs]


def mistake_by_error(
    exercise: Exercise, fitting: list[Mistake], error: BaseException
) -> Mistake | None:
    """Return one of the fitting mistakes, or one that the error's text shows, if any.

    The text of the crashed line decides between several.
    """
    # A pattern may match the shapes in the learner's line as well as the error's text.
    line, named, not_given = last_line(error.__traceback__) or ("", {}, [])
    if not fitting:
        text = (
            f"{type(error).__name__}: {error_text(error)} {[*named.values()]} without {not_given}"
        )
        fitting = [
            mistake
            for mistake in mistakes_of(exercise.name)
            if mistake.crashes
            and mistake.belongs_to(exercise)
            and (mistake.applies(exercise) or not mistake.changes)
            and re.search(mistake.crashes, text)
            and re.search(mistake.written, line)
        ]
    # One that the learner's line confirms is surer than one that any line may have.
    written = [x for x in fitting if x.written and re.search(x.written, line)]
    unwritten = [x for x in fitting if not x.written]
    return next(iter(written or unwritten or fitting), None)
