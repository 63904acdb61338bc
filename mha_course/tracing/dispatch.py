"""What was written and what ran beneath it: torch's names for calls, and how copies and FLOPs are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

OPERATORS = {
    "__matmul__": "matmul", "__rmatmul__": "matmul", "__truediv__": "div", "__rtruediv__": "div", "__rdiv__": "div",
    "__div__": "div", "__itruediv__": "div_", "__idiv__": "div_", "__floordiv__": "floor_divide",
    "__invert__": "bitwise_not", "__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor",
    "__rand__": "bitwise_and",
    "__ror__": "bitwise_or", "__mod__": "remainder", "__rpow__": "pow", "__iand__": "bitwise_and_",
    "__ior__": "bitwise_or_", "__iter__": "unbind", "__rsub__": "sub", "rsub": "sub", "__rfloordiv__": "floor_divide",
}  # fmt: skip
MOVES = {"contiguous", "clone", "cat", "concat", "concatenate", "stack", "repeat", "tile", "repeat_interleave", "to",
         "reshape", "flatten", "ravel", "flip", "roll", "index_select", "getitem", "gather", "take_along_dim", "type",
         "reshape_as", "setitem", "float", "double", "half", "bfloat16", "cpu", "cuda", "embedding", "take",
         "copy_"}  # fmt: skip
EXPLICIT_COPIES = MOVES - {"reshape", "flatten", "ravel", "reshape_as"}  # these copy because it was written
COPIES = {"clone", "_to_copy", "copy_", "contiguous", "_reshape_copy"}
FUSED_NOTE = (
    "cannot be looked into: scaled_dot_product_attention is one call into a kernel, "
    "which never makes the scores and weights as tensors"
)
MODULE_NOTE = (
    "not looked into: nn.MultiheadAttention does all its steps inside one call, "
    "in torch's own code, so that q, k, v, scores and weights are not seen"
)
NOTES = {"scaled_dot_product_attention": FUSED_NOTE, "multi_head_attention_forward": MODULE_NOTE,
         "_native_multi_head_attention": MODULE_NOTE}  # fmt: skip


def _product(offset: int) -> Callable[..., int]:
    """Count a matrix product, batched or not, whose factors stand at two places of the arguments."""

    def flops(args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> int:
        return 2 * int(out.numel()) * int(args[offset].shape[-1])

    return flops


def _as_torch_counts(packet: Any) -> Callable[..., int] | None:
    """Count as torch.utils.flop_counter does."""
    count = flop_registry.get(packet)
    if count is None:
        return None
    return lambda args, kwargs, out: int(count(*args, **kwargs, out_val=out))


# The commonest, at a tenth of the cost of torch's own counting.
PRODUCTS = {"mm": _product(0), "bmm": _product(0), "addmm": _product(1), "baddbmm": _product(1)}
_known: dict[int, tuple[bool, Callable[..., int] | None]] = {}


def _counters(func: OpOverload) -> tuple[bool, Callable[..., int] | None]:
    found = _known.get(id(func))
    if found is None:
        packet = func._overloadpacket
        name = str(packet.__name__)
        found = _known[id(func)] = name in COPIES, PRODUCTS.get(name) or _as_torch_counts(packet)
    return found


class OpCounter(TorchDispatchMode):
    """Count what runs under one written call: copies, and the FLOPs of matrix products."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.copies = self.flops = 0

    def count(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Add one call that ran."""
        copies, flops = _counters(func)
        self.copies += copies
        if flops is not None:
            self.flops += flops(args, kwargs, out)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        self.count(func, args, kwargs or {}, out)
        return out

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Spare the seconds that PyTorch's compiler takes to import, when nothing is compiled."""
        return False


def op_name(func: Callable[..., Any]) -> str:
    """Return torch's name for a call."""
    if isinstance(func, OpOverload):
        return str(func._overloadpacket.__name__)
    name: str = getattr(func, "__name__", type(func).__name__)
    if name == "__get__":
        return str(getattr(getattr(func, "__self__", None), "__name__", name))
    if name in OPERATORS:
        return OPERATORS[name]
    if name.startswith("__i") and name.endswith("__") and name not in ("__invert__",):
        return f"{name[3:-2]}_"
    return name.strip("_") if name.startswith("__") else name
