"""Find the stages of attention in a learner's function, whatever it calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from mha_course.attention import AttentionSteps
from mha_course.errors import require

PRODUCTS = ("matmul", "__matmul__", "bmm", "linear")


class _Calls(TorchFunctionMode):
    """Record the name, inputs and result of every torch call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, tuple[Any, ...], Any]] = []

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        self.calls.append((getattr(function, "__name__", ""), tuple(args), result))
        return result


def stages_of(function: Callable[..., Any], **values: Any) -> dict[str, Any] | None:
    """Call a function, and return its stages: returned by it, or found while it computes (out,
    weights).

    The product that takes the weights is the one with v. The one before it with their shape is q
    kᵀ, and the last one before that with an input of out's shape takes x. The one that made out
    takes the merged context. None if the function returned None. Steps returned together with x are
    ``given``, by the course.
    """
    with _Calls() as record:
        result = function(**values)
    if result is None:
        return None
    if isinstance(result, AttentionSteps):
        return vars(result)
    if isinstance(result, tuple) and isinstance(result[0], AttentionSteps):
        return {**vars(result[0]), "x": result[1], "given": True}
    pair = isinstance(result, tuple) and [isinstance(x, Tensor) for x in result] == [True, True]
    expected = "(out, weights), or AttentionSteps"
    got = type(result).__name__
    require(pair, "recompute", "it must return two tensors", expected=expected, got=got)
    out, weights = result
    stages = {"out": out, "weights": weights}
    x = None
    for name, inputs, output in record.calls:
        if name == "softmax" and output is weights:
            stages["masked_scores"] = inputs[0]
        if name not in PRODUCTS or not all(isinstance(tensor, Tensor) for tensor in inputs[:2]):
            continue
        left, right, *_ = inputs
        if left is weights:
            stages |= {"v": right, "context": output}
        elif output is out:
            stages["merged"] = left
        elif "v" not in stages and output.shape == weights.shape:
            stages |= {"q": left, "k": right.mT, "scores": output, "x": x}
        elif left.shape == out.shape:
            x = left
    return stages
