"""One call that made tensors, as the rules see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from mha_course.torch_internals import OpOverload, OpOverloadPacket
from mha_course.tracing.axes import Axes, Axis, AxisNamer
from mha_course.tracing.rules import warnings
from mha_course.tracing.rules.warnings import Remark
from mha_course.tracing.unify import unify

PIECE = "piece of step"  # the label of an Element that is one piece of several
SCORES = ("scores", "scaled_scores", "masked_scores")
NAMESPACES = {"aten", "prim", "prims", "quantized", "higher_order"}  # torch's own operators
RENAMED = {  # operators, without underscores or the i of in-place ones
    "rmatmul": "matmul", "truediv": "div", "rtruediv": "div", "rdiv": "div", "mod": "remainder",
    "floordiv": "floor_divide", "rfloordiv": "floor_divide", "rpow": "pow", "rsub": "sub",
    "invert": "bitwise_not", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "rand": "bitwise_and", "ror": "bitwise_or", "iter": "unbind",
}  # fmt: skip


class Element(NamedTuple):
    """One element of an axis, with the axis and its label, or one piece of several."""

    axis: Axis
    label: str
    position: int


Elements = tuple[Element, ...]


@dataclass(slots=True)
class TensorInfo:
    """What the trace knows about one tensor."""

    axes: Axes
    stage: str = ""
    source: int | str = "?"  # the step that made it, or the name of the argument
    labels: tuple[str, ...] = ()  # the axes in the usual notation
    memory: int = -1  # the memory it uses
    key: int = 0  # torch's number for it
    from_linear: bool = False  # a Linear's output, or a view of one
    is_parameter: bool = False  # a parameter, or a view of one
    summed_axis: str = ""  # scores: the axis their product sums over
    width: int = 0  # scores: how many products each one adds up, if within a head
    scale: float = 1.0  # the plain numbers that it, or its source, was multiplied by
    scale_step: int = -1  # the last step to do so
    softmax_axis: str = ""  # weights: the axis along which they sum to 1
    softmax_step: int = -1  # the step that made them sum to 1
    # scores: everything derived from them, up to the weights
    derived: list[TensorInfo] = field(default_factory=list)
    reduced_axis: str = ""  # a sum, or an average of heads: the axis it runs over
    elements: Elements = ()  # the elements it was picked from, the last first

    def learn(self, axes: Axes, names: AxisNamer) -> None:
        """Name a parameter's axes by its use, if they have no names yet."""
        if set(self.labels) == {"?"} and len(axes) == len(self.labels):
            self.axes = axes
            self.labels = tuple(map(names.label, axes))


@dataclass(slots=True)
class OpCall:
    """A call: its name, inputs and outputs, and where to record findings."""

    op: str
    func: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outs: list[Tensor]
    names: AxisNamer
    info: Callable[[Tensor], TensorInfo]
    index: int  # of the first output's step
    tensors: list[Tensor]  # the inputs
    pending: dict[int, Remark]  # remarks that a later step may resolve
    warnings: dict[int, Remark]  # only the first for each step counts
    results: list[TensorInfo]  # what a rule knows beyond the axes
    elements: list[Elements] = field(default_factory=list)  # of each output

    def axes(self, tensor: Tensor) -> Axes:
        """Return an input's axes, in a list that a rule may change."""
        return list(self.info(tensor).axes)

    def arg(self, position: int, *names: str, default: Any = None) -> Any:
        """Return an argument by position or by one of its names."""
        if position < len(self.args):
            return self.args[position]
        return next((self.kwargs[name] for name in names if name in self.kwargs), default)

    def rerun(self, places: Tensor) -> list[Tensor]:
        """Return the call's result for another tensor than the one it was called on."""
        x = self.first()
        rest = self.kwargs
        args = self.args[1:]
        if not self.args:  # The tensor was given by its name.
            rest = {name: value for name, value in rest.items() if value is not x}
        try:
            return tensors_in([self.func(places, *args, **rest)])
        except RuntimeError as error:  # one argument depends on another's numbers
            raise ValueError(self.op) from error

    def first(self) -> Tensor:
        """Return the tensor a method was called on."""
        tensor: Tensor = self.arg(0, "input", "self", "x")
        return tensor

    def ints(self, position: int, *names: str) -> list[int]:
        """Return sizes or dims, given one by one or as a sequence."""
        first = self.arg(position, *names)
        if not isinstance(first, int):
            return list(first)
        return list(self.args[position:]) or [first]

    def broadcast(self, left: Axis, right: Axis) -> Axis:
        """Name an axis of two broadcast tensors; warn if only the sizes agree."""
        if left == right:
            return left
        axis, differs = unify(self.names, left, right)
        if differs or {self.names.label(left), self.names.label(right)} == {"H", "B"}:
            rows = [self.info(tensor).labels for tensor in self.tensors]
            self.warn(warnings.of_broadcast(self.names, left, right, rows))
        return axis

    def settle(self, value: TensorInfo, *mistakes: str) -> None:
        """Drop the pending question about the step that made a tensor."""
        source = value.source if isinstance(value.source, int) else -1
        if source in self.pending and self.pending[source].id in mistakes:
            del self.pending[source]

    def warn(self, remark: Remark | None, step: int | None = None) -> None:
        """Add a warning to this step, or to an earlier one."""
        if remark:
            self.warnings.setdefault(self.index if step is None else step, remark)


def tensors_in(values: Iterable[Any]) -> list[Tensor]:
    """Return the tensors in arguments, however nested, in order."""
    tensors: list[Tensor] = []
    for item in values:
        if isinstance(item, Tensor):
            tensors.append(item)
        elif isinstance(item, (list, tuple, dict)):
            tensors += tensors_in(item.values() if isinstance(item, dict) else item)
    return tensors


def op_name(func: Callable[..., Any]) -> str:
    """Return torch's name for a call; a custom operator is named mine::double."""
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


Rule = Callable[[OpCall], Sequence[Axes]]


def rules(*rows: tuple[str, Rule]) -> dict[str, Rule]:
    """Return each operation's rule, from rows that list several names for one."""
    return {name: rule for names, rule in rows for name in names.split()}
