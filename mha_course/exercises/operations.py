"""Record an answer's tensor operations, and check what an exercise asks of them."""

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

# Functions that take numbers out of torch, where operations cannot be seen.
EXITS = {"numpy", "__array__", "__dlpack__", "tolist"}
STOPPED = "stopped"  # the name of an operation that raised


class Operation(NamedTuple):
    """A torch operation in an answer: its name, such as ``"amax"``, and its inputs.

    Inputs are copies of the tensors; output is a shape, and held counts the results of this
    shape that are still in memory. Those of EXITS, and STOPPED, have no output.
    """

    name: str
    inputs: tuple[Tensor, ...]
    output: tuple[int, ...] = ()
    held: int = 0


@dataclass(frozen=True)
class Rule:
    """What an exercise asks for besides right numbers, such as avoiding an operation.

    Args:
        row: how an answer broke it, and what to do instead.
        breaks: ``breaks(operations, *arguments)`` says whether operations break it.
    """

    row: Row
    breaks: Callable[..., bool]


@contextlib.contextmanager
def recorded() -> Iterator[list[Operation]]:
    """Record every tensor operation, and tensors that go to NumPy or Python lists."""
    operations: list[Operation] = []
    with _Operations(operations), _Exits(operations):
        yield operations


class _Operations(DispatchMode):
    def __init__(self, operations: list[Operation]) -> None:
        super().__init__()
        self.operations = operations
        # by the shape of the result
        self.storages = defaultdict[tuple[int, ...], WeakSet[torch.UntypedStorage]](WeakSet)

    def ran(
        self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
    ) -> None:
        """Record an operation's inputs, and count the live results of its shape."""
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        inputs = tuple(x.detach().clone().cpu() for x in tensors)
        results = [x for x in tree_leaves(out) if isinstance(x, Tensor)]
        output = tuple(results[0].shape) if results else ()
        alive = 0
        # Storages are counted, not tensors: views of a result take no memory of their own.
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
        if name == "scaled_dot_product_attention":  # what a kernel does inside does not count
            self.operations[before:] = [Operation(name, ())]
        return out
