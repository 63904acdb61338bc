"""The card of a check: its buttons do what the calls do, and say what goes wrong."""

import math
import re
import sys
from html import escape
from unittest import mock
from urllib.parse import unquote

import lessons
import pytest
import solutions
import torch
from IPython.core.formatters import DisplayFormatter
from live_cards import LiveCard

from mha_course.exercises import NAMES, check, checker, hint, hint_ladder, predict, solution
from mha_course.exercises.answer_trace import trace_answer
from mha_course.exercises.catalogue import EXERCISES
from mha_course.exercises.side_by_side import side_by_side
from mha_course.widgets import ShapeTracer


@pytest.fixture(autouse=True)
def fresh():
    checker._failures.clear()
    hint_ladder._calls.clear()
    yield
    hint_ladder._calls.clear()


def wrong(x):
    return solutions.attend(x) * 2


def stopping(x):
    doubled = x * 2
    tripled = doubled + x
    return tripled @ x


def test_the_place_that_a_message_names_is_a_link_to_it(monkeypatch):
    report = check("split_heads", lambda x, h: x.view(x.size(0), h, x.size(1), -1))
    for html in (report.content(), report._repr_html_()):
        file, anchor, words = re.search(
            '<a class="lesson" href="(.*?)#(.*?)">(.*?)</a>', html
        ).groups()
        heading = unquote(anchor).replace("-", " ")
        assert words == f"lesson 2, “{heading}”"
        cells = lessons.read(lessons.LESSONS[2]).cells
        assert lessons.LESSONS[2].name == file
        assert any(cell.source.startswith(f"## {heading}") for cell in cells)
    assert f"See {words}" in report.message
    monkeypatch.setitem(sys.modules, "google.colab", sys)
    assert "<a " not in report.content()


@pytest.mark.parametrize(
    ("value", "written"),
    [(-0.0, "0.00"), (-0.004, "0.00"), (0.25, "0.25"), (-1e9, "-1e+09"), (-1234.5, "-1234.50"),
     (-math.inf, "-inf"), (math.nan, "nan")],
)  # fmt: skip
def test_numbers_side_by_side_are_short_and_a_zero_has_no_sign(value, written):
    html = side_by_side(torch.tensor([[value, 1.0]]), torch.tensor([[value, 2.0]]))
    assert re.findall(r">([^<>]+)</td>", html) == [written, "1.00", written, "2.00"]


def test_hints_are_those_of_the_call_and_end_with_the_solution():
    card = LiveCard(check("attend", wrong))
    assert card.labels() == ["Hint", "Trace my code"]
    card.press("hint")
    assert card.labels() == ["Next hint", "Trace my code"]
    hint("attend")  # one ladder for both
    card.press("hint")
    assert "<strong>Hint 3 of 4</strong>" in card.shown["parts"][0]
    card.press("hint")
    assert hint("attend").steps() in card.shown["parts"][0]
    assert card.labels() == ["Trace my code", "Show the solution"]
    card.press("solution")
    assert escape(solution("attend").rstrip()) in card.shown["parts"][1]


def test_what_is_offered_depends_on_what_was_found(monkeypatch):
    found = [LiveCard(check("attend", wrong)).labels() for _ in range(3)]
    assert [labels[2:] for labels in found] == [[], [], ["Show the solution"]]
    for answer, offered in (
        (..., ["Hint"]),
        (lambda: 0, ["Hint", "Show the solution"]),  # never called
        (solutions.attend, ["Trace my code", "Show the solution"]),
    ):
        assert LiveCard(check("attend", answer)).labels() == offered
    monkeypatch.setenv(hint_ladder.SOLUTIONS, "off")
    assert LiveCard(check("attend", solutions.attend)).labels() == ["Trace my code"]


def test_a_trace_ends_where_the_answer_stops_and_says_so():
    card = LiveCard(check("attend", stopping))
    card.press("trace")
    (tracer,) = card.widgets
    assert isinstance(tracer, ShapeTracer)
    assert [step["name"] for step in tracer.options["steps"]] == ["doubled", "tripled"]
    assert tracer.position == 1
    assert "Your code stops after these steps." in card.shown["parts"][-1]
    assert "<code>return tripled @ x</code>; tripled is (7, 24)" in card.shown["html"]
    card.press("hint")
    assert card.widgets == (tracer,)


def test_an_answer_that_fails_only_when_it_is_traced_is_told_in_place():
    calls = []

    def tired(x):
        calls.append(x)
        if len(calls) > 1:
            raise ValueError("<b>tired</b>")

    card = LiveCard(check("attend", tired))
    card.press("trace")
    assert card.widgets == ()
    assert (
        "Your code makes no tensor, so there are no steps to show. "
        "ValueError: &lt;b&gt;tired&lt;/b&gt;." in card.shown["parts"][0]
    )


def test_an_interrupted_trace_lets_the_card_answer_again(monkeypatch):
    card = LiveCard(check("attend", wrong))
    with monkeypatch.context() as patch:
        interrupted = mock.Mock(side_effect=KeyboardInterrupt)
        patch.setattr("mha_course.exercises.report.trace_answer", interrupted)
        card.press("trace")
    assert "interrupted" in card.shown["trouble"]
    card.press("hint")
    assert card.shown["trouble"] == ""


# The names that the tracer gives to what comes last, in which T, S and S' are tokens alike, and
# cached ones too.
@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=list(EXERCISES))
def test_the_trace_of_a_right_answer_warns_of_nothing_and_names_axes_as_the_exercise_does(exercise):
    trace, stopped = trace_answer(exercise, exercise.reference, exercise.first_cases[0].arguments)
    assert stopped == ""
    if trace is None:
        return
    assert trace.warnings == ()
    several = exercise.axes if isinstance(exercise.axes, dict) else {"": exercise.axes}
    named = [axis.replace("T", "S").rstrip("'") for axis in trace.steps[-1].axes]
    wanted = [axes.replace("T", "S").replace("N", "S").split() for axes in several.values()]
    assert any(
        all(one in ("?", other) for one, other in zip(named, axes, strict=False)) for axes in wanted
    )


def test_the_first_trace_names_tokens_and_width():
    name = NAMES[0]
    card = LiveCard(check(name, EXERCISES[name].reference))
    card.press("trace")
    (tracer,) = card.widgets
    assert not any("?" in step["form"][0] for step in tracer.options["steps"])


def test_a_module_is_traced_from_its_forward_on():
    exercise = EXERCISES["MultiHeadAttention"]
    arguments = exercise.first_cases[0].arguments
    trace, _ = trace_answer(exercise, exercise.reference, arguments)
    assert trace.steps[0].op == "linear"
    assert [step.axes for step in trace.steps if step.name == "scores"] == [("B", "H", "T", "S")]
    assert trace.steps[-1].axes == ("B", "T", "C")
    assert torch.equal(trace.result, exercise.run(exercise.reference, *arguments))


def test_text_and_html_are_those_of_a_page_without_widgets(monkeypatch):
    formatter, shown = DisplayFormatter(), [check("attend", wrong), predict("row-sum")]
    for one in shown:
        data, _ = formatter.format(one)
        assert sorted(data)[1:] == ["text/html", "text/plain"]
        assert "<button" not in data["text/html"]
        with monkeypatch.context() as patch:
            patch.setitem(
                sys.modules, "mha_course.widgets.card", None
            )  # as where anywidget is missing
            assert one._repr_mimebundle_() == {}
            assert formatter.format(one)[0] == {
                kind: data[kind] for kind in ("text/html", "text/plain")
            }
