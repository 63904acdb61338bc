"""Source code without docstrings and checks, as several pages show it."""

import inspect

import pytest

from mha_course import errors
from mha_course.errors import require
from mha_course.sources import plain_body, plain_source


def one_line(x):
    """Return x."""
    require(x > 0, "one_line", "rule", expected="more", got="less")
    errors.require_int("one_line", "x", x)
    return x  # require(nothing)


def several_lines(
    x,
    y=0,
):
    """Add two numbers, in a docstring of three lines
    whose opening takes two, and say "so" in it.

    Args: x and y.
    """
    # a comment that stays
    _require_both(
        x,
        y,
    )
    if x:
        errors.require_int("several_lines", "y", y)
        text = """not a
        docstring"""
        return len(text) + y
    required = x  # not a check
    return required + y


def _require_both(x, y):
    require(x == y, "place", "rule", expected="both", got="one")


class Documented:
    """A class with a docstring
    of three lines.
    """

    def method(self):
        """Return 1."""

        def inner():
            """Return 1, in
            three
            lines.
            """
            return 1

        return inner()


PLAIN = {
    one_line: "def one_line(x):\n    return x  # require(nothing)\n",
    several_lines: '''def several_lines(
    x,
    y=0,
):
    # a comment that stays
    if x:
        text = """not a
        docstring"""
        return len(text) + y
    required = x  # not a check
    return required + y
''',
    Documented: """class Documented:

    def method(self):

        def inner():
            return 1

        return inner()
""",
    Documented.method: """    def method(self):

        def inner():
            return 1

        return inner()
""",
    _require_both: inspect.getsource(_require_both),  # where nothing would be left
}


@pytest.mark.parametrize("obj", PLAIN, ids=lambda obj: obj.__qualname__)
def test_docstrings_and_checks_go_and_all_else_stays_as_it_is(obj):
    assert plain_source(obj) == PLAIN[obj]


def test_the_first_paragraph_and_the_checks_stay_where_they_are_wanted():
    shown = plain_source(several_lines, opening=True, checks=True)
    written = inspect.getsource(several_lines)
    assert shown == written.replace('say "so" in it.\n\n    Args: x and y.\n    """',
                                    'say "so" in it."""')  # fmt: skip
    assert plain_source(one_line, opening=True, checks=True) == inspect.getsource(one_line)


def test_a_body_begins_below_the_signature():
    assert plain_body(several_lines).startswith("# a comment that stays\nif x:\n")
    assert plain_body(several_lines).endswith("\nreturn required + y")
