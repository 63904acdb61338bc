"""All private or undocumented torch names that the course uses: a new torch can break only this.

The rest of the package may use none. Each is here because there is no public equivalent.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor
from torch._ops import OpOverload, OpOverloadPacket
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

__all__ = [
    "CPU_FLASH", "CPU_FLASH_BACKWARD", "MACHINERY", "Args", "DispatchMode", "Kwargs", "OpOverload",
    "OpOverloadPacket", "WithoutSubclasses", "compiler_is_loaded", "flop_registry", "has_shape",
    "is_functorch_wrapped_tensor", "is_plain", "sdpa_backend",
    "sdpa_backward_flop_count", "sdpa_flop_count", "storage_key", "tree_leaves",
]  # fmt: skip

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
# The kernel that F.scaled_dot_product_attention runs on the CPU, forward and backward.
CPU_FLASH = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
CPU_FLASH_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
# Torch files whose frames mean nothing to a learner: they only pass calls on.
_NAMES = ("_compile.py", "_dynamo", "_ops.py")
MACHINERY = tuple(os.path.join(os.path.dirname(torch.__file__), name) for name in _NAMES)
# Inside this, Tensor subclasses do not override torch's functions.
WithoutSubclasses = torch._C.DisableTorchFunctionSubclass
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
# By id: operations are never freed, and their hash, in Python, is too slow to compute at every
# call.
_composites: dict[int, bool] = {}


def _is_composite(func: Any) -> bool:
    """Return whether an operation is composed of others, without its own kernel."""
    known = isinstance(func, OpOverload)
    return known and bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), _COMPOSITE))


class DispatchMode(TorchDispatchMode):
    """Observe every tensor operation inside ``with``; subclasses define ``ran``."""

    supports_higher_order_operators = True  # flex_attention, torch.cond

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def ran(self, func: OpOverload, args: Args, kwargs: Kwargs, out: Any) -> None:
        """Handle one operation, its arguments and its result."""
        raise NotImplementedError

    def __torch_dispatch__(self, func: Any, types: Any, args: Args = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        composite = _composites.get(id(func))
        if composite is None:
            composite = _composites[id(func)] = _is_composite(func)
        # In inference mode, linear, matmul and reshape reach a mode whole. Everywhere else it sees
        # their parts, so they are decomposed here. Not by func.decompose, whose dropout copies.
        # Subclasses, such as nested tensors, decompose them themselves.
        if composite and not types:
            with self:
                return func._op_dk(_COMPOSITE, *args, **kwargs)
        out = func(*args, **kwargs)
        self.ran(func, args, kwargs, out)
        return out

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Save the seconds of importing PyTorch's compiler if nothing is compiled."""
        return False


def compiler_is_loaded() -> bool:
    """Return whether PyTorch's compiler has been imported; torch itself imports it late."""
    return "torch._dynamo" in sys.modules


def sdpa_backend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> int:
    """Return the SDPBackend that scaled_dot_product_attention would use, or raise RuntimeError."""
    return int(torch._fused_sdp_choice(q, k, v, mask, 0.0, causal))


def has_shape(tensor: Tensor) -> bool:
    """Return whether a tensor has one shape: a nested one has several, a lazy parameter none
    yet."""
    lazy = isinstance(tensor, (UninitializedBuffer, UninitializedParameter))
    return not (tensor.is_nested or lazy)


def is_plain(tensor: Tensor) -> bool:
    """Return whether a tensor has one shape and readable memory."""
    strided = has_shape(tensor) and tensor.layout == torch.strided
    return strided and not is_functorch_wrapped_tensor(tensor)


def storage_key(tensor: Tensor) -> int:
    """Return a number that two live tensors share if they use the same memory.

    ``data_ptr`` would not do: it is 0 on the meta device and for every tensor of size 0.
    """
    key: int = tensor.untyped_storage()._cdata
    return key
