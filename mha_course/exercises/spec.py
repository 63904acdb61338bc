"""What a lesson declares: exercises with their hints, and mistakes that people make."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

from torch import Tensor

from mha_course.exercises.attention_steps import Steps
from mha_course.exercises.inputs import FAR_BELOW, HIDDEN_LEAD, KINDS, OTHER_NUMBERS, Draw
from mha_course.mistakes import ROWS, Row
from mha_course.questions import Question, all_questions
from mha_course.sources import plain_body

Function = Callable[..., Any]
Change = Mapping[str, Function]  # steps that are replaced, by name
# by which numbers go to where operations are not seen
EXITS = {"numpy", "__array__", "__dlpack__", "tolist"}
STOPPED = "stopped"  # the name of an operation that raised an error


class Operation(NamedTuple):
    """One operation of torch that an answer ran: its name, such as ``"amax"``, and what went in.

    Inputs are copies of the tensors; output is a shape, and held the number of results of this
    shape that are still in memory. One of EXITS has no output, nor has one that is STOPPED.
    """

    name: str
    inputs: tuple[Tensor, ...]
    output: tuple[int, ...] = ()
    held: int = 0


@dataclass(frozen=True)
class Rule:
    """What an exercise asks for beside the numbers, such as an operation that is not to be used.

    Args:
        row: what an answer did that broke it, and what to do instead.
        breaks: ``breaks(operations, *arguments)`` is true of operations that break it.
    """

    row: Row
    breaks: Callable[..., bool]


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    Args:
        reference: the function or class to be written, which ``solution`` shows.
        question, pointer, shape: the first three hints, in prose with code between backticks; the
            third tells the shapes of the decisive line.
        inputs: each gives arguments on which answers are judged; a mistake should show on one.
        drawn: ``drawn(d)`` gives arguments of sizes and numbers that are drawn, on which an answer
            that agrees is judged again; d is a ``Draw``.
        line: the last hint, the decisive line; without it the body of the reference.
        cases: a sentence on each of the inputs that needs one, for an answer that fails on it.
        axes: of the result, such as ``"B H T S"``; of each where there are several that differ.
        steps: what it is made of, by the names of ``attention_steps``, if more than itself.
        build: puts the steps together; a single step needs none.
        run: ``run(answer, *arguments)`` gives what is compared with the same of the reference.
        results: what each of several results is, such as ``("context", "weights")``.
        done: what a learner can do who has solved it, and what to try next.
        tolerance: how close a result must come, if not as close as float32 does.
        exact_zeros: whether what is 0 must be 0 to the last digit.
        kinds: those of KINDS that are drawn.
        finite_gradients: False where the gradient of a right answer may overflow or be NaN.
        learns: whether learning goes through it, so that its results must keep their gradients.
        rules: what it asks for beside the numbers; judged last.
        unique: False where other answers are right, so that gradients and two calls may differ.
        diagnose: ``diagnose(answer, *arguments)`` finds a mistake that is not known by its numbers:
            its id, if it has one, and a sentence; or None.
        token_arguments, query_arguments: where tokens and query weights stand among the arguments,
            so that a wrong answer can be tried on one token, and without queries.
    """

    reference: Function
    question: str
    pointer: str
    shape: str
    inputs: Sequence[Callable[[], tuple[Any, ...]]]
    drawn: Callable[[Draw], tuple[Any, ...]]
    line: str = ""
    cases: tuple[str, ...] = ()
    axes: str | tuple[str, ...] = ""
    steps: tuple[str, ...] = ()
    build: Callable[[Steps], Function] | None = None
    run: Function = operator.call
    results: tuple[str, ...] = ()
    done: str = ""
    tolerance: float = 0.0
    exact_zeros: bool = False
    kinds: tuple[str, ...] = tuple(KINDS)
    finite_gradients: bool = True
    learns: bool = True
    rules: tuple[Rule, ...] = ()
    unique: bool = True
    diagnose: Callable[..., tuple[str | None, str] | None] | None = None
    token_arguments: tuple[int, ...] = ()
    query_arguments: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The name of the reference, by which a learner asks for the exercise."""
        return self.reference.__name__

    @property
    def all_inputs(self) -> list[Callable[[], tuple[Any, ...]]]:
        """The inputs, and behind them those that are drawn, in the order of kinds."""
        return [*self.inputs, *(partial(self.draw, kind) for kind in self.drawn_kinds)]

    def draw(self, kind: str, **sizes: int) -> tuple[Any, ...]:
        """Draw arguments of a kind, with other sizes than it has if any are given."""
        return tuple(self.drawn(Draw(self.name, kind, **sizes)))

    @cached_property
    def drawn_kinds(self) -> tuple[str, ...]:
        """The kinds that bring arguments of new sizes, or such as only numbers tell from others."""
        kept = []
        seen = set()
        for kind in self.kinds:
            arguments = self.draw(kind)
            sizes = tuple(tuple(x.shape) if isinstance(x, Tensor) else str(x) for x in arguments)
            masked = "mask" in self.steps and kind in (HIDDEN_LEAD, FAR_BELOW)
            if sizes not in seen or kind == OTHER_NUMBERS or masked:
                kept.append(kind)
            seen.add(sizes)
        return tuple(kept)

    @property
    def hints(self) -> tuple[str, str, str, str]:
        """The hints in the order in which they are given."""
        return self.question, self.pointer, self.shape, self.line or plain_body(self.reference)

    def axes_of(self, number: int) -> list[str]:
        """Return the axes of one of the results."""
        return (self.axes if isinstance(self.axes, str) else self.axes[number]).split()

    def implementation(self, *changes: Change) -> Any:
        """Return the right answer with some steps replaced."""
        replaced = {name: step for change in changes for name, step in change.items()}
        if not self.steps:
            return replaced.get(self.name, self.reference)
        build = self.build or operator.attrgetter(self.steps[0])
        return build(Steps(**replaced))


@dataclass(frozen=True, eq=False)
class Mistake:
    """A wrong answer that is known: the right one with a step replaced.

    Args:
        row: its words, which are also true of a crash.
        changes: ways to make it, each the steps that are replaced: one alone, or several that
            belong together.
        only, but: the exercises in which it can be made, or all but these.
        stage: the stage of a ``Report`` at which an answer fails that makes it; then no numbers are
            compared.
        crashes: a pattern that shows it in the text of an error, or in the shapes of its line.
        written: a pattern found in the line that crashed, where another mistake crashes alike.
    """

    row: Row
    changes: tuple[Change, ...]
    only: tuple[str, ...] = ()
    but: tuple[str, ...] = ()
    stage: str = ""
    crashes: str = ""
    written: str = ""

    @property
    def name(self) -> str:
        """Its public id; empty where it has none."""
        return self.row.id

    def belongs_to(self, exercise: Exercise) -> bool:
        """Return True where ``only`` and ``but`` let the mistake be made in an exercise."""
        return exercise.name not in self.but and (not self.only or exercise.name in self.only)

    def applies(self, exercise: Exercise) -> list[Change]:
        """Return the ways in which this mistake can be made in an exercise."""
        if not self.belongs_to(exercise):
            return []
        steps = set(exercise.steps or (exercise.name,))
        return [change for change in self.changes if set(change) <= steps]


def mistake(key: str, *changes: Change, **rest: Any) -> Mistake:
    """Register the ways to make a mistake of the table, by the key of its row.

    ``softmax=[one, other]`` are two ways, in which this step alone is replaced; ``changes`` replace
    several together.
    """
    options = {key: rest.pop(key) for key in [*rest] if key in Mistake.__dataclass_fields__}
    alone = [
        {step: way}
        for step, ways in rest.items()
        for way in (ways if isinstance(ways, list) else [ways])
    ]
    return Mistake(ROWS[key], (*alone, *changes), **options)


@dataclass(frozen=True)
class Lesson:
    """All that is asked in one lesson, in its order."""

    number: int
    title: str
    exercises: Sequence[Exercise]

    @property
    def questions(self) -> Mapping[str, Question]:
        """What its page asks, by the names that ``predict`` takes."""
        return all_questions()[self.number].page
