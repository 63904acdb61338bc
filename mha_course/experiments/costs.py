"""What multi-head attention costs, counted by running it, and which of PyTorch's kernels would run."""

from __future__ import annotations

import re
import warnings
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from mha_course import errors
from mha_course.attention import MultiHeadAttention

_KERNELS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}
_ON_CPU = ("flash", "math")


@dataclass(frozen=True)
class Cost:
    """Parameters, floating-point operations (a multiply-add counts as 2), bytes of weights, and attention patterns."""

    parameters: int
    flops: int
    weight_bytes: int
    patterns: int


def cost(d_model: int, num_heads: int, *, batch: int, tokens: int) -> Cost:
    """Run one pass in float32 and count.

    Raises: ShapeError when num_heads does not divide d_model.
    """
    mha = MultiHeadAttention(d_model, num_heads)
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        weights = mha.steps(torch.zeros(batch, tokens, d_model)).weights
    return Cost(
        parameters=sum(parameter.numel() for parameter in mha.parameters()),
        flops=counter.get_total_flops(),
        weight_bytes=weights.numel() * weights.element_size(),
        patterns=weights.size(1),
    )


def peak_bytes(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """Run a function and return the most bytes that tensors made in it took at any one time.

    What was there before, such as arguments and parameters, is not counted; what a kernel uses inside itself
    is not seen. The numbers need not exist: on the "meta" device any length can be tried.

    >>> peak_bytes(lambda x: (x + 1).exp().sum(), torch.zeros(1000))  # x + 1 and its exponentials, in float32
    8000
    """
    with _Memory() as memory:
        fn(*args, **kwargs)
    return memory.peak


class _Memory(TorchDispatchMode):
    """Add up the storages that operations return, from their first sight to their end."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.known: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self.now = self.peak = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.note(tree_leaves((args, kwargs)), made=False)
        out = func(*args, **(kwargs or {}))
        self.note(tree_leaves(out), made=True)
        self.peak = max(self.peak, self.now)
        return out

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Spare the seconds that PyTorch's compiler takes to import, when nothing is compiled."""
        return False

    def note(self, leaves: Iterable[Any], made: bool) -> None:
        """Take down the storages that are new; those that come in from outside weigh nothing."""
        for tensor in leaves:
            if not isinstance(tensor, Tensor) or tensor.layout != torch.strided:
                continue
            storage = tensor.untyped_storage()
            key, size = storage._cdata, storage.nbytes() if made else 0
            if key not in self.known:
                self.now += size
                self.known[key] = weakref.ref(storage, partial(self.forget, key, size))

    def forget(self, key: int, size: int, _: object) -> None:
        """Take off a storage whose last tensor is gone."""
        del self.known[key]
        self.now -= size


def sdpa_choice(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, causal: bool = False) -> str:
    """Name the kernel that F.scaled_dot_product_attention would run: "flash", "efficient", "cudnn" or "math".

    Args: as for attention; causal is its is_causal. Raises: ShapeError.

    >>> sdpa_choice(*torch.zeros(3, 2, 4, 5, 6))
    'flash'
    """
    errors.require_attention_inputs("sdpa_choice", q, k, v, mask)
    number = torch._fused_sdp_choice(q, k, v, mask, 0.0, causal)
    names = {int(backend): name for name, backend in _KERNELS.items()}  # type: ignore[call-overload]
    return names[number]


def sdpa_kernels(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> dict[str, str]:
    """Say of each kernel of this device why it cannot take these inputs; "" if it can.

    Args: as for sdpa_choice. Raises: ShapeError.

    >>> sdpa_kernels(*torch.zeros(2, 2, 4, 5, 6), torch.zeros(2, 4, 5, 8))["flash"].split(".")[0]
    'Flash attention requires q,k,v to have the same last dimension'
    """
    errors.require_attention_inputs("sdpa_kernels", q, k, v, mask)
    names = _ON_CPU if q.device.type == "cpu" else tuple(_KERNELS)
    return {name: _why_not(_KERNELS[name], (q, k, v, mask, 0.0, causal)) for name in names}


def _why_not(backend: SDPBackend, inputs: tuple[Any, ...]) -> str:
    """Allow one kernel alone, and collect what PyTorch then warns of."""
    with warnings.catch_warnings(record=True) as caught, sdpa_kernel([backend]):
        warnings.simplefilter("always")
        try:
            torch._fused_sdp_choice(*inputs)
        except RuntimeError as error:
            told = [
                re.sub(r" *\(Triggered internally.*", "", str(warning.message), flags=re.DOTALL) for warning in caught
            ]
            reasons = [text for text in told if not text.endswith("not used because:")]
            return " ".join(reasons) or str(error).split(".")[0] + "."
    return ""
