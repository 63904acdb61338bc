"""Find the answers in a learner's notebook, with what each of them needs, and judge one.

All of it runs in the process that ``grading`` starts for it. A cell is never run whole: of its
statements only imports, definitions and assignments that an answer needs by name.
"""

from __future__ import annotations

import ast
import builtins
import json
import linecache
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from math import isfinite, isnan
from typing import Any

import torch
from IPython.core.inputtransformer2 import TransformerManager
from numpy import int32, int64
from torch import Tensor

from mha_course.cli.stub_source import is_stub_source
from mha_course.exercises.catalogue import EXERCISES, LESSONS
from mha_course.exercises.checker import check
from mha_course.exercises.sandbox import explain, run
from mha_course.exercises.spec import Exercise
from mha_course.sources import looked_up
from mha_course.torch_internals import WithoutSubclasses

# What an answer puts in the place of Python's own functions changes nothing in this module.
globals()["__builtins__"] = dict(vars(builtins))
AS_LIST, DENSE = Tensor.tolist, Tensor.to_dense  # as they are before anybody's code runs
CLOSE = 1e-3  # what results may be apart from those that the checker has compared already
CELL_MAGIC = re.compile(r"\A(?:\s*%%.*\n)+")
BEGINNING = re.compile(rf"^(?:async )?(?:def|class) ({'|'.join(EXERCISES)})\b", re.MULTILINE)
BROKEN = (SyntaxError, ValueError, RecursionError, MemoryError)  # what ast.parse raises
LEFT_OUT = (
    " What loops and calls of the notebook make is not there: only imports, definitions and "
    "assignments are run."
)
OTHERWISE = (
    "Its results are not those of the exercise when they are compared with numbers that were "
    "computed before your code ran."
)
# Stages at which the numbers are right on the exercise's own inputs.
HALF = ("gradient", "no gradient", "nan gradient", "narrow", "wide", "no int", "rule", "sizes")
SHORT = 150  # bytes of code
IN_PLACE = " It was judged with the course's own {} in place of yours."
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
IMPORTS = (ast.Import, ast.ImportFrom)
ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)


@dataclass(frozen=True)
class Answer:
    """One answer: an expression, and the sources of the statements to run before it.

    There are none, and no expression, where nobody has begun. ``calls`` are other exercises that
    the statements bind, and ``replaced`` those of them that are judged to be wrong.
    """

    exercise: str
    expression: str = ""
    statements: Sequence[str] = ()
    calls: Sequence[str] = ()
    replaced: Sequence[str] = ()


@dataclass(frozen=True)
class Statement:
    """One top-level statement of a cell; its node is None where the cell is broken."""

    source: str
    node: ast.stmt | None
    binds: frozenset[str]
    uses: frozenset[str] = frozenset()

    @property
    def runs(self) -> bool:
        """Whether it is of a kind that may be run: no loop, no call, nothing that trains."""
        return self.node is None or isinstance(
            self.node, (*IMPORTS, *DEFINITIONS, *ASSIGNMENTS, ast.If, ast.Try, ast.With)
        )

    @property
    def is_part(self) -> bool:
        """Whether it imports a part of what it binds, as ``import a.b`` does."""
        return isinstance(self.node, ast.Import) and not self.node.names[0].asname


def read(notebook: bytes) -> list[tuple[Any, ...]] | str:
    """Return the fields of each answer in a notebook, or a sentence on why it cannot be read."""
    if not notebook:
        return "There is no notebook, or it is empty, larger than 100 MB, or cannot be opened."
    try:
        cells = code_cells(notebook)
    except Exception as error:  # whatever it is, it is no notebook
        return f"This is no notebook that can be read ({type(error).__name__})."
    sources = [source for _, source in cells]
    if not any(map(str.strip, sources)):
        return "There is no code in this notebook."
    # What a learner saw pass may stand below its check: the order in which cells were run counts
    # as well as that in which they stand.
    answers = find_answers(sources)
    others = find_answers([source for _, source in sorted(cells, key=lambda cell: cell[0])])
    answers += [answer for answer in others if answer.expression and answer not in answers]
    return [(x.exercise, x.expression, x.statements, x.calls) for x in answers]


def code_cells(notebook: bytes) -> list[tuple[int, str]]:
    """Return when each cell of code was run, and its source. Raises: an error where it is none."""
    try:
        parsed = json.loads(notebook)
    except UnicodeDecodeError:  # as an old Windows writes it
        parsed = json.loads(notebook.decode("cp1252"))
    sheets = parsed.get("worksheets", [parsed])  # those of format 3, which calls a source input
    cells = [cell for sheet in sheets for cell in sheet["cells"] if cell["cell_type"] == "code"]
    sources = ["".join(cell.get("source", cell.get("input", ""))) for cell in cells]
    counts = [cell.get("execution_count") for cell in cells]
    places = [count if type(count) is int else sys.maxsize for count in counts]
    return list(zip(places, sources, strict=True))


def find_answers(cells: Sequence[str]) -> list[Answer]:
    """Return the answers in the cells of a notebook, in the order of the course."""
    statements = [statement for cell in cells for statement in _statements(as_python(cell))]
    checks = dict[str, tuple[int, str]]()
    defined = set[str]()
    for at, statement in enumerate(statements):
        checks |= {name: (at, given) for name, given in _checks(statement.node)}
        defined.update(_defined(statement.node) if statement.node else statement.binds)
    # A helper may have the name of another lesson's exercise.
    names_of_lessons = [{exercise.name for exercise in lesson.exercises} for lesson in LESSONS]
    theirs = set[str]().union(
        *(names for names in names_of_lessons if not checks or names & checks.keys())
    )
    answers = []
    for name in EXERCISES:
        if name in checks or name in defined & theirs:
            answers.append(_answer(name, statements, *checks.get(name, (len(statements), name))))
    return answers


def as_python(source: str) -> str:
    """Return a cell as Python, with calls for the lines that are IPython's own."""
    try:
        ast.parse(source)
    except BROKEN:
        with suppress(*BROKEN, RuntimeError):  # of so many lines that it gives up
            return str(TransformerManager().transform_cell(CELL_MAGIC.sub("", source)))
    return source


def _statements(source: str) -> Iterator[Statement]:
    """Take a cell apart, imports name by name; one that is no Python is one statement."""
    try:
        nodes = ast.parse(source).body
    except BROKEN:
        yield Statement(source, None, frozenset(BEGINNING.findall(source)))
        return
    lines = source.encode().splitlines(keepends=True)  # as ast counts lines and columns
    for node in nodes:
        if isinstance(node, IMPORTS):
            for alias in node.names:
                single = copy(node)
                single.names = [alias]
                yield Statement(ast.unparse(single), single, frozenset(_bound(single)))
        else:
            first = min([node, *getattr(node, "decorator_list", ())], key=lambda x: x.lineno)
            part = lines[first.lineno - 1 : node.end_lineno]
            part[-1] = part[-1][: node.end_col_offset]
            part[0] = part[0][node.col_offset if first is node else 0 :]
            written = b"".join(part).decode()
            yield Statement(written, node, frozenset(_bound(node)), frozenset(_used(node)))


def _bound(node: ast.AST) -> Iterator[str]:
    """Yield the names that a statement binds or changes, as ``A`` in ``A.forward = f``."""
    if isinstance(node, DEFINITIONS):
        yield node.name
    elif isinstance(node, IMPORTS):
        yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
    elif isinstance(node, ASSIGNMENTS):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        inner = (child for target in targets for child in ast.walk(target))
        yield from (child.id for child in inner if isinstance(child, ast.Name))
    else:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt | ast.ExceptHandler | ast.withitem):
                yield from _bound(child)
            elif isinstance(node, ast.withitem) and child is node.optional_vars:
                yield from (name.id for name in ast.walk(child) if isinstance(name, ast.Name))


def _defined(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
            yield name
        case ast.Assign([ast.Name(name)], ast.Lambda()):
            yield name
        case ast.With() | ast.If() | ast.Try():
            for statement in node.body:
                yield from _defined(statement)


def _used(node: ast.AST) -> Iterator[str]:
    """Yield the names that a statement looks up outside of itself."""
    if isinstance(node, ast.AugAssign):
        yield from _bound(node)
    with suppress(*BROKEN):  # such as a return outside of a function
        yield from looked_up(ast.unparse(node))


def _checks(node: ast.stmt | None) -> Iterator[tuple[str, str]]:
    """Yield the exercise and the answer of each call of check that counts, as written."""
    for inner in ast.walk(node) if node else ():
        match inner:
            case ast.Call(
                func=ast.Name("check") | ast.Attribute(attr="check"),
                args=[ast.Constant(str(name)), given],
                keywords=rest,
            ) if name in EXERCISES and not any(keyword.arg == "record" for keyword in rest):
                yield name, ast.unparse(given)


def _answer(name: str, statements: list[Statement], checked: int, given: str) -> Answer:
    """Choose between the exercise's own name, as at its last check, and what that got."""
    end = min(checked + 1, len(statements))
    expression = name
    if not _begun(name, statements, end):
        expression = given
        if given == name:
            end = len(statements)  # it may stand below
            if not _begun(name, statements, end):
                return Answer(name)
    needed = _needed(expression, statements, end)
    bound = set[str]().union(*(statement.binds for statement in needed)) - {name}
    return Answer(
        name,
        expression,
        [statement.source for statement in needed],
        [other for other in EXERCISES if other in bound],
    )


def _last(name: str, statements: Sequence[Statement], before: int) -> int | None:
    """Return the last statement before a place that binds a name."""
    binding = (at for at in reversed(range(before)) if name in statements[at].binds)
    return next((at for at in binding if statements[at].runs), None)


def _begun(name: str, statements: Sequence[Statement], before: int) -> bool:
    """Whether an answer was begun before a place; ``softmax.seen = None`` begins none."""
    last = _last(name, statements, before)
    if last is None:
        return False
    node = statements[last].node
    if not is_stub_source(node):
        return True
    notes = isinstance(node, ast.Assign) and not any(isinstance(x, ast.Name) for x in node.targets)
    return notes and _begun(name, statements, last)


def _needed(expression: str, statements: Sequence[Statement], end: int) -> list[Statement]:
    """Return the statements that bind what an expression needs, in their order; always those of
    ``import *``.

    What a function uses is looked up when it is called, so both count: the last before it, and the
    last of all.
    """
    nodes = ast.walk(ast.parse(expression))
    wanted = [(node.id, end) for node in nodes if isinstance(node, ast.Name)]
    chosen = {at for at in range(end) if "*" in statements[at].binds}
    while wanted:
        name, before = wanted.pop()
        at = _last(name, statements, before)
        if at is None and before == end and not hasattr(builtins, name):
            # bound too late, in a cell that was run before
            at = _last(name, statements, len(statements))
        if at is not None and at not in chosen:
            binding = (x for x in range(before) if name in statements[x].binds)
            chosen |= {at, *(x for x in binding if statements[x].is_part)}
            ends = (at, end) if isinstance(statements[at].node, DEFINITIONS) else (at,)
            wanted += [(used, until) for used in statements[at].uses for until in ends]
    return [statements[at] for at in sorted(chosen)]


def judge(answer: Answer) -> tuple[str, ...]:
    """Run what an answer needs, let the course's own checker judge it, and return what it says;
    never raises.

    That is a status, a mistake, a message, a picture in HTML, a word where an answer that failed
    gets half a point, and a digest of the code.
    """
    code = _digest(answer.statements)
    space: dict[str, Any] = {"__name__": "__main__", "__builtins__": builtins}
    of_python = vars(builtins)
    own = dict(of_python)
    exercise = EXERCISES[answer.exercise]
    torch.set_num_threads(1)  # as the checker does
    right = right_numbers(answer.exercise)
    references = {name: EXERCISES[name].reference for name in answer.replaced}
    try:
        for number, source in enumerate(answer.statements, start=1):
            file = f"your code, part {number}"
            linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
            if references.keys() & _binds(source):
                space.update(references)
            else:
                exec(compile(source, file, "exec"), space)
        given = eval(answer.expression, space)
        # with what a cell has put in their place, any answer might seem right
        of_python.update(own)
        report = check(answer.exercise, given, record=False)
        of_python.update(own)
        many = len(exercise.inputs)
        half = report.stage in HALF and _agrees(exercise, given, right[:many])
        of_python.update(own)
        if report.status == "correct" and not _agrees(exercise, given, right):
            return "wrong", "", OTHERWISE, "", "", code
    except BaseException as error:  # whatever a learner's code raises is reported
        of_python.update(own)
        missing = LEFT_OUT if isinstance(error, NameError) else ""
        return "error", "", f"{explain(error, ())}{missing}", "", "", code
    missing = LEFT_OUT if report.message.startswith("NameError") else ""
    if references:
        names = ", ".join(f"`{name}`" for name in references)
        missing += IN_PLACE.format(names)
    message = f"{report.message}{missing}"
    return report.status, report.mistake or "", message, report.picture, "half" * half, code


def _digest(statements: Sequence[str]) -> str:
    """Return the same for the same code, whatever its comments, docstrings and layout; nothing of
    code that is so short that many write it alike.
    """
    parts = []
    with suppress(*BROKEN):
        for node in ast.parse("\n".join(statements)).body:
            for inner in ast.walk(node):
                if isinstance(inner, DEFINITIONS) and is_stub_source(inner.body[0]):
                    del inner.body[0]
            parts += [ast.unparse(node)] * (not isinstance(node, IMPORTS))
    code = "\n".join(parts).encode(errors="backslashreplace")
    return sha256(code).hexdigest() if len(code) > SHORT else ""


@cache
def right_numbers(name: str) -> list[list[Any]]:
    """Return the numbers of the reference's results on all inputs of an exercise."""
    exercise = EXERCISES[name]
    with torch.no_grad():
        results = [exercise.run(exercise.reference, *inputs()) for inputs in exercise.all_inputs]
    return [_numbers(result) for result in results]


def _binds(source: str) -> set[str]:
    """Return the names that a statement binds, or a cell that is no Python begins."""
    try:
        return {name for node in ast.parse(source).body for name in _bound(node)}
    except BROKEN:
        return set(BEGINNING.findall(source))


def _agrees(exercise: Exercise, given: Any, right: Sequence[list[Any]]) -> bool:
    """Return whether results are those that were computed before, of the first inputs: made of what
    nobody can replace by name. Raises: whatever the answer does.
    """
    for inputs, wanted in zip(exercise.all_inputs, right, strict=False):
        outcome = run(exercise.run, given, inputs())
        if outcome.error:
            raise outcome.error
        found = _numbers(outcome.result)
        size = max([1.0, *(abs(x) for x in wanted if isfinite(x))])
        near = [
            x == y or (isnan(x) and isnan(y)) or abs(x - y) <= CLOSE * size
            for x, y in zip(found, wanted, strict=False)
        ]
        if len(found) != len(wanted) or not all(near):
            return False
    return True


def _numbers(result: Any) -> list[Any]:
    """Return all numbers of a result in a row. Raises: TypeError where it is made of others."""
    if type(result) in (int, float, bool, int32, int64):
        return [result]
    with WithoutSubclasses():
        parts = AS_LIST(DENSE(result)) if isinstance(result, Tensor) else [*result]
    return [x for part in parts for x in _numbers(part)] if type(parts) is list else [parts]
