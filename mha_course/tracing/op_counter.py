"""What runs inside a written call: copies, and the floating-point operations of matrix products."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from mha_course.tracing.torch_internals import (
    CPU_FLASH,
    CPU_FLASH_BACKWARD,
    DispatchMode,
    OpOverload,
    flop_registry,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

COPIES = {"clone", "_to_copy", "copy_", "contiguous", "_reshape_copy"}
Flops = Callable[[tuple[Any, ...], dict[str, Any], Any], int]


def _product(offset: int) -> Flops:
    """Count a matrix product, batched or not, whose factors are two neighbours among the arguments."""

    def flops(args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> int:
        return 2 * int(out.numel()) * int(args[offset].shape[-1])

    return flops


def _cpu_flash(args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> int:
    q, k, v = (tensor.shape for tensor in args[:3])
    return int(sdpa_flop_count(q, _as_many_heads(k, q), _as_many_heads(v, q)))


def _cpu_flash_backward(args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> int:
    gradient, q, k, v = (tensor.shape for tensor in args[:4])
    return int(sdpa_backward_flop_count(gradient, q, _as_many_heads(k, q), _as_many_heads(v, q)))


def _as_many_heads(keys: tuple[int, ...], queries: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of keys or values as every query head reads them: older formulas of torch know no groups."""
    return (keys[0], queries[1], *keys[2:])


# The commonest products, at a tenth of the time that torch's own counting takes; and attention on the CPU, for which
# torch has a formula, but does not apply it.
COUNTED: dict[str, Flops] = {
    "mm": _product(0),
    "bmm": _product(0),
    "addmm": _product(1),
    "baddbmm": _product(1),
    CPU_FLASH.__name__: _cpu_flash,
    CPU_FLASH_BACKWARD.__name__: _cpu_flash_backward,
}
_known: dict[int, tuple[str, bool, Flops | None]] = {}  # by id: operations live on, and their hash is slow


def _rules_of(func: OpOverload) -> tuple[str, bool, Flops | None]:
    """Return the name of an operation, whether it copies, and how its FLOPs are counted."""
    if id(func) not in _known:
        packet = func.overloadpacket
        name, torchs = str(packet.__name__), flop_registry.get(packet)
        as_torch: Flops | None = None
        if torchs is not None:
            as_torch = lambda args, kwargs, out: int(torchs(*args, **kwargs, out_val=out))  # noqa: E731
        _known[id(func)] = name, name in COPIES, COUNTED.get(name) or as_torch
    return _known[id(func)]


class OpCounter(DispatchMode):
    """Count what runs while it is entered: copies, and the FLOPs of matrix products, by the names of operations.

    A multiply-add counts as 2. Operations in a backward pass count as well.

    >>> import torch
    >>> with OpCounter() as counter:
    ...     _ = torch.ones(5, 6) @ torch.ones(6, 7)
    >>> counter.flops, dict(counter.flops_by_op)
    (420, {'mm': 420})
    """

    def __init__(self) -> None:
        super().__init__()
        self.copies = 0
        self.flops_by_op: Counter[str] = Counter()

    @property
    def flops(self) -> int:
        """All FLOPs that were counted."""
        return sum(self.flops_by_op.values())

    def reset(self) -> None:
        """Start again from 0."""
        self.copies = 0
        self.flops_by_op.clear()

    def ran(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Add one operation."""
        name, copies, count = _known.get(id(func)) or _rules_of(func)
        self.copies += copies
        if count is not None:
            self.flops_by_op[name] += count(args, kwargs, out)
