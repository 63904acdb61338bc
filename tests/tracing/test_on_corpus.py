"""The tracer against attention as people write it: names, storage and strides of right code, mistakes of wrong code."""

import re

import pytest
import torch
from attention_corpus import RIGHT, SIZES, WRONG

from mha_course.tracing import trace

HALF = re.compile(r"(\w+)/(\w+)")


def cases(corpus):
    return [pytest.param(case, at, id=f"{case.name}-{at}") for case in corpus for at in SIZES]


def traced(case, at):
    """Return the trace, of a call that raises the one that it leaves."""
    fn, args, kwargs = case.make(**SIZES[at])
    try:
        return trace(fn, *args, axes=case.axes, sizes=case.hints(at), **kwargs), False
    except (RuntimeError, IndexError, ValueError) as error:
        return error.trace, True


def said(trace_):
    """Return the ids of all warnings."""
    return {name.strip("()") for text in trace_.warnings for name in text.split(":")[0].split()}


@pytest.mark.parametrize(("case", "at"), cases(RIGHT))
def test_axes_are_named_and_nothing_right_is_warned_about(case, at):
    found, crashed = traced(case, at)
    assert not crashed
    assert found.warnings == ()
    last = {step.name: step for step in found.steps if step.name}
    for variable in case.expected(at):
        if variable in last:
            assert case.accepts(variable, last[variable].axes, at), (variable, last[variable].axes)
    named = set(case.expected(at)) & set(last)
    assert len(named) >= len(case.expected(at)) - 2, "variables go by their names"


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in RIGHT])
def test_storage_is_what_happened(case):
    found, _ = traced(case, "different")
    last = {step.name: step for step in found.steps if step.name}
    for variable, storage in case.storage.items():
        if variable in last:
            assert last[variable].storage == storage, variable


def size_of(name, sizes):
    """Compute the size that a name stands for, or None for one of no fixed size."""
    if name == "?" or "?" in name:
        return None
    text = re.sub(r"[A-Za-z_]\w*", lambda match: str(sizes.get(match[0], "None")), name)
    return None if "None" in text or "'" in text else eval(text.replace("/", "//"))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in RIGHT])
def test_no_name_lies_where_all_sizes_differ(case):
    """A batch is B, a width C, a head D long, wherever they stand; tokens may be a part of all."""
    found, _ = traced(case, "different")
    sizes = {name: size for name, size in found.sizes.items() if name in ("B", "C", "H", "D", "H_kv")}
    for step in found.steps:
        for name, size in zip(step.axes, step.shape, strict=True):
            assert size_of(name, sizes) in (None, size), (step.op, step.axes, step.shape)


@pytest.mark.parametrize("at", SIZES)
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in RIGHT])
def test_the_trace_changes_nothing(case, at):
    torch.manual_seed(0)
    fn, args, kwargs = case.make(**SIZES[at])
    expected = fn(*args, **kwargs)
    torch.manual_seed(0)
    fn, args, kwargs = case.make(**SIZES[at])
    found = trace(fn, *args, axes=case.axes, sizes=case.hints(at), **kwargs).result
    pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    for ours, theirs in pairs:
        if isinstance(theirs, torch.Tensor):
            torch.testing.assert_close(ours, theirs, atol=0, rtol=0)
            assert ours.stride() == theirs.stride()


@pytest.mark.parametrize(("case", "at"), cases(WRONG))
def test_mistakes_are_named(case, at):
    found, crashed = traced(case, at)
    outcome, ids = case.outcome(at), said(found)
    if outcome == "unseen":
        return
    if outcome == "right":
        assert ids == set()
    elif outcome == "crash":
        assert crashed
        assert case.mistake in ids
    else:
        assert ids & outcome or (None in outcome and not ids)
        assert ids <= outcome | set(case.also) | {"view-without-transpose", "only-one-of-qkv-wrongly-split"}
