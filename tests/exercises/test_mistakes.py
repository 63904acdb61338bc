"""Every mistake is recognised, and distinguished from all others and from right answers."""

import itertools
import re

import pytest
import solutions
import torch
from torch import nn

from mha_course.exercises import check, recognise
from mha_course.exercises.catalogue import EXERCISES, MISTAKES, NAMES, mistakes_of
from mha_course.exercises.recognise import alike, mutants, pairs
from mha_course.exercises.sandbox import Outcome, run

FIRST = {
    mutant.mistakes: name for name in reversed(NAMES) for mutant in mutants(name)
}  # where each mistake can first be made
MUTANTS = [
    pytest.param(
        name,
        mutant.mistakes[0],
        mutant.change,
        id=f"{name}-{mutant.mistakes[0].name}-{number}",
        marks=[] if FIRST[mutant.mistakes] == name else pytest.mark.slow,
    )
    for name in NAMES
    for number, mutant in enumerate(mutants(name))
]

# What may come out alike, as two products that crash on the same sizes: the other may be named.
ALIKE = {
    "/weight-cut-along-columns": ["weight-not-transposed"],
    "heads-innermost": ["fused-dim-before-heads"],
    "key-all-axes-reversed": ["key-transposed-wrong-axes"],
    "mask-form-ignored": ["mask-ignored"],
    "query-key-swapped": ["wrong-unpack-order"],
    "elementwise-product": ["key-not-transposed"],
    "key-not-transposed/attend": ["elementwise-product"],
    "scale-by-length": ["scale-missing"],
    "output-columns-as-rows": ["weight-not-transposed"],
    "output-columns-as-rows/loop": ["head-reads-own-slice"],
    "heads-averaged": ["one-head-only"],
    "only-one-of-qkv-wrongly-split": ["never-transposed"],
}


def outcomes(name, answer):
    exercise = EXERCISES[name]
    return [run(exercise.run, answer, case.arguments) for case in exercise.first_cases]


@pytest.mark.parametrize("name", [name for name in NAMES if EXERCISES[name].steps])
def test_the_steps_together_are_the_reference(name):
    composed = EXERCISES[name].implementation()
    assert composed is not EXERCISES[name].reference
    theirs = outcomes(name, EXERCISES[name].reference)
    assert all(alike(a, b) for a, b in zip(outcomes(name, composed), theirs, strict=True))
    assert check(name, composed).status == "correct"


@pytest.mark.parametrize(("name", "mistake", "change"), MUTANTS)
def test_a_mistake_is_named(name, mistake, change):
    report = check(name, EXERCISES[name].implementation(change))
    assert report.status in ("wrong", "error")
    assert report.mistake in (mistake.name or None, *ALIKE.get(mistake.row.key, ()))
    assert report.mistake or mistake.row.title in report.message
    told_of_results = "numbers are" in mistake.row.title or "sum to" in mistake.row.title
    assert not (report.status == "error" and told_of_results)


def test_every_mistake_shows_on_some_input():
    seen = {mutant.mistakes[0] for name in NAMES for mutant in mutants(name)}
    assert all(mistake.stage or mistake.crashes for mistake in set(MISTAKES) - seen)
    assert "mask-ignored" not in {mutant.mistakes[0].name for mutant in mutants("project")}


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"scale": lambda z, q, k, h: z}, {"softmax": lambda z: z.softmax(-2)}),
        (
            {"order": lambda q, k, v: (q, v, k)},
            {"merge": lambda c: c.reshape(c.size(0), c.size(2), -1)},
        ),
        ({"scale": lambda z, q, k, h: z / q.size(-1)}, {"output": lambda m, w, b, h: m}),
    ],
)
def test_two_mistakes_at_once_are_both_named(one, two):
    report = check(
        "multi_head_attention", EXERCISES["multi_head_attention"].implementation(one | two)
    )
    assert report.mistake in (
        "scale-missing",
        "key-value-swapped",
        "scale-no-root",
    )  # the one that comes first
    assert " And: " in report.message


@pytest.mark.parametrize("name", NAMES)
def test_every_pair_of_mistakes_is_within_the_bound(name):
    """The result does not depend on a clock: all pairs are tried, in a fixed order."""
    for last, _ in enumerate(EXERCISES[name].first_cases):
        right = [recognise.right(name).outcome(at) for at in range(last + 1)]
        assert len(list(pairs(name, [*right[:-1], halved(right[-1])]))) <= recognise.MAX_PAIRS


def halved(outcome):
    results = outcome.result if isinstance(outcome.result, tuple) else (outcome.result,)
    results = tuple(
        x / 2 if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in results
    )
    return Outcome(results if isinstance(outcome.result, tuple) else results[0])


@pytest.mark.parametrize("name", ["multi_head_attention", "MultiHeadAttention"])
def test_the_last_pair_in_order_is_named_too(name, monkeypatch):
    last = list(pairs(name, [halved(recognise.right(name).outcome(0))]))[-1]
    answer = EXERCISES[name].implementation(last.change)
    report = check(name, answer)
    assert " And: " in report.message, report
    monkeypatch.setattr(recognise, "MAX_PAIRS", 0)
    assert check(name, answer).mistake is None


def by_steps(**steps):
    return EXERCISES["multi_head_attention"].implementation(steps)


ODD = [  # wrong in ways that have no name, and the stage that is suspected
    (
        "multi_head_attention",
        "values and output",
        by_steps(output=lambda m, w, b, h: 1.1 * m @ w.T),
    ),
    ("multi_head_attention", "weighted sum", by_steps(weigh=lambda w, v: w.sqrt() @ v)),
    ("multi_head_attention", "scores", by_steps(scores=lambda q, k: (q @ k.mT).tanh())),
    ("multi_head_attention", "mask", by_steps(hide=lambda z, m: z.masked_fill(~m, -1.5))),
    ("softmax", "values", lambda z: z.softmax(-1) ** 2),
    ("split_heads", "values", lambda x, h: solutions.split_heads(x, h).flip(1)),
]


@pytest.mark.parametrize(
    ("name", "stage", "answer"), ODD, ids=[f"{name}-{stage}" for name, stage, _ in ODD]
)
def test_a_wrong_answer_without_a_name_has_one_suspect(name, stage, answer):
    report = check(name, answer)
    assert (report.status, report.stage, report.mistake) == ("wrong", stage, None)
    assert "The largest difference" in report.message


def test_what_can_be_seen_is_said():
    assert "Rows sum to" in check("softmax", lambda z: z.softmax(-1) ** 2).message
    # Rows that are not 1 are not rounded to it.
    damped = check("softmax", lambda z: (e := z.exp()) / (e.sum(-1, keepdim=True) + 1e-3))
    assert "Rows sum to 1.00. " not in damped.message
    half = check(
        "multi_head_attention", lambda *a: tuple(t / 2 for t in solutions.multi_head_attention(*a))
    )
    assert half.picture.count("<table") == 3
    factors = torch.tensor([1, 1, 1, 2.0])[:, None, None]
    assert (
        "3 of 4 heads agree."
        in check("split_heads", lambda x, h: solutions.split_heads(x, h) * factors).message
    )


class EvalDropout(solutions.MultiHeadAttention):
    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x, mask=None):
        return self.dropout(super().forward(x, mask))


def test_calls_that_differ_by_less_than_the_tolerance_are_dropout_too():
    calls = itertools.count()

    class Drifting(solutions.MultiHeadAttention):
        def forward(self, x, mask=None):
            return super().forward(x, mask) + 1e-12 * next(calls)

    report = check("MultiHeadAttention", Drifting)
    assert (report.status, report.stage, report.mistake) == ("wrong", "repeat", "dropout-at-eval")


def test_a_mistake_replaces_steps_that_exist():
    replaced = {step for mistake in MISTAKES for change in mistake.changes for step in change}
    steps = {step for exercise in EXERCISES.values() for step in exercise.steps}
    assert replaced <= steps | {*NAMES}
    assert {name for mistake in MISTAKES for name in (*mistake.only, *mistake.but)} <= set(NAMES)


def test_dropout_that_stops_is_right():
    assert check("MultiHeadAttention", EvalDropout).status == "correct"


def crashing(q, k):
    other = k.transpose(1, 2)
    return q @ other


def test_a_crash_shows_the_learners_line_and_its_shapes():
    report = check("scaled_scores", crashing)
    assert (report.status, report.mistake) == ("error", "key-transposed-wrong-axes")
    assert (
        "In your line `return q @ other`; q is (2, 4, 5, 6); other is (2, 7, 4, 6)"
        in report.message
    )


@pytest.mark.parametrize(
    ("name", "answer", "message"),
    [
        ("attend", 3, "This exercise needs a function, but got int."),
        ("attend", nn.Identity, "This exercise needs a function, but got the class Identity."),
        ("attend", lambda a, b: a, "Your answer is called with 1 argument, (x), but takes "
                                       "(a, b)."),
        ("MultiHeadAttention", nn.Linear(2, 2), "This exercise needs the class, not a module "
                                                "made of it: leave the parentheses off."),
    ],
)  # fmt: skip
def test_what_cannot_be_called_gets_one_clear_line(name, answer, message):
    report = check(name, answer)
    assert (report.stage, report.message) == ("signature", message)


def sets(x):
    contexts = solutions.attend(x)
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    torch.set_grad_enabled(False)
    torch.set_default_device("meta")
    return contexts


def test_what_an_answer_sets_is_undone():
    state = torch.random.get_rng_state()
    assert check("attend", sets).status == "correct"
    assert torch.get_default_dtype() == torch.float32
    assert torch.is_grad_enabled()
    assert torch.ones(1).is_cpu
    assert torch.equal(torch.random.get_rng_state(), state)


def test_the_default_device_of_a_notebook_changes_no_verdict_and_stays():
    def with_its_table(n):
        return sets(torch.ones(n, n)).tril().bool()

    torch.set_default_device("meta")
    try:
        assert check("causal_mask", with_its_table).status == "correct"
        assert torch.ones(1).is_meta
    finally:
        torch.set_default_device(None)
    with torch.device("meta"):
        assert check("causal_mask", with_its_table).status == "correct"
        assert torch.ones(1).is_meta
    assert torch.ones(1).is_cpu


# The answers of one line with an operation in it, in the exercises from lesson 1 on.
ONE_LINE = {
    name: re.match(r"return (.*?)( +#.*)?$", EXERCISES[name].hints[-1]) for name in NAMES[1:]
}


@pytest.mark.parametrize("name", [name for name, line in ONE_LINE.items() if line])
def test_no_message_gives_the_answer_away_before_the_hints_do(name):
    exercise = EXERCISES[name]
    answer = ONE_LINE[name][1]
    known = [mistake for mistake in mistakes_of(name) if mistake.belongs_to(exercise)]
    made = [one for one in known if one.applies(exercise) or one.crashes or one.stage]
    assert [one.row.key for one in made if answer in one.row.text] == []
