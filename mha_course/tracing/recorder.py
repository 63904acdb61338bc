"""Watch a call and record a step for every tensor it makes."""

from __future__ import annotations

import itertools
import math
import weakref
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from types import CodeType, FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from mha_course import torch_internals as internals
from mha_course.op_counter import OpCounter
from mha_course.torch_internals import Args, Kwargs
from mha_course.tracing import notes
from mha_course.tracing.axes import Axes, AxisNamer, Size, keep_matching, size_of, unknown
from mha_course.tracing.records import Argument, Operand, Step
from mha_course.tracing.rules import numbers, warnings
from mha_course.tracing.rules.call import OpCall, TensorInfo, op_name, tensors_in
from mha_course.tracing.rules.table import PRODUCTS, RULES, SHAPE_ONLY
from mha_course.tracing.rules.warnings import Remark
from mha_course.tracing.source_lines import Frames, UserFrame

_MOVES = """
    contiguous clone cat concat concatenate stack repeat tile repeat_interleave to reshape flatten
    ravel flip roll index_select getitem gather take_along_dim type reshape_as setitem float double
    half bfloat16 cpu cuda embedding take copy_ long int short bool type_as tensor new_tensor
    asarray resolve_conj deepcopy hstack vstack dstack column_stack masked_select
"""
MOVES = set(_MOVES.split())
# These copy because the code says so.
EXPLICIT_COPIES = MOVES - {"reshape", "flatten", "ravel", "reshape_as"}
LATER = {"projection": "split", "context": "merged"}  # what a stage becomes when its shape changes
UNCHANGED = {"detach", "contiguous", "clone", "to", "float", "double", "half", "bfloat16", "data"}
# The scale of normalised vectors: at length 1, their products do not grow with D.
NORMALISED = {"layer_norm": 1.0, "rms_norm": 1.0, "normalize": math.nan}
Paths = dict[int, str]  # by the owner's id
Inputs = tuple[Operand, ...]
Place = UserFrame | None
ONE_ROW = {"multi_head_attention_forward", "flex_attention"}


class Recorder(TorchFunctionMode):
    """Record every call that makes a tensor, without keeping the tensor."""

    def __init__(self, names: AxisNamer, parameters: Paths, modules: Paths) -> None:
        super().__init__()
        self.names, self.parameters = names, parameters
        self.top: FrameType | None = None  # where the traced call begins
        self.counter = OpCounter()
        self.as_written = ExitStack()
        self.compiles = True
        self.values: dict[int, TensorInfo] = {}
        self.alive: dict[int, weakref.ref[torch.Tensor]] = {}  # They call _forget at the end.
        self.memories: dict[int, int] = {}
        self.readers: Counter[int] = Counter()  # how many live tensors use each piece of memory
        self.numbers = itertools.count()
        self.namesakes: Counter[str] = Counter()  # how many further arguments have the same name
        # Axes of arguments are filled in at the end, since parameters are named by use.
        self.arguments: dict[str, tuple[Argument, TensorInfo]] = {}
        self.steps: list[Step] = []
        self.infos: list[TensorInfo] = []  # what is known about each step's tensor
        self.lines: list[Place] = []  # for each step
        self.codes: dict[int, CodeType] = {}  # of these lines, by id: the hash of code is slow
        self.aliases: dict[str, int] = {}  # further variables bound to a result
        self.warnings: dict[int, Remark] = {}
        self.pending: dict[int, Remark] = {}  # pending until a later step
        self.notes: dict[str, None] = {}  # what stayed out of sight, in order
        self.running = Frames(self._bind, modules)
        self.failure: str | None = None
        # Results that a statement discards, by the first one's step, to ask about if unused.
        self.discarded: dict[int, list[weakref.ref[torch.Tensor]]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Args = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.compiles:
            self.run_as_written()
        self.counter.reset()  # Everything counted from here on belongs to this call.
        try:
            out = func(*args, **kwargs)
        except (RuntimeError, IndexError) as error:
            self._guard(self._diagnose, op_name(func), args, kwargs, error)
            raise
        if isinstance(func, internals.OpOverload) and not self.counter.flops:
            self.counter.ran(func, args, kwargs, out)  # scripted: the counter comes too late
        if isinstance(out, (torch.Tensor, tuple, list)) and not isinstance(out, torch.Size):
            self._guard(self._record, op_name(func), func, args, kwargs, out)
        elif id(args[0] if args else None) in self.values and op_name(func) in ("shape", "size"):
            return self._sizes(self.values[id(args[0])].axes, out, *args[1:], **kwargs)
        elif func is torch.Tensor.__setitem__:  # It returns None, so name what it changed.
            self._guard(self._record, "setitem", func, args, kwargs, args[0])
        elif func is torch.Tensor.__iter__:
            rows = list(out)
            self._guard(self._record, "unbind", torch.unbind, args, kwargs, rows)
            out = iter(rows)
        elif getattr(func, "__self__", None) is torch.Tensor.data:  # it was set: other memory
            self._forget(id(args[0]))
        elif type(out).__module__ == "numpy":
            self.notes[notes.IN_NUMPY] = None
        return out

    def run_as_written(self) -> None:
        """Turn compilation off in a trace, but only if the slow-to-import compiler is loaded."""
        if internals.compiler_is_loaded():
            self.compiles = False
            self.as_written.enter_context(torch.compiler.set_stance("force_eager"))

    def _sizes(self, axes: Axes, out: Any, dim: Any = None, *_: Any) -> Any:
        """Return a shape, or one of its sizes, that remembers its axes."""
        if isinstance(out, torch.Size) and len(out) == len(axes):
            return torch.Size(map(Size, out, axes, itertools.repeat(self.names.is_token)))
        if isinstance(dim, int) and type(out) is int:
            return Size(out, axes[dim], self.names.is_token)
        return out

    def _guard(self, look: Callable[..., None], op: str, *call: Any) -> None:
        """Record a call; if the tracer itself fails, the call continues, and a note says so."""
        try:
            look(op, *call)
        except Exception as error:
            line = f"{type(error).__name__}: {error}".splitlines()[0]
            self.notes[f"the tracer failed at {op} ({line}), so this step is not shown"] = None

    def _diagnose(self, op: str, args: Args, kwargs: Kwargs, error: Exception) -> None:
        tensors = filter(internals.has_shape, tensors_in((*args, *kwargs.values())))
        self.failure = warnings.of_crash(op, str(error), list(map(self.info, tensors)), self.names)

    def info(self, tensor: torch.Tensor) -> TensorInfo:
        """Return what is known about a tensor; a new one is a parameter or comes from outside."""
        value = self.values.get(id(tensor))
        if value is None:
            name = self.parameters.get(id(tensor), "")
            value = self.add_argument(name or "tensor", tensor, list(map(unknown, tensor.shape)))
            value.is_parameter = bool(name) or isinstance(tensor, torch.nn.Parameter)
        return value

    def add_argument(
        self, name: str, x: torch.Tensor, axes: Axes, labels: tuple[str, ...] = ()
    ) -> TensorInfo:
        """Add a tensor that no step made."""
        base = name
        while name in self.arguments:
            self.namesakes[base] += 1
            name = f"{base}_{self.namesakes[base] + 1}"
        value = TensorInfo(axes)
        self._remember(value, x, name)
        strided = x.layout == torch.strided
        strides = tuple(x.stride()) if strided else ()
        offset = int(x.storage_offset()) if strided else 0
        argument = Argument(name, tuple(x.shape), labels, strides, offset, value.memory)
        self.arguments[name] = argument, value
        return value

    def _remember(self, value: TensorInfo, tensor: torch.Tensor, source: int | str) -> None:
        """Store what is known about a tensor, and number its memory: views share a number."""
        value.source = source
        value.labels = tuple(map(self.names.label, value.axes))
        if isinstance(source, int) or internals.is_plain(tensor):  # results were checked before
            key = internals.storage_key(tensor)
            if key not in self.memories:
                self.memories[key] = next(self.numbers)
            self.readers[key] += 1
            value.key = key
            value.memory = self.memories[key]
        self._forget(id(tensor))  # of tensors changed in place
        self.values[id(tensor)] = value
        self.alive[id(tensor)] = weakref.ref(tensor, partial(self._forget, id(tensor)))

    def _forget(self, tensor_id: int, _: object = None) -> None:
        """Forget a freed or changed tensor, whose id may be reused."""
        value = self.values.pop(tensor_id, None)
        self.alive.pop(tensor_id, None)
        if value is not None and value.memory >= 0:
            self.readers[value.key] -= 1
            if not self.readers[value.key]:
                del self.memories[value.key], self.readers[value.key]

    def _record(self, op: str, func: Any, args: Args, kwargs: Kwargs, out: Any) -> None:
        outs = tensors_in([out])
        if not outs:
            return
        if not internals.is_plain(outs[0]):
            wrapped = internals.is_functorch_wrapped_tensor(outs[0])
            self.notes[notes.WRAPPED if wrapped else notes.SHAPELESS] = None
            return
        arguments = (*args, *kwargs.values())
        if op == "deepcopy":  # its memo holds the copy
            arguments = args[:1]
        shaped = list(filter(internals.has_shape, tensors_in(arguments)))
        by_id = dict(zip(map(id, shaped), shaped, strict=True))  # each tensor once
        tensors = list(by_id.values())
        values = list(map(self.info, tensors))
        call = OpCall(
            op=op,
            func=func,
            args=args,
            kwargs=kwargs,
            outs=outs,
            names=self.names,
            info=self.info,
            index=len(self.steps),
            tensors=tensors,
            pending=self.pending,
            warnings=self.warnings,
            results=[TensorInfo([]) for _ in outs],
        )
        for result, axes in zip(call.results, self._axes(call, outs), strict=True):
            result.axes = axes
        inherit(call, values)
        pairs = zip(values, tensors, strict=True)
        inputs = tuple([Operand(v.source, tuple(t.shape), v.labels) for v, t in pairs])
        line = self.running.line(self.top, len(self.steps))
        before = {key: value.memory for key, value in zip(by_id, values, strict=True)}
        for number, tensor in enumerate(outs):
            step = call.index if op in ONE_ROW else len(self.steps)
            self._remember(call.results[number], tensor, step)
            if number == 0 or op not in ONE_ROW:
                self._add_step(call, number, inputs, before, line)
        own_call = self.running.outermost in ("", op, "_wrapped_call_impl")
        is_new = before.keys().isdisjoint(map(id, outs))
        if self.running.discards and own_call and tensors and is_new:
            self.discarded[call.index] = list(map(weakref.ref, outs))

    def ask_about_discarded(self) -> None:
        """Ask about discarded results: no step read them, and nothing refers to them."""
        sources = {operand.source for step in self.steps for operand in step.inputs}
        for index, results in self.discarded.items():
            is_read = not sources.isdisjoint(range(index, index + len(results)))
            if not is_read and all(result() is None for result in results):
                remark = warnings.warn("result-discarded", op=self.steps[index].op)
                self.warnings.setdefault(index, remark)

    def _bind(self, name: str, content: object, first: int) -> None:
        """Name the step that made a variable's tensor, if not before the first step given."""
        value = self.values.get(id(content))
        if value is None or not isinstance(value.source, int) or value.source < first:
            return
        step = self.steps[value.source]  # It made the variable's tensor.
        if step.op in ONE_ROW and step.shape != tuple(map(size_of, value.axes)):
            return  # weights, which are not a step
        if step.name is None:
            step.name = name
        elif step.name != name:
            self.aliases[name] = step.index

    def _axes(self, call: OpCall, outs: list[torch.Tensor]) -> list[Axes]:
        base = call.op[:-1] if call.op.endswith("_") and not call.op.startswith("_") else call.op
        rule = RULES.get(call.op) or RULES.get(base)
        copies = self.counter.copies
        rows: list[Axes] = []
        try:
            if rule:
                rows = list(map(list, rule(call)))
            elif call.op.endswith("_") and call.args and outs[0] is call.args[0]:
                rows = [call.axes(outs[0])]
        except (LookupError, TypeError, ValueError, AttributeError, ZeroDivisionError):
            rows = []  # arguments the rule does not know
        self.counter.copies = copies  # without the rule's
        rows += [[] for _ in outs[len(rows) :]]
        return [self._checked(axes, tensor) for axes, tensor in zip(rows, outs, strict=True)]

    def _checked(self, axes: Axes, tensor: torch.Tensor) -> Axes:
        """Drop names that do not fit the shape, and distinguish query from key tokens."""
        if len(axes) != tensor.dim():
            return [unknown(size) for size in tensor.shape]
        return self.names.separate_tokens(keep_matching(axes, tensor.shape))

    def _add_step(
        self, call: OpCall, number: int, inputs: Inputs, before: dict[int, int], at: Place
    ) -> None:
        """Record one step; ``before`` has the inputs' ids and their pieces of memory."""
        tensor = call.outs[number]
        result = call.results[number]
        op = call.op
        if id(tensor) in before:
            storage = "same"
            self.running.read_again()
        elif result.memory in before.values():  # It uses an input's memory.
            storage = "view"
        else:
            storage = "copy" if op in MOVES and before else "new"
        written = op in EXPLICIT_COPIES and storage != "view"
        hidden = 0 if number or written else self.counter.copies
        self.lines.append(at)
        if at is not None:
            self.codes[id(at.code)] = at.code
        self.infos.append(result)
        self.steps.append(
            Step(
                index=len(self.steps),
                op=op,
                inputs=inputs,
                shape=tuple(tensor.shape),
                axes=result.labels,
                strides=tensor.stride(),
                contiguous=tensor.is_contiguous(),
                storage=storage,
                dtype=tensor.dtype,
                device=tensor.device,
                bytes=tensor.nbytes,
                flops=0 if number else self.counter.flops,
                line="",  # filled in after the call
                lineno=at.lineno if at else 0,
                hidden_copies=hidden,
                note=notes.OF_OPS.get(op),
                stage=result.stage,
                offset=int(tensor.storage_offset()),
                memory=result.memory,
                module=self.running.module,
            )
        )


def inherit(call: OpCall, values: list[TensorInfo]) -> None:
    """Pass on to the results what is known about the inputs, unless a rule set it."""
    rows = [value.elements for value in values if value.elements] or [()]
    shared = [element for element in rows[0] if all(element in row for row in rows)]
    for n, result in enumerate(call.results):
        result.elements = (*(call.elements[n] if call.elements else ()), *shared)
    if call.op in PRODUCTS or not values:  # Products set their own.
        return
    main = next((value for value in values if value.stage), values[0])  # Masks have no stage.
    # Of several weights, the result goes on with the latest.
    weights = max(values, key=lambda value: (bool(value.softmax_axis), value.softmax_step))
    keeps_numbers = call.op in SHAPE_ONLY or call.op in UNCHANGED
    factor = numbers.factor_of(call)
    for result in call.results:
        # A softmax ends the scale: what its scores were divided by does not scale its weights.
        if result.stage != "weights" or main.stage == "weights":
            result.scale = NORMALISED.get(call.op, main.scale * factor)
            result.scale_step = main.scale_step if factor == 1 else call.index
        result.width = main.width
        result.stage = result.stage or _next_stage(call, main, result)
        result.summed_axis = main.summed_axis
        if keeps_numbers:
            result.reduced_axis = result.reduced_axis or main.reduced_axis
        # Should a later sum show that the keys came first, all of these are renamed.
        if main.derived:
            result.derived = main.derived
            result.derived.append(result)
        result.from_linear = any(value.from_linear for value in values)
        result.is_parameter = keeps_numbers and all(value.is_parameter for value in values)
        if not result.softmax_axis and result.softmax_step < 0:
            result.softmax_axis = weights.softmax_axis
            result.softmax_step = weights.softmax_step


def _next_stage(call: OpCall, before: TensorInfo, result: TensorInfo) -> str:
    """Return a stage's next one; a change of shape may split or merge heads."""
    if call.op not in SHAPE_ONLY:
        return before.stage
    if before.stage:
        return LATER.get(before.stage, before.stage)
    labels = list(map(call.names.label, result.axes))
    if "H" in before.labels:
        return "merged" if "C" in labels else ""
    return "split" if "H" in labels else ""
