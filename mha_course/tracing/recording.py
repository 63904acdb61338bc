"""Watch a call from two sides: what was written (function mode) and what ran beneath it (dispatch mode)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from mha_course.tracing.call import Call, Value, tensors_in
from mha_course.tracing.naming import Axis, Names, size_of, unknown
from mha_course.tracing.pieces import PIECES
from mha_course.tracing.places import Place, here
from mha_course.tracing.pointwise import POINTWISE
from mha_course.tracing.products import PRODUCTS, after_linear
from mha_course.tracing.steps import Argument, Operand
from mha_course.tracing.views import VIEWS, Rule

RULES: dict[str, Rule] = {**VIEWS, **PIECES, **PRODUCTS, **POINTWISE}
OPERATORS = {
    "__matmul__": "matmul", "__rmatmul__": "matmul", "__truediv__": "div", "__rtruediv__": "div", "__rdiv__": "div",
    "__div__": "div", "__itruediv__": "div_", "__idiv__": "div_", "__floordiv__": "floor_divide", "__invert__": "bitwise_not",
    "__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor", "__rand__": "bitwise_and",
    "__ror__": "bitwise_or", "__mod__": "remainder", "__rpow__": "pow", "__iand__": "bitwise_and_",
    "__ior__": "bitwise_or_", "__iter__": "unbind", "__rsub__": "sub", "rsub": "sub", "__rfloordiv__": "floor_divide",
}  # fmt: skip
MOVES = {"contiguous", "clone", "cat", "concat", "concatenate", "stack", "repeat", "tile", "repeat_interleave", "to",
         "reshape", "flatten", "ravel", "flip", "roll", "index_select", "getitem", "gather", "take_along_dim", "type",
         "reshape_as", "setitem", "float", "double", "half", "bfloat16", "cpu", "cuda", "embedding", "take", "copy_"}  # fmt: skip
ASKED = MOVES - {"reshape", "flatten", "ravel", "reshape_as"}  # these copy because it was written
COPIES = {"clone", "_to_copy", "copy_", "contiguous", "_reshape_copy"}
FUSED_NOTE = (
    "cannot be looked into: scaled_dot_product_attention is one call into a kernel, "
    "which never makes the scores and weights as tensors"
)
MODULE_NOTE = (
    "cannot be looked into: nn.MultiheadAttention does all its steps inside one call, "
    "in torch's own code, so that q, k, v, scores and weights are not seen"
)
NOTES = {"scaled_dot_product_attention": FUSED_NOTE, "multi_head_attention_forward": MODULE_NOTE,
         "_native_multi_head_attention": MODULE_NOTE}  # fmt: skip
ONE_ROW = {"multi_head_attention_forward", "_native_multi_head_attention"}


class Beneath(TorchDispatchMode):
    """Count what runs under one written call: copies, and the FLOPs of matrix products."""

    def __init__(self) -> None:
        super().__init__()
        self.copies = self.flops = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        packet = func._overloadpacket
        self.copies += packet.__name__ in COPIES
        count = flop_registry.get(packet)
        if count is not None:
            self.flops += count(*args, **(kwargs or {}), out_val=out)
        return out


class Recorder(TorchFunctionMode):
    """Note every call that makes a tensor; tensors are kept until the end, so that no id is used twice."""

    def __init__(self, names: Names, parameters: dict[int, str], top: Any) -> None:
        super().__init__()
        self.names, self.parameters, self.top = names, parameters, top
        self.beneath = Beneath()
        self.values: dict[int, Value] = {}
        self.kept: list[Any] = []
        self.memories: dict[int, int] = {}
        self.arguments: list[Argument] = []
        self.rows: list[dict[str, Any]] = []  # the fields of each Step
        self.places: list[list[Place]] = []
        self.warnings: dict[int, str] = {}
        self.pending: dict[int, str] = {}
        self.settled: set[int] = set()
        self.failure = ""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        self.beneath.copies = self.beneath.flops = 0
        op = name_of(func)
        ids = {id(tensor) for tensor in tensors_in([args, kwargs])}
        try:
            out = func(*args, **kwargs)
        except RuntimeError as error:
            self._fail(op, args, error)
            raise
        if op == "unbind" and not isinstance(out, (tuple, list, torch.Tensor)):
            out = iter(self._note(op, args, kwargs, list(out), ids))
        elif out is not None or op == "setitem":
            self._note(op, args, kwargs, args[0] if op == "setitem" else out, ids)
        return out

    def _fail(self, op: str, args: tuple[Any, ...], error: RuntimeError) -> None:
        """Explain a call that raised, where the reason is known."""
        if op == "view" and "stride" in str(error) and isinstance(args[0], torch.Tensor):
            self.failure = "view-on-non-contiguous"

    def look(self, tensor: torch.Tensor) -> Value:
        """Return what is known of a tensor; one that was not seen before is a parameter or comes from outside."""
        value = self.values.get(id(tensor))
        if value is None:
            name = self.parameters.get(id(tensor), "")
            known = bool(name) or isinstance(tensor, torch.nn.Parameter)
            value = self.give(name or "tensor", tensor, [unknown(size) for size in tensor.shape])
            value.weight = known
        return value

    def give(self, name: str, tensor: torch.Tensor, axes: list[Axis], written: tuple[str, ...] | None = None) -> Value:
        """Take note of a tensor that no step made."""
        taken = {argument.name for argument in self.arguments}
        name = next(n for n in (name, *(f"{name}_{i}" for i in range(2, len(taken) + 3))) if n not in taken)
        labels = written or tuple(self.names.label(axis) for axis in axes)
        place = (tensor.storage_offset(), self.memory(tensor)) if tensor.layout == torch.strided else (0, -1)
        strides = tuple(tensor.stride()) if tensor.layout == torch.strided else ()
        self.arguments.append(Argument(name, tuple(tensor.shape), labels, strides, *place))
        self.kept.append(tensor)
        value = self.values[id(tensor)] = Value(axes, source=name)
        return value

    def memory(self, tensor: torch.Tensor) -> int:
        """Number the piece of memory that a tensor reads."""
        return self.memories.setdefault(tensor.untyped_storage()._cdata, len(self.memories))

    def _note(self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, ids: set[int]) -> Any:
        """Write a row for every tensor that came out."""
        outs = [out] if isinstance(out, torch.Tensor) else [one for one in tensors_in(out)]
        if not outs or outs[0].layout != torch.strided:
            return out
        read = list({id(tensor): tensor for tensor in tensors_in([args, kwargs])}.values())
        call = Call(op, args, kwargs, outs, self.names, self.look, len(self.rows), read)
        call.results = [Value([]) for _ in outs]
        call.pending, call.settled = self.pending, self.settled
        operands = [(self.look(tensor), tensor) for tensor in read]
        axes = self._axes(call, outs)
        inherit(call, [value for value, _ in operands])
        place = here(self.top)
        inputs = tuple(self._operand(value, tensor) for value, tensor in operands)
        for number, tensor in enumerate(outs[:1] if op in ONE_ROW else outs):
            self._row(call, number, tensor, axes[number], inputs, ids)
            self.places.append(place)
        for number, tensor in enumerate(outs[1:] if op in ONE_ROW else ()):
            self._remember(call.results[number + 1], tensor, axes[number + 1], call.index)
        for index, text in call.warnings.items():
            self.warnings.setdefault(index, text)
        return out

    def _axes(self, call: Call, outs: list[torch.Tensor]) -> list[list[Axis]]:
        """Name the axes of the results; where no rule fits, or one fits badly, they are not known."""
        base = call.op[:-1] if call.op.endswith("_") and not call.op.startswith("_") else call.op
        rule = RULES.get(call.op) or RULES.get(base)
        try:
            named = [list(axes) for axes in rule(call)] if rule else []
        except (LookupError, TypeError, ValueError, AttributeError, ZeroDivisionError):
            named = []  # arguments of a kind that the rule does not know
        named += [[] for _ in outs[len(named) :]]
        return [self._checked(axes, tensor) for axes, tensor in zip(named, outs, strict=True)]

    def _checked(self, axes: list[Axis], tensor: torch.Tensor) -> list[Axis]:
        """Drop names that do not fit the shape, and keep query and key tokens apart."""
        if len(axes) != tensor.dim():
            return [unknown(size) for size in tensor.shape]
        fits = [axis if size_of(axis) == size else unknown(size) for axis, size in zip(axes, tensor.shape, strict=True)]
        return self.names.apart(fits)

    def _operand(self, value: Value, tensor: torch.Tensor) -> Operand:
        """Say what was read: shape and axes as they were before the call."""
        return Operand(value.source, tuple(tensor.shape), tuple(map(self.names.label, value.axes)))

    def _row(
        self,
        call: Call,
        number: int,
        tensor: torch.Tensor,
        axes: list[Axis],
        inputs: tuple[Operand, ...],
        ids: set[int],
    ) -> None:
        """Write the fields of one step."""
        known = {t.untyped_storage()._cdata for t in call.tensors if t.layout == torch.strided}
        shared = tensor.untyped_storage()._cdata in known
        moved = call.op in MOVES
        storage = "same" if id(tensor) in ids else "view" if shared else "copy" if moved else "new"
        copies = 0 if number or (call.op in ASKED and storage != "view") else self.beneath.copies
        index = len(self.rows)
        self.rows.append(
            dict(
                index=index, op=call.op, inputs=inputs, shape=tuple(tensor.shape),
                axes=tuple(self.names.label(axis) for axis in axes), strides=tuple(tensor.stride()),
                contiguous=tensor.is_contiguous(), storage=storage, dtype=tensor.dtype, device=tensor.device,
                bytes=tensor.numel() * tensor.element_size(), flops=0 if number else self._flops(call),
                hidden_copies=copies, note=NOTES.get(call.op), stage=call.results[number].stage,
                offset=tensor.storage_offset(), memory=self.memory(tensor),
            )
        )  # fmt: skip
        self._remember(call.results[number], tensor, axes, index)

    def _remember(self, value: Value, tensor: torch.Tensor, axes: list[Axis], index: int) -> None:
        """Keep a tensor and what is known of it."""
        value.axes, value.source = axes, index
        self.values[id(tensor)] = value
        self.kept.append(tensor)

    def _flops(self, call: Call) -> int:
        """Return the FLOPs counted beneath, or for a fused kernel that torch does not count those of its products."""
        if call.op == "scaled_dot_product_attention":
            q, k, v = (call.arg(place, name) for place, name in enumerate(("query", "key", "value")))
            return 2 * math.prod(q.shape[:-1]) * k.shape[-2] * (q.shape[-1] + v.shape[-1])
        return self.beneath.flops


def inherit(call: Call, values: list[Value]) -> None:
    """Let the results keep what is known of the inputs, unless a rule said otherwise."""
    main = next((value for value in values if value.stage), values[0] if values else Value([]))
    shapes = call.op in VIEWS or call.op in PIECES
    for number, result in enumerate(call.results):
        if call.op in PRODUCTS and not result.stage:
            result.stage = after_linear(values) if call.op == "linear" else ""
            result.linear = call.op == "linear"
        elif call.op not in PRODUCTS:
            result.stage = result.stage or _stage(main, shapes)
            result.summed = result.summed or main.summed
            result.linear = any(value.linear for value in values)
            result.weight = shapes and bool(values) and all(value.weight for value in values)
        if not result.over and call.op not in PRODUCTS:
            source = next((value for value in values if value.over), None)
            if source:
                result.over, result.softmax = source.over, source.softmax
        heads = [value.head for value in values if value.head]
        result.head = call.picks[number] if call.picks else heads[0] if heads else None


def _stage(main: Value, shapes: bool) -> str:
    """Return the stage after a call that is no product."""
    if shapes and main.stage in ("projection", "context"):
        return {"projection": "split", "context": "merged"}[main.stage]
    return main.stage


def name_of(func: Callable[..., Any]) -> str:
    """Return torch's name for a call."""
    name: str = getattr(func, "__name__", type(func).__name__)
    if name == "__get__":
        return str(getattr(getattr(func, "__self__", None), "__name__", name))
    if name in OPERATORS:
        return OPERATORS[name]
    if name.startswith("__i") and name.endswith("__") and name not in ("__invert__",):
        return f"{name[3:-2]}_"
    return name.strip("_") if name.startswith("__") else name
