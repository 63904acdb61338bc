"""What was written: torch's names for calls, which of them move values, and what cannot be looked into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mha_course.tracing.torch_internals import OpOverload

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


def op_name(func: Callable[..., Any]) -> str:
    """Return torch's name for a call."""
    if isinstance(func, OpOverload):
        return str(func.overloadpacket.__name__)
    name: str = getattr(func, "__name__", type(func).__name__)
    if name == "__get__":
        return str(getattr(getattr(func, "__self__", None), "__name__", name))
    if name in OPERATORS:
        return OPERATORS[name]
    if name.startswith("__i") and name.endswith("__") and name not in ("__invert__",):
        return f"{name[3:-2]}_"
    return name.strip("_") if name.startswith("__") else name
