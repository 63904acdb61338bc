"""What a trace holds: a Step for each tensor that was made, an Argument for each given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch


@dataclass(frozen=True)
class Argument:
    """An argument, or a parameter from its first use on; fields as in Step."""

    name: str
    shape: tuple[int, ...]
    axes: tuple[str, ...]
    strides: tuple[int, ...]
    offset: int
    memory: int


class Operand(NamedTuple):
    """A tensor that a step read; ``source`` is a step's index or an Argument's name."""

    source: int | str
    shape: tuple[int, ...]
    axes: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """A piece of code that ran: its name, the file, the number of its first line, its lines."""

    name: str
    file: str
    first: int
    lines: tuple[str, ...]


@dataclass(slots=True)
class Step:
    """One tensor, and the call that made it."""

    index: int
    op: str  # torch's name for what was written: linear, reshape, matmul (for @), div (for /) …
    inputs: tuple[Operand, ...]
    shape: tuple[int, ...]
    axes: tuple[str, ...]  # a name for each axis, "?" where it is not known
    strides: tuple[int, ...]  # in elements, the tensor's own
    contiguous: bool
    storage: str  # "view", "copy" (same values moved), "same" (the very object) or "new"
    dtype: torch.dtype
    device: torch.device
    bytes: int
    flops: int  # of matrix products; a multiply-add counts as 2
    line: str  # the line of code, stripped
    lineno: int
    hidden_copies: int  # copies that were made on the way though nobody wrote them
    warning: str | None = None  # what is certainly wrong: "id-of-the-mistake: what, and the fix"
    question: str | None = None  # the same for what is unusual and may be meant
    note: str | None = None  # what cannot be seen here, and why
    # projection, split, scores, scaled_scores, masked_scores, weights, context, merged, out or ""
    stage: str = ""
    name: str | None = None  # the variable that the line assigns it to
    offset: int = 0  # of the first element in its memory, in elements
    memory: int = 0  # which piece of memory, numbered in order of appearance: views share a number
    module: str = ""  # the path of the module that ran, as named_modules() has it
    source: int | None = None  # the index in Trace.sources of the code that the line belongs to
