"""What multi-head attention costs, counted by running it, and which kernel would run."""

from __future__ import annotations

import time
import timeit
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend

from mha_course import errors
from mha_course.attention import MultiHeadAttention
from mha_course.models.training import one_thread
from mha_course.tracing.op_counter import OpCounter
from mha_course.tracing.torch_internals import (
    DispatchMode,
    OpOverload,
    sdpa_backend,
    storage_key,
    tree_leaves,
)

_KERNELS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}


class Cost(NamedTuple):
    """Parameters, FLOPs (a multiply-add counts as 2), bytes of weights, attention patterns."""

    parameters: int
    flops: int
    weight_bytes: int
    patterns: int


def cost(d_model: int, num_heads: int, *, batch: int, tokens: int) -> Cost:
    """Run one pass in float32 and count.

    Raises: ShapeError when num_heads does not divide d_model.
    """
    mha = MultiHeadAttention(d_model, num_heads)
    with torch.no_grad(), OpCounter() as counter:
        weights = mha.steps(torch.zeros(batch, tokens, d_model)).weights
    return Cost(
        parameters=sum(parameter.numel() for parameter in mha.parameters()),
        flops=counter.flops,
        weight_bytes=weights.numel() * weights.element_size(),
        patterns=weights.size(1),
    )


def flops(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """Run fn and count the floating-point operations of its matrix products: a multiply-add is 2.

    Products that fn makes are counted one by one. A fused kernel is one call: it counts by
    PyTorch's formula
    for attention without a mask, so a kernel that skips blocks is counted as if it skipped none.

    >>> flops(torch.matmul, torch.ones(2, 5, 6), torch.ones(2, 6, 7))
    840
    """
    with OpCounter() as counter:
        fn(*args, **kwargs)
    return counter.flops


def peak_bytes(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """Run a function and return the most bytes that tensors made in it took at any one time.

    What was there before, such as arguments and parameters, is not counted; what a kernel uses
    inside itself
    is not seen. The numbers need not exist: on the "meta" device any length can be tried.

    x + 1 and its exponentials, in float32:

    >>> peak_bytes(lambda x: (x + 1).exp().sum(), torch.zeros(1000))
    8000
    """
    with _Memory() as memory:
        fn(*args, **kwargs)
    return memory.peak


@torch.no_grad()
def milliseconds(fn: Callable[..., Any], *args: Any, seconds: float = 0.2) -> float:
    """Run a function on the CPU, on one thread, for so many seconds, and return the time of its
    shortest run.

    Where the clock of a thread is fine enough, what other programs take meanwhile is not counted.
    """
    fine = time.get_clock_info("thread_time").resolution < 1e-5
    clock = time.thread_time if fine else time.perf_counter
    timer = timeit.Timer(lambda: fn(*args), timer=clock)
    end = time.perf_counter() + seconds
    found: list[float] = []
    with one_thread():
        while not found or time.perf_counter() < end:
            found.append(timer.timeit(1))
    return 1000 * min(found)


class _Memory(DispatchMode):
    """Add up the storages that operations return, from their first sight to their end."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self.now = self.peak = 0

    def ran(
        self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
    ) -> None:
        """Take note of what went in, which weighs nothing if it is new, and of what came out."""
        self.note(tree_leaves((args, kwargs)), made=False)
        self.note(tree_leaves(out), made=True)
        self.peak = max(self.peak, self.now)

    def note(self, leaves: Iterable[Any], made: bool) -> None:
        for tensor in leaves:
            if not isinstance(tensor, Tensor) or tensor.layout != torch.strided:
                continue
            key = storage_key(tensor)
            storage = tensor.untyped_storage()
            if key not in self.known:
                size = storage.nbytes() if made else 0
                self.now += size
                # Only a weak reference: the meter must not keep alive what it measures.
                self.known[key] = weakref.ref(storage, partial(self.forget, key, size))

    def forget(self, key: int, size: int, _: object) -> None:
        """Take off a storage whose last tensor is gone: its key may be that of another one soon."""
        del self.known[key]
        self.now -= size


def sdpa_choice(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> str:
    """Name the kernel that F.scaled_dot_product_attention would run: "flash", "efficient", "cudnn"
    or "math".

    Args: as for attention; causal is its is_causal. Raises: ShapeError.

    >>> sdpa_choice(*torch.zeros(3, 2, 4, 5, 6))
    'flash'
    """
    errors.require_attention_inputs("sdpa_choice", q, k, v, mask)
    names = {int(backend): name for name, backend in _KERNELS.items()}  # type: ignore[call-overload]
    return names[sdpa_backend(q, k, v, mask, causal)]
