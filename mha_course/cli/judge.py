"""Judge all answers of one learner; runs in a sandbox that sees nobody else's.

It reads a line of JSON and the notebooks from its input, and writes lines of JSON. This process
runs none of the learner's code: each answer runs in a fork. The reader of these lines trusts no
pass until it has compared the numbers.
"""

from __future__ import annotations

import ast
import ctypes
import json
import os
import platform
import re
import resource
import select
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
import torch.fx.experimental.symbolic_shapes  # or each fork would load it at its first gradient
from torch import Tensor

from mha_course.cli.answers import (
    ANYTHING,
    Answer,
    Statement,
    course_functions,
    find_answers,
    needed,
    read_cells,
    read_statements,
)
from mha_course.exercises.catalogue import EXERCISES
from mha_course.exercises.checker import check, is_stub
from mha_course.exercises.inputs import MORE_QUERIES, OTHER_NUMBERS, OTHER_SIZES, Draw
from mha_course.exercises.sandbox import explain, run
from mha_course.torch_internals import WithoutSubclasses

MEMORY = 3 << 30  # bytes that an answer may take
OPEN_FILES = 256
LONGEST = 8 << 20  # bytes of a verdict
KINDS = (OTHER_SIZES, OTHER_NUMBERS, MORE_QUERIES)  # of the inputs drawn with the salt
BEST_FIRST = ("correct", "wrong", "error", "unattempted")  # of statuses
JOIN_SESSION_KEYRING = {"x86_64": 250, "aarch64": 219}  # keyctl's number
ENDED = "Its process ended by itself, without a result."
TOO_LONG = "It was stopped after {} seconds of computing. Does a loop never end?"
ASLEEP = "It was stopped after {} seconds, because it did not end."
LEFT_ASIDE = " An empty stub below your answer was ignored."
NO_DEFINITION = " No code cell in the notebook defines `{}`. Was its cell deleted?"
AS_TEXT = " `{}` is defined in a Markdown cell. Make it a code cell."

Verdict = dict[str, Any]


class Request(NamedTuple):
    """A request; seconds are CPU time, and patience is wall-clock time."""

    salt: str
    seconds: int
    patience: int
    sizes: list[int]  # of the notebooks, in bytes


def salted_inputs(name: str, salt: str) -> list[tuple[Any, ...]]:
    """Return arguments for an exercise that nobody can predict without the salt."""
    drawn = EXERCISES[name].drawn
    return [tuple(drawn(Draw(f"{name} {salt}", kind))) for kind in KINDS]


def numbers_of(name: str, answer: Any, salt: str) -> list[list[Any]]:
    """Return all numbers that an answer gives on the salted inputs, in one row."""
    exercise = EXERCISES[name]
    with torch.no_grad():
        outcomes = [run(exercise.run, answer, arguments) for arguments in salted_inputs(name, salt)]
    return [_flat(outcome.result) for outcome in outcomes]


def _flat(result: Any) -> list[Any]:
    if isinstance(result, Tensor):
        with WithoutSubclasses():
            result = result.detach().cpu().to_dense().flatten().tolist()
    if isinstance(result, Sequence):
        return [x for item in result for x in (_flat(item) if hasattr(item, "__len__") else [item])]
    return [result]


class Notebook:
    """One notebook: its cells, their statements and the answers in them."""

    def __init__(self, content: bytes) -> None:
        self.cells = read_cells(content)
        self.statements = read_statements(self.cells)
        self.answers = find_answers(self.statements)

    def where(self, name: str) -> str:
        """Say why a name is missing if no code cell defines it, else return ""."""
        if any(name in statement.changes for statement in self.statements):
            return ""
        defines = re.compile(rf"^\s*(?:def|class) {re.escape(name)}\b", re.MULTILINE)
        as_text = any(defines.search(cell.source) for cell in self.cells if cell.kind != "code")
        return (AS_TEXT if as_text else NO_DEFINITION).format(name)


def judge_all(notebook: Notebook, request: Request) -> Iterator[Verdict]:
    """Judge a notebook's answers, then again those that failed because of others."""
    verdicts = dict[str, Verdict]()
    for answer in notebook.answers:
        verdict = _first(notebook, answer, request)
        verdicts[answer.exercise] = verdict
        if verdict["status"] == "correct":
            yield verdict
    failed = {name for name, verdict in verdicts.items() if verdict["status"] != "correct"}
    for answer in notebook.answers:
        if answer.exercise in failed:
            _, names = needed(answer, notebook.statements)
            replaced = sorted(failed & names - {answer.exercise})
            verdict = verdicts[answer.exercise]
            if replaced and verdict["status"] != "unattempted":
                retried = _in_fork(notebook, answer, request, replaced)
                verdict = min(verdict, retried, key=_rank)
            yield verdict


def _first(notebook: Notebook, answer: Answer, request: Request) -> Verdict:
    """Return the verdict on an answer at its check, or on that after all cells, if it is better:
    cells may have been run in a different order.
    """
    statements = notebook.statements
    at_the_end = replace(answer, end=len(statements))
    verdict = _in_fork(notebook, answer, request)
    if needed(at_the_end, statements)[0] == needed(answer, statements)[0]:
        return verdict
    return min(verdict, _in_fork(notebook, at_the_end, request), key=_rank)


def _rank(verdict: Verdict) -> int:
    return BEST_FIRST.index(verdict["status"])


def _in_fork(
    notebook: Notebook,
    answer: Answer,
    request: Request,
    replaced: Sequence[str] = (),
) -> Verdict:
    """Judge an answer in its own process, with some other answers replaced by the course's."""
    chosen, _ = needed(answer, notebook.statements)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setsid()
            os.close(reading)
            _limit(request.seconds, keep=writing)
            verdict = _judge(notebook, answer, chosen, request.salt, replaced)
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(json.dumps(verdict).encode() + b"\n")
        finally:
            os._exit(0)
    os.close(writing)
    line, in_time = _read_line(reading, request.patience)
    for end in (os.killpg, os.kill):  # the process and whatever it started
        with suppress(ProcessLookupError, PermissionError):
            end(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    verdict = {"status": "error", "message": ENDED if in_time else ASLEEP.format(request.patience)}
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        verdict["message"] = TOO_LONG.format(request.seconds)
    with suppress(ValueError, RecursionError, TypeError, AttributeError, KeyError):
        reported = json.loads(line)
        BEST_FIRST.index(reported["status"])
        verdict = reported
    verdict.setdefault("begun", None)
    verdict["uses"] = course_functions(answer, chosen) if verdict["begun"] else []
    return verdict | {"exercise": answer.exercise, "replaced": [*replaced]}


def _read_line(descriptor: int, patience: int) -> tuple[bytes, bool]:
    """Return a pipe's first line, and whether it came in time."""
    data = bytearray()
    until = time.monotonic() + patience
    with os.fdopen(descriptor, "rb", buffering=0) as pipe:
        while not data.endswith(b"\n") and len(data) < LONGEST:
            if not select.select([pipe], [], [], max(0.0, until - time.monotonic()))[0]:
                return b"", False
            chunk = pipe.read(1 << 16)
            if not chunk:
                break
            data += chunk
    return bytes(data), True


def _limit(seconds: int, keep: int) -> None:
    """Limit this process, and close its open files."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nowhere, descriptor)
    for first, last in ((3, keep), (keep + 1, OPEN_FILES)):
        os.closerange(first, last)
    limits = {
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_NOFILE: OPEN_FILES,
    }
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limits[resource.RLIMIT_AS] = pages * resource.getpagesize() + MEMORY
    for kind, limit in limits.items():
        resource.setrlimit(kind, (limit, limit + (kind == resource.RLIMIT_CPU)))


def _judge(
    notebook: Notebook,
    answer: Answer,
    chosen: Sequence[Statement],
    salt: str,
    replaced: Sequence[str],
) -> Verdict:
    """Run what an answer needs, once and in order, and let the course's checker judge it."""
    name = answer.exercise
    delattr(sys.modules["my_attention"], name)
    space: dict[str, Any] = {"__name__": "__main__"}
    references = {helper: EXERCISES[helper].reference for helper in replaced}
    notes, left_aside = _run(chosen, name, space, references)
    try:
        value = eval(answer.expression, space)
    except BaseException as error:  # whatever the learner's code raises is reported
        message = f"{explain(error, ())}{notebook.where(answer.expression)}{''.join(notes)}"
        return {"status": "error", "message": message, "begun": False}
    report = check(name, value, record=False)
    if report.status == "unattempted":
        if notes:  # its own cell may be the one that failed
            return {"status": "error", "message": "".join(notes).strip(), "begun": False}
        return {"status": report.status, "message": "The body is still empty.", "begun": False}
    verdict = {
        "status": report.status,
        "mistake": report.mistake or "",
        "message": report.message,
        "begun": True,
    }
    if report.status == "correct":
        verdict["numbers"] = numbers_of(name, value, salt)
        notes = []
    verdict["message"] = "".join([report.message, *left_aside, *notes])
    return verdict


def _run(
    chosen: Sequence[Statement], name: str, space: dict[str, Any], references: Mapping[str, Any]
) -> tuple[list[str], list[str]]:
    """Run statements; return a sentence for each one skipped or failed, and for each stub that
    would have replaced an answer.
    """
    troubles = list[tuple[Statement, str]]()
    left_aside = list[str]()
    space.update(references)
    for statement in chosen:
        before = space.get(name)
        trouble = ""
        if statement.is_shell:
            trouble = "was left out: magics and shell lines are not run."
        else:
            try:
                _execute(statement, space)
            except BaseException as error:  # an answer may not need it
                trouble = f"failed: {explain(error, ())}"
        if trouble:
            troubles.append((statement, trouble))
        elif ANYTHING not in statement.changes:  # the last binding replaces a failure
            troubles = [each for each in troubles if not each[0].changes <= statement.changes]
        if not is_stub(before) and is_stub(space.get(name)):
            space[name] = before
            left_aside = [LEFT_ASIDE]
        space.update(references)
    notes = [f" Above it, `{each.first_line}` {trouble}" for each, trouble in troubles[:2]]
    return notes, left_aside


def _execute(statement: Statement, space: dict[str, Any]) -> None:
    if statement.node is None:
        exec(compile(statement.source, statement.file, "exec"), space)  # which raises
    else:
        exec(compile(ast.Module([statement.node], []), statement.file, "exec"), space)


def main() -> None:
    """Judge the notebooks on the input: write first which answers there are, then the verdicts."""
    if sys.platform == "linux":
        number = JOIN_SESSION_KEYRING.get(platform.machine())
        if number:  # a sandbox shares its starter's keyring
            ctypes.CDLL(None).syscall(number, 1, None)
    torch.set_num_threads(1)
    torch.ones(2, requires_grad=True).sum().backward()  # the forks share what its first call loads
    module = ModuleType("my_attention")  # where a learner's own functions are kept
    vars(module).update({name: exercise.reference for name, exercise in EXERCISES.items()})
    sys.modules["my_attention"] = module
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)

    def tell(**message: Any) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    request = Request(**json.loads(sys.stdin.buffer.readline()))
    notebooks = dict[int, Notebook]()
    for number, size in enumerate(request.sizes):
        try:
            notebooks[number] = Notebook(sys.stdin.buffer.read(size))
            tell(notebook=number, exercises=[x.exercise for x in notebooks[number].answers])
        except Exception as error:  # it is not a notebook
            text = f"This notebook cannot be read ({type(error).__name__})."
            tell(notebook=number, trouble=text)
    for number, notebook in notebooks.items():
        for verdict in judge_all(notebook, request):
            tell(notebook=number, **verdict)


if __name__ == "__main__":
    main()
