"""Checks and predictions: right answers pass in any style, wrong ones never, and nothing ever raises."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import solutions
import torch
from torch import nn
from torch.nn import functional as F

from mha_course.errors import ShapeError
from mha_course.exercises import NAMES, Report, check, checker, predict, sandbox, solution
from mha_course.exercises.catalogue import EXERCISES


def whole(x, w_q, w_k, w_v, w_o, num_heads, mask=None):
    """Use PyTorch's kernel for the result, and the reference's softmax for the weights."""
    q, k, v = (F.linear(x, w).unflatten(2, (num_heads, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
    context = F.scaled_dot_product_attention(q, k, v, mask)
    scores = q @ k.mT * q.size(-1) ** -0.5
    weights = scores.softmax(-1) if mask is None else solutions.masked_softmax(scores, mask)
    return F.linear(context.transpose(1, 2).flatten(2), w_o), weights


class Fused(solutions.MultiHeadAttention):
    """Keep the four Linears, and leave the middle to PyTorch."""

    def forward(self, x, mask=None):
        q, k, v = (p(x).unflatten(2, (self.num_heads, -1)).transpose(1, 2) for p in list(self.children())[:3])
        return self.out_proj(F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2))


class Unscaled(solutions.MultiHeadAttention):
    def forward(self, x, mask=None):
        return super().forward(x * 2, mask)


class OtherNames(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.q = nn.Linear(d_model, d_model)


class OnlyInit(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()

    def forward(self, x, mask=None): ...


RIGHT = {
    "similarity": [
        lambda x: torch.einsum("sc,tc->st", x, x),
        lambda x: x.float() @ x.float().T,
        lambda x: x.double() @ x.double().T,
        lambda x: (x @ x.T).bfloat16(),
        lambda x: (x @ x.T).to_sparse(),
        lambda x: (x[:, None] * x[None]).sum(-1),
        lambda *args: torch.stack([args[0] @ row for row in args[0]]),
    ],
    "project": [
        F.linear,
        lambda a, b, c: torch.einsum("bsc,oc->bso", a, b) + c,
        lambda x, w, b: torch.addmm(b, x.flatten(0, 1), w.T).unflatten(0, x.shape[:2]),
        lambda x, w, b: (w @ x.mT + b[:, None]).mT,  # not contiguous
    ],
    "split_heads": [
        lambda x, h: x.view(*x.shape[:2], h, -1).permute(0, 2, 1, 3),
        lambda x, h: torch.stack(x.chunk(h, -1), 1),
        lambda x, h: torch.einsum("bshd->bhsd", x.reshape(*x.shape[:2], h, -1)),
    ],
    "split_fused_qkv": [
        lambda x, h: [part.unflatten(2, (h, -1)).transpose(1, 2) for part in x.chunk(3, -1)],
        lambda x, h: x.unflatten(2, (3, h, -1)).transpose(3, 1).unbind(2),
        lambda x, h: x.unflatten(2, (3, h, -1)).permute(2, 0, 3, 1, 4),  # one tensor, which can be unpacked
    ],
    "one_head_queries": [
        lambda x, w, i, h: torch.einsum("bsc,dc->bsd", x, w.unflatten(0, (h, -1))[i]),
        lambda x, w, i, h: F.linear(x, w.unflatten(0, (h, -1))[i]),
    ],
    "attention_scores": [
        lambda q, k: torch.einsum("bhtd,bhsd->bhts", q, k),
        lambda q, k: (q[:, :, :, None] * k[:, :, None]).sum(-1),
    ],
    "scaled_scores": [
        lambda q, k: (q / q.size(-1) ** 0.5) @ k.mT,
        lambda q, k: (q * q.size(-1) ** -0.25) @ (k * k.size(-1) ** -0.25).mT,
    ],
    "score_form": [
        lambda a, b, i, h: torch.einsum("di,dj->ij", a.unflatten(0, (h, -1))[i], b.unflatten(0, (h, -1))[i]),
    ],
    "softmax": [
        lambda x: (e := (x - x.max(-1, keepdim=True).values).exp()) / e.sum(-1, keepdim=True),
        lambda x: (x - x.logsumexp(-1, keepdim=True)).exp(),
        lambda x: 1 / (x[..., None, :] - x[..., :, None]).exp().sum(-1),
    ],
    "masked_softmax": [
        lambda x, m: x.masked_fill(~m, -torch.inf).softmax(-1).nan_to_num(),
        lambda x, m: F.normalize(x.softmax(-1) * m, p=1, dim=-1),
        lambda x, m: x.masked_fill(~m, -1e4).softmax(-1) * m.any(-1, keepdim=True),
    ],
    "entropy": [
        lambda w: torch.special.entr(w).sum(-1),
        lambda w: -(w * w.log()).nan_to_num(0.0).sum(-1),
        lambda w: -torch.where(w > 0, w * w.log(), 0.0).sum(-1),
        lambda w: -(w * w.clamp(min=1e-300 if w.dtype == torch.float64 else 1e-38).log()).sum(-1),
    ],
    "weighted_sum": [
        lambda w, v: torch.einsum("bhts,bhsd->bhtd", w, v),
        lambda w, v: (w[..., None] * v[:, :, None]).sum(3),
    ],
    "self_attention": [
        lambda x, a, b, c: [
            F.scaled_dot_product_attention(x @ a.T, x @ b.T, x @ c.T),
            (x @ a.T @ (x @ b.T).mT / x.size(-1) ** 0.5).softmax(-1),
        ],
    ],
    "merge_heads": [
        lambda c: c.permute(0, 2, 1, 3).reshape(c.size(0), c.size(2), -1),
        lambda c: torch.cat(c.unbind(1), -1),
    ],
    "head_contributions": [
        lambda c, w: torch.stack([c[:, h] @ w.chunk(c.size(1), 1)[h].T for h in range(c.size(1))], 1),
        lambda c, w: c @ w.T.unflatten(0, (c.size(1), -1)),
    ],
    "build_subtractor": [
        lambda d: [a * b for a, b in zip(solutions.build_subtractor(d), (2, 1, -3, -1 / 3), strict=True)],
        lambda d: [nn.Parameter(w.float()) for w in solutions.build_subtractor(d)],
        lambda d: torch.stack(solutions.build_subtractor(d)).numpy(),
    ],
    "multi_head_attention": [whole],
    "MultiHeadAttention": [Fused],
    "parameter_count": [
        lambda c, h, bias: sum(p.numel() for _ in range(4) for p in nn.Linear(c, c, bias=bias).parameters()),
        lambda c, h, bias: 4 * c * (c + bias),
        lambda c, h, bias: np.int64(4 * c * (c + bias)),
    ],
    "fold_value_bias": [lambda w, v, o: F.linear(v, w, o), lambda w, v, o: (w * v).sum(1) + o],
    "project_qkv": [
        lambda x, w, b: [F.linear(x, ww, bb) for ww, bb in zip(w.chunk(3), b.chunk(3), strict=True)],
        lambda x, w, b: F.linear(x, w, b).unflatten(2, (3, -1)).unbind(2),
        lambda x, w, b: torch.stack(F.linear(x, w, b).chunk(3, -1)),
    ],
}
WRONG = {  # in ways without a name: those with one are in test_mistakes
    "similarity": [
        (lambda x: x.T @ x, "shape"),
        (lambda x: F.normalize(x, dim=-1) @ F.normalize(x, dim=-1).T, "values"),
        (lambda x: (x @ x.T).softmax(-1), "values"),
        (lambda x: x @ x.T / x.size(1) ** 0.5, "values"),
        (lambda x: torch.cdist(x, x), "values"),
        (lambda x: (x @ x.T).tolist(), "type"),
        (lambda x: (x @ x.T).long(), "dtype"),
        (lambda x: sys.exit(), "run"),
        (lambda x: (x @ x.T).to_sparse() * 2, "values"),
        (lambda x: x.mul_(2) @ x.T, "input"),
        (lambda x: (x @ x.T) / 0, "finite"),
        (lambda x: print(x.shape), "type"),
        (lambda x: [x @ x.T], "type"),
        (None, None),
        (3, "signature"),
        (lambda: 0, "run"),
    ],
    "project": [
        (lambda x, w, b: x @ w.T - b, "values"),
        (lambda x, w, b: (x @ w.T + b).transpose(1, 2), "shape"),
        (lambda x, w, b: nn.Linear(24, 18)(x), "run"),
    ],
    "split_heads": [
        (lambda x, h: x, "shape"),
        (lambda x, h: x.view(x.size(0), h, 3, 3), "run"),
    ],
    "split_fused_qkv": [
        (lambda x, h: x.unflatten(2, (h, 3, -1)).permute(3, 0, 2, 1, 4), "values"),
        (lambda x, h: x.unflatten(2, (3, h, -1)).permute(2, 0, 3, 1, 4).unbind(0)[::-1], "values"),
    ],
    "one_head_queries": [
        (lambda x, w, i, h: x @ w, "shape"),
        (lambda x, w, i, h: x @ w.chunk(h)[0].T, "values"),
        (lambda x, w, i, h: x.chunk(h, -1)[i], "values"),
        (lambda x, w, i, h: (x @ w.T).unflatten(2, (h, -1))[:, :, i], "rule"),
    ],
    "attention_scores": [
        (lambda q, k: q @ k.mT / q.size(-1) ** 0.5, "values"),
        (lambda q, k: (k @ q.mT).reshape(2, 4, 5, 7), "values"),
        (lambda q, k: (q @ k.mT).softmax(-1), "values"),
    ],
    "score_form": [
        (lambda a, b, i, h: a.T @ b, "values"),
        (lambda a, b, i, h: a.chunk(h, 1)[i] @ b.chunk(h, 1)[i].T, "values"),
    ],
    "entropy": [
        (lambda w: -(w * w.log()).sum(-1), "finite"),
        (lambda w: torch.special.entr(w).sum(-2), "shape"),
        (lambda w: torch.special.xlogy(w, w).sum(-1), "values"),
    ],
    "weighted_sum": [
        (lambda w, v: v, "shape"),
        (lambda w, v: w.sum(-1, keepdim=True) * v[:, :, :5], "values"),
    ],
    "self_attention": [
        (lambda x, a, b, c: F.scaled_dot_product_attention(x @ a.T, x @ b.T, x @ c.T), "type"),
        (lambda x, a, b, c: solutions.self_attention(x, a, b, c)[::-1], "shape"),
    ],
    "head_contributions": [
        (lambda c, w: solutions.head_contributions(c, w).sum(1), "shape"),
    ],
    "build_subtractor": [
        (lambda d: [w.abs() for w in solutions.build_subtractor(d)], "values"),
        (lambda d: [w / 30 for w in solutions.build_subtractor(d)], "values"),
        (lambda d: solutions.build_subtractor(d)[:3], "run"),
    ],
    "multi_head_attention": [
        (lambda x, a, b, c, o, h, mask=None: solutions.multi_head_attention(x, a, b, c, o, h, mask)[0], "type"),
        (lambda x, a, b, c, o, h: (x, x), "values"),
    ],
    "MultiHeadAttention": [
        (Unscaled, "values"),
        (OtherNames, "run"),
        (OnlyInit, None),
        (solutions.multi_head_attention, "run"),
    ],
    "parameter_count": [
        (lambda c, h, bias: str(4 * c * (c + bias)), "values"),
        (lambda c, h, bias: torch.ones(2), "values"),
    ],
    "fold_value_bias": [
        (lambda w, v, o: v + o, "values"),
        (lambda w, v, o: w @ (v + o), "values"),
    ],
    "project_qkv": [
        (F.linear, "type"),
        (lambda x, w, b: F.linear(x, w, b).chunk(3, -1)[:2], "type"),
        (lambda x, w, b: F.linear(x, w, b).chunk(3, -1)[::-1], "values"),
        (lambda x, w, b: F.linear(x, w, b).unflatten(2, (-1, 3)).unbind(3), "values"),
        (lambda x, w, b: (F.linear(x, w, b).chunk(3, -1)[i] for i in (0, 2, 1)), "type"),
        (lambda x, w, b: (None, None, None), "type"),
    ],
}


@pytest.mark.parametrize("name", NAMES)
def test_right_answers_pass_in_any_style(name):
    for answer in [EXERCISES[name].reference, *RIGHT.get(name, [])]:
        assert check(name, answer).status == "correct"


@pytest.mark.parametrize("name", WRONG)
def test_wrong_answers_never_pass_and_say_where_they_part(name):
    for answer, stage in WRONG[name]:
        report = check(name, answer)
        status = {None: ("unattempted",), "run": ("error",)}.get(stage, ("wrong",))
        assert report.status in status or report.stage == "signature", report
        named = ("signature", "mask", "values and output", "weighted sum", "scores")
        assert report.stage in (stage, *named), report
        assert report.message


@pytest.fixture(autouse=True)
def first_try():
    """Begin each test as a new session, in which nothing has failed yet."""
    checker._failures.clear()


def test_messages_are_one_clear_line():
    report = check("project", lambda x, w, b: (x @ w.T + b).mT)
    assert repr(report) == (
        "project: Not yet. The result has shape (2, 18, 7), and should have (2, 7, 18), which is (B, S, out)."
    )
    report = check("project_qkv", F.linear)
    assert repr(report) == "project_qkv: Not yet. It should return 3 tensors, and returned 1."


def test_printing_and_mutation_reach_nobody(capsys):
    def chatty(x):
        print("hello")
        return x @ x.T

    assert check("similarity", chatty).status == "correct"
    assert capsys.readouterr().out == ""


def described(x):
    """Say what to do.

    Shape: x (S, C) -> (S, S)
    """


def passing(x):
    pass


def returning_none(x):
    return None


class Dots(nn.Module): ...


class DotsInForward(nn.Module):
    def forward(self, x, mask=None):
        """Say what to do."""
        ...  # noqa: PIE790


class Inherited(solutions.MultiHeadAttention): ...


@pytest.mark.parametrize("answer", [..., None, described, passing, returning_none, lambda x: ...])
def test_what_is_as_the_notebook_has_it_is_not_attempted(answer):
    assert check("similarity", answer).status == "unattempted"


def test_a_class_is_not_attempted_until_something_is_written():
    assert check("MultiHeadAttention", Dots).status == "unattempted"
    assert check("MultiHeadAttention", DotsInForward).status == "unattempted"
    assert check("MultiHeadAttention", OtherNames).status == "error"
    assert check("MultiHeadAttention", Inherited).status == "correct"


@pytest.mark.parametrize(("value", "name"), [("abc", "str"), (0, "int"), (1.5, "float"), (True, "bool"), ((), "tuple")])
def test_a_constant_is_an_answer(value, name):
    code = f"lambda x: {value!r}"
    assert check("similarity", eval(code)).message == f"The result should be a tensor, and is {name}."


def test_a_missing_return_is_wrong():
    def forgot(x):
        x @ x.T

    assert "Is a return missing?" in check("similarity", forgot).message


# An answer may do what it likes: check comes to an end, and the course stays as it was


def swallows_all(x):
    while True:
        try:  # noqa: SIM105
            time.sleep(0.05)
        except:  # noqa: E722
            pass


def swallows_all_further_in(x):
    def loop():
        while True:
            try:
                x @ x.T
            except BaseException:
                continue

    while True:
        try:  # noqa: SIM105
            loop()
        except:  # noqa: E722
            pass


def swallows_all_in_each_of_three(x):
    while True:
        try:
            while True:
                try:
                    while True:
                        try:
                            x @ x.T
                        except:  # noqa: E722
                            x.exp()
                except BaseException as error:
                    str(error)
        except BaseException:
            continue


def swallows_all_in_each_of_many(x, depth=8):
    while True:
        with contextlib.suppress(BaseException):
            swallows_all_in_each_of_many(x, depth - 1) if depth else time.sleep(0.01)


def suppresses_all(x):
    while True:
        with contextlib.suppress(BaseException):
            x @ x.T


ENDLESS = [
    swallows_all,
    swallows_all_further_in,
    suppresses_all,
    swallows_all_in_each_of_three,
    swallows_all_in_each_of_many,
]


@pytest.mark.parametrize("answer", ENDLESS)
def test_a_loop_that_catches_everything_is_stopped(answer, monkeypatch):
    monkeypatch.setattr(sandbox, "TIMEOUT", 0.2)
    before = sys.gettrace(), threading.active_count()
    report = check("similarity", answer)
    assert (report.status, report.message) == (
        "error",
        "It was stopped after 0.2 seconds. Is there a loop that does not end?",
    )
    assert (sys.gettrace(), threading.active_count()) == before


class OfItsOwn(BaseException):
    pass


def raises_its_own(x):
    raise OfItsOwn("oh")


def asks(x):
    return input("A number: ")


def recurses(x):
    return recurses(x) + 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda x: sys.exit(3), "SystemExit: 3."),
        (raises_its_own, "OfItsOwn: oh."),
        (asks, "RuntimeError: input() waits for somebody to type. An answer has its arguments, and nothing else."),
        (recurses, "RecursionError: maximum recursion depth exceeded"),
        (lambda x: torch.ones(10**13), "RuntimeError: DefaultCPUAllocator: can't allocate memory"),
        (lambda x: x.new_zeros(1).expand(10**11), "The result has shape (100000000000,)"),
        (lambda x: print(x, file=sys.stderr), "The result is None."),
    ],
)
def test_an_answer_that_goes_astray_gets_a_report(answer, said, capfd):
    assert check("similarity", answer).message.startswith(said)
    assert capfd.readouterr() == ("", "")


def test_what_an_answer_puts_in_the_place_of_torch_is_taken_back():
    def change(x):
        torch.softmax = F.softmax = torch.Tensor.softmax = torch.Tensor.__matmul__ = nn.Linear.forward = lambda *_: x
        torch.manual_seed = None
        return x

    before = [torch.softmax, F.softmax, torch.Tensor.softmax, torch.Tensor.__matmul__, nn.Linear.forward, input]
    assert check("similarity", change).stage == "shape"
    after = [torch.softmax, F.softmax, torch.Tensor.softmax, torch.Tensor.__matmul__, nn.Linear.forward, input]
    assert after == before
    assert check("similarity", lambda x: x @ x.T).status == "correct"


def test_what_a_notebook_puts_in_the_place_of_torch_changes_no_reference(monkeypatch):
    broken = lambda x, *_, **__: x * 0  # noqa: E731
    monkeypatch.setattr(torch, "softmax", broken)
    monkeypatch.setattr(torch.Tensor, "__matmul__", broken)
    report = check("self_attention", solutions.self_attention)
    assert (report.status, torch.softmax, torch.Tensor.__matmul__) == ("correct", broken, broken)
    assert "torch.softmax, Tensor.__matmul__: something else has been put in this place" in report.message
    assert "PyTorch's own" in check("self_attention", lambda x, a, b, c: (x, x @ x.mT)).message
    monkeypatch.undo()
    assert "PyTorch's own" not in check("self_attention", solutions.self_attention).message


WITHOUT_WIDGETS = """
import sys
from mha_course.exercises import check, hint, predict, progress, solution
assert check("project", lambda x, w, b: x @ w.T + b).status == "correct"
assert check("project", lambda x, w, b: x @ w.T).mistake == "bias-dropped"
for shown in (hint("project"), predict("row-sum"), progress(), check("project", len)):
    assert shown._repr_html_()
assert "@" in solution("project")
print(sorted({"ipywidgets", "anywidget"} & set(sys.modules)))
"""


def test_a_check_needs_no_widgets(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    command = [sys.executable, "-c", WITHOUT_WIDGETS]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_names_in_messages_are_escaped():
    html = Report("similarity", "wrong", "<script>alert(1)</script>")._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


RIGHT_TO_LEFT = "שלום"
TURNED = "\u202eoh\u2066"


def crashing_at_length(x):
    raise ValueError("x" * 5000 + TURNED)


def crashing_in_hebrew(x):
    raise ValueError(RIGHT_TO_LEFT)


def crashing_turned(x):
    raise ValueError("\u202eoh\u2066\x1b[31m")


def test_foreign_text_keeps_its_place():
    assert f"ValueError: \u2068{RIGHT_TO_LEFT}\u2069." in check("similarity", crashing_in_hebrew).message
    assert r"ValueError: \u202eoh\u2066\u001b[31m." in check("similarity", crashing_turned).message
    assert len(check("similarity", crashing_at_length).message) < 500
    html = predict("row-sum", TURNED)._repr_html_()
    assert r"You said \u202eoh\u2066." in html
    assert "overflow-wrap:break-word" in html


def test_a_crash_has_a_heading_that_is_one():
    report = check("similarity", crashing_turned)
    assert "<strong>⚠ Stopped with an error</strong> <code>similarity</code>" in report._repr_html_()
    assert repr(report).startswith("similarity: Stopped with an error. ValueError")


def test_the_second_failure_offers_a_hint():
    assert check("similarity", lambda x: x).offer == ""
    second = check("similarity", lambda x: x)
    assert second.offer == 'Stuck? hint("similarity") goes one step further.'
    assert second.offer in repr(second)
    assert "Stuck? hint(&quot;similarity&quot;) goes" in second._repr_html_()
    assert check("similarity", lambda x: x @ x.T).offer == ""
    assert check("similarity", lambda x: x).offer == ""


def test_an_exercise_that_is_not():
    with pytest.raises(ShapeError, match="no exercise has this name"):
        check("similarly", len)
    with pytest.raises(ShapeError, match="no question has this name"):
        predict("nothing")


def test_solution_is_the_source_of_the_reference():
    space = {"Tensor": torch.Tensor}
    exec(solution("similarity"), space)
    assert check("similarity", space["similarity"]).status == "correct"


def test_shapes_may_be_typed_in_any_way():
    texts = ("2, 5, 18", "2,5,18", "(2, 5, 18)", "[2, 5, 18]", "2x5x18", "2 × 5 × 18", "torch.Size([2, 5, 18])")
    letters = ("B, S, out", "(B S out)", "b,s,out", ("B", "S", "out"))
    for typed in (*texts, (2, 5, 18), torch.Size([2, 5, 18]), *letters):
        assert repr(predict("linear-result", typed)) == repr(predict("linear-result", "2, 5, 18")), typed
    assert not predict("split-shape", "B, S, H, D").correct
    assert predict("split-shape", "B, H, S, D").correct
    assert not predict("linear-result", "2, 5, 1, 8").correct
    assert not predict("linear-result", "what?").correct
    for typed in (1800, "1800", "1,800", " 1800 "):
        assert predict("fused-parameters", typed).correct


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
