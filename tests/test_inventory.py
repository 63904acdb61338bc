"""The concept inventory can be imported, and its right choices are really right."""

import re
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import nn

from mha_course.attention import MultiHeadAttention, attention, merge_heads
from mha_course.exercises import QUESTIONS
from mha_course.masks import causal_mask
from mha_course.questions import review_questions

ROOT = Path(__file__).resolve().parents[1]
QUESTION = re.compile(r"::(.+)::(.+) \{\n((?:  [=~].+\n){2,})\}")
CHOICE = re.compile(r"  ([=~])(.+) # (.+)")
CONTROL = "~=#{}:"


def plain(text):
    """Return text of GIFT without its backslashes; every control character must have one."""
    assert not re.search(rf"(?<!\\)[{CONTROL}]", text), text
    return re.sub(rf"\\([{CONTROL}\\])", r"\1", text)


def read_gift(text):
    """Return by its title each question, its choices with their feedback, and the right one."""
    comment, category, *blocks = text.strip().split("\n\n")
    assert all(line.startswith("//") for line in comment.splitlines())
    assert category.startswith("$CATEGORY: ")
    asked = {}
    for block in blocks:
        title, question, lines = QUESTION.fullmatch(block).groups()
        choices = [CHOICE.fullmatch(line).groups() for line in lines.splitlines()]
        (right,) = [plain(choice) for sign, choice, _ in choices if sign == "="]
        feedback = {plain(choice): plain(reason) for _, choice, reason in choices}
        assert plain(title) not in asked
        asked[plain(title)] = (plain(question), feedback, right)
    return asked


INVENTORY = read_gift((ROOT / "mha_course/data/inventory.gift").read_text(encoding="utf-8"))
KEY = ["abcde"[list(choices).index(right)] for _, choices, right in INVENTORY.values()]


def test_no_question_is_answered_by_its_form():
    assert Counter(KEY) == dict.fromkeys("abcde", 3)
    concepts = ("projections", "heads", "scores", "masks", "values")
    assert [*INVENTORY] == [f"{concept} {at}" for concept in concepts for at in (1, 2, 3)]
    for question, choices, _ in INVENTORY.values():
        lengths = sorted(map(len, choices))
        assert len(lengths) == 5
        assert lengths[-1] - lengths[0] <= 7, question


def test_no_lesson_asks_these_questions():
    lessons = [asked.text for asked in (*QUESTIONS.values(), *review_questions().values())]
    assert not {question for question, *_ in INVENTORY.values()} & {*lessons}


def test_teaching_has_the_key():
    assert f"`{' '.join(KEY)}`" in (ROOT / "TEACHING.md").read_text(encoding="utf-8")


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64)


def parameters(layer):
    return sum(p.numel() for p in layer.parameters())


def convex_combination(one, other, choices):
    """Return the one choice that is a mean of two values with no negative weights."""
    values, possible = numbers(one, other), []
    for choice in choices:
        context = numbers(*map(float, choice.strip("()").split(", ")))
        weights = torch.linalg.solve(values.T, context)
        if weights.sum().isclose(numbers(1)) and (weights >= 0).all():
            possible.append(choice)
    (choice,) = possible
    return choice


def answers():
    """Return what comes out of each question: a number, or a choice in words."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        layer = MultiHeadAttention(24, 4).double()
        x, many = torch.randn(1, 6, 24).double(), torch.randn(1, 200, 24).double()
        changed = x.index_add(1, torch.tensor([2]), torch.randn(1, 1, 24).double())
        steps = layer.steps(x)
        q, k, v = steps.q, steps.k, steps.v  # (1, 4, 6, 6)
        one, other = layer.steps(50 * many).weights[0, :2]  # sharp: many are near 1
        causal = attention(*(t[:, :, :5] for t in (q, k, v)), causal_mask(5))[1]
        fractions = numbers(0.1, 0.1, 0.2).log().softmax(-1)
        doubled = numbers(1, 2, 4).softmax(-1) > numbers(0.5, 1, 2).softmax(-1)
        side_by_side = torch.equal(steps.merged, merge_heads(steps.context))
        mixed = bool(layer.out_proj.weight.all())
        unmoved = torch.equal(attention(q, k, 10 * v)[1], steps.weights)
        return {
            "projections 1": (layer.q_proj.weight[6:12] != 0).any(0).sum(),
            "projections 2": (layer.steps(changed).k != k).any(-1)[0, 0].sum(),
            "projections 3": "{:.2f}, {:.2f}, {:.2f}".format(*fractions),
            "heads 1": parameters(nn.MultiheadAttention(512, 16)) / 2**20,
            "heads 2": len((torch.arange(120).view(4, 5, 6)[1] // 24).unique()),
            "heads 3": other[one > 0.9].max(),
            "scores 1": (512 / 32) ** 0.5,
            "scores 2": "The largest one grows" if doubled.tolist() == [False, False, True] else "",
            "scores 3": len(steps.scores[0, 0, :4, :4].unique()),
            "masks 1": (causal[0, 0] == 0).sum(),
            "masks 2": numbers(0.7, 0.7, 0).softmax(-1)[2],
            "masks 3": "all NaN" if numbers(*[-torch.inf] * 3).softmax(-1).isnan().all() else "",
            "values 1": convex_combination([2, 0], [0, 4], INVENTORY["values 1"][1]),
            "values 2": "the output matrix" if side_by_side and mixed else "",
            "values 3": "0.20" if unmoved else "",
        }


@pytest.mark.parametrize(("title", "answer"), answers().items())
def test_the_right_choice_is_what_comes_out(title, answer):
    _, choices, right = INVENTORY[title]
    if isinstance(answer, str):
        assert answer == right
        return
    close = [
        choice
        for choice in choices
        if (number := re.search(r"\d+(\.\d+)?", choice))
        and float(number[0]) == pytest.approx(float(answer), abs=0.005)
    ]
    assert close == [right]
