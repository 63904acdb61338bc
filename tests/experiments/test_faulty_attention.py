"""The attention of the bug hunt: which line is marked, what learners see of it, what is copied."""

import inspect

import pytest

from mha_course.experiments.faulty_attention import (
    INNOCENT,
    PAIRS,
    SINGLE,
    CausalAttention,
    faulty,
    methods,
    source,
)

MARK = "  # the mistake: "


@pytest.mark.parametrize("names", [*((name,) for name in SINGLE), *PAIRS], ids="+".join)
def test_a_black_box_is_named_without_renaming_its_classes(names):
    box = faulty(*names)
    for name in names:
        for method in methods(name):
            code = vars(box)[method].__code__
            assert vars(box)[method].__qualname__ == code.co_qualname == f"Attention.{method}"
            own = vars(SINGLE[name])[method]
            assert own.__qualname__ == own.__code__.co_qualname
            assert own.__qualname__ == f"{SINGLE[name].__name__}.{method}"
            assert own.__code__.co_code == code.co_code


@pytest.mark.parametrize("name", SINGLE)
def test_one_line_is_marked_that_right_attention_lacks_and_learners_do_not_see_the_mark(name):
    marked = [line for line in inspect.getsource(SINGLE[name]).splitlines() if MARK in line]
    assert len(marked) == (name != INNOCENT)
    right = inspect.getsource(getattr(CausalAttention, *methods(name))) if marked else ""
    for line in marked:
        assert line.split(MARK)[0] not in [other.split("  #")[0] for other in right.splitlines()]
    assert "mistake" not in source(faulty(name))
