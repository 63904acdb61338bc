"""Torch's names for calls, and which of them move values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mha_course.torch_internals import OpOverload, OpOverloadPacket

NAMESPACES = {"aten", "prim", "prims", "quantized", "higher_order"}  # of torch's own operators
RENAMED = {  # operators, without the underscores and the i of those that work in place
    "rmatmul": "matmul", "truediv": "div", "rtruediv": "div", "rdiv": "div", "mod": "remainder",
    "floordiv": "floor_divide", "rfloordiv": "floor_divide", "rpow": "pow", "rsub": "sub",
    "invert": "bitwise_not", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "rand": "bitwise_and", "ror": "bitwise_or", "iter": "unbind",
}  # fmt: skip
_MOVES = """
    contiguous clone cat concat concatenate stack repeat tile repeat_interleave to reshape flatten
    ravel flip roll index_select getitem gather take_along_dim type reshape_as setitem float double
    half bfloat16 cpu cuda embedding take copy_ long int short bool type_as tensor new_tensor
    asarray resolve_conj deepcopy hstack vstack dstack column_stack masked_select
"""
MOVES = set(_MOVES.split())
# These copy because it was written.
EXPLICIT_COPIES = MOVES - {"reshape", "flatten", "ravel", "reshape_as"}


def op_name(func: Callable[..., Any]) -> str:
    """Return torch's name for a call; an operator of one's own is named mine::double."""
    name: str = getattr(func, "__name__", type(func).__name__)
    if type(func) in (OpOverload, OpOverloadPacket):
        space, name = str(func).split(".")[:2]
        return name if space in NAMESPACES else f"{space}::{name}"
    if name == "__get__":
        return str(getattr(getattr(func, "__self__", None), "__name__", name))
    if not name.startswith("__"):
        return "sub" if name == "rsub" else name
    word = name.strip("_")
    in_place = word.startswith("i") and word not in RENAMED
    return f"{RENAMED.get(word[1:], word[1:])}_" if in_place else RENAMED.get(word, word)
