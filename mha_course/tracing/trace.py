"""How ``trace`` names the axes of every tensor in a call, and detects mixed heads.

A size does not say what an axis means: in a small model, 4 may be the number of heads, of tokens
and of channels. So names follow the numbers. An axis is a product of factors such as H and D, and
for each torch function a rule says where the factors go. Follow them through one call,
``trace(scores, x, axes="B S C", sizes={"H": 4})``, with ``x`` of shape (2, 5, 24)::

    def scores(x):
        qkv = project(x)  # nn.Linear(24, 72)
        q, k, v = qkv.view(2, 5, 3, 4, 6).unbind(2)
        return q.transpose(1, 2) @ k.transpose(1, 2).mT

1. **The pattern** (``patterns.py``). "B S C" against the shape gives B = 2, S = 5 and C = 24. With
   H = 4 this leaves D = 6, and from here on the axis C is the product of the factors H and D
   (``axes.py``). ``letters.py`` reads "b n d" and the like; without ``axes=``, ``guess.py`` reads
   the sizes that modules declare.
2. **The call** (``recorder.py``). Torch reports each function that runs. The recorder looks up its
   name (``rules/call.py``), the line and the variable (``source_lines.py``), copies and FLOPs
   (``mha_course/op_counter.py``). Then it asks the function's rule for the axes of the result.
3. **project** (``rules/linear.py``). 72 is 3 * C, so ``parts.py`` calls the new axis ``3*C``.
   Training may have put these numbers in any order, so they are only interpreted when used.
4. **view** (``rules/reshape.py``). Of the ways to read ``3*C``, the order (3, H, D) fits the sizes
   3, 4 and 6, and the result is B S 3 H D. A shape that fits no reading cuts through factors, as
   ``x.view(2, 4, 5, 6)`` does: ``rules/warnings.py`` then says which mistake it is.
5. **unbind, transpose** (``rules/views.py``). They only move numbers, so they need no rules: they
   run again on a tensor without memory, whose strides show where each number came from. The result
   is B S H D, then B H S D.
6. **@** (``rules/contraction.py``). D is summed over. S is on both sides of the product, so the
   queries' side becomes T: the scores are B H T S. If two different axes meet, ``unify.py`` decides
   whether they may. The other files in ``rules/`` are for all other functions of torch, and
   ``rules/numbers.py`` looks at scales and masks when a softmax follows.
7. **The end** (this file). A factor still unnamed takes the name of the axes it was added to or
   multiplied with. ``stages.py`` decides which steps are projections, scores and so on. The steps
   (``records.py``) become a Trace, which ``render.py`` shows; ``repeats.py`` folds equal layers.

If a trace says that a reshape "cuts across tokens", search for these words in
``data/mistakes.txt``: the row's id is chosen in ``rules/warnings.py``, by ``of_cut``.

A new rule is a function of an OpCall (``rules/call.py``) that returns axes, and a row in the table
at the end of its file, which ``rules/table.py`` adds to the others.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import CodeType, TracebackType
from typing import Any

import torch

from mha_course.errors import ShapeError
from mha_course.torch_internals import MACHINERY, Args, Kwargs
from mha_course.tracing import guess, letters, notes, patterns, stages
from mha_course.tracing.axes import AxisNamer, is_part_of
from mha_course.tracing.patterns import Patterns, Sizes, Tensors, Words
from mha_course.tracing.recorder import Recorder
from mha_course.tracing.records import Operand, Source, Step
from mha_course.tracing.render import Trace
from mha_course.tracing.rules.warnings import Remark
from mha_course.tracing.source_lines import OWN, code_lines, statements

Fn = Callable[..., Any]


def trace(
    fn: Callable[..., Any],
    *args: Any,
    axes: Patterns = None,
    sizes: Mapping[str, int] | None = None,
    **kwargs: Any,
) -> Trace:
    """Call ``fn(*args, **kwargs)`` and return its steps, with each axis named by its origin.

    Args:
        fn: any callable or module.
        axes: a pattern such as ``"B S C"``, or a sequence of them, one for each tensor argument, or
        a mapping from parameter names. A product is written ``"3*C"``, an unknown axis ``"?"``. A
        single pattern also applies to other arguments of the same shape. Other letters ("b n d", "N
        C H W") are translated if known. Without patterns, axes are guessed from the sizes that
        modules declare. A note says what was translated or guessed.
        sizes: what patterns do not show, such as ``dict(H=4)``. H may also come from an argument or
            attribute num_heads; D is C / H. If ``fn`` has keywords called axes or sizes, pass them
            with ``functools.partial(fn, axes=…)``.
    Raises: ShapeError for patterns that do not fit. ``fn``'s own exceptions pass through, with the
        steps so far in their notes and as their attribute ``trace``.

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
    given_sizes = {
        letters.LETTERS.get(name, name): patterns.positive(name, size)
        for name, size in (sizes or {}).items()
    }
    return _run(fn, args, kwargs, _prepare(fn, args, kwargs, axes, given_sizes))


def _prepare(fn: Fn, args: Args, kwargs: Kwargs, axes: Patterns, sizes: dict[str, int]) -> Recorder:
    bound = patterns.bind(fn, args, kwargs)
    tensors = patterns.named_tensors(bound)
    modules = patterns.modules_of(fn, bound.values())
    hints = patterns.declared(modules, bound)
    for name in sizes.keys() - {*"BCDHST"}:  # With F=128 no other name is read off 128.
        for hint in hints.keys() - {*"CDH"}:
            if hints[hint] == sizes[name]:
                del hints[hint]
    rows = patterns.assign(axes, tensors)
    if axes is None:
        rows = guess.guess(modules, tensors, hints | sizes)
    if not letters.COURSE.issuperset(chain.from_iterable(rows.values())):
        letters.read_by_sizes(rows, tensors, sizes, hints)
    names = _namer(rows, tensors, sizes, hints)
    parameters = {id(p): name for module in modules for name, p in module.named_parameters()}
    paths = {id(inner): path for module in modules for path, inner in module.named_modules()}
    recorder = Recorder(names, parameters, paths)
    recorder.notes = dict.fromkeys(patterns.translated(axes, rows))
    if axes is None and max(map(torch.Tensor.dim, tensors.values()), default=0) > 1:
        recorder.notes = {guess.described(rows): None}
    batched = max(map(len, rows.values()), default=0) > 2
    for name, tensor in tensors.items():
        if id(tensor) in recorder.values:  # It was passed twice: one tensor, one name.
            continue
        words = rows.get(name, ())
        parsed = list(map(names.parse, words or ["?"] * tensor.dim(), tensor.shape))
        argument = recorder.add_argument(name, tensor, parsed, words)
        # Next to tensors with a batch, a matrix without a pattern is a weight.
        is_matrix = not words and batched and tensor.dim() == 2
        argument.is_parameter = is_matrix or isinstance(tensor, torch.nn.Parameter)
    return recorder


def _namer(rows: Words, tensors: Tensors, sizes: Sizes, hints: Sizes) -> AxisNamer:
    solved = patterns.solve(rows, tensors, sizes, hints)
    products = [word.split("*") for row in rows.values() for word in row]
    joined = {letter for product in products if len(product) > 1 for letter in product}
    of_sequences: set[str] = set()
    for name, row in rows.items():
        is_bias = {"T", "S"} <= {*row}  # of pairs, as in B T S C
        if not is_bias and (patterns.is_ids(tensors[name]) or {"C", "D", "3*C"} & {*row}):
            of_sequences.update(row)
    # Declared sizes count no tokens, unless a pattern multiplies them, as in Y*X.
    no_tokens = {*hints, *sizes, "H_kv"} - joined
    counts = [name for name in solved if name in no_tokens]
    return AxisNamer(solved, chain.from_iterable(products), counts, of_sequences)


def _run(fn: Fn, args: Args, kwargs: Kwargs, recorder: Recorder) -> Trace:
    """Call under both modes, and build the trace, even if the call raises."""
    before = _notes_of_code(fn)
    recorder.top = sys._getframe()  # Frames above this one do not concern the caller.
    try:
        with recorder.counter, recorder:
            recorder.run_as_written()
            result = fn(*args, **kwargs)
    except Exception as error:
        _attach(error, _finish(recorder, None, before))
        raise
    finally:  # no context manager: it sets the exception's traceback, which may refuse
        recorder.as_written.close()
    recorder.failure = None  # exceptions raised inside were caught inside
    return _finish(recorder, result, before)


def _notes_of_code(fn: Fn) -> list[str]:
    """Return notes on code that will run differently, or out of sight."""
    modules = [inner for module in patterns.modules_of(fn) for inner in module.modules()]
    codes = [fn, *patterns.referred(fn), *modules]
    scripted = any(isinstance(c, (torch.jit.ScriptModule, torch.jit.ScriptFunction)) for c in codes)
    compiled = any(
        hasattr(c, "_torchdynamo_orig_callable") or hasattr(c, "_orig_mod") for c in codes
    )
    applies = {
        notes.COMPILED: compiled,
        notes.SCRIPTED: scripted,
        notes.FAST_PATH: any(map(_has_fast_path, codes)),
    }
    return [text for text, holds in applies.items() if holds]


def _has_fast_path(module: Any) -> bool:
    kinds = (torch.nn.MultiheadAttention, torch.nn.TransformerEncoderLayer)
    if not isinstance(module, kinds) or module.training:
        return False
    return not (torch.is_grad_enabled() and any(p.requires_grad for p in module.parameters()))


def _attach(error: Exception, failed: Trace) -> None:
    """Attach the trace so far to the exception, if it accepts attributes."""
    try:
        error.add_note(f"Traced up to here:\n{failed}")
        error.trace = failed  # type: ignore[attr-defined]
        error.__traceback__ = _without_tracer(error.__traceback__)
    except (AttributeError, TypeError):  # a frozen dataclass, or its own __setattr__
        return


def _without_tracer(entry: TracebackType | None) -> TracebackType | None:
    """Drop the tracer's frames from a traceback, so that it ends at the learner's line."""
    if entry is None:
        return None
    rest = _without_tracer(entry.tb_next)
    if entry.tb_frame.f_code.co_filename.startswith((*OWN, *MACHINERY)):
        return rest
    return TracebackType(rest, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)


def _finish(recorder: Recorder, result: Any, before: Sequence[str]) -> Trace:
    names = recorder.names
    steps = recorder.steps
    recorder.ask_about_discarded()
    remarks = _settle(recorder.pending | recorder.warnings, steps)
    texts = [*before, *recorder.notes, *_notes_of_run(recorder)]
    recorder.running.leave()  # The last variables were assigned after the last step.
    arguments = tuple(
        replace(argument, axes=argument.axes or names.final(info.axes))
        for argument, info in recorder.arguments.values()
    )
    final_axes: dict[int | str, tuple[str, ...]] = {row.name: row.axes for row in arguments}
    for step, info in zip(steps, recorder.infos, strict=True):
        step.axes = final_axes[step.index] = names.final(info.axes)
        step.inputs = tuple([_renamed(operand, final_axes) for operand in step.inputs])
        remark = remarks.get(step.index)
        if remark is not None and remark.is_question:
            step.question = remark
        else:
            step.warning = remark
    stages.settle(steps, recorder.infos, names)
    return Trace(
        steps=tuple(steps),
        result=result,
        arguments=arguments,
        sources=_add_lines(recorder),
        sizes=dict(names.sizes),
        notes=tuple(texts),
        failure=recorder.failure,
        aliases=recorder.aliases,
    )


def _renamed(operand: Operand, final_axes: Mapping[int | str, tuple[str, ...]]) -> Operand:
    """Return an operand with its tensor's final axes."""
    axes = final_axes.get(operand.source, operand.axes)
    return operand._replace(axes=axes) if len(axes) == len(operand.shape) else operand


def _notes_of_run(recorder: Recorder) -> list[str]:
    """Return notes that are known only after the call."""
    sizes = recorder.names.sizes
    custom = dict.fromkeys([step.op for step in recorder.steps if "::" in step.op])
    texts = [f"{op}: {notes.CUSTOM}" for op in custom]
    codes = recorder.codes.values()
    typed = [code for code in codes if {"type", "int"} <= {*code.co_names}]
    texts += [notes.SIZES.format(_title(code)) for code in typed]
    if sizes.get("H", 1) > 1 and not {"C", "D"} & sizes.keys():
        texts.append(notes.WIDTH_UNKNOWN)
    axes = [axis for info in recorder.infos for axis in info.axes]
    cut_from_width = any(is_part_of(axis, "C") and axis[0].stride > 1 for axis in axes)
    if cut_from_width and "H" not in sizes:
        texts.append(notes.HEADS_UNKNOWN)
    return texts


def _settle(remarks: dict[int, Remark], steps: Sequence[Step]) -> dict[int, Remark]:
    """Drop repeated remarks, and say if only some of q, k and v are split wrongly."""
    if not remarks:
        return remarks
    ids = [remark.id for remark in remarks.values()]
    if "heads-innermost" in ids:  # The merge undoes that order, and would be reported again.
        remarks = {i: r for i, r in remarks.items() if r.id != "merge-dim-before-heads"}
    right = {
        (*step.shape[:-3], step.shape[-1])
        for step in steps
        if step.op in ("view", "reshape", "unflatten") and step.axes[-3:] == ("S", "H", "D")
    }
    wrong = [i for i, remark in remarks.items() if remark.id == "view-without-transpose"]
    # A bias table, which has other sizes, is not one of q, k and v.
    of_qkv = [i for i in wrong if (*steps[i].shape[:-3], steps[i].shape[-1]) in right]
    if len(of_qkv) > 2:
        return remarks
    return remarks | {i: remarks[i].and_also("only-one-of-qkv-wrongly-split") for i in of_qkv}


def _add_lines(recorder: Recorder) -> tuple[Source, ...]:
    """Give each step its line; return the sources of all lines that can be shown."""
    statements_of: dict[int, dict[int, str]] = {}
    position_of: dict[int, int] = {}
    sources: list[Source] = []
    for key, code in recorder.codes.items():
        statements_of[key] = statements(code.co_filename, code)
        source = Source(_title(code), code.co_filename, *code_lines(code.co_filename, code))
        if source.lines:
            position_of[key] = len(sources)
            sources.append(source)
    for step, line in zip(recorder.steps, recorder.lines, strict=True):
        if line is not None:
            text = statements_of[id(line.code)].get(step.lineno)
            step.line = text or linecache.getline(line.code.co_filename, step.lineno).strip()
            step.source = position_of.get(id(line.code))
    return tuple(sources)


def _title(code: CodeType) -> str:
    return "cell" if code.co_name == "<module>" else code.co_qualname.replace(".<locals>", "")
