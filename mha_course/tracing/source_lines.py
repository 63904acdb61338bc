"""Which line of whose code made a call, and to which variable its result goes."""

from __future__ import annotations

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
    """A line that ran: the code it belongs to, and its number."""

    code: CodeType
    lineno: int


@lru_cache(maxsize=4096)
def _side(file: str) -> str:
    """Say whose file this is: the tracer's own, a library's, or that of whoever uses it."""
    return "own" if file.startswith(HERE) else "library" if file.startswith(LIBRARIES) else "user"


class Frames:
    """The code that is running, and which of its variables held what.

    A frame that is kept still has its variables when its function has returned, so that nothing needs to be guessed
    from the text of the code. ``bind`` is told a variable, what it held, and the first step that it may name.
    """

    def __init__(self, bind: Callable[[str, object, int], None]) -> None:
        self.bind = bind
        self.known: dict[FrameType, tuple[int, int]] = {}  # where each frame was last looked at, and its first step

    def lines(self, top: FrameType | None, step: int) -> list[UserFrame]:
        """Return the lines that are running below ``top``, innermost first, without those of libraries.

        Where all are a library's, the innermost line of a module's forward stands for them.
        """
        frame: FrameType | None = sys._getframe(2)
        found: dict[FrameType, UserFrame] = {}
        fallback: list[UserFrame] = []
        inner = 0  # the line inside a comprehension
        while frame is not None and frame is not top:
            code = frame.f_code
            side = _side(code.co_filename)
            if side == "user" and code.co_name in COMPREHENSIONS:
                inner = inner or frame.f_lineno
            elif side == "user":
                found[frame] = UserFrame(code, inner or frame.f_lineno)
                inner = 0
            elif side == "library" and not fallback and code.co_name == "forward":
                fallback = [UserFrame(code, frame.f_lineno)]
            frame = frame.f_back
        for gone in [one for one in reversed(self.known) if one not in found]:
            self._read(gone, self.known.pop(gone)[1])
        for running in found:
            last, first = self.known.get(running, (-1, step))
            if last != running.f_lasti:  # else nothing was assigned since
                self.known[running] = running.f_lasti, first
                self._read(running, first)
        return list(found.values()) or fallback

    def finish(self) -> None:
        """Read the variables of all that has run to its end."""
        for frame in reversed(self.known):
            self._read(frame, self.known[frame][1])
        self.known.clear()

    def _read(self, frame: FrameType, first: int) -> None:
        """Say what a frame's variables hold; its parameters name only what was made since it began."""
        code, held = frame.f_code, frame.f_locals
        given = code.co_argcount + code.co_kwonlyargcount
        for position, name in enumerate((*code.co_varnames, *code.co_cellvars)):
            if name in held:
                self.bind(name, held[name], first if position < given else 0)


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
