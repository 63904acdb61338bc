"""What a lesson declares: exercises with their hints, and common mistakes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from torch import Tensor

from mha_course.exercises.attention_steps import Steps
from mha_course.exercises.inputs import (
    FAR_BELOW,
    FIRST_SIZES,
    HIDDEN_LEAD,
    KINDS,
    OTHER_NUMBERS,
    OTHER_SIZES,
    Draw,
)
from mha_course.exercises.operations import Rule
from mha_course.mistakes import ROWS, Row
from mha_course.questions import Question, all_questions
from mha_course.sources import plain_body

Function = Callable[..., Any]
Arguments = tuple[Any, ...]
Change = Mapping[str, Function]  # replacements of steps, by name


class Stage(StrEnum):
    """Where an answer first differs from the reference: the text is ``Report.stage``."""

    SIGNATURE = "signature"
    RUN = "run"
    INPUT = "input"
    REPEAT = "repeat"
    TYPE = "type"
    SHAPE = "shape"
    DTYPE = "dtype"
    FINITE = "finite"
    VALUES = "values"
    NARROW = "narrow"
    WIDE = "wide"
    NO_INT = "no int"
    GRADIENT = "gradient"
    NO_GRADIENT = "no gradient"
    NAN_GRADIENT = "nan gradient"
    RULE = "rule"
    SIZES = "sizes"
    LARGE_NUMBERS = "large numbers"
    SWAPPED = "swapped"

    @property
    def compares_numbers(self) -> bool:
        """Whether the result itself is wrong, so that a known mistake may reproduce it."""
        return self in _OF_RESULTS


_OF_RESULTS = {
    Stage.RUN, Stage.TYPE, Stage.SHAPE, Stage.DTYPE, Stage.FINITE, Stage.VALUES,
}  # fmt: skip


class Case(NamedTuple):
    """Arguments on which an answer is judged; calls get copies.

    The sentence says what is special about them; kind is one of KINDS if they are random.
    """

    arguments: Arguments
    sentence: str = ""
    kind: str = ""


# What only some exercises allow a right answer: missing or wrong gradients, gradients that overflow
# or are NaN, and results that differ from the reference's or from call to call.
Allowed = Literal["no gradient", "nan gradient", "other answers"]


@dataclass(frozen=True)
class Exercise:
    """What a learner has to write: the reference, its hints, its inputs, and further conditions."""

    reference: Function  # the function or class to write, which ``solution`` shows
    # The first three hints, in prose with code in backticks. The third gives the shapes of the
    # decisive line.
    question: str
    pointer: str
    shape: str
    # ``drawn(d)`` gives arguments with d's sizes and numbers.
    drawn: Callable[[Draw], Arguments]
    line: str = ""  # the last hint, the decisive line; without it the body of the reference
    # The cases on which an answer is judged first, if one drawn in the lessons' sizes would not
    # show every mistake. Each is a sentence, for an answer that fails there, and a function that
    # gives the arguments.
    special_cases: Sequence[tuple[str, Callable[[], Arguments]]] = ()
    axes: str | Mapping[str, str] = ""  # such as ``"B H T S"``; for several results, by name
    steps: tuple[str, ...] = ()  # of ``attention_steps``, if it has more than one
    build: Callable[[Steps], Function] | None = None  # joins the steps; not needed for a single one
    # ``run(answer, *arguments)`` gives what is compared with the reference's.
    run: Function = operator.call
    done: str = ""  # what the learner can now do, and what to try next
    tolerance: float = 0.0  # the tolerance, if not float32's
    exact_zeros: bool = False  # whether zeros must be exact
    allows: tuple[Allowed, ...] = ()  # what a right answer may do
    rules: tuple[Rule, ...] = ()  # what it asks for besides right numbers; judged last
    # ``diagnose(answer, *arguments)`` finds a mistake that its numbers do not show: its id, if any,
    # and a sentence; or None.
    diagnose: Callable[..., tuple[str | None, str] | None] | None = None
    # The indices of tokens and query weights among the arguments, to try a wrong answer on one
    # token, and without queries.
    tokens_and_queries: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    @property
    def name(self) -> str:
        """The reference's name, by which a learner refers to the exercise."""
        return self.reference.__name__

    def draw(self, kind: str, **sizes: int) -> Case:
        """Draw arguments of a kind; given sizes replace its own."""
        return Case(tuple(self.drawn(Draw(self.name, kind, **sizes))), kind=kind)

    @cached_property
    def first_cases(self) -> tuple[Case, ...]:
        """The cases on which an answer is judged first and its mistake is named."""
        if not self.special_cases:
            return (self.draw(OTHER_SIZES, **FIRST_SIZES),)
        return tuple(Case(arguments(), sentence) for sentence, arguments in self.special_cases)

    @cached_property
    def drawn_cases(self) -> tuple[Case, ...]:
        """Cases of other sizes: of every kind that changes a size used here, or has telling
        numbers."""
        cases = []
        seen = set()
        for case in map(self.draw, KINDS):
            sizes = str([x.shape if isinstance(x, Tensor) else x for x in case.arguments])
            masked = "mask" in self.steps and case.kind in (HIDDEN_LEAD, FAR_BELOW)
            if sizes not in seen or case.kind == OTHER_NUMBERS or masked:
                cases.append(case)
            seen.add(sizes)
        return tuple(cases)

    @property
    def cases(self) -> tuple[Case, ...]:
        """All cases, in the order they are judged."""
        return self.first_cases + self.drawn_cases

    @property
    def hints(self) -> tuple[str, str, str, str]:
        """The hints, in the order they are given."""
        return self.question, self.pointer, self.shape, self.line or plain_body(self.reference)

    @property
    def results(self) -> list[str]:
        """The names of several results, such as ``["context", "weights"]``."""
        return [] if isinstance(self.axes, str) else list(self.axes)

    def axes_of(self, number: int) -> list[str]:
        """Return the axes of one of the results."""
        axes = self.axes if isinstance(self.axes, str) else self.axes[self.results[number]]
        return axes.split()

    def implementation(self, change: Change = MappingProxyType({})) -> Any:
        """Return the right answer with some steps replaced."""
        if not self.steps:
            return change.get(self.name, self.reference)
        build = self.build or operator.attrgetter(self.steps[0])
        return build(Steps(**change))


@dataclass(frozen=True, eq=False)
class Mistake:
    """A known wrong answer: the right one with a step replaced."""

    row: Row  # its words, also true if the answer crashes
    # Ways to make it; each replaces one step, or several that belong together.
    changes: tuple[Change, ...]
    only: tuple[str, ...] = ()  # the exercises in which it can be made
    but: tuple[str, ...] = ()  # the only exercises in which it cannot
    # It makes an answer fail at this stage, and no numbers are compared.
    stage: Stage | None = None
    crashes: str = ""  # a pattern for an error's text, or for the shapes in its line
    written: str = ""  # a pattern for the crashed line, if another mistake crashes alike

    @property
    def name(self) -> str:
        """Its public id; empty if it has none."""
        return self.row.id

    def belongs_to(self, exercise: Exercise) -> bool:
        """Return True if ``only`` and ``but`` allow the mistake in an exercise."""
        return exercise.name not in self.but and (not self.only or exercise.name in self.only)

    def applies(self, exercise: Exercise) -> list[Change]:
        """Return the ways to make this mistake in an exercise."""
        if not self.belongs_to(exercise):
            return []
        steps = set(exercise.steps or (exercise.name,))
        return [change for change in self.changes if set(change) <= steps]


# What crashes.py writes of an error where the learner's line names an argument that is None.
NOT_GIVEN = r"NoneType(?s:.*) without \['"


def mistake(
    key: str,
    *changes: Change,
    only: tuple[str, ...] = (),
    but: tuple[str, ...] = (),
    stage: str = "",
    crashes: str = "",
    written: str = "",
    **steps: Function | list[Function],
) -> Mistake:
    """Register the ways to make a mistake in the table, by the key of its row.

    ``softmax=[one, other]`` are two ways, each replacing only this step; ``changes`` replace
    several steps together.
    """
    single: list[Change] = []
    for step, forms in steps.items():
        single += [{step: form} for form in (forms if isinstance(forms, list) else [forms])]
    return Mistake(
        ROWS[key], (*single, *changes), only, but, Stage(stage) if stage else None, crashes, written
    )


@dataclass(frozen=True)
class Lesson:
    """Everything asked in one lesson, in order."""

    number: int
    title: str
    exercises: Sequence[Exercise]

    @property
    def questions(self) -> Mapping[str, Question]:
        """The questions on its page, by their names for ``predict``."""
        return all_questions()[self.number].page
