"""Count what runs inside a call: copies, and the floating-point operations of matrix products."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from mha_course import torch_internals as internals
from mha_course.torch_internals import Args, Kwargs, OpOverload

COPIES = {"clone", "_to_copy", "copy_", "contiguous", "_reshape_copy"}
# Kernels that copy an input with strides.
COPY_INSIDE = {"_softmax", "_log_softmax", "native_layer_norm", "convolution"}
Flops = Callable[..., int]  # of an operation's arguments and of its result, out_val


def _product(offset: int) -> Flops:
    return lambda *args, out_val, **_: 2 * out_val.numel() * args[offset].shape[-1]


def _attention(formula: Flops, count: int) -> Flops:
    """Count attention on the CPU from its first tensors: q, k, v, after a gradient if backward."""

    def flops(*args: Any, **_: Any) -> int:
        *first, q, k, v = (tensor.shape for tensor in args[:count])
        # Count keys and values for every query head: torch's older formulas know no groups.
        return formula(*first, q, *((batch, q[1], *rest) for batch, _, *rest in (k, v)))

    return flops


# The most common products, counted in a tenth of the time torch takes; and attention on the CPU,
# for which torch has a formula but does not apply it.
COUNTED: dict[str, Flops] = {
    "mm": _product(0),
    "bmm": _product(0),
    "addmm": _product(1),
    "baddbmm": _product(1),
    internals.CPU_FLASH.__name__: _attention(internals.sdpa_flop_count, 3),
    internals.CPU_FLASH_BACKWARD.__name__: _attention(internals.sdpa_backward_flop_count, 4),
}
_Rules = tuple[str, bool, Flops | None]
_known: dict[int, _Rules] = {}  # by id: operations are never freed, and their hash is slow


def _rules_of(func: OpOverload) -> _Rules:
    """Return an operation's name, whether it copies, and how to count its FLOPs."""
    if id(func) not in _known:
        packet = getattr(func, "overloadpacket", func)  # a higher-order operator has none
        name = str(packet.__name__)
        flops = COUNTED.get(name) or internals.flop_registry.get(packet)
        _known[id(func)] = (name, name in COPIES, flops)
    return _known[id(func)]


class OpCounter(internals.DispatchMode):
    """Count the copies inside ``with``, and the FLOPs of matrix products by operation.

    A multiply-add counts as 2. Operations in a backward pass also count.

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
        """The sum over all operations."""
        return sum(self.flops_by_op.values())

    def reset(self) -> None:
        """Set the copies and the FLOPs to 0."""
        self.copies = 0
        self.flops_by_op.clear()

    def ran(self, func: OpOverload, args: Args, kwargs: Kwargs, out: Any) -> None:
        """Count the copies and the FLOPs of an operation."""
        name, copies, count = _known.get(id(func)) or _rules_of(func)
        self.copies += copies
        if name in COPY_INSIDE and not args[0].is_contiguous():
            self.copies += 1
        if count is not None:
            self.flops_by_op[name] += int(count(*args, **kwargs, out_val=out))
