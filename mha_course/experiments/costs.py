"""Measure what code costs by running it: operations, memory, time."""

from __future__ import annotations

import time
import timeit
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mha_course.models.training import threads
from mha_course.op_counter import OpCounter
from mha_course.torch_internals import DispatchMode, OpOverload, storage_key, tree_leaves


class Flops(NamedTuple):
    """FLOPs of matrix products: the projections, and q kᵀ and weights · v."""

    projections: int
    attention: int

    @property
    def total(self) -> int:
        """FLOPs of all these products; a multiply-add counts as 2."""
        return self.projections + self.attention


def count_flops(fn: Callable[..., Any], *args: Any) -> Flops:
    """Run fn and count FLOPs: products of two matrices are projections, all others attention.

    fn's products are counted one by one. A fused kernel is one call, counted by PyTorch's formula
    for attention without a mask, as if it skipped no blocks.

    >>> count_flops(torch.matmul, torch.ones(2, 5, 6), torch.ones(2, 6, 7)).total
    840
    """
    with OpCounter() as counter:
        fn(*args)
    projections = counter.flops_by_op["mm"] + counter.flops_by_op["addmm"]
    return Flops(projections, counter.flops - projections)


def peak_bytes(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """Run a function and return the peak number of bytes in tensors made by it.

    Earlier tensors, such as arguments and parameters, are not counted, nor is a kernel's internal
    memory. On the "meta" device, which stores no numbers, any length can be tried.

    x + 1 and its exponentials, in float32:

    >>> peak_bytes(lambda x: (x + 1).exp().sum(), torch.zeros(1000))
    8000
    """
    with _Memory() as memory:
        fn(*args, **kwargs)
    return memory.peak


@torch.no_grad()
def milliseconds(fn: Callable[..., Any], *args: Any) -> float:
    """Run a function on one CPU thread for a fifth of a second; return its shortest time.

    If the thread clock is fine enough, time taken by other programs is not counted.
    """
    fine = time.get_clock_info("thread_time").resolution < 1e-5
    timer = timeit.Timer(lambda: fn(*args), timer=time.thread_time if fine else time.perf_counter)
    end = time.perf_counter() + 0.2
    with threads(1):
        times = timer.repeat(1, 1)
        while time.perf_counter() < end:
            times += timer.repeat(1, 1)
    return 1000 * min(times)


class _Memory(DispatchMode):
    """Add up the storages that operations return, until they are freed."""

    def __init__(self) -> None:
        super().__init__()
        self.storages: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self.now = self.peak = 0

    def ran(
        self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
    ) -> None:
        """Note the inputs, which count as 0 bytes if not seen before, and the outputs."""
        self.note(tree_leaves((args, kwargs)), is_new=False)
        self.note(tree_leaves(out), is_new=True)
        self.peak = max(self.peak, self.now)

    def note(self, leaves: Iterable[Any], is_new: bool) -> None:
        for tensor in leaves:
            if not isinstance(tensor, Tensor) or tensor.layout != torch.strided:
                continue
            key = storage_key(tensor)
            storage = tensor.untyped_storage()
            if key not in self.storages:
                size = storage.nbytes() if is_new else 0
                self.now += size
                # Only a weak reference: the meter must not keep alive what it measures.
                self.storages[key] = weakref.ref(storage, partial(self.forget, key, size))

    def forget(self, key: int, size: int, _: object) -> None:
        """Remove a storage whose last tensor is gone, since its key may be reused."""
        del self.storages[key]
        self.now -= size
