"""The corpus is what it says: right ones compute attention, and wrong ones do not."""

import functools
import sys
from pathlib import Path

import pytest
import torch
from attention_corpus import RIGHT, SIZES, WRONG
from attention_corpus_base import Problem, cases, size_of

HERE = str(Path(__file__).parent / "attention_corpus")
TOLERANCE = {"atol": 1e-10, "rtol": 1e-10}


def agree(a, b):
    return a.shape == b.shape and torch.allclose(a, b, **TOLERANCE)


@functools.cache
def run(name, at):
    """Run a case; return its result, and the tensors that its variables held last, by name."""
    case = next(case for case in (*RIGHT, *WRONG) if case.name == name)
    fn, args = case.make(**SIZES[at])
    found = {}

    def look(frame, event, _):
        if event == "return" and frame.f_code.co_filename.startswith(HERE):
            found.update(
                {
                    name: held
                    for name, held in frame.f_locals.items()
                    if isinstance(held, torch.Tensor)
                }
            )

    sys.setprofile(look)
    try:
        result = fn(*args)
    finally:
        sys.setprofile(None)
    return (result[0] if isinstance(result, tuple) else result), found


def fits(pattern, shape, problem):
    known = {**vars(problem), "T": problem.S}
    options = [axis.split("|") for axis in pattern.split()]
    possible = [
        {size_of(name, known) for name in names} | ({problem.T, 1} if "T" in names else set())
        for names in options
    ]
    return len(possible) == len(shape) and all(
        size in sizes or None in sizes for sizes, size in zip(possible, shape, strict=True)
    )


def test_names_are_unique():
    names = [case.name for case in (*RIGHT, *WRONG)]
    assert len(set(names)) == len(names)
    assert all(case.mistake is None for case in RIGHT)
    assert all(case.mistake for case in WRONG)


@pytest.mark.parametrize(("case", "at"), cases(RIGHT))
def test_corpus_is_right(case, at):
    with torch.no_grad():
        expected = case.truth(Problem(**SIZES[at]))
    torch.testing.assert_close(run(case.name, at)[0], expected, **TOLERANCE)


@pytest.mark.parametrize(("case", "at"), cases(WRONG))
def test_wrong_ones_are_wrong_where_they_say_so(case, at):
    outcome = case.outcome(at)
    if outcome == "crash":
        with pytest.raises((RuntimeError, IndexError, ValueError)):
            run(case.name, at)
        return
    with torch.no_grad():
        expected = case.truth(Problem(**SIZES[at]))
    assert agree(run(case.name, at)[0], expected) == (outcome in ("right", "unseen"))


@pytest.mark.parametrize(("case", "at"), cases([*RIGHT, *WRONG]))
def test_expected_axes_fit_the_shapes(case, at):
    if case.outcome(at) == "crash":
        return
    (_, held), problem = run(case.name, at), Problem(**SIZES[at])
    for name, patterns in case.expected(at).items():
        shape = tuple(held[name].shape)
        assert any(fits(pattern, shape, problem) for pattern in patterns.split(",")), (name, shape)
    assert set(case.where) <= set(held)
    assert all(name in held for name in case.storage)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in RIGHT])
def test_expected_storage_fits_what_autograd_knows(case):
    _, held = run(case.name, "different")
    for name, storage in case.storage.items():
        if storage in ("view", "copy"):  # inside, Linear and matmul make views too
            assert held[name]._is_view() == (storage == "view"), name


def test_accepts_and_outcome():
    case = next(case for case in RIGHT if case.name == "cache_grown_by_cat")
    assert case.accepts("k", ("B", "H", "S+1", "D"))
    assert not case.accepts("k", ("B", "H", "D", "S"))
    assert not case.accepts("k", ("B", "H", "S"))
    assert not case.accepts("q", ("B", "1", "T", "C"))
    assert case.accepts("q", ("B", "1", "T", "C"), "one_head")
    assert case.outcome() == "right"
    wrong = next(case for case in WRONG if case.name == "width_before_heads")
    assert wrong.outcome() == {"heads-innermost"}
    assert None in wrong.outcome("all_four")
    assert wrong.outcome("one_head") == "right"
    assert wrong.blames("q = p.q(x).view(2, 5, 6, 4)")
    assert not wrong.blames("merged = q")
