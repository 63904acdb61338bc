"""How ``check`` judges an answer and recognises mistakes.

Follow one answer to ``split_heads``: ``x.view(B, H, S, D)``, which forgets to transpose.

1. **Cases** (``spec.py``, ``inputs.py``). Only the exercise's own lesson is loaded. The exercise
   has cases: arguments on which answers are judged. The first here is x of shape (2, 7, 24) and H =
   4. All its sizes differ, so swapped axes cannot hide. Eight more have other sizes, some of them
   1.
2. **Calls** (``sandbox.py``). The answer gets a copy of the arguments, and what it prints, sets or
   raises stays inside. The reference gets the same.
3. **Rules** (``rules.py``). Each rule is a function ``rule(call, outcome, target)`` that returns a
   ``Fault`` or None: did it crash, write into its input, draw at random? Are there as many results
   as there should be, with the right numbers (``compare.py``) and gradients (``gradients.py``)? The
   first fault ends the list. Here the shape (2, 4, 7, 6) is right, and the numbers are not:
   ``Stage.VALUES``.
4. **Recognition** (``mutants.py``, ``recognise.py``). A known mistake is the reference with a step
   replaced, here ``split`` by ``x.reshape(x.size(0), h, x.size(1), -1)``. It runs on the same cases
   as the answer. Only this one matches the answer on all of them, so the mistake has a name,
   ``view-without-transpose``. If none fits, pairs of mistakes are tried. A crash is recognised by
   the operation that failed, or by the text of the error (``crashes.py``).
5. **Report** (``explanation.py``, ``report.py``). The sentences come from ``data/mistakes.txt``.
   If no mistake fits, the report says what is certain: how many heads agree, what the rows sum to,
   or which step goes wrong first. ``Report.because`` keeps how this is known: here the rule
   ``wrong_values``, and ``split`` replaced by ``viewed`` on all 9 inputs.

An answer without a fault on the first cases is judged again: in float32, and then on other sizes.
Nothing here depends on any single exercise.

To ask why a check said ``scale-missing``, search for that id. Two of its places decide: its row in
``data/mistakes.txt`` has the sentences, and the ``mistake("scale-missing", …)`` of
``attention_mistakes``, or of the lesson's own ``exercises.py``, has the step that replaces the
right one. A new mistake needs only these two; other places, such as the bug hunt, reuse the id.
"""

from __future__ import annotations

import dis
import inspect
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from mha_course.exercises import progress_store, sandbox
from mha_course.exercises.catalogue import find_exercise
from mha_course.exercises.explanation import explain_drawn, explain_first, explain_pass
from mha_course.exercises.report import Report
from mha_course.exercises.rules import (
    ALL_RULES,
    COARSE,
    IN_FLOAT32,
    WITH_GRADIENTS,
    Attempt,
    attempt,
)
from mha_course.exercises.spec import Exercise, Stage
from mha_course.markup import count, isolate_text

# Python's bytecodes for only returning a constant.
_WITHOUT_EFFECT = {"RESUME", "NOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST"}
# Failed checks of each exercise in this session since the last one that passed.
_failures: Counter[str] = Counter()


def check(name: str, answer: Any, *, record: bool = True) -> Report:
    """Judge an answer to an exercise in float64, in float32 and then on other, random sizes.

    It is called with positional arguments on the CPU, and may move them to another device.

    Args: name is one of NAMES; answer is a callable; record=False keeps the result out of
        ``progress``.
    Returns: a Report; nothing is printed or raised.
    Raises: ShapeError for a name that is not an exercise.
    """
    exercise = find_exercise(name)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # in many small products, threads would only wait for each other
    try:
        with sandbox.settings_as_before():
            # A learner may have set another default device, but the cases are on the CPU.
            if torch.get_default_device().type != "cpu":
                torch.set_default_device("cpu")
            report = replace(judge(exercise, answer), answer=answer)
    except BaseException as error:  # some objects raise on any access
        text = sandbox.explain(error, ())
        if not isinstance(error, KeyboardInterrupt):
            text = f"It cannot be judged. {text}"
        report = Report(name, "error", text, Stage.RUN, answer=answer)
    finally:
        torch.set_num_threads(threads)
    if report.status == "unattempted" or not record:
        return report
    progress_store.remember(name, report.status)
    if report.status == "correct" and "ipykernel" in sys.modules:
        from mha_course.exercises.take_home import keep  # noqa: PLC0415 (only notebooks need it)

        report = replace(report, kept=keep(name, answer))
    _failures[name] = 0 if report.status == "correct" else _failures[name] + 1
    return replace(report, failures=_failures[name])


def judge(exercise: Exercise, answer: Any) -> Report:
    """Judge the signature, then the results."""
    if is_stub(answer):
        text = "Replace the dots with your code, run that cell, then run this one again."
        return Report(exercise.name, "unattempted", text)
    misuse = _signature(exercise, answer)
    if misuse:
        status = "error" if callable(answer) else "wrong"
        return Report(exercise.name, status, misuse, Stage.SIGNATURE)
    # In float64, rounding neither hides a mistake nor looks like one, so results can be compared
    # with those of known mistakes.
    first = attempt(exercise, answer, exercise.first_cases, ALL_RULES)
    if first.fault:
        report = _with_rule(explain_first(first, first.fault), first)
        # An answer with a float32 table inside may crash in float64 and still be right.
        mixed = report.status == "error" and report.mistake == "dtype-changed"
        if not mixed or not _is_right_in_float32(exercise, answer):
            return report
        return explain_pass(exercise, answer, torch.float32)
    # float32, the usual dtype, shows overflow, lost digits, and code written for only one dtype.
    narrow = attempt(exercise, answer, exercise.first_cases, IN_FLOAT32, torch.float32)
    if narrow.fault:
        return _with_rule(explain_first(narrow, narrow.fault), narrow)
    # Other sizes, some of them 1, show code written for the first ones.
    drawn = attempt(exercise, answer, exercise.drawn_cases, WITH_GRADIENTS)
    if drawn.fault:
        report = explain_drawn(first, drawn, drawn.fault)
        return _with_rule(report, drawn, judged_before=len(first.outcomes))
    return explain_pass(exercise, answer, torch.float64)


def _is_right_in_float32(exercise: Exercise, answer: Any) -> bool:
    """Judge an answer that crashes only in float64, because a part of it is always float32."""
    coarse = max(exercise.tolerance, COARSE)
    first = attempt(exercise, answer, exercise.first_cases, IN_FLOAT32, torch.float32)
    if first.fault:
        return False
    every = attempt(exercise, answer, exercise.cases, WITH_GRADIENTS, torch.float32, coarse)
    return every.fault is None


def _with_rule(report: Report, wrong: Attempt, judged_before: int = 0) -> Report:
    """Put the rule that found the fault, and the input that showed it, before the reason."""
    call = wrong.call
    dtype = " in float32" if call.dtype == torch.float32 else ""
    at = f"{judged_before + len(wrong.outcomes)} of {len(call.exercise.cases)}"
    because = f"The rule `{wrong.rule}` found a fault on input {at}{dtype}."
    if report.because:
        because += f" {report.because}"
    return replace(report, because=because, arguments=call.arguments)


def _signature(exercise: Exercise, answer: Any) -> str | None:
    """Return a sentence on what is wrong with the uncalled answer, or None."""
    wants_class = isinstance(exercise.reference, type)
    if not callable(answer):
        expected = "a class" if wants_class else "a function"
        return f"This exercise needs {expected}, but got {type(answer).__name__}."
    if wants_class and isinstance(answer, nn.Module):
        return "This exercise needs the class, not a module made of it: leave the parentheses off."
    if isinstance(answer, type) and not wants_class:
        return f"This exercise needs a function, but got the class {isolate_text(answer.__name__)}."
    try:
        signature = inspect.signature(answer)
    except (TypeError, ValueError):  # builtins
        return None
    parameters = inspect.signature(exercise.reference).parameters.values()
    names = [p.name for p in parameters if p.default is p.empty]
    try:
        signature.bind(*names)
    except TypeError:
        return (
            f"Your answer is called with {count(len(names), 'argument')}, ({', '.join(names)}), "
            f"but takes {isolate_text(str(signature))}."
        )
    return None


def is_stub(answer: Any) -> bool:
    """Return True for an empty function, or a class with an empty forward or no methods."""
    if isinstance(answer, type):
        forward = getattr(answer, "forward", nn.Module.forward)
        if forward is nn.Module.forward:
            return not any(map(inspect.isfunction, vars(answer).values()))
        answer = forward
    code = getattr(answer, "__code__", None)
    if code is None:
        return answer is None or answer is Ellipsis
    # Like `...` and `pass`, it only returns None or an Ellipsis.
    steps = list(dis.get_instructions(code))
    returned = {step.argval for step in steps if step.opname in ("LOAD_CONST", "RETURN_CONST")}
    return {step.opname for step in steps} <= _WITHOUT_EFFECT and returned <= {None, Ellipsis}
