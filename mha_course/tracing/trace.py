"""Run a call once and keep what every step of it did to shapes, names and memory."""

from __future__ import annotations

import inspect
import linecache
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import CodeType, TracebackType
from typing import Any

import torch

from mha_course.errors import ShapeError
from mha_course.torch_internals import MACHINERY, Args, Kwargs
from mha_course.tracing import patterns, stages
from mha_course.tracing.axes import AxisNamer
from mha_course.tracing.patterns import Patterns, Sizes, Tensors, Words
from mha_course.tracing.recorder import Recorder
from mha_course.tracing.records import Source
from mha_course.tracing.render import Trace
from mha_course.tracing.rules import warnings as diagnosis
from mha_course.tracing.source_lines import OWN, code_lines, statements

Fn = Callable[..., Any]
COMPILED = (
    "compiled code was run as it was written: what the compiler fuses and reorders cannot be seen"
)
LATER = "what was returned runs later, as a generator or coroutine does: its steps cannot be seen"
THREADS = "a thread was begun in this call: what runs in it cannot be seen"
CUSTOM = (
    "an operator that is not torch's: what it does inside cannot be seen, and its FLOPs are not "
    "counted"
)
FAST_PATH = (
    "in evaluation without gradients torch can take a fused path through nn.MultiheadAttention and "
    "nn.TransformerEncoder, but not while they are traced: results may differ by rounding, and in "
    "rows that are padding"
)
WIDTH_UNKNOWN = (
    "C is not known, so heads cannot be followed: name it in a pattern, or give sizes=dict(C=…)"
)
SIZES = (
    "in a trace, sizes of tensors are ints that know their axis: isinstance(n, int) holds, "
    "type(n) is int does not, and {} may ask for it"
)
SCRIPTED = "scripted code runs outside Python: what it ran is shown, but its lines cannot be seen"


def trace(
    fn: Callable[..., Any],
    *args: Any,
    axes: Patterns = None,
    sizes: Mapping[str, int] | None = None,
    **kwargs: Any,
) -> Trace:
    """Call ``fn(*args, **kwargs)`` and return what it did, each axis named by where it comes from.

    Args:
        fn: any callable or module.
        axes: a pattern such as ``"B S C"``, or a sequence of them, one for each tensor argument, or
            a mapping from parameter names. A product is written ``"3*C"``, an unknown axis ``"?"``.
            A single pattern also holds for all other arguments of the same shape. Other letters
            ("b n d", "N C H W") are read as the course's where they are known. Without any, they
            are guessed from the sizes that modules declare. A note says what was read or guessed.
        sizes: what cannot be read off, as ``dict(H=4)``. H is also taken from an argument or
            attribute num_heads; D is C / H. If ``fn`` has keywords called axes or sizes, pass them
            with ``functools.partial(fn, axes=…)``.
    Raises: ShapeError for patterns that do not fit. What ``fn`` raises is raised as it is, with the
        steps up to there in its notes and as its attribute ``trace``.

    >>> from mha_course.attention import split_heads
    >>> traced = trace(split_heads, torch.zeros(2, 5, 24), 4, axes="B S C")
    >>> [(step.op, step.axes) for step in traced.steps]
    [('unflatten', ('B', 'S', 'H', 'D')), ('transpose', ('B', 'H', 'S', 'D'))]
    """
    if not callable(fn):
        rule = "fn must be callable"
        raise ShapeError("trace", rule, expected="a function or a module", got=repr(fn)[:60])
    if not isinstance(sizes or {}, Mapping):
        raise ShapeError("trace", "sizes must be a mapping", expected="dict(H=4)", got=repr(sizes))
    known = {
        patterns.LETTERS.get(name, name): patterns.positive(name, size)
        for name, size in (sizes or {}).items()
    }
    return _run(fn, args, kwargs, _prepare(fn, args, kwargs, axes, known))


def _prepare(fn: Fn, args: Args, kwargs: Kwargs, axes: Patterns, sizes: dict[str, int]) -> Recorder:
    bound = patterns.bind(fn, args, kwargs)
    # F=128: then no other name is read off 128
    own = {size for name, size in sizes.items() if name not in {*"BCDHST"}}
    tensors = patterns.named_tensors(bound)
    modules = patterns.modules_of(fn, bound.values())
    declared = patterns.declared(modules, bound).items()
    hints = {name: size for name, size in declared if name in {*"CDH"} or size not in own}
    rows = patterns.assign(axes, tensors)
    if axes is None:
        rows = patterns.guess(modules, tensors, hints | sizes)
    patterns.channels(rows, tensors, hints | sizes)
    patterns.whole_widths(rows, tensors, sizes, hints)
    names = _namer(rows, tensors, sizes, hints)
    parameters = {id(p): name for module in modules for name, p in module.named_parameters()}
    paths = {id(part): path for module in modules for path, part in module.named_modules()}
    recorder = Recorder(names, parameters, paths)
    notes = patterns.translated(axes, rows)
    if axes is None and any(tensor.dim() > 1 for tensor in tensors.values()):
        notes = (patterns.guessed(rows),)
    recorder.notes = dict.fromkeys(notes)
    batched = any(len(words) > 2 for words in rows.values())
    for name, tensor in tensors.items():
        if id(tensor) in recorder.values:
            continue
        words = rows.get(name, ())
        named = list(map(names.read, words or "?" * tensor.dim(), tensor.shape))
        argument = recorder.add_argument(name, tensor, named, words)
        matrix = not words and batched and tensor.dim() == 2
        argument.weight = matrix or isinstance(tensor, torch.nn.Parameter)
    return recorder


def _namer(rows: Words, tensors: Tensors, sizes: Sizes, hints: Sizes) -> AxisNamer:
    known = patterns.solve(rows, tensors, sizes, hints)
    words = [word for row in rows.values() for word in row]
    parts = [part for word in words for part in word.split("*")]
    joined = {part for word in words if "*" in word for part in word.split("*")}
    ids = {name for name, x in tensors.items() if patterns.is_ids(x)}
    # A bias of pairs, B T S C, is no sequence.
    ones = {name: row for name, row in rows.items() if not {"T", "S"} <= {*row}}
    rows_of_all = [row for name, row in ones.items() if name in ids or {"C", "D", "3*C"} & {*row}]
    whole = [word for row in rows_of_all for word in row]
    named = {*hints, *sizes, "H_kv"}  # what counts no tokens
    counts = [name for name in known if name in named and name not in joined]
    return AxisNamer(known, parts, counts, whole)


def _run(fn: Fn, args: Args, kwargs: Kwargs, recorder: Recorder) -> Trace:
    """Call under both modes, and put the trace together, of a call that raises too."""
    inner = [part for module in patterns.modules_of(fn) for part in module.modules()]
    parts = [fn, *patterns.referred(fn), *inner]
    marks = ("_torchdynamo_orig_callable", "_orig_mod")
    kinds = (torch.jit.ScriptModule, torch.jit.ScriptFunction)
    known = {
        COMPILED: any(hasattr(part, mark) for part in parts for mark in marks),
        SCRIPTED: any(isinstance(part, kinds) for part in parts),
        FAST_PATH: any(map(_has_fast_path, parts)),
    }
    notes = tuple([text for text, holds in known.items() if holds])
    recorder.top = sys._getframe()
    profile = threading.getprofile()

    def begun(*_: object) -> None:
        recorder.notes[THREADS] = None
        sys.setprofile(profile)

    threading.setprofile(begun)
    try:
        with recorder.counter, recorder:
            recorder.run_as_written()
            result = fn(*args, **kwargs)
    except Exception as error:
        _attach(error, _finish(recorder, None, notes, recorder.failure))
        raise
    finally:  # no context manager: it sets the traceback of what was raised, which may refuse
        threading.setprofile(profile)
        recorder.as_written.close()
    return _finish(recorder, result, notes, None)


def _has_fast_path(part: Any) -> bool:
    kinds = (torch.nn.MultiheadAttention, torch.nn.TransformerEncoderLayer)
    if not isinstance(part, kinds) or part.training:
        return False
    return not (torch.is_grad_enabled() and any(p.requires_grad for p in part.parameters()))


def _attach(error: Exception, failed: Trace) -> None:
    """Give what was raised the trace up to there, where it takes more than it has."""
    try:
        error.add_note(f"Traced up to here:\n{failed}")
        error.trace = failed  # type: ignore[attr-defined]
        error.__traceback__ = _without_tracer(error.__traceback__)
    except (AttributeError, TypeError):  # a frozen dataclass, or a __setattr__ of its own
        return


def _without_tracer(entry: TracebackType | None) -> TracebackType | None:
    """Drop the frames of the tracer from a traceback, so that it ends at the learner's line."""
    if entry is None:
        return None
    rest = _without_tracer(entry.tb_next)
    own = entry.tb_frame.f_code.co_filename.startswith((*OWN, *MACHINERY))
    return rest if own else TracebackType(rest, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)


def _finish(recorder: Recorder, result: Any, notes: tuple[str, ...], failure: str | None) -> Trace:
    warnings = _warnings_of(recorder)
    later = inspect.isgenerator(result) or inspect.isawaitable(result) or inspect.isasyncgen(result)
    custom = dict.fromkeys(f"{step.op}: {CUSTOM}" for step in recorder.steps if "::" in step.op)
    names = recorder.names
    unknown = names.sizes.get("H", 1) > 1 and not {"C", "D"} & names.sizes.keys()
    codes = {id(line.code): line.code for line in recorder.lines if line}.values()
    typed = [SIZES.format(_title(code)) for code in codes if {"type", "int"} <= {*code.co_names}]
    notes = (*notes, *recorder.notes, *custom, *typed)
    if later:
        notes = (*notes, LATER)
    if unknown:
        notes = (*notes, WIDTH_UNKNOWN)
    recorder.running.finish()
    arguments = tuple(
        replace(made, axes=made.axes or names.final(value.axes))
        for made, value in recorder.arguments.values()
    )
    known: dict[int | str, tuple[str, ...]] = {made.name: made.axes for made in arguments}
    for step, info in zip(recorder.steps, recorder.infos, strict=True):
        step.axes = known[step.index] = names.final(info.axes)
        told = [known.get(operand.source, operand.axes) for operand in step.inputs]
        step.inputs = tuple(
            operand._replace(axes=axes) if len(axes) == len(operand.shape) else operand
            for operand, axes in zip(step.inputs, told, strict=True)
        )
        text = warnings.get(step.index)
        asked = isinstance(text, diagnosis.Question)
        step.question = text if asked else None
        step.warning = None if asked else text
    stages.settle(recorder.steps, recorder.infos, names)
    sources = _add_lines(recorder)
    steps = tuple(recorder.steps)
    return Trace(
        steps, result, arguments, sources, dict(names.sizes), notes, failure, recorder.aliases
    )


def _warnings_of(recorder: Recorder) -> dict[int, str]:
    found = recorder.pending | recorder.warnings
    if any(text.startswith("heads-innermost") for text in found.values()):
        again = "merge-dim-before-heads"  # a merge then only repeats the order
        found = {i: text for i, text in found.items() if not text.startswith(again)}
    name = "view-without-transpose"
    both = "only-one-of-qkv-wrongly-split"  # of q, k and v
    wrong = {i: text for i, text in found.items() if text.startswith(name)}
    splits = [s.axes[-3:] for s in recorder.steps if s.op in ("view", "reshape", "unflatten")]
    if len(wrong) < 3 and ("S", "H", "D") in splits:
        more = diagnosis.row_of(both).title
        for i, text in wrong.items():
            found[i] = f"{text.replace(name, f'{name} ({both})', 1)} {more}"
    return found


def _add_lines(recorder: Recorder) -> tuple[Source, ...]:
    """Give each step its line; return the sources of all lines that can be shown."""
    # By id: the hash of code is slow.
    codes = {id(line.code): line.code for line in recorder.lines if line}
    known = {
        key: Source(_title(code), code.co_filename, *code_lines(code.co_filename, code))
        for key, code in codes.items()
    }
    written = {key: statements(code.co_filename, code) for key, code in codes.items()}
    shown = [key for key, source in known.items() if source.lines]
    for step, line in zip(recorder.steps, recorder.lines, strict=True):
        if line is not None:
            key = id(line.code)
            file = line.code.co_filename
            step.line = (
                written[key].get(step.lineno) or linecache.getline(file, step.lineno).strip()
            )
            step.source = shown.index(key) if key in shown else None
    return tuple(known[key] for key in shown)


def _title(code: CodeType) -> str:
    return "cell" if code.co_name == "<module>" else code.co_qualname.replace(".<locals>", "")
