"""The operations on tensors that an answer is made of, and what an exercise asks of them."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakSet

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from mha_course.mistakes import Row
from mha_course.torch_internals import DispatchMode, OpOverload, tree_leaves

# The functions by which numbers leave torch, to where operations are not seen.
EXITS = {"numpy", "__array__", "__dlpack__", "tolist"}
STOPPED = "stopped"  # the name of an operation that raised an error


class Operation(NamedTuple):
    """One operation of torch that an answer ran: its name, such as ``"amax"``, and what went in.

    Inputs are copies of the tensors; output is a shape, and held the number of results of this
    shape that are still in memory. One of EXITS has no output, nor has one that is STOPPED.
    """

    name: str
    inputs: tuple[Tensor, ...]
    output: tuple[int, ...] = ()
    held: int = 0


@dataclass(frozen=True)
class Rule:
    """What an exercise asks for beside the numbers, such as an operation that is not to be used.

    Args:
        row: what an answer did that broke it, and what to do instead.
        breaks: ``breaks(operations, *arguments)`` is true of operations that break it.
    """

    row: Row
    breaks: Callable[..., bool]


@contextlib.contextmanager
def recorded() -> Iterator[list[Operation]]:
    """Keep every operation on tensors, and what goes to NumPy or to Python's lists."""
    operations: list[Operation] = []
    with _Operations(operations), _Exits(operations):
        yield operations


class _Operations(DispatchMode):
    def __init__(self, operations: list[Operation]) -> None:
        super().__init__()
        self.operations = operations
        # by the shape of what was made
        self.storages = defaultdict[tuple[int, ...], WeakSet[torch.UntypedStorage]](WeakSet)

    def ran(
        self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
    ) -> None:
        """Keep what went into an operation, and count the results of its shape that are alive."""
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        inputs = tuple(x.detach().clone().cpu() for x in tensors)
        results = [x for x in tree_leaves(out) if isinstance(x, Tensor)]
        output = tuple(results[0].shape) if results else ()
        alive = 0
        if len(output) > 1 and results[0].layout == torch.strided:
            self.storages[output].add(results[0].untyped_storage())
            alive = len(self.storages[output])
        name = func.name().split("::")[-1].split(".")[0]
        self.operations.append(Operation(name, inputs, output, alive))


class _Exits(TorchFunctionMode):
    def __init__(self, operations: list[Operation]) -> None:
        super().__init__()
        self.operations = operations

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in EXITS:
            self.operations.append(Operation(name, (args[0].detach().clone().cpu(),)))
        before = len(self.operations)
        try:
            out = func(*args, **(kwargs or {}))
        except Exception:
            operands = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
            if name == "linear":  # which is x @ weight.T
                operands[1:] = [operands[1].mT]
            self.operations.append(Operation(STOPPED, tuple(operands)))
            raise
        if name == "scaled_dot_product_attention":  # how a kernel does it is its own affair
            self.operations[before:] = [Operation(name, ())]
        return out
