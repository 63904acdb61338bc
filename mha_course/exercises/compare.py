"""Describe in words how a result differs from the reference's."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mha_course.exercises.spec import Stage

_WORDS = {
    "B": "sentence", "H": "head", "T": "token", "S": "token", "C": "channel", "D": "channel",
    "N": "patch", "N+1": "token", "3*P*P": "number", "new": "new token", "total": "token",
    "V": "word", "length": "token", "H*D": "row",
}  # fmt: skip
TOLERANCE = 1e-5  # how close a result must be: it may be computed in float32
ROUNDED = 30  # how many rounding errors of another dtype are tolerated
_INTS = (int, np.int32, np.int64)


def compare(
    out: Any, target: Any, axes: Sequence[str], tolerance: float, dtype: torch.dtype | None = None
) -> tuple[Stage, str] | None:
    """Return the stage and a clause saying how a result differs, or None.

    A result must have the dtype, if given; for float64, float32 is also accepted.
    """
    if out is None:
        return Stage.TYPE, "is None."
    if isinstance(target, int):
        return _whole_number(out, target)
    if not isinstance(out, Tensor):
        kind = "one tensor" if axes or target.dtype != torch.bool else "True or False"
        name = type(out).__name__
        form = f"a {name} of {len(out)}" if isinstance(out, tuple | list) else f"of type {name}"
        return Stage.TYPE, f"should be {kind}, but is {form}."
    readable = out.layout in (torch.strided, torch.sparse_coo)
    if not readable or out.is_nested or out.is_meta or out.is_quantized:
        return Stage.TYPE, "should be an ordinary tensor, whose numbers can be read."
    if out.shape != target.shape:
        shape = f"{tuple(target.shape)}, which is ({', '.join(axes)})" if axes else "one value"
        return Stage.SHAPE, f"has shape {tuple(out.shape)}, but should have {shape}."
    if not target.is_floating_point():
        return _exact(out, target, axes)
    if not out.is_floating_point():
        return Stage.DTYPE, f"is {out.dtype}, but should be floating point."
    # Most public code computes in float32 internally, so it is accepted for float64.
    accepted = (dtype,) if dtype == torch.float32 else (torch.float64, torch.float32)
    tolerance = max(tolerance, TOLERANCE)
    numbers = out.detach().to_dense()
    if out.dtype in accepted:
        return _numbers(numbers, target.detach(), tolerance, axes)
    # In a narrower dtype, report wrong numbers first: the dtype is the fault only if they are
    # right.
    coarse = max(tolerance, ROUNDED * torch.finfo(out.dtype).eps)
    wrong = _numbers(numbers.to(target.dtype), target.detach(), coarse, axes)
    narrow = f"is {out.dtype}, but should be {' or '.join(map(str, accepted))}."
    wider = out.dtype == torch.float64 and target.dtype == torch.float32
    return wrong or (Stage.WIDE if wider else Stage.NARROW, narrow)


def _whole_number(out: Any, target: int) -> tuple[Stage, str] | None:
    """Compare an int or NumPy integer exactly; a subclass could override comparison."""
    if type(out) in _INTS:
        differs = f"is {int(out)}, but should be {target}."
        return None if int(out) == target else (Stage.VALUES, differs)
    kind = type(out).__name__
    if type(out) is float or (type(out) is Tensor and out.numel() == 1):
        if float(out) == target:
            return Stage.NO_INT, f"is a {kind}."
        return Stage.VALUES, f"is {out}."
    return Stage.TYPE, f"should be an int, but is a {kind}."


def _exact(out: Tensor, target: Tensor, axes: Sequence[str]) -> tuple[Stage, str] | None:
    if target.dtype == torch.bool and out.dtype != torch.bool:
        meaning = ", True = may attend" if axes else ", True or False"
        return Stage.DTYPE, f"is {out.dtype}, but should be torch.bool{meaning}."
    if out.dtype != target.dtype and target.numel():  # a list without numbers has no dtype
        return Stage.NARROW, f"is {out.dtype}, but should be {target.dtype}."
    differ = (out != target).nonzero()
    if not len(differ):
        return None
    index = tuple(differ[0].tolist())
    values = f"{out[index].item()} instead of {target[index].item()}"
    return Stage.VALUES, f"differs at {_at(index, axes)}: {values}." if axes else f"is {values}."


def _numbers(
    out: Tensor, target: Tensor, tolerance: float, axes: Sequence[str]
) -> tuple[Stage, str] | None:
    # Where the target is infinite, too, infinity is right.
    usable = out.isfinite() | (out == target)
    if not bool(usable.all()):
        count = f"{int((~usable).sum())} of {out.numel()}"
        return Stage.FINITE, f"wrongly holds NaN or inf in {count} places."
    if error(out, target) <= tolerance:
        return None
    difference = (out.to(target.dtype) - target).abs().nan_to_num(0.0)
    index = tuple(int(i) for i in torch.unravel_index(difference.argmax(), difference.shape))
    value = float(out[index])
    wanted_value = float(target[index])
    # As few digits as show a difference between the two.
    digits = next((n for n in range(3, 17) if f"{value:.{n}g}" != f"{wanted_value:.{n}g}"), 17)
    largest = f"The largest difference is {abs(value - wanted_value):.3g}, at"
    return Stage.VALUES, (
        "has the right shape but the wrong numbers. "
        f"{_observed(out, target, difference > tolerance, axes)}"
        f"{largest if math.isfinite(value - wanted_value) else 'At'} {_at(index, axes)}: "
        f"{value:.{digits}g} instead of {wanted_value:.{digits}g}."
    )


def error(out: Tensor, target: Tensor) -> float:
    """Return the largest difference, relative to the largest finite right number, or to 1."""
    if not target.numel():
        return 0.0
    difference = (out.detach().to(target.dtype) - target.detach()).abs().nan_to_num(0.0)
    sizes = target.detach().abs().nan_to_num(0.0, 0.0)
    return float(difference.max()) / max(1.0, float(sizes.max()))


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
    """Return what each axis counts, such as heads."""
    words = _WORDS | ({"B": "image"} if "N" in axes or "N+1" in axes else {})
    # For S+1 and S-1, the letter says what is counted.
    return [words.get(axis) or words.get(re.split("[+-]", axis)[0], axis) for axis in axes]


def _observed(out: Tensor, target: Tensor, wrong: Tensor, axes: Sequence[str]) -> str:
    """Describe what can be seen directly: sums of rows and columns, and which part is right."""
    sentences = []
    if axes[-2:] in (["T", "S"], ["S", "S"]) and out.dim() > 2:
        rows = out.sum(-1)
        if bool(((target.sum(-1) - 1).abs() < 1e-6).any()):
            off = float((rows - target.sum(-1)).abs().max())
            if off > 1e-4:
                low = float(rows.min())
                high = float(rows.max())
                # As many places as show that a row does not sum to what it should.
                places = 2 if off > 0.005 else 5
                upper = "" if high - low < 0.5 * 10**-places else f" to {high:.{places}f}"
                sentences.append(f"Rows sum to {low:.{places}f}{upper}.")
            if float((out.sum(-2) - 1).abs().max()) < 1e-4:
                sentences.append("Columns sum to 1.")
    for dim, (axis, name) in enumerate(zip(axes, _names(axes)[: out.dim()], strict=False)):
        agrees = ~wrong.movedim(dim, 0).reshape(wrong.size(dim), -1).any(1)
        # The first axis of which some parts are right is the one to look at.
        if axis in "BHTS" and 0 < int(agrees.sum()) < len(agrees):
            sentences.append(f"{int(agrees.sum())} of {len(agrees)} {name}s agree.")
            break
    return "".join(f"{sentence} " for sentence in sentences)
