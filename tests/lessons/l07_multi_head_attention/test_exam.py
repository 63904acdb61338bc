"""The end of Part I: what is said about a module from memory, and what the broken modules show."""

import html
import math
import re

import pytest
import torch
from torch import nn

from mha_course.attention import MultiHeadAttention as Course
from mha_course.exercises import QUESTIONS
from mha_course.exercises.catalogue import EXERCISES
from mha_course.exercises.report import Report
from mha_course.experiments.faulty_attention import compiled
from mha_course.lessons.l07_multi_head_attention import exam
from mha_course.lessons.l07_multi_head_attention.broken import CASES, Fused, Methods
from mha_course.lessons.l07_multi_head_attention.exercises import MultiHeadAttention, parameters
from mha_course.masks import causal_mask
from mha_course.mistakes import ROWS
from mha_course.variants import to_torch

WITHOUT = "its outputs are the same without a mask."
MASKED = "With a causal mask they are "


def answering(forward):
    """Make the reference answer in a different way: ``forward(module, x, mask)``."""

    class Changed(MultiHeadAttention):
        def forward(self, x, mask=None):
            return forward(super(), x, mask)

    return Changed


def crash(module, x, mask):
    raise SystemExit  # which no except Exception catches


NEVER_MASKED = answering(lambda module, x, mask: module.forward(x))
WITH_WEIGHTS = answering(lambda module, x, mask: (module.forward(x, mask), None))
ONE_NUMBER = answering(lambda module, x, mask: 0)
CRASHES = answering(crash)
FIRST = EXERCISES["MultiHeadAttention"].implementation(
    {"mask": lambda m, z: m[:1] if m.dim() > 2 else m}
)

# Judged from memory


@pytest.mark.parametrize("nothing", [None, ..., type("FromMemory", (nn.Module,), {})])
def test_an_empty_cell_is_not_attempted(nothing):
    report = exam.judge(nothing)
    assert report.status == "unattempted"
    assert "in the cell above" in report.message


@pytest.mark.parametrize("right", [MultiHeadAttention, WITH_WEIGHTS])
def test_a_right_module_can_be_written_from_memory(right):
    report = exam.judge(right)
    assert WITHOUT in report.message
    assert MASKED + "the same." in report.message
    assert "asks for more" in report.message or report.message.endswith("from memory.")
    assert report.status == "correct"


def test_a_module_that_pytorch_agrees_with_passes_whatever_else_check_asks_for():
    report = exam.judge(Methods)
    assert report.status == "correct"
    assert "The exercise above asks for more: A row that sees nothing is NaN." in report.message
    assert report.picture == ""


WITH_FOUR_LINEARS = [case for case in CASES.values() if case.reference is not Fused]


@pytest.mark.parametrize("case", WITH_FOUR_LINEARS, ids=lambda case: case.mistake)
def test_a_mistake_is_named_and_what_agrees_is_said(case):
    report = exam.judge(compiled(case.reference, case.edit))
    assert (report.status, report.mistake) == ("wrong", case.mistake)
    assert (WITHOUT in report.message) == (case.mistake == "mask-after-softmax")
    assert MASKED + "different, by up to " in report.message
    assert ROWS[case.mistake].title in report.message


@pytest.mark.parametrize(("wrong", "causal"), [(NEVER_MASKED, "different"), (FIRST, "the same")])
def test_a_mask_that_has_no_effect_is_seen(wrong, causal):
    report = exam.judge(wrong)
    assert report.status == "wrong"
    assert WITHOUT in report.message
    assert MASKED + causal in report.message


@pytest.mark.parametrize("odd", [3, "text", len, CRASHES, ONE_NUMBER, torch.ones(2)], ids=str)
def test_nothing_that_is_written_makes_it_raise(odd):
    report = exam.judge(odd)
    assert report.status in ("wrong", "error")
    assert "Compared" not in report.message


def test_what_differs_from_pytorch_never_passes(monkeypatch):
    passed = Report("MultiHeadAttention", "correct", "It passed.")
    monkeypatch.setattr(exam, "check", lambda *_, **__: passed)
    assert exam.judge(NEVER_MASKED).status == "wrong"


# Broken modules


def moved(module):
    """Return which merged heads change with the last of five tokens, under a causal mask."""
    module.out_proj = nn.Identity()
    torch.manual_seed(0)
    x = torch.randn(1, 5, 24, dtype=torch.float64)
    changed = x.clone()
    changed[:, 4] += 1.0
    with torch.no_grad():
        differs = (module(x, causal_mask(5)) != module(changed, causal_mask(5)))[0]  # (T, C)
    return [row.nonzero()[:, 0].tolist() for row in differs]


def test_without_w_o_merge_and_split_are_told_apart():
    suspects = exam.suspects()
    heads = [list(range(first, first + 6)) for first in (0, 6, 12, 18)]
    assert moved(suspects["case 1"]) == [[], *heads]
    assert moved(suspects["case 4"]) == [[], *4 * [heads[3]]]


@pytest.mark.parametrize("mask", [None, causal_mask(5)], ids=["no mask", "causal"])
@pytest.mark.parametrize("reference", [Fused, Methods])
def test_what_the_cases_are_copied_from_is_the_module_of_pytorch(reference, mask):
    torch.manual_seed(0)
    x = torch.randn(2, 5, 24, dtype=torch.float64)
    theirs = to_torch(exam._with_parameters(Course, 4, *parameters()))
    want = theirs(x, x, x, attn_mask=None if mask is None else ~mask)[0]
    module = exam._with_parameters(reference, 4, *parameters())
    assert torch.allclose(module(x, mask), want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("number", exam.CASES)
def test_the_code_that_is_shown_is_what_runs(number, monkeypatch):
    pages = []
    monkeypatch.setattr("mha_course.plots.figures.show_html", lambda page, _: pages.append(page))
    exam.show(number)
    above, code = re.match(r"(?s)(.*)<pre[^>]*>(.*)</pre>", pages[0]).groups()
    names = {"torch": torch, "nn": nn, "math": math, "F": torch.nn.functional}
    exec(html.unescape(code), names)
    assert len(code.splitlines()) > 20
    suspect = exam.suspects()[f"case {number}"]
    again = names["Attention"](24, 4).double()
    again.load_state_dict(suspect.state_dict())
    x = torch.randn(1, 5, 24, dtype=torch.float64)
    assert torch.equal(again(x), suspect(x))
    assert ROWS[CASES[number].mistake].text in html.unescape(pages[0])
    assert ROWS[CASES[number].mistake].title not in above


def test_no_line_can_be_ruled_out_by_place_or_wording():
    asked = [QUESTIONS[f"broken-{number}"] for number in exam.CASES]
    assert len({tuple(question.choices) for question in asked}) == 1
    lessons = [ROWS[case.mistake].lesson for case in CASES.values()]
    assert lessons not in (sorted(lessons), sorted(lessons)[::-1])
