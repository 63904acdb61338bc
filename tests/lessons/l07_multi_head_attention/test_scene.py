"""The attention scene in Python: what is sent, a learner's function, what is refused."""

import numpy as np
import pytest
import torch

from mha_course import example, plots
from mha_course.attention import (
    MultiHeadAttention,
    attention,
    head_contributions,
    merge_heads,
    split_heads,
)
from mha_course.errors import ShapeError
from mha_course.lessons.l07_multi_head_attention.scene.plan import HEIGHT, WIDTH, ScenePlan
from mha_course.lessons.l07_multi_head_attention.scene.widget import AttentionScene

WORDS = ["it", "was", "the", "grey", "cat"]


@pytest.fixture
def mha():
    torch.manual_seed(0)
    module = MultiHeadAttention(24, 4).double()
    torch.nn.init.normal_(module.out_proj.bias)
    return module


@pytest.fixture
def scene(mha, draw):
    """Make a scene of five words: ``scene(recompute=…)``."""
    x = draw(1, 5, 24)
    return lambda **options: AttentionScene(
        mha.steps(x), tokens=WORDS, x=x, out_proj=mha.out_proj, **options
    )


def sent(made):
    return {name: np.frombuffer(data, np.float32) for name, data in made.state["arrays"].items()}


def ask(made, **moved):
    serial = made.state["serial"] + 1
    made.event = {"serial": serial, "moved": moved}
    assert made.state["serial"] == serial
    return made.state["trouble"]


def test_all_numbers_are_sent_once_as_they_were(mha, draw):
    x = draw(1, 5, 24)
    steps = mha.steps(x, mask=torch.ones(5, 5, dtype=torch.bool).tril())
    made = AttentionScene(steps, tokens=WORDS, x=x, out_proj=mha.out_proj)
    arrays = sent(made)
    for name in ("q", "k", "v", "scores", "masked_scores", "weights", "context", "merged", "out"):
        given = getattr(steps, name).detach().numpy().astype(np.float32)
        assert np.array_equal(arrays[name], given.ravel()), name
    assert np.array_equal(arrays["x"], x.numpy().astype(np.float32).ravel())
    assert made.state["masked"]
    alone = AttentionScene(mha.steps(x[:1]), tokens=WORDS)  # steps and tokens are enough
    assert not {"x", "parts", "bias"} & set(alone.state["arrays"])
    assert "x" not in alone.state["plan"]["parts"]


def test_what_heads_add_makes_out_with_the_bias(mha, draw):
    steps = mha.steps(draw(1, 5, 24))
    arrays = sent(AttentionScene(steps, tokens=WORDS, out_proj=mha.out_proj))
    with torch.no_grad():
        parts = head_contributions(steps.context, mha.out_proj.weight)[0].numpy()  # (H, S, C)
    np.testing.assert_allclose(arrays["parts"], parts.ravel(), atol=1e-5)
    np.testing.assert_allclose(parts.sum(0) + arrays["bias"], steps.out[0].detach(), atol=1e-5)


def learners(split):
    """Return multi-head attention as a learner writes it, with this way to split."""

    def function(x, linears):
        q, k, v = (split(linear(x)) for linear in linears[:3])
        weights = torch.softmax(q @ k.transpose(-2, -1) / q.size(-1) ** 0.5, dim=-1)
        return linears[3](merge_heads(weights @ v)), weights

    return function


@pytest.mark.parametrize("wrong", [False, True])
def test_the_stages_of_a_learners_function_are_found(scene, mha, draw, wrong):
    x = draw(1, 5, 24)
    linears = [mha.q_proj, mha.k_proj, mha.v_proj, mha.out_proj]
    split = (lambda x: x.view(1, 4, 5, 6)) if wrong else (lambda x: split_heads(x, 4))
    made = scene(recompute=lambda: learners(split)(x, linears))
    before = sent(made)
    assert ask(made) == ""
    after = sent(made)
    assert {"q", "k", "v", "scores", "masked_scores", "weights", "context", "merged", "out"} <= set(
        made.state["yours"]
    )
    q, k, v = (split(linear(x)) for linear in linears[:3])
    context, weights = attention(q, k, v)
    for name, tensor in {"q": q, "k": k, "v": v, "weights": weights, "context": context}.items():
        np.testing.assert_allclose(
            after[name], tensor.detach().numpy().ravel(), atol=1e-5, err_msg=name
        )
        # a wrong split is a wrong picture
        assert np.allclose(after[name], before[name], atol=1e-5) != wrong, name


def own_softmax(scores):
    """Return a softmax that makes no call which is known as one."""
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    return powers / powers.sum(-1, keepdim=True)


@pytest.mark.parametrize(
    ("divisor", "causal", "known"),
    [(6**0.5, False, True), (6**0.5, True, True), (1.0, False, True), (2.0, False, False)],
)
def test_scores_whose_softmax_was_not_seen_are_computed_or_left_out(
    scene, mha, draw, divisor, causal, known
):
    given = mha.steps(draw(1, 5, 24))
    scaled = given.q @ given.k.mT / divisor
    if causal:
        scaled = scaled.masked_fill(~torch.ones(5, 5, dtype=torch.bool).tril(), -torch.inf)

    def recompute():
        weights = own_softmax(scaled)
        return mha.out_proj(merge_heads(weights @ given.v)), weights

    made = scene(recompute=recompute)
    assert ask(made) == ""
    expected = scaled.detach().numpy() if known else np.nan
    shown = sent(made)["masked_scores"].reshape(1, 4, 5, 5)
    np.testing.assert_allclose(shown, np.broadcast_to(expected, shown.shape), rtol=1e-5)
    assert made.state["masked"] == causal
    assert "masked_scores" not in made.state["yours"]


def test_what_is_not_found_stays_and_is_named(scene, mha, draw):
    made = scene(recompute=lambda: (torch.zeros(1, 5, 24), torch.full((1, 4, 5, 5), 0.2)))
    before = sent(made)["q"]
    assert ask(made) == ""
    assert set(made.state["yours"]) == {"out", "weights"}
    assert np.isnan(sent(made)["masked_scores"]).all()  # no scores of these q and k give 0.2
    assert np.array_equal(sent(made)["q"], before)
    assert [text["shows"] for text in made.state["plan"]["texts"] if text["text"] == "yours"] == [
        "weights",
        "out",
    ]
    whole = scene(recompute=lambda: mha.steps(draw(1, 5, 24, seed=1)))
    assert ask(whole) == ""
    assert len(whole.state["yours"]) == 9
    assert [one.state["source"] for one in (scene(), made, whole)] == [
        "These numbers are the course's.",
        "weights, out: your function's numbers. All others are the course's.",
        "These numbers are your function's.",
    ]


def course(sentence):
    """Return the course's steps of a sentence, and their x."""
    found = example.load(sentence)
    return found.mha.steps(found.x), found.x


def textbook(sentence):
    """Return the result of a learner's function for a sentence."""
    found = example.load(sentence)
    linears = [getattr(found.mha, f"{name}_proj") for name in ("q", "k", "v", "out")]
    return learners(lambda x: split_heads(x, 4))(found.x, linears)


@pytest.mark.parametrize(("recompute", "yours"), [(course, False), (textbook, True)])
def test_a_sentence_that_is_typed_takes_the_place_of_the_given_one(recompute, yours):
    steps, x = course(example.SENTENCE)
    words = example.SENTENCE.split()
    made = AttentionScene(steps, tokens=words, x=x, recompute=recompute, follow="it", head=1)
    assert "in head 1 “it” puts 0.96 on “cat”" in made.text
    assert made.options["controls"][0]["start"] == example.SENTENCE
    typed = "the loud cat was hungry , so it ate greedily"
    assert ask(made, sentence=typed) == ""
    assert made.state["tokens"] == made.state["words"] == typed.split()
    assert made.state["S"] == 10
    given, x = course(typed)
    for name, tensor in (vars(given) | {"x": x}).items():
        if name in sent(made):
            np.testing.assert_allclose(sent(made)[name], tensor.ravel(), atol=1e-5, err_msg=name)
    assert bool(made.state["yours"]) == yours
    before = made.state
    trouble = ask(made, sentence="the loud cta was hungry")
    assert "“cta”" in trouble
    assert "\n" not in trouble
    assert made.state["tokens"] == before["tokens"]
    assert made.state["values"] == {"sentence": "the loud cta was hungry"}
    assert ask(made, sentence="the cat") == ""
    assert "“cat” puts" in made.text  # if the followed one is gone, the last word
    assert made.picture().axes
    assert ask(made, sentence=example.SENTENCE) == ""
    assert made.state["S"] == len(words)


def test_stages_of_two_sentences_are_never_mixed(scene):
    weights = torch.full((1, 4, 3, 3), 1 / 3)
    made = scene(recompute=lambda sentence: (torch.zeros(1, 3, 24), weights))
    before = made.state
    assert "another sentence needs all stages" in ask(made, sentence="it was it")
    assert (made.state["tokens"], made.state["S"]) == (before["tokens"], 5)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda: torch.zeros(2, 1, 4, 5, 5).unbind(), "your function returned something else: out"),
        (lambda: 3, "your function: recompute: it must return two tensors"),
    ],
)
def test_errors_of_a_function_are_one_line_and_the_picture_stays(scene, function, said):
    made = scene(recompute=function)
    before = made.state
    text = ask(made)
    assert text.startswith(said)
    assert "\n" not in text
    assert made.state == {**before, "serial": 1, "trouble": text}


@pytest.mark.parametrize(
    ("sizes", "change", "said"),
    [
        ([(1, 5)], {"tokens": WORDS[:3]}, "every row. expected 5 names, got 3 names"),
        ([(1, 5)], {"x": torch.zeros(1, 4, 24)}, "x does not fit q. expected (S, C) = (5, 24)"),
        ([(2, 5)], {}, "fix: weights[0]"),
        ([(1, 40)], {"tokens": range(40)}, "expected S <= 32, got S=40"),
        ([(1, 5), (1, 4)], {}, "k does not fit q"),
    ],
)
def test_what_does_not_fit_is_refused(mha, draw, sizes, change, said):
    steps = mha.steps(*(draw(*size, 24) for size in sizes))
    with pytest.raises(ShapeError, match="AttentionScene") as error:
        AttentionScene(steps, **{"tokens": WORDS, **change})
    assert said in str(error.value)


@pytest.mark.parametrize(("S", "H", "D"), [(1, 1, 4), (5, 2, 3), (15, 4, 12), (32, 8, 16)])
def test_nothing_lies_outside_the_picture_or_over_another_matrix(S, H, D):
    plan = ScenePlan(["word"] * S, H, D, x=True, masked=False)
    boxes = [(part["x"], part["y"], part["w"], part["h"]) for part in plan.parts.values()]
    boxes += [(box["x"], box["y"], box["side"], box["side"]) for box in plan.heads]
    for n, (x, y, w, h) in enumerate(boxes):
        assert 0 <= x <= x + w <= WIDTH
        assert 0 <= y <= y + h <= HEIGHT
        for left, top, wide, tall in boxes[:n]:
            assert x >= left + wide or left >= x + w or y >= top + tall or top >= y + h
    for text in plan.texts:
        assert text["size"] >= 11


def test_the_static_picture_shows_the_row_that_is_followed(scene):
    made = scene(follow="cat", head=2)
    (ax,) = made.picture().axes
    assert [text.get_text() for text in ax.texts if text.get_color() == plots.ACCENT] == ["cat"]
    images = [image.get_array() for image in ax.images]
    weights = sent(made)["weights"].reshape(4, 5, 5)[2]
    assert any(image.shape == (5, 5) and np.allclose(image, weights) for image in images)
