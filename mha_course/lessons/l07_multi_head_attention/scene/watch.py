"""Find the stages of attention in what a learner's function computes, whatever its variables are
called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from mha_course.attention import AttentionSteps
from mha_course.errors import require

PRODUCTS = ("matmul", "__matmul__", "bmm", "linear")


class _Calls(TorchFunctionMode):
    """Note the name, the inputs and the result of every call of torch."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[tuple[str, tuple[Any, ...], Any]] = []

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        self.made.append((getattr(function, "__name__", ""), tuple(args), result))
        return result


def stages_of(function: Callable[[], Any]) -> dict[str, Any] | None:
    """Call a function, and return the stages that it returned or, for (out, weights), that were
    found on its way.

    The product that takes the weights is that with v; the one before it in their shape is that of q
    and k; the one that made out takes what was merged. None where the function returned None.
    """
    with _Calls() as calls:
        result = function()
    if result is None:
        return None
    if isinstance(result, AttentionSteps):
        return vars(result)
    pair = (
        isinstance(result, tuple)
        and len(result) == 2
        and all(isinstance(one, Tensor) for one in result)
    )
    expected = "(out, weights), or AttentionSteps"
    require(
        pair,
        "recompute",
        "it must return two tensors",
        expected=expected,
        got=type(result).__name__,
    )
    out, weights = result
    found = {"out": out, "weights": weights}
    for name, inputs, made in calls.made:
        if name == "softmax" and made is weights:
            found["masked_scores"] = inputs[0]
        if name not in PRODUCTS or not all(isinstance(one, Tensor) for one in inputs[:2]):
            continue
        left, right, *_ = inputs
        if left is weights:
            found |= {"v": right, "context": made}
        elif made is out:
            found["merged"] = left
        elif "v" not in found and made.shape == weights.shape:
            found |= {"q": left, "k": right.mT, "scores": made}
    return found
