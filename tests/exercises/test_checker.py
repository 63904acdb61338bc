"""Right answers pass in any style, wrong ones never, and nothing ever raises."""

import signal
import sys
from functools import partial

import pytest
import solutions
import torch
from torch import nn
from torch.nn import functional as F

from mha_course.errors import ShapeError
from mha_course.exercises import NAMES, check, checker, predict, solution
from mha_course.exercises.catalogue import EXERCISES

attend = solutions.attend


class Unscaled(solutions.MultiHeadAttention):
    def forward(self, x, mask=None):
        return super().forward(x * 2, mask)


class OtherNames(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.q = nn.Linear(d_model, d_model)


class AlwaysTrue(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        return (
            torch.ones_like(result)
            if isinstance(result, torch.Tensor) and result.dtype == torch.bool
            else result
        )


class Agreeable(int):
    """Be equal to everything."""

    __hash__ = int.__hash__

    def __eq__(self, other):
        return True


class WithOptions(solutions.MultiHeadAttention):
    def __init__(self, d_model, num_heads, window=None):
        super().__init__(d_model, num_heads)

    def forward(self, x, mask=None, causal=False):
        return super().forward(x, mask)


def splits_on_a_side(x, num_heads, *, side="left"):
    return solutions.split_heads(x, num_heads)


@pytest.mark.parametrize(("name", "answer", "options"), [
    ("split_heads", splits_on_a_side, "`side`"),
    ("MultiHeadAttention", WithOptions, "`window`, `causal`"),
    ("layer_norm", lambda x, g, b, epsilon=1e-5: solutions.layer_norm(x, g, b, epsilon), ""),
])  # fmt: skip
def test_options_that_no_call_passes_are_named(name, answer, options):
    _, _, told = check(name, answer).message.partition("because the exercise has no such option: ")
    assert told.removesuffix(".") == options


WRONG = [  # what has no name as a mistake, and the stage at which it is found
    ("attend", torch.cdist, "signature"),
    ("attend", lambda x: torch.cdist(x, x) @ x, "values"),
    ("attend", lambda x: attend(x).to_sparse() * 2, "values"),
    ("attend", lambda x: attend(x).tolist(), "type"),
    ("attend", lambda x: [attend(x)], "type"),
    ("attend", lambda x: (attend(x) * 2).as_subclass(AlwaysTrue), "values"),
    ("attend", lambda x: attend(x).long(), "dtype"),
    ("attend", lambda x: attend(x.mul_(2)), "input"),
    ("attend", lambda x: attend(x) / 0, "finite"),
    ("attend", lambda x: attend(x)[None], "shape"),
    ("causal_mask", lambda n: torch.ones(n, n).tril(), "dtype"),
    ("causal_mask", lambda n: torch.ones(n, n).tril(1).bool(), "values"),
    ("causal_mask", lambda n: str(torch.ones(n, n).tril().bool()), "type"),
    ("project", lambda x, w, b: nn.Linear(24, 18)(x), "run"),
    ("split_heads", lambda x, h: x.view(x.size(0), h, 3, 3), "run"),
    ("project_qkv", lambda x, w, b: F.linear(x, w, b).chunk(3, -1)[:2], "type"),
    ("project_qkv", lambda x, w, b: (None, None, None), "type"),
    ("one_head_queries", lambda x, w, i, h: (x @ w.T).unflatten(2, (h, -1))[:, :, i], "rule"),
    (
        "self_attention",
        lambda x, a, b, c: F.scaled_dot_product_attention(x @ a.T, x @ b.T, x @ c.T),
        "type",
    ),
    ("head_contributions", lambda c, w: solutions.head_contributions(c, w).sum(1), "shape"),
    ("build_subtractor", lambda d: solutions.build_subtractor(d)[:3], "run"),
    ("MultiHeadAttention", Unscaled, "values and output"),
    ("MultiHeadAttention", OtherNames, "run"),
    ("MultiHeadAttention", solutions.multi_head_attention, "signature"),
    ("parameter_count", lambda c, h, bias: str(4 * c * (c + bias)), "type"),
    ("parameter_count", lambda c, h, bias: 4.0 * c * (c + bias), "no int"),
    ("parameter_count", lambda c, h, bias: torch.ones(2), "type"),
    ("parameter_count", lambda c, h, bias: Agreeable(), "type"),
    ("parameter_count", lambda c, h, bias: 4 * c * (c + bias) + 0.5, "values"),
    ("to_attend", lambda mask, convention: True, "type"),
]


@pytest.mark.parametrize(
    ("name", "answer", "stage"), WRONG, ids=[f"{name}-{stage}" for name, _, stage in WRONG]
)
def test_wrong_answers_never_pass_and_say_where_they_part(name, answer, stage):
    report = check(name, answer)
    assert report.status in ("wrong", "error")
    assert report.stage == stage, report
    assert report.message


@pytest.fixture(autouse=True)
def first_try():
    """Begin each test as a new session, in which nothing has failed yet."""
    checker._failures.clear()


def test_messages_are_one_clear_line():
    assert repr(check("project", lambda x, w, b: (x @ w.T + b).mT)) == (
        "project: Not yet. The result has shape (2, 18, 7), but should have (2, 7, 18), which is "
        "(B, S, out)."
    )
    assert repr(check("project_qkv", F.linear)) == (
        "project_qkv: Not yet. Your answer should return 3 results, but returned 1."
    )


def described(x):
    """Say what to do.

    Shape: x (S, C) -> (S, C)
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
    assert check("attend", answer).status == "unattempted"


@pytest.mark.parametrize(
    ("answer", "status"),
    [(Dots, "unattempted"), (DotsInForward, "unattempted"), (Inherited, "correct")],
)
def test_a_class_is_not_attempted_until_something_is_written(answer, status):
    assert check("MultiHeadAttention", answer).status == status


# An answer may do what it likes: check gives a report


def interrupted(x):
    while True:
        signal.raise_signal(signal.SIGINT)


def test_an_answer_that_is_interrupted_gets_a_report():
    report = check("attend", interrupted)
    assert (report.status, report.stage, report.mistake) == ("error", "run", None)
    assert report.message == (
        "It was interrupted in your line `signal.raise_signal(signal.SIGINT)`. "
        "Does a loop never end?"
    )


class OfItsOwn(BaseException):
    pass


def raises_its_own(x):
    raise OfItsOwn("oh")


def recurses(x):
    return recurses(x) + 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda x: sys.exit(3), "SystemExit: 3."),
        (raises_its_own, "OfItsOwn: oh."),
        (recurses, "RecursionError: maximum recursion depth exceeded"),
        (lambda x: torch.ones(10**13), "RuntimeError: DefaultCPUAllocator: can't allocate memory"),
        (lambda x: x.new_zeros(1).expand(10**11), "The result has shape (100000000000,)"),
        (lambda x: print(x, print(x), file=sys.stderr), "The result is None. Is a return missing?"),
    ],
)
def test_an_answer_that_goes_astray_gets_a_report(answer, said, capfd):
    assert check("attend", answer).message.startswith(said)
    assert capfd.readouterr() == ("", "")


def test_an_error_that_cannot_be_written_down_gets_its_name():
    class UnspeakableError(Exception):
        def __str__(self):
            raise ValueError("no")

    def stops(x):
        raise UnspeakableError

    report = check("attend", stops)
    assert (report.status, report.mistake) == ("error", None)
    assert report.message.startswith("UnspeakableError. In your line `raise UnspeakableError`")


RIGHT_TO_LEFT = "שלום"
TURNED = "\u202eoh\u2066"


def raising(text):
    def attend(x):
        raise ValueError(text)

    return check("attend", attend)


def test_foreign_text_keeps_its_place():
    assert f"ValueError: \u2068{RIGHT_TO_LEFT}\u2069." in raising(RIGHT_TO_LEFT).message
    assert r"ValueError: \u202eoh\u2066\u001b[31m." in raising(TURNED + "\x1b[31m").message
    assert len(raising("x" * 5000 + TURNED).message) < 500
    assert "&lt;script&gt;" in raising("<script>")._repr_html_()
    html = predict("row-sum", TURNED)._repr_html_()
    assert r"You said \u202eoh\u2066." in html
    assert "overflow-wrap:break-word" in html


def test_a_crash_has_a_heading_that_is_one():
    report = raising("oh")
    assert "<strong>⚠ Stopped with an error</strong> <code>attend</code>" in report._repr_html_()
    assert repr(report).startswith("attend: Stopped with an error. ValueError")


def test_the_second_failure_offers_a_hint():
    assert check("attend", lambda x: x).offer == ""
    second = check("attend", lambda x: x)
    assert second.offer == 'Stuck? hint("attend") goes one step further.'
    assert second.offer in repr(second)
    assert "Stuck? hint(&quot;attend&quot;) goes" in second._repr_html_()
    assert [check("attend", answer).offer for answer in (attend, lambda x: x)] == ["", ""]


def test_a_question_that_is_not():
    with pytest.raises(ShapeError, match="no question has this name"):
        predict("nothing")


@pytest.mark.parametrize("name", NAMES)
def test_a_solution_runs_where_nothing_is_imported_and_is_correct(name):
    space = {}
    exec(solution(name), space)
    assert check(name, space[name]).status == "correct"


def test_wrong_numbers_of_another_dtype_are_told_before_their_dtype():
    found = [
        check("softmax", lambda x, n=n, dtype=dtype: (n * x.softmax(-1)).to(dtype)).stage
        for dtype in (torch.float16, torch.bfloat16)
        for n in (1, 2)
    ]
    assert found == ["narrow", "values"] * 2


def attend_in_a_loop(x):
    contexts = torch.zeros(x.shape)
    for i, token in enumerate(x):
        weights = torch.stack([token @ other / len(token) ** 0.5 for other in x]).softmax(0)
        for weight, other in zip(weights, x, strict=True):
            contexts[i] += weight * other
    return contexts


def attention_in_a_loop(x, w_q, w_k, w_v, scale=1.0):
    """Fill float32 scores, so that the last product stops on float64."""
    q, k, v = x @ w_q.T, x @ w_k.T, x @ w_v.T
    scores = torch.zeros(*x.shape[:2], x.size(1))
    for b, sentence in enumerate(q):
        for t, query in enumerate(sentence):
            scores[b, t] = scale * k[b] @ query / w_q.size(0) ** 0.5
    weights = scores.softmax(-1)
    return weights @ v, weights


def test_what_is_computed_in_float32_is_right():
    report = check("attend", attend_in_a_loop)
    assert report.status == "correct", report
    assert "On the first it also agrees in float32." in report.because
    report = check("self_attention", attention_in_a_loop)
    assert report.status == "correct", report
    assert "all of them in float32." in report.because


@pytest.mark.parametrize(
    "answer",
    [
        partial(attention_in_a_loop, scale=1.1),
        lambda x, *rest: attention_in_a_loop(x.detach(), *rest),  # learning stops there
        lambda x, *rest: attention_in_a_loop(x[:, :7], *rest),  # right on the first sizes
    ],
)
def test_what_only_stops_in_float64_is_wrong_where_float32_is(answer):
    report = check("self_attention", answer)
    assert (report.status, report.mistake) == ("error", "dtype-changed")
    assert "In your line `return weights @ v, weights`" in report.message


class StopsOnAMask(solutions.MultiHeadAttention):
    def forward(self, x, mask=None):
        if mask is not None:
            mask = 1 - mask
        return super().forward(x, mask)


def test_a_module_that_stops_on_a_mask_is_told_where():
    report = check("MultiHeadAttention", StopsOnAMask)
    assert report.status == "error"
    assert "In your line `mask = 1 - mask`" in report.message
    assert "It was called with a mask (B, 1, S, S)" in report.message


REASONS = [
    (
        "scaled_scores",
        lambda q, k: q @ k.mT,
        "It equals the reference with `scale` replaced by `identity` on all 11 inputs.",
    ),
    (
        "self_attention",
        lambda x, w_q, w_k, w_v: x @ w_q.T @ (x @ w_k.T).T,
        "It stops like the reference with `scores` replaced on 8 of 9 inputs.",
    ),
    (
        "entropy",
        lambda w: (w * w.log()).sum(-1),
        "with `terms` replaced and `negated` replaced on all 11 inputs.",
    ),
    ("merge_heads", lambda c: torch.cat(c, dim=-1), "Its error message is"),
    ("to_attend", lambda mask, _: mask == 0, "a diagnosis that only this exercise has"),
    ("project", lambda x, w, b: 2 * F.linear(x, w, b), "`wrong_values` found a fault on input 1"),
    ("project", lambda x, w, b: F.linear(x, w, b).float().half(), "rule `wrong_values`"),
]


@pytest.mark.parametrize(("name", "answer", "reason"), REASONS)
def test_a_report_knows_why_and_the_card_does_not_show_it(name, answer, reason):
    report = check(name, answer)
    assert reason in report.because
    assert report.because not in repr(report) + report.content()


def test_a_pass_says_what_can_be_done_now_and_keeps_what_was_tried():
    report = check("project", F.linear)
    assert report.message == EXERCISES["project"].done
    assert report.because.startswith("Your answer agrees with the reference, gradients included,")


@pytest.mark.parametrize("answer", [None, 3, lambda: 0])
def test_nothing_is_known_of_what_was_not_called(answer):
    assert check("project", answer).because is None
