"""Describe in words, and in a small picture, how a result differs from the reference's."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mha_course.colours import DIFFERS, INK
from mha_course.exercises.sandbox import as_list
from mha_course.exercises.spec import Stage
from mha_course.markup import table
from mha_course.torch_internals import is_plain

_FRAME = f";border:2px solid {DIFFERS};font-weight:bold"
_WORDS = {
    "B": "sentence", "H": "head", "T": "token", "S": "token", "C": "channel", "D": "channel",
    "N": "patch", "N+1": "token", "3*P*P": "number", "new": "new token", "total": "token",
}  # fmt: skip
TOLERANCE = 1e-5  # how close a result must come: it may be computed in float32
ROUNDED = 30  # how many roundings of another dtype numbers may be off, and count as right
_INTS = (int, np.int32, np.int64)


def compare(
    got: Any, want: Any, axes: Sequence[str], tolerance: float, dtype: torch.dtype | None = None
) -> tuple[Stage, str] | None:
    """Return the stage and a clause on how one result differs, or None.

    A result has the dtype, if one is given, and may be float32 if that is float64.
    """
    if got is None:
        return Stage.TYPE, "is None."
    if isinstance(want, int):
        return _whole_number(got, want)
    if not isinstance(got, Tensor):
        kind = "a tensor" if axes or want.dtype != torch.bool else "True or False"
        return Stage.TYPE, f"should be {kind}, but is of type {type(got).__name__}."
    if not (is_plain(got) or got.is_sparse) or got.is_meta or got.is_quantized:
        return Stage.TYPE, "should be an ordinary tensor, whose numbers can be read."
    if got.shape != want.shape:
        target = f"{tuple(want.shape)}, which is ({', '.join(axes)})" if axes else "one value"
        return Stage.SHAPE, f"has shape {tuple(got.shape)}, but should have {target}."
    if not want.is_floating_point():
        return _exact(got, want, axes)
    if not got.is_floating_point():
        return Stage.DTYPE, f"is {got.dtype}, but should be floating point."
    accepted = (dtype,) if dtype == torch.float32 else (torch.float64, torch.float32)
    tolerance = max(tolerance, TOLERANCE)
    numbers = got.detach().to_dense()
    if got.dtype in accepted:
        return _numbers(numbers, want.detach(), tolerance, axes)
    coarse = max(tolerance, ROUNDED * torch.finfo(got.dtype).eps)
    wrong = _numbers(numbers.to(want.dtype), want.detach(), coarse, axes)
    narrow = f"is {got.dtype}, but should be {' or '.join(map(str, accepted))}."
    wider = got.dtype == torch.float64 and want.dtype == torch.float32
    return wrong or (Stage.WIDE if wider else Stage.NARROW, narrow)


def _whole_number(got: Any, want: int) -> tuple[Stage, str] | None:
    """Compare an int or one of NumPy's; a subclass might say anything when it is compared."""
    if type(got) in _INTS:
        return None if int(got) == want else (Stage.VALUES, f"is {int(got)}, but should be {want}.")
    kind = type(got).__name__
    if type(got) is float or (type(got) is Tensor and got.numel() == 1):
        return (
            (Stage.NO_INT, f"is a {kind}.") if float(got) == want else (Stage.VALUES, f"is {got}.")
        )
    return Stage.TYPE, f"should be an int, but is a {kind}."


def _exact(got: Tensor, want: Tensor, axes: Sequence[str]) -> tuple[Stage, str] | None:
    """Compare masks and whole numbers."""
    if want.dtype == torch.bool and got.dtype != torch.bool:
        meaning = ", True = may attend" if axes else ", True or False"
        return Stage.DTYPE, f"is {got.dtype}, but should be torch.bool{meaning}."
    if got.dtype != want.dtype:
        return Stage.NARROW, f"is {got.dtype}, but should be {want.dtype}."
    differ = (got != want).nonzero()
    if not len(differ):
        return None
    where = tuple(differ[0].tolist())
    values = f"{got[where].item()} instead of {want[where].item()}"
    return Stage.VALUES, f"differs at {_at(where, axes)}: {values}." if axes else f"is {values}."


def _numbers(
    got: Tensor, want: Tensor, tolerance: float, axes: Sequence[str]
) -> tuple[Stage, str] | None:
    """Compare two tensors of one shape."""
    if not want.numel():
        return None
    both = got.isfinite() | (got == want)
    if not bool(both.all()):
        return (
            Stage.FINITE,
            f"wrongly holds NaN or inf in {int((~both).sum())} of {got.numel()} places.",
        )
    difference = (got.to(want.dtype) - want).abs().nan_to_num(0.0)
    size = max([1.0, *want[want.isfinite()].abs().max(0, keepdim=True).values.tolist()])
    if float(difference.max()) <= tolerance * size:
        return None
    where = tuple(int(i) for i in torch.unravel_index(difference.argmax(), difference.shape))
    value = float(got[where])
    target = float(want[where])
    digits = next((n for n in range(3, 17) if f"{value:.{n}g}" != f"{target:.{n}g}"), 17)
    largest = f"The largest difference is {abs(value - target):.3g}, at"
    return Stage.VALUES, (
        "has the right shape but the wrong numbers. "
        f"{_observed(got, want, difference > tolerance, axes)}"
        f"{largest if math.isfinite(value - target) else 'At'} {_at(where, axes)}: "
        f"{value:.{digits}g} instead of {target:.{digits}g}."
    )


def _at(index: tuple[int, ...], axes: Sequence[str]) -> str:
    """Write an index with the names of its axes, such as ``sentence 1, head 0, query 3, key 2``."""
    names = _names(axes)
    if axes[-2:] == ["T", "S"] or (axes[-2:] == ["S", "S"] and len(axes) > 2):
        names[-2:] = ["query", "key"]
    elif len(axes) == 2 and axes[0] == axes[1]:
        names = ["row", "column"]
    pairs = zip(names, index, strict=True)
    return ", ".join(f"{name} {place}" for name, place in pairs if name != "1")


def _names(axes: Sequence[str]) -> list[str]:
    """Return what there is one of at each index of the axes."""
    words = _WORDS | ({"B": "image"} if "N" in axes or "N+1" in axes else {})
    # S+1 are tokens as S are
    return [words.get(axis) or words.get(re.split("[+-]", axis)[0], axis) for axis in axes]


def _observed(got: Tensor, want: Tensor, wrong: Tensor, axes: Sequence[str]) -> str:
    """Describe what can be seen at once: sums of rows and columns, and how much of it is right."""
    seen = []
    if axes[-2:] in (["T", "S"], ["S", "S"]) and got.dim() > 2:
        rows = got.sum(-1)
        if bool(((want.sum(-1) - 1).abs() < 1e-6).any()):
            if float((rows - want.sum(-1)).abs().max()) > 1e-4:
                low = float(rows.min())
                high = float(rows.max())
                upper = "" if high - low < 0.005 else f" to {high:.2f}"
                seen.append(f"Rows sum to {low:.2f}{upper}.")
            if float((got.sum(-2) - 1).abs().max()) < 1e-4:
                seen.append("Columns sum to 1.")
    for dim, (axis, name) in enumerate(zip(axes, _names(axes)[: got.dim()], strict=False)):
        right = ~wrong.movedim(dim, 0).reshape(wrong.size(dim), -1).any(1)
        if axis in "BHTS" and 0 < int(right.sum()) < len(right):
            seen.append(f"{int(right.sum())} of {len(right)} {name}s agree.")
            break
    return " ".join(seen) + (" " if seen else "")


def picture(got: Any, want: Any) -> str:
    """Show a part of the first matrix that differs next to the target, with differences framed."""
    for a, b in zip(as_list(got), as_list(want), strict=False):
        fits = isinstance(a, Tensor) and isinstance(b, Tensor) and a.shape == b.shape
        if fits and a.dim() >= 2 and a.layout == torch.strided:
            mine, right = (x.detach().double().cpu().reshape(-1, *x.shape[-2:]) for x in (a, b))
            wrong = ~torch.isclose(mine, right, atol=1e-5, equal_nan=True)
            if not bool(wrong.any()):
                continue
            matrix, row, column = (int(i) for i in wrong.nonzero()[0])
            rows, columns = (slice(max(0, i - 7), max(0, i - 7) + 8) for i in (row, column))
            wrong = wrong[matrix, rows, columns]
            tables = [
                _matrix(x[matrix, rows, columns], wrong, title)
                for x, title in ((mine, "yours, framed where it differs"), (right, "target"))
            ]
            cells = "</td><td>".join(tables)
            return f'<table style="border-collapse:collapse"><tr><td>{cells}</td></tr></table>'
    return ""


def _matrix(matrix: Tensor, wrong: Tensor, title: str) -> str:
    """Write a matrix as a table of shaded cells, those that are wrong in a frame."""
    largest = float(matrix.abs().nan_to_num(0.0, 0.0, 0.0).max()) or 1.0
    rows = []
    for row, marks in zip(matrix.tolist(), wrong.tolist(), strict=True):
        cells = ""
        for value, mark in zip(row, marks, strict=True):
            cells += f'<td style="{_shade(value, largest)}{_FRAME * mark}">{value:.2f}</td>'
        rows.append(f"<tr>{cells}</tr>")
    return table(title, (), rows, "border-collapse:collapse;font-size:85%;margin:4px 12px 4px 0")


def _shade(value: float, largest: float) -> str:
    """Return the style of a cell: blue is positive, orange negative, grey NaN."""
    style = f"color:{INK};padding:1px 5px;text-align:right;"
    if math.isnan(value):
        return f"{style}background:#b8bcc4"
    share = min(abs(value) / largest, 1.0)
    base = (124, 192, 236) if value >= 0 else (242, 176, 74)
    red, green, blue = (round(255 - share * (255 - channel)) for channel in base)
    return f"{style}background:rgb({red},{green},{blue})"
