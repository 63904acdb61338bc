"""Which line of whose code made a call, and to which variable its result goes."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
import textwrap
import tokenize
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

COMPREHENSIONS = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")
HERE = str(Path(__file__).parent)
LIBRARIES = tuple(
    str(Path(spec.origin).parent) for name in ("torch", "einops") if (spec := find_spec(name)) and spec.origin
)


class UserFrame(NamedTuple):
    """A line that ran: the code it belongs to, its number, and which run of the code and how far that was."""

    code: CodeType
    lineno: int
    run: int
    progress: int


@lru_cache(maxsize=4096)
def _side(file: str) -> str:
    """Say whose file this is: the tracer's own, a library's, or that of whoever uses it."""
    return "own" if file.startswith(HERE) else "library" if file.startswith(LIBRARIES) else "user"


def user_frames(top: FrameType | None, seen: dict[int, int], bind: Callable[[str, object], None]) -> list[UserFrame]:
    """Return the lines that are running below ``top``, innermost first, without those of libraries.

    Where all are a library's, the innermost line of a module's forward stands for them. ``bind`` is told which
    variables hold what by now; parameters are no variables, since they only pass on what has a name elsewhere.
    """
    frame: FrameType | None = sys._getframe(2)
    found: list[UserFrame] = []
    fallback: list[UserFrame] = []
    inner = 0  # the line inside a comprehension
    while frame is not None and frame is not top:
        code = frame.f_code
        side = _side(code.co_filename)
        if side == "user" and code.co_name in COMPREHENSIONS:
            inner = inner or frame.f_lineno
        elif side == "user":
            found.append(UserFrame(code, inner or frame.f_lineno, id(frame), frame.f_lasti))
            if seen.get(id(frame)) != frame.f_lasti:  # else nothing was assigned since
                seen[id(frame)] = frame.f_lasti
                held = frame.f_locals
                for name in code.co_varnames[code.co_argcount + code.co_kwonlyargcount :] + code.co_cellvars:
                    if name in held:
                        bind(name, held[name])
            inner = 0
        elif side == "library" and not fallback and code.co_name == "forward":
            fallback = [UserFrame(code, frame.f_lineno, id(frame), frame.f_lasti)]
        frame = frame.f_back
    return found or fallback


@lru_cache(maxsize=1024)
def line_at(file: str, lineno: int) -> str:
    """Return a line of code, of a notebook's cell too."""
    return linecache.getline(file, lineno).strip()


@lru_cache(maxsize=1024)
def code_lines(file: str, code: CodeType) -> tuple[int, tuple[str, ...]]:
    """Return the first line's number and the lines of a function of a file, or none where they are not to be had."""
    try:
        lines, first = inspect.getsourcelines(code)
    except (OSError, TypeError, IndexError, SyntaxError, tokenize.TokenError):  # or another file than the one that runs
        return code.co_firstlineno, ()
    return max(first, 1), tuple(textwrap.dedent("".join(lines)).splitlines())


class Assignment(NamedTuple):
    """A statement that gives names to what it makes."""

    first: int
    last: int
    targets: tuple[str, ...]


@lru_cache(maxsize=1024)
def assignments(first: int, lines: tuple[str, ...]) -> tuple[Assignment, ...]:
    """Find the assignments in a piece of code."""
    try:
        tree = ast.parse("\n".join(lines))
    except SyntaxError:  # a part of a statement, as of a lambda in a call
        return ()
    found = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return)):
            span = (node.lineno + first - 1, (node.end_lineno or node.lineno) + first - 1)
            found.append(Assignment(*span, _targets(node)))
    return tuple(found)


def _targets(node: ast.stmt) -> tuple[str, ...]:
    """Return the names on the left of an assignment."""
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    return tuple(part.id if isinstance(part, ast.Name) else "" for part in parts)


def name_results(
    stacks: list[list[UserFrame]], known: dict[CodeType, tuple[Assignment, ...]], bound: list[str | None]
) -> list[str | None]:
    """Find the variable to which each step's result goes: that of the innermost statement which ends with it."""
    found = list(bound)
    for last, stack in enumerate(stacks):
        after = stacks[last + 1] if last + 1 < len(stacks) else []
        for depth, user_frame in enumerate(stack):
            statement = _around(known[user_frame.code], user_frame.lineno)
            if statement is None or _goes_on(statement, user_frame, after):
                continue
            targets, first = statement.targets, last - len(statement.targets) + 1
            one_call = first >= 0 and all(stacks[number] is stack for number in range(first, last))
            if not depth and len(targets) == 1:
                found[last] = targets[0] or found[last]
            elif one_call and not any(found[first : last + 1]):
                found[first : last + 1] = [target or None for target in targets]
            break
    return found


@lru_cache(maxsize=4096)
def _around(statements: tuple[Assignment, ...], lineno: int) -> Assignment | None:
    """Return the shortest statement around a line, if there is one that is shorter than all others."""
    around = [s for s in statements if s.first <= lineno <= s.last]
    shortest = min((s.last - s.first for s in around), default=0)
    around = [s for s in around if s.last - s.first == shortest]
    return around[0] if len(around) == 1 else None  # of several on one line nobody can say which it was


def _goes_on(statement: Assignment, user_frame: UserFrame, after: list[UserFrame]) -> bool:
    return any(
        p.run == user_frame.run and p.code is user_frame.code and statement.first <= p.lineno <= statement.last
        and p.progress >= user_frame.progress
        for p in after
    )  # fmt: skip
