"""Show an answer's numbers next to the right ones, with the cells that differ framed."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from mha_course.colours import DIFFERS, INK, NOT_A_NUMBER, SIGNED
from mha_course.markup import table

_TABLE = "border-collapse:collapse;font-size:85%;margin:4px 12px 4px 0"
# The signed palette's colours halfway to its ends, so that text in ink is readable.
_NEGATIVE, _POSITIVE = SIGNED[1], SIGNED[3]
_FRAME = f";border:2px solid {DIFFERS};font-weight:bold"


def side_by_side(result: Any, target: Any) -> str:
    """Return the HTML of the first matrix that differs, at most 8 x 8 cells, and its target.

    It is empty if no matrix differs by more than rounding.
    """
    if not isinstance(result, Tensor) or result.dim() < 2:
        return ""
    # Batch and heads are merged: one matrix is enough to see what is wrong.
    shape = (-1, *result.shape[-2:])
    results, targets = (x.detach().to_dense().double().reshape(shape) for x in (result, target))
    wrong = ~torch.isclose(results, targets, atol=1e-5, equal_nan=True)
    if not bool(wrong.any()):
        return ""
    matrix, row, column = (int(i) for i in wrong.nonzero()[0])
    # The first cell that differs is in the window, at the latest in its last row and column.
    rows, columns = (slice(max(0, i - 7), max(0, i - 7) + 8) for i in (row, column))
    window = matrix, rows, columns
    left = _matrix(results[window], wrong[window], "yours, framed where it differs")
    right = _matrix(targets[window], wrong[window], "target")
    cells = f"<td>{left}</td><td>{right}</td>"
    return f'<table style="border-collapse:collapse"><tr>{cells}</tr></table>'


def _matrix(matrix: Tensor, wrong: Tensor, title: str) -> str:
    """Write a matrix as a table of shaded cells, framing the wrong ones."""
    largest = float(matrix.abs().nan_to_num(0.0, 0.0, 0.0).max()) or 1.0
    rows = []
    for values, marks in zip(matrix.tolist(), wrong.tolist(), strict=True):
        cells = ""
        for value, is_wrong in zip(values, marks, strict=True):
            style = _shade(value, largest) + (_FRAME if is_wrong else "")
            cells += f'<td style="{style}">{_short(value)}</td>'
        rows.append(f"<tr>{cells}</tr>")
    return table(title, (), rows, _TABLE)


def _short(value: float) -> str:
    """Write a number with two decimals, or its size if it is large; a zero has no sign."""
    return f"{value:.0e}" if 1e5 <= abs(value) < math.inf else f"{value:z.2f}"


def _shade(value: float, largest: float) -> str:
    """Return a cell's style, in the colours of signed heatmaps; NaN is grey."""
    colour = NOT_A_NUMBER
    if not math.isnan(value):
        fraction = min(abs(value) / largest, 1.0)
        full = bytes.fromhex((_POSITIVE if value >= 0 else _NEGATIVE)[1:])
        red, green, blue = (round(255 - fraction * (255 - channel)) for channel in full)
        colour = f"rgb({red},{green},{blue})"
    return f"color:{INK};padding:1px 5px;text-align:right;background:{colour}"
