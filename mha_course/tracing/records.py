"""The contents of a trace: a Step for each tensor made, an Argument for each given."""

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
    """Code that ran: its name, file, first line number and lines."""

    name: str
    file: str
    first: int
    lines: tuple[str, ...]


@dataclass(slots=True)
class Step:
    """One tensor and the call that made it."""

    index: int
    op: str  # torch's name for the call: linear, reshape, matmul (for @), div (for /) …
    inputs: tuple[Operand, ...]
    shape: tuple[int, ...]
    axes: tuple[str, ...]  # a name for each axis, "?" if unknown
    strides: tuple[int, ...]  # in elements, the tensor's own
    contiguous: bool
    storage: str  # "view", "copy" (same values moved), "same" (the same object) or "new"
    dtype: torch.dtype
    device: torch.device
    bytes: int
    flops: int  # of matrix products; a multiply-add counts as 2
    line: str  # the line of code, stripped
    lineno: int
    hidden_copies: int  # copies that the code does not mention
    warning: str | None = None  # what is certainly wrong: "mistake-id: what, and the fix"
    question: str | None = None  # the same for what is unusual but may be intended
    note: str | None = None  # what cannot be seen here, and why
    # projection, split, scores, scaled_scores, masked_scores, weights, context, merged, out or ""
    stage: str = ""
    name: str | None = None  # the variable that the line assigns it to
    offset: int = 0  # the first element's position in its memory, in elements
    memory: int = 0  # its memory, numbered in order of appearance: views share a number
    module: str = ""  # the running module's path, as in named_modules()
    source: int | None = None  # the index in Trace.sources of the line's code
