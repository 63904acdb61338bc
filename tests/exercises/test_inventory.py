"""The inventory: right answers that are computed, no key before the second time, and the gain."""

import csv
import json
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import nn

from mha_course.attention import MultiHeadAttention, attention
from mha_course.cli.gain import write_gain
from mha_course.cli.grading import grade
from mha_course.exercises import QUESTIONS, inventory, progress_store
from mha_course.exercises.concept_inventory import items, read_letters
from mha_course.exercises.reviews import review_questions
from mha_course.masks import causal_mask
from mha_course.mistakes import ROWS

KEY = "".join(item.right for item in items())
FILE = Path(progress_store.FILE)


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(progress_store.SWITCH, raising=False)


def reads():
    """Count the numbers of a token on which one head's query depends."""
    x = torch.randn(1, 5, 24, requires_grad=True)
    (found,) = torch.autograd.grad(MultiHeadAttention(24, 4).steps(x).q[0, 2, 3].sum(), x)
    return f"{int((found[0, 3] != 0).sum())}, all of them"


def computed():
    """See which of q, k and v another sentence changes."""
    layer = MultiHeadAttention(24, 4)
    one, two = (layer.steps(torch.randn(1, 5, 24)) for _ in range(2))
    changed = [name for name in "qkv" if not torch.equal(getattr(one, name), getattr(two, name))]
    return {"qkv": "all of them", "": "none of them"}["".join(changed)]


def new_key():
    q, k, v = torch.randn(3, 1, 1, 5, 6)
    other = k.clone()
    other[..., 2, :] += 1
    moved = (attention(q, k, v)[1] - attention(q, other, v)[1])[0, 0].abs() > 1e-6
    assert moved[:, 2].all()
    return "how much they take from A"  # v is what it was


def more_heads():
    few, many = (
        sum(p.numel() for p in nn.MultiheadAttention(512, heads).parameters()) for heads in (8, 16)
    )
    return {0.5: "It is halved", 1.0: "It stays the same", 2.0: "It is doubled"}[many / few]


def one_step_split():
    row = torch.arange(120).view(4, 5, 6)[0, 1]
    return f"{row[0] % 24} to {row[-1] % 24} of token {row[0] // 24}"


def other_head():
    weights = MultiHeadAttention(24, 4).steps(50 * torch.randn(200, 5, 24)).weights[:, :2, 0, 0]
    second = weights[weights[:, 0] > 0.9, 1]
    return f"from {second.min():.1f} to {second.max():.1f}"


def doubled_scores():
    before = torch.tensor([0.5, 1.0, 2.0])
    growth = ((2 * before).softmax(-1) - before.softmax(-1)).sign().tolist()
    return {1.0: "The largest one grows", 0.0: "They all stay the same"}[growth[-1]]


def score_back():
    scores = MultiHeadAttention(24, 4).steps(torch.randn(1, 5, 24)).scores[0, 0]
    pairs = zip(scores.flatten(), scores.T.flatten(), strict=True)
    found = {round(float(one / two), 3) for one, two in pairs}
    return "any, a new pair meets" if len(found) > 5 else "3, it is the same pair"


def nothing_to_see():
    return {True: "all NaN"}[bool(torch.full((5,), -torch.inf).softmax(-1).isnan().all())]


def heads_joined():
    layer, x = MultiHeadAttention(12, 2), torch.randn(1, 5, 12)
    joined = layer.steps(x).merged
    mixed = (layer.out_proj.weight[0].abs() > 0).all() and not torch.allclose(joined, layer(x)[0])
    return f"the two joined, {'mixed' if mixed else 'as is'}, {layer(x)[0].size(-1)}"


def bounds():
    weights, values = torch.tensor([0.0, 0, 1, 0, 0]), torch.tensor([-1.0, 0, 1, 0, -1])
    top = max(float(weights.roll(at) @ values) for at in range(5))
    bottom = min(float(weights.roll(at) @ values) for at in range(5))
    assert (torch.randn(99, 5).softmax(-1) @ values).abs().max() <= 1
    return f"{bottom:.0f} and {top:.0f}"


ANSWERS = (
    reads,
    computed,
    new_key,
    more_heads,
    one_step_split,
    other_head,
    lambda: f"by {(512 // 32) ** 0.5:.0f}",
    doubled_scores,
    score_back,
    lambda: f"{causal_mask(5)[2].sum()}",
    lambda: f"{torch.zeros(3).softmax(-1)[2]:.2f}",
    nothing_to_see,
    lambda: "({:.0f}, {:.0f})".format(
        *(torch.tensor([0.5, 0.5]) @ torch.tensor([[2.0, 0], [0, 4]]))
    ),
    heads_joined,
    bounds,
)


@pytest.mark.parametrize("at", range(15))
def test_the_right_choice_is_what_comes_out(at):
    with torch.random.fork_rng(devices=[]), torch.no_grad() if at else torch.enable_grad():
        torch.manual_seed(0)
        assert ANSWERS[at]() == items()[at].question.right


def test_no_question_is_answered_by_its_form():
    assert Counter(KEY) == dict.fromkeys("abcde", 3)
    assert set(Counter(item.concept for item in items()).values()) == {3}
    shown = {question.text for question in (*QUESTIONS.values(), *review_questions().values())}
    longest = 0
    for item in items():
        lengths = sorted(map(len, item.question.choices))
        assert len(lengths) == 5
        assert lengths[-1] - lengths[0] <= 7, item.question.text
        longest += len(item.question.right) == lengths[-1] > lengths[0]
        assert set(item.mistakes.values()) <= set(ROWS)
        assert not set(item.mistakes) & {item.question.right}
        assert item.question.text not in shown
    assert longest <= 5


@pytest.mark.parametrize("answers", ["a" * 14, "a" * 16, "f" * 15, "a b", 3, [1] * 15, b"a" * 15,
                                     {}, ["a"] * 14 + ["ab"], "", torch.ones(15), object])  # fmt: skip
def test_anything_else_gets_one_message_and_is_not_kept(answers):
    shown = inventory("before", answers)
    assert len(shown.paragraphs) == 1
    assert "nothing was kept. expected 15 letters a to e" in repr(shown)
    assert not FILE.exists()


@pytest.mark.parametrize("when", ["", "Before", None, 3, [], torch.ones(2)])
def test_when_is_before_or_after(when):
    assert 'expected "before" or "after"' in repr(inventory(when, KEY))
    assert not FILE.exists()


@pytest.mark.parametrize("given", [KEY, KEY.upper(), " ".join(KEY), ", ".join(KEY), [*KEY]])
def test_letters_may_be_written_in_any_way(given):
    assert read_letters(given) == KEY
    assert read_letters("-" * 15) == "-" * 15


def test_no_key_before_the_second_time_and_then_the_own_gain():
    reasons = [item.question.answers[item.question.right] for item in items()]
    first = [inventory("before"), inventory("after"), inventory("before", "-" * 15)]
    first += [inventory("before", KEY[:3] + "-" * 12), inventory("before", "a" * 15)]
    for shown in first:
        assert not any(reason in shown._repr_html_() for reason in reasons)
        assert not any(concept in repr(shown) for concept in ("projections", "scores: "))
    asked = repr(first[0])
    assert all(choice in asked for item in items() for choice in item.question.choices)
    wrong = "b" if KEY[0] != "b" else "c"
    shown = inventory("after", wrong + KEY[1:])
    assert "20% were right before, 93% are right now." in repr(shown)
    assert "projections: 1 before, 2 now" in repr(shown)
    assert [reason in repr(shown) for reason in reasons] == [True] + [False] * 14
    belief = items()[0].question.answers[items()[0].question.choices["abcde".index(wrong)]]
    assert belief in repr(shown)
    inventory("before", KEY)  # known by now
    assert json.loads(FILE.read_text())["inventory"]["before"] == "a" * 15


def test_answers_that_cannot_be_kept_are_said_to_be_in_the_notebook_alone(monkeypatch):
    monkeypatch.setenv(progress_store.SWITCH, "off")
    assert "in this notebook alone" in repr(inventory("before", KEY))


def notebook(*sources):
    cells = [{"cell_type": "code", "source": source, "metadata": {}} for source in sources]
    return json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5, "metadata": {}})


def gains(out):
    with (out / "gain.csv").open(encoding="utf-8", newline="") as file:
        return {line["concept"]: line for line in csv.DictReader(file)}


def test_grade_reads_both_calls_and_writes_what_was_gained(tmp_path):
    hand_ins, out = tmp_path / "in", tmp_path / "out"
    low = KEY[:3] + "-" * 12  # projections are full before
    half = "-" * 3 + KEY[3:]
    never = "".join("ab"[letter == "a"] for letter in KEY)
    files = {
        "ada/00.ipynb": [f'inventory("before", "{low}")', f'# inventory("after", "{low}")'],
        "ada/07.ipynb": [
            "%matplotlib inline\nx = 1",
            f'm.inventory(when="after", answers="{KEY}")',
        ],
        "bob.ipynb": [
            f'inventory("before", "{KEY}")\ninventory("before", "{low}")',  # the last one counts
            f'inventory("after", "a b")\ninventory("after", "{KEY[:3]}{half[3:6]}{never[6:]}")',
        ],
        "eve.ipynb": [f'inventory("before", "{low}")', "def (", "inventory()", "inventory(x, y)"],
    }
    for name, sources in files.items():
        (hand_ins / name).parent.mkdir(parents=True, exist_ok=True)
        (hand_ins / name).write_text(notebook(*sources))
    grade(hand_ins, out, confined=False)
    found = gains(out)
    assert {line["learners"] for line in found.values()} == {"2"}
    assert [found["projections"][x] for x in ("before", "after", "gain")] == ["1.000", "1.000", ""]
    assert [found["heads"][x] for x in ("before", "after", "gain")] == ["0.000", "1.000", "1.000"]
    assert [found["scores"][x] for x in ("before", "after", "gain")] == ["0.000", "0.500", "0.500"]
    page = (out / "class.html").read_text(encoding="utf-8")
    assert "2 answered twice: 20% right before, 70% after." in page
    assert "is 0.62. Single learners gained from 0.25 to 1.00, with a standard deviation of" in page
    chosen = items()[6].question
    assert chosen.answers[chosen.choices["abcde".index(never[6])]] in page
    assert page.count("<h2>What the class has gained") == 1


def test_without_a_second_time_there_is_no_gain_and_without_a_call_no_table(tmp_path):
    (tmp_path / "class.html").write_text("<main>\n</main>")
    one = notebook(f'inventory("after", "{KEY}")').encode()
    for content in (
        notebook("1").encode(),
        b"inventory",
        b"\xff inventory",
        b'{"cells": 3} inventory',
    ):
        write_gain(tmp_path, [("a", content)], confined=False)
    write_gain(tmp_path, [("a", one), ("b", b"[inventory")], confined=False)
    assert gains(tmp_path) == {}
    assert "Nobody has answered" in (tmp_path / "class.html").read_text()
