"""Find the stages of attention in what a learner's function computes, whatever its variables are called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from typing import Any, NamedTuple

from torch import Tensor
from torch.overrides import TorchFunctionMode

PRODUCTS = ("matmul", "__matmul__", "bmm", "linear")


class _Call(NamedTuple):
    name: str
    inputs: tuple[Any, ...]
    result: Any


class _Calls(TorchFunctionMode):
    """Note all calls of torch."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[_Call] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        self.made.append(_Call(getattr(function, "__name__", ""), tuple(args), result))
        return result


def stages_of(function: Callable[[], Any]) -> dict[str, Any] | None:
    """Call a function, and return the stages that it returned or, for (out, weights), that were found on its way.

    The product that takes the weights is that with v; the one before it in their shape is that of q and k; the one that
    made out takes what was merged. None where the function returned None.
    """
    with _Calls() as calls:
        result = function()
    if result is None:
        return None
    if is_dataclass(result) and not isinstance(result, type):
        return asdict(result)
    if not (isinstance(result, tuple) and len(result) == 2):
        return dict(result)
    out, weights = result
    found = {"out": out, "weights": weights}
    shape = getattr(weights, "shape", None)
    for name, inputs, made in calls.made:
        if name in PRODUCTS and len(inputs) > 1 and isinstance(inputs[1], Tensor):
            left, right = inputs[:2]
            if left is weights:
                found |= {"v": right, "context": made}
            elif made is out:
                found |= {"merged": left}
            elif "v" not in found and made.shape == shape:
                found |= {"q": left, "k": right.mT, "scores": made}
        elif name == "softmax" and made is weights:
            found |= {"masked_scores": inputs[0]}
    return found
