"""Checks and predictions: right answers pass in any style, wrong ones never, and nothing ever raises."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from mha_course.errors import ShapeError
from mha_course.exercises import NAMES, QUESTIONS, Report, check, predict, references, solution

RIGHT = {
    "similarity": [
        lambda x: torch.einsum("sc,tc->st", x, x),
        lambda x: (x[:, None] * x[None]).sum(-1),
        lambda *args: torch.stack([args[0] @ row for row in args[0]]),
    ],
    "project": [
        F.linear,
        lambda a, b, c: torch.einsum("bsc,oc->bso", a, b) + c,
        lambda x, w, b: torch.addmm(b, x.flatten(0, 1), w.T).unflatten(0, x.shape[:2]),
        lambda x, w, b: (w @ x.mT + b[:, None]).mT,  # not contiguous
    ],
    "project_qkv": [
        lambda x, w, b: [F.linear(x, ww, bb) for ww, bb in zip(w.chunk(3), b.chunk(3), strict=True)],
        lambda x, w, b: F.linear(x, w, b).unflatten(2, (3, -1)).unbind(2),
    ],
}
WRONG = {
    "similarity": [
        (lambda x: x.T @ x, "shape"),
        (lambda x: F.normalize(x, dim=-1) @ F.normalize(x, dim=-1).T, "values"),
        (lambda x: (x @ x.T).softmax(-1), "values"),
        (lambda x: x @ x.T / x.size(1) ** 0.5, "values"),
        (lambda x: torch.cdist(x, x), "values"),
        (lambda x: (x @ x.T).tolist(), "type"),
        (lambda x: (x @ x.T).float() if x.dtype == torch.float64 else x @ x.T, "dtype"),
        (lambda x: x.mul_(2) @ x.T, "input"),
        (lambda x: (x @ x.T) / 0, "finite"),
        (lambda x: print(x.shape), "type"),
        (lambda x: [x @ x.T], "type"),
        (None, None),
        (3, "signature"),
        (lambda: 0, "run"),
        (lambda x: x @ x, "run"),
    ],
    "project": [
        (lambda x, w, b: x @ w.T, "values"),
        (lambda x, w, b: x @ w, "run"),
        (lambda x, w, b: x @ w.T - b, "values"),
        (lambda x, w, b: (x @ w.T + b).relu(), "values"),
        (lambda x, w, b: (x @ w.T + b).transpose(1, 2), "shape"),
        (lambda x, w, b: (x @ w.T + b).sum(), "shape"),
        (lambda x, w, b: x[:1] @ w.T + b, "shape"),
        (lambda x, w, b: x @ w.flip(0).T + b, "values"),
        (lambda x, w, b: x @ w.T + b.mean(), "values"),
        (lambda x, w, b: nn.Linear(24, 18)(x), "run"),
    ],
    "project_qkv": [
        (lambda x, w, b: (x @ w.T).chunk(3, -1), "values"),
        (lambda x, w, b: F.linear(x, w, b).chunk(3, 1), "shape"),
        (F.linear, "type"),
        (lambda x, w, b: F.linear(x, w, b).chunk(3, -1)[:2], "type"),
        (lambda x, w, b: F.linear(x, w, b).chunk(3, -1)[::-1], "values"),
        (lambda x, w, b: F.linear(x, w, b).unflatten(2, (-1, 3)).unbind(3), "values"),
        (lambda x, w, b: [F.linear(x, w[:24], b[:24])] * 3, "values"),
        (lambda x, w, b: (F.linear(x, w, b).chunk(3, -1)[i] for i in (0, 2, 1)), "type"),
        (lambda x, w, b: tuple(F.linear(x, w, b).chunk(3, -1)[i] for i in (0, 2, 1)), "values"),
        (lambda x, w, b: (None, None, None), "type"),
    ],
}


@pytest.mark.parametrize("name", NAMES)
def test_right_answers_pass_in_any_style(name):
    for answer in [getattr(references, name), *RIGHT[name]]:
        assert check(name, answer).status == "correct"


@pytest.mark.parametrize("name", NAMES)
def test_wrong_answers_never_pass_and_say_where_they_part(name):
    assert len(WRONG[name]) >= 10
    for answer, stage in WRONG[name]:
        report = check(name, answer)
        assert report.status == {None: "unattempted", "run": "error"}.get(stage, "wrong"), report
        assert report.stage == stage, report
        assert report.message
        assert report.mistake is None


def test_messages_are_one_clear_line():
    report = check("project", lambda x, w, b: (x @ w.T + b).mT)
    assert repr(report) == (
        "project: Not yet. The result has shape (2, 18, 5), and should have (2, 5, 18), which is (B, S, out)."
    )
    report = check("project_qkv", F.linear)
    assert repr(report) == "project_qkv: Not yet. It should return 3 tensors, and returned 1."


def test_printing_and_mutation_reach_nobody(capsys):
    def chatty(x):
        print("hello")
        return x @ x.T

    assert check("similarity", chatty).status == "correct"
    assert capsys.readouterr().out == ""


def test_a_stub_is_not_attempted_and_a_missing_return_is_wrong():
    def stub(x):
        """Say what to do.

        Shape: x (S, C) -> (S, S)
        """
        ...  # noqa: PIE790

    def bare(x): ...

    def forgot(x):
        x @ x.T

    assert check("similarity", stub).status == "unattempted"
    assert check("similarity", bare).status == "unattempted"
    assert check("similarity", ...).status == "unattempted"
    assert "Is a return missing?" in check("similarity", forgot).message


def test_names_in_messages_are_escaped():
    html = Report("similarity", "wrong", "<script>alert(1)</script>")._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_an_exercise_that_is_not():
    with pytest.raises(ShapeError, match="no exercise has this name"):
        check("similarly", len)
    with pytest.raises(ShapeError, match="no question has this name"):
        predict("nothing")


def test_solution_is_the_source_of_the_reference():
    space = {"Tensor": torch.Tensor}
    exec(solution("similarity"), space)
    assert check("similarity", space["similarity"]).status == "correct"


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_has_one_right_answer_and_a_reason_for_each_wrong_one(name):
    question = QUESTIONS[name]
    right = question.answer()
    assert predict(name, right).correct
    assert repr(predict(name, right)) == f"Right. {question.because}"
    if question.choices:
        assert list(question.choices).count(right) == 1
        assert question.choices[right] == ""
    for wrong, reason in {**question.choices, **question.wrong}.items():
        if wrong != right:
            assert reason
            assert not predict(name, wrong).correct
            assert repr(predict(name, wrong)) == f"Not quite. {reason}"


def test_shapes_may_be_typed_in_any_way():
    for typed in ("2, 5, 18", "2,5,18", "(2, 5, 18)", "[2, 5, 18]", (2, 5, 18), [2, 5, 18], torch.Size([2, 5, 18])):
        assert predict("linear-result", typed).correct, typed
    assert not predict("linear-result", "2, 5, 1, 8").correct
    assert not predict("linear-result", "what?").correct
    assert predict("fused-parameters", 1800).correct


def test_a_question_shows_itself_without_widgets():
    asked = predict("row-sum")
    assert asked.correct is None
    html = asked._repr_html_()
    assert html.count("<details>") == 3
    assert html.count("Right.") == 1
    typed = predict("linear-result")._repr_html_()
    assert "Show the answer" in typed
    answered = predict("linear-result", "<b>")._repr_html_()
    assert "&lt;b&gt;" in answered
