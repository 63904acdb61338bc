"""The caller's line that made a call, and the variable bound to its result."""

from __future__ import annotations

import ast
import dis
import inspect
import sys
import textwrap
import tokenize
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from itertools import compress, pairwise
from operator import ne
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

from mha_course import torch_internals

COMPREHENSIONS = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")
OWN = (str(Path(__file__).parent), torch_internals.__file__)
# What inspect raises if there is no source, or not that of the running code.
NO_SOURCE = (OSError, TypeError, IndexError, SyntaxError, tokenize.TokenError)
SPECS = map(find_spec, ("torch", "einops"))
LIBRARIES = tuple(str(Path(spec.origin).parent) for spec in SPECS if spec and spec.origin)


class UserFrame(NamedTuple):
    """A line that ran: its code and its number."""

    code: CodeType
    lineno: int


@lru_cache(maxsize=4096)
def _side(file: str) -> str:
    """Return "own" for the tracer's files, "library" for those of torch or einops, else "user"."""
    return "own" if file.startswith(OWN) else "library" if file.startswith(LIBRARIES) else "user"


@dataclass(slots=True)
class ActiveFrame:
    """A running function: its first step, and its variables' values when last read."""

    frame: FrameType
    first: int
    module: str  # the path of its module, or of the one that called it
    lasti: int = -1
    names: list[str] = field(default_factory=list)
    values: list[int] = field(default_factory=list)  # by id


class Frames:
    """The running code, and the values of its variables.

    A saved frame keeps its variables even after its function has returned, so that nothing is
    guessed from source text. ``bind`` gets a variable, its value and the first step it may name;
    ``paths`` has the paths of modules, by id.
    """

    def __init__(self, bind: Callable[[str, object, int], None], paths: Mapping[int, str]) -> None:
        self.bind = bind
        self.paths = paths
        self.module = ""  # the innermost when a line was last looked up
        self.stack: list[ActiveFrame] = []  # outermost first
        self.places: dict[FrameType, int] = {}  # each frame's position in the stack
        self.outermost = ""  # the first library function called by the last line, if any
        self.discards = False  # whether that line discards its result

    def line(self, top: FrameType | None, step: int) -> UserFrame | None:
        """Return the innermost line below ``top`` outside libraries, or in a module's forward."""
        frame: FrameType | None = sys._getframe(2)
        new: list[FrameType] = []
        line: UserFrame | None = None
        fallback: UserFrame | None = None
        inner = 0  # the line inside a comprehension
        module: str | None = None
        self.outermost, self.discards = "", False
        caller: FrameType | None = None
        while frame is not None and frame is not top:
            code = frame.f_code
            side = _side(code.co_filename)
            if side == "user" and caller is None:
                caller = frame
                self.discards = frame.f_lasti in _discarding(code)
            elif side == "library" and caller is None:
                self.outermost = code.co_name
            if module is None and frame not in self.places:
                module = self._module_of(frame)
            if side == "user" and code.co_name in COMPREHENSIONS:
                inner = inner or frame.f_lineno  # Its frame is not the function's.
            elif side == "user":
                line = line or UserFrame(code, inner or frame.f_lineno)
                if frame in self.places:  # then it is unchanged, on the same frames
                    break
                new.append(frame)
            elif side == "library" and not fallback and code.co_name == "forward":
                fallback = UserFrame(code, frame.f_lineno)
            frame = frame.f_back
        self.leave(self.places[frame] + 1 if frame in self.places else 0)
        if self.stack:
            self._read(self.stack[-1])
        within = self.stack[-1].module if self.stack else ""
        self.module = within if module is None else module
        for begun in reversed(new):
            path = self._module_of(begun)
            within = within if path is None else path
            self.places[begun] = len(self.stack)
            self.stack.append(ActiveFrame(begun, step, within))
            self._read(self.stack[-1])
        return line or fallback

    def _module_of(self, frame: FrameType) -> str | None:
        if frame.f_code.co_varnames[:1] != ("self",):
            return None
        return self.paths.get(id(frame.f_locals.get("self")))

    def read_again(self) -> None:
        """Read all variables again: an object may now be the result of another step."""
        for running in self.stack:
            running.names = []

    def leave(self, depth: int = 0) -> None:
        """Read the variables of functions that have returned, innermost first."""
        while len(self.stack) > depth:
            returned = self.stack.pop()
            del self.places[returned.frame]
            returned.lasti = -1
            self._read(returned)

    def _read(self, running: ActiveFrame) -> None:
        """Bind a frame's changed variables; parameters name only tensors made since its start."""
        code = running.frame.f_code
        if running.lasti == running.frame.f_lasti or not (code.co_varnames or code.co_cellvars):
            return  # nothing was assigned since, or it is a notebook cell
        variables = running.frame.f_locals
        names = list(variables)
        values = list(map(id, variables.values()))
        start = len(running.names)  # The old names, if none was deleted.
        if names[:start] != running.names:
            start = 0
        changed = [*compress(names, map(ne, values, running.values[:start])), *names[start:]]
        running.lasti = running.frame.f_lasti
        running.names = names
        running.values = values
        parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        for name in changed:
            if name not in code.co_freevars:
                self.bind(name, variables[name], running.first if name in parameters else 0)


@lru_cache(maxsize=1024)
def _discarding(code: CodeType) -> frozenset[int]:
    """Return where code discards the result of a call or computation."""
    pairs = pairwise(dis.get_instructions(code))
    return frozenset(load.offset for load, after in pairs if after.opname == "POP_TOP")


@lru_cache(maxsize=1024)
def code_lines(file: str, code: CodeType) -> tuple[int, tuple[str, ...]]:
    """Return the first line's number and the lines of a function, or no lines."""
    try:
        lines, first = inspect.getsourcelines(code)
    except NO_SOURCE:
        return code.co_firstlineno, ()
    return max(first, 1), tuple(textwrap.dedent("".join(lines)).splitlines())


@lru_cache(maxsize=1024)
def statements(file: str, code: CodeType) -> dict[int, str]:
    """Return a function's lines by number, without comments, each with its whole statement."""
    first, lines = code_lines(file, code)
    by_number = {first + offset: line.strip() for offset, line in enumerate(lines)}
    try:
        tree = ast.parse("\n".join(lines))
    except SyntaxError:  # a lambda, with what is around it
        return by_number
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt) or hasattr(node, "body"):
            continue
        numbers = range(first + node.lineno - 1, first + (node.end_lineno or node.lineno))
        line = lines[node.lineno - 1].encode()
        if len(numbers) > 1:
            by_number |= dict.fromkeys(numbers, ast.unparse(node))
        elif line[node.end_col_offset or 0 :].lstrip().startswith(b"#"):  # a comment, not code
            by_number[numbers[0]] = line[: node.end_col_offset].decode().strip()
    return by_number
