"""The tracer against attention as people write it: names, storage and strides of right code,
mistakes of wrong code.
"""

import functools

import pytest
import torch
from attention_corpus import RIGHT, SIZES, WRONG
from attention_corpus_base import cases, size_of

from mha_course.tracing import trace


@functools.cache
def traced(case_name, at):
    """Return the trace, even if the call raises, and whether it raised."""
    case = next(case for case in (*RIGHT, *WRONG) if case.name == case_name)
    fn, args = case.make(**SIZES[at])
    try:
        return trace(fn, *args, axes=case.axes, sizes=case.hints(at)), False
    except (RuntimeError, IndexError, ValueError) as error:
        return error.trace, True


def said(text):
    """Return the ids with which a warning begins."""
    return {name.strip("()") for name in text.split(":")[0].split()}


@pytest.mark.parametrize(("case", "at"), cases(RIGHT))
def test_axes_are_named_and_nothing_right_is_warned_about(case, at):
    found, crashed = traced(case.name, at)
    assert not crashed
    assert found.warnings == found.questions == ()
    last = {step.name: step for step in found.steps if step.name}
    named = [variable for variable in case.expected(at) if variable in last]
    assert len(named) >= len(case.expected(at)) - 2, "variables go by their names"
    for variable in named:
        assert case.accepts(variable, last[variable].axes, at), (variable, last[variable].axes)
    for variable, storage in case.storage.items() if at == "different" else ():
        assert variable not in last or last[variable].storage == storage, variable


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in RIGHT])
def test_no_name_lies_where_all_sizes_differ(case):
    """A batch is B, a width C, a head D long, wherever they stand; tokens may be a part of all."""
    found, _ = traced(case.name, "different")
    sizes = {
        name: size for name, size in found.sizes.items() if name in ("B", "C", "H", "D", "H_kv")
    }
    for step in found.steps:
        for name, size in zip(step.axes, step.shape, strict=True):
            assert size_of(name, sizes) in (None, size), (step.op, step.axes, step.shape)


@pytest.mark.parametrize(("case", "at"), cases(RIGHT))
def test_the_trace_changes_nothing(case, at):
    fn, args = case.make(**SIZES[at])
    expected = fn(*args)
    found = traced(case.name, at)[0].result
    pairs = (
        zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    )
    for ours, theirs in pairs:
        if isinstance(theirs, torch.Tensor):
            torch.testing.assert_close(ours, theirs, atol=0, rtol=0)
            assert ours.stride() == theirs.stride()


@pytest.mark.parametrize(("case", "at"), cases(WRONG))
def test_mistakes_are_named_where_they_are_made(case, at):
    found, crashed = traced(case.name, at)
    texts = [text for step in found.steps for text in (step.warning, step.question) if text]
    texts += [found.failure] if found.failure else []
    outcome, ids = case.outcome(at), set().union(*map(said, texts))
    if outcome == "unseen":
        return
    if outcome == "right":
        assert ids == set()
    elif outcome == "crash":
        assert crashed
        assert case.mistake in ids
    else:
        assert ids & outcome or (None in outcome and not ids)
        assert ids <= outcome | set(case.also) | {"view-without-transpose"}
        steps = [(step, step.warning or step.question) for step in found.steps]
        lines = [step.line for step, text in steps if text and case.mistake in said(text)]
        assert not lines or case.blames(lines[0])
