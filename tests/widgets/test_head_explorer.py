"""What the head explorer sends to a browser, and how it handles bad input."""

import json
import math
import shutil
import subprocess
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import torch
from contrast import TEXT, contrast
from matplotlib.colors import to_hex
from rewriting import refused

from mha_course import example
from mha_course.errors import ShapeError
from mha_course.masks import causal_mask, causal_mask_for_cache
from mha_course.widgets import HeadExplorer
from mha_course.widgets.head_explorer import maps
from mha_course.widgets.head_explorer.controls import GIVEN, MASKS, mask_from_choice


def tokens(count, letter="t"):
    return [f"{letter}{n}" for n in range(count)]


def weights(draw, *shape, **options):
    return (draw(*shape, **options) * 2).softmax(-1)


def opened(state):
    """Return a state, facts of each map, cells (M, T, S), hidden (L · B, slots, T, S)."""
    R, _, T, S = state["shape"]
    four = (R, state["slots"], T, S)
    numbers = np.frombuffer(state["numbers"], "<f4").reshape(-1, T, S)
    hidden = state["hidden"] and np.frombuffer(state["hidden"], bool).reshape(four)
    assert len(state["facts"]) == len(numbers) == R * state["slots"]
    return state, state["facts"], numbers, hidden


def ask(explorer, **values):
    """Do what the browser does when a control moves, and return what went wrong."""
    serial = explorer.state["serial"] + 1
    if "mask" in values:
        values["mask"] = [*MASKS, GIVEN].index(values["mask"])
    explorer.event = {"moved": values, "serial": serial}
    assert explorer.state["serial"] == serial
    return explorer.state["trouble"]


# ---- what is sent ----


@pytest.mark.parametrize(
    "shape", [(3, 5), (4, 3, 5), (2, 4, 3, 5), (3, 2, 4, 7, 5), (1, 1, 1, 2, 2), (2, 512, 512)]
)
def test_every_cell_comes_whole(draw, shape):
    given = draw(*shape) * 7
    explorer = HeadExplorer(given, queries=tokens(shape[-2]), keys=tokens(shape[-1], "s"))
    head, facts, cells, _ = opened(explorer.state)
    four = given.float().reshape(-1, *(1, *shape)[-3:]).numpy()
    assert head["shape"] == list(four.shape)
    if four.shape[1] > 1:  # the average is last
        four = np.concatenate([four, four.mean(1, keepdims=True)], 1)
    wanted = four.reshape(-1, *shape[-2:])
    assert head["slots"] == four.shape[1]
    assert np.array_equal(cells, wanted)
    assert len(facts) == len(wanted)
    reach = abs(wanted).max()
    scale = {"kind": "signed", "palette": "signed", "low": -reach, "high": reach}
    assert head["scale"] == scale


def test_of_many_cells_the_map_that_is_looked_at_comes_first(draw):
    scores, calls = draw(2, 8, 100, 100), []

    def function(temperature):
        calls.append(temperature)
        return (scores / temperature).softmax(-1)

    explorer = HeadExplorer(scores.softmax(-1), mask=causal_mask(100), recompute=function)
    assert explorer.state["only"] is None  # the cells below may keep the kernel busy
    explorer.set_state({"layer": 1, "head": 5, "event": {"moved": {"temperature": 2}, "serial": 7}})
    looked_at = explorer.state
    assert looked_at["only"] == {"layer": 1, "slot": 5}
    explorer.event = {"rest": True, "serial": 8}
    state, facts, cells, hidden = opened(explorer.state)
    assert (state["only"], state["serial"], calls) == (None, 8, [1.0, 2.0])
    assert looked_at["facts"] == [facts[1 * 9 + 5]]
    first = np.frombuffer(looked_at["numbers"], "<f4").reshape(100, 100)
    assert np.array_equal(first, cells[1 * 9 + 5])
    assert np.array_equal(first, (scores[1, 5] / 2).softmax(-1).float())
    assert looked_at["hidden"] == hidden[1, 5].tobytes()
    drawn = in_node("[maps.has({ layer: 1, slot: 5 }), maps.has({ layer: 1, slot: 4 }), "
                    "[...maps.matrix(maps.only).values.slice(0, 100)]]", looked_at)  # fmt: skip
    assert drawn == [True, False, pytest.approx(first[0].tolist())]


def test_what_is_no_number_stays_none(draw):
    given = draw(2, 4, 4)
    given[0, 1, 2], given[0, 2, 3], given[1, 3, 0] = math.nan, -math.inf, math.inf
    _, facts, cells, hidden = opened(HeadExplorer(given).state)
    assert np.array_equal(np.isnan(cells[0]), given[0].isnan())
    assert np.array_equal(cells[0] == -np.inf, given[0] == -math.inf)
    assert np.array_equal(cells[1] == np.inf, given[1] == math.inf)
    assert [fact["nans"] for fact in facts[:2]] == [1, 0]
    assert np.array_equal(hidden[0, :2], given.isneginf())  # a score of -inf is hidden


def test_numbers_too_large_for_the_browser_are_infinite():
    explorer = HeadExplorer([[1.0, torch.finfo(torch.float64).min], [0.5, 0.5]])
    _, facts, cells, hidden = opened(explorer.state)
    assert cells[0].tolist() == [[1, -math.inf], [0.5, 0.5]]
    assert hidden.tolist() == [[[[False, True], [False, False]]]]
    assert facts[0]["sums"] == [1, 1]


# ---- facts of a map ----


def test_entropy_is_the_mean_over_rows_that_see_something(draw):
    mask = causal_mask(6).clone()
    mask[2] = False
    given = torch.where(mask, draw(3, 6, 6), -math.inf).softmax(-1)
    given = given.nan_to_num(1 / 6)  # a row that sees nothing counts as even
    _, facts, *_ = opened(HeadExplorer(given, mask=mask).state)
    for head, fact in zip(given, facts, strict=False):
        rows = torch.distributions.Categorical(head[[0, 1, 3, 4, 5]]).entropy()
        assert fact["entropy"] == pytest.approx(float(rows.mean()), abs=1e-6)
        assert fact["leak"] == pytest.approx(float(head[~mask].max()))


# ---- masks and tokens ----


SHAPES = [(5, 6), (1, 6), (6,), (4, 5, 6), (1, 5, 6), (2, 1, 1, 6), (2, 4, 5, 6), (1, 4, 1, 1)]


@pytest.mark.parametrize("shape", [*SHAPES, (3, 2, 4, 5, 6)])
def test_masks_spread_as_torch_spreads_them(draw, shape):
    full = (3, 2, 4, 5, 6) if len(shape) == 5 else (2, 4, 5, 6)
    full = (4, 5, 6) if shape == (4, 5, 6) else full
    mask = draw(*shape) > 0
    head, _, _, hidden = opened(HeadExplorer(weights(draw, *full), mask=mask).state)
    R, H, T, S = head["shape"]
    wanted = ~mask.expand(full).reshape(R, H, T, S).numpy()
    assert np.array_equal(hidden[:, :H], wanted)
    assert np.array_equal(hidden[:, H], wanted.all(1))


def test_tokens_of_each_sentence(draw):
    lists, names = [["a", "b", "c"], ["d", "e", "f"]], ["0", "1", "2"]
    head, *_ = opened(HeadExplorer(weights(draw, 2, 4, 3, 3), queries=lists).state)
    assert head["tokens"] == [(one, one) for one in lists]
    assert head["rows"] == ["sentence 0", "sentence 1"]
    deep = weights(draw, 3, 2, 4, 3, 5)
    head, *_ = opened(HeadExplorer(deep, queries=lists, keys=tokens(5)).state)
    assert head["tokens"] == [(one, tokens(5)) for one in lists] * 3
    assert head["rows"][:3] == ["layer 0, sentence 0", "layer 0, sentence 1", "layer 1, sentence 0"]
    head, *_ = opened(HeadExplorer(weights(draw, 3, 5)).state)
    assert (head["tokens"], head["rows"]) == ([(names, ["0", "1", "2", "3", "4"])], [""])


BAD = {
    "six axes": ((np.zeros((1, 1, 2, 2, 3, 3)),), {}, "weights must have 2 to 5 axes.*fix: "
                                                      "weights\\[0\\]"),
    "one axis": (([0.5, 0.5],), {}, "weights must have 2 to 5 axes.*got \\(2,\\)"),
    "no tokens": ((np.zeros((4, 0, 0)),), {}, "must not be empty.*got \\(4, 0, 0\\)"),
    "strings": (([["a", "b"], ["c", "d"]],), {}, "weights must be numbers"),
    "complex tensor": ((torch.zeros(2, 2, dtype=torch.complex64),), {},
        "weights must be real.*complex64"),
    "a sentence": ((np.eye(3),), {"queries": "a b c"}, "queries must name every row.*fix: "
                                                       "queries=queries.split\\(\\)"),
    "two lists for three": ((np.zeros((3, 2, 2, 2)),), {"queries": [["a", "b"]] * 2},
        "one list, or 3.*got 2 lists"),
    "a short list": ((np.zeros((2, 2, 2, 2)),), {"queries": [["a", "b"], ["a"]]},
        "sentence 1: .*2 names, got 1"),
    "additive mask": ((np.eye(3),), {"mask": torch.zeros(3, 3)}, "mask must be bool, True = may "
                                                                 "attend.*float32"),
    "ambiguous mask": (
        (np.zeros((3, 3, 5, 5)),), {"mask": torch.ones(3, 5, 5, dtype=torch.bool)},
        "ambiguous.*fix: mask\\[:, None\\]",
    ),
    "recompute": ((np.eye(3),), {"recompute": 3}, "recompute must be a function"),
    "no parameter": ((np.eye(3),), {"recompute": lambda: 1}, "recompute must have a parameter"),
    "too many tokens": (
        (torch.zeros(1).expand(8, 600, 600),), {},  # expanded it takes no memory
        "explorer shows up to 512 tokens. expected T and S <= 512, got \\(8, 600, 600\\), "
        "fix: weights\\[..., :512, :512\\], and tokens and mask that fit it$",
    ),
    "too many numbers": (
        (torch.zeros(1).expand(12, 1, 12, 512, 512),), {}, "up to 64 MiB. expected fewer layers, "
                                                           "sentences or heads: with their "
                                                           "average, 64 MiB of float32, got "
                                                           "\\(12, 1, 12, 512, 512\\), 156 MiB$",
    ),
    "strange parameter": ((np.eye(3),), {"recompute": lambda warmth: 1},
        "no control for its parameter 'warmth'"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_drawn_gets_one_clear_message(name):
    args, options, message = BAD[name]
    with pytest.raises(ShapeError, match=message) as caught:
        HeadExplorer(*args, **options)
    assert str(caught.value).startswith("HeadExplorer: ")


# ---- recompute ----


def test_parameters_become_controls():
    def function(
        temperature, scale=0.25, *args, mask=None, sentence="", window=3, rate=0.1, shift=0.0,
        flag=True, other=None,
        **more,
    ):  # fmt: skip
        assert (args, more) == ((), {})
        return np.eye(2)

    explorer = HeadExplorer(np.eye(2), queries=["a", "b"], recompute=function)
    controls = {one.pop("name"): one for one in explorer.options["controls"]}
    labels = {name: control.pop("label") for name, control in controls.items()}
    assert labels.pop("sentence") == "Change the words"
    assert all(label == name for name, label in labels.items())
    assert controls == {
        "temperature": {"kind": "log", "start": 1.0, "low": 0.1, "high": 10.0},
        "scale": {"kind": "log", "start": 0.25, "low": 0.025, "high": 2.5},
        "mask": {"kind": "menu", "words": ["none", "causal", "window of 3"]},
        "sentence": {"kind": "text", "start": "a b"},
        "window": {"kind": "whole", "start": 3, "low": 1, "high": 12},
        "rate": {"kind": "linear", "start": 0.1, "low": 0.0, "high": 1.0},
        "shift": {"kind": "linear", "start": 0.0, "low": -1.0, "high": 1.0},
        "flag": {"kind": "toggle"},
    }
    assert explorer.state["values"] == {
        "temperature": 1.0, "scale": 0.25, "mask": 0, "sentence": "a b",
        "window": 3, "rate": 0.1, "shift": 0.0, "flag": True,
    }  # fmt: skip


def test_a_module_gives_controls_to_the_parameters_of_its_forward():
    class Module(torch.nn.Module):
        def forward(self, scale=2.0):
            return torch.eye(2) * scale / 2

    explorer = HeadExplorer(np.eye(2), recompute=Module())
    assert [control["name"] for control in explorer.options["controls"]] == ["scale"]
    assert ask(explorer) == ""


def test_a_function_gets_what_the_controls_say():
    calls = []

    def function(temperature, scale, mask, sentence):
        calls.append((temperature, scale, mask, sentence))
        return np.eye(len(sentence.split()))

    explorer = HeadExplorer(np.eye(2), queries=["it", "sat"], recompute=function)
    assert ask(explorer, temperature=0.5, scale=2, mask="causal", sentence="it sat down") == ""
    start, (temperature, scale, mask, sentence) = calls
    assert start == (1.0, 1.0, None, "it sat")
    assert (temperature, scale, sentence) == (0.5, 2.0, "it sat down")
    assert torch.equal(mask, causal_mask(3))
    head, _, cells, hidden = opened(explorer.state)
    assert head["tokens"] == [(["it", "sat", "down"],) * 2]
    assert cells[0].tolist() == np.eye(3).tolist()
    assert np.array_equal(hidden[0, 0], ~causal_mask(3).numpy())


def test_weights_follow_a_control(draw):
    scores = draw(3, 4, 4)
    explorer = HeadExplorer(
        scores.softmax(-1),
        queries=tokens(4),
        recompute=lambda temperature: (scores / temperature).softmax(-1),
    )
    for sent in ("hot", math.nan, None):
        assert "temperature has no such value" in ask(explorer, temperature=sent)
    for temperature in (0.1, 3.0, 3.0):
        assert ask(explorer, temperature=temperature) == ""
        head, _, cells, _ = opened(explorer.state)
        assert np.abs(cells[:3] - (scores / temperature).softmax(-1).numpy()).max() < 1e-5
        assert head["tokens"] == [(tokens(4), tokens(4))]
    course = HeadExplorer((scores / 3).softmax(-1), queries=tokens(4))
    assert explorer.text == course.text
    assert explorer.state["source"] == "These numbers are your function's."
    assert course.state["source"] == ""


@pytest.mark.parametrize(
    ("returned", "queries", "keys"),
    [
        (lambda w: w, tokens(3), tokens(4, "s")),
        (lambda w: (w, ["a", "b", "c"]), ["a", "b", "c"], ["0", "1", "2", "3"]),
        (lambda w: (w, ["a", "b", "c"], list("wxyz")), ["a", "b", "c"], list("wxyz")),
    ],
)
def test_results_in_any_form(draw, returned, queries, keys):
    given = weights(draw, 2, 3, 4)
    explorer = HeadExplorer(
        given, queries=tokens(3), keys=tokens(4, "s"), recompute=lambda scale: returned(given)
    )
    assert ask(explorer, scale=2.0) == ""
    assert opened(explorer.state)[0]["tokens"] == [(queries, keys)]


def raises(temperature):
    raise ValueError("first line\nsecond <line>")


@pytest.mark.parametrize(
    ("function", "trouble"),
    [
        (raises, "your function: ValueError: first line second <line>"),
        (lambda temperature: None, "your function returns nothing yet (None): expected weights"),
        (lambda temperature: "no", "your function returned something else: weights must be"),
        (lambda temperature: (np.eye(2), np.eye(2)), "a tuple must hold weights, then tokens"),
        (lambda temperature: torch.eye(2)[5], "your function: IndexError"),
    ],
)
def test_what_goes_wrong_is_shown_and_the_picture_stays(function, trouble):
    broken = [True]
    explorer = HeadExplorer(
        np.eye(2),
        recompute=lambda temperature: function(temperature) if broken else np.ones((2, 2)) / 2,
    )
    before = explorer.state
    assert before["source"] == "These numbers are the course's."
    assert opened(before)[2][0].tolist() == np.eye(2).tolist()
    assert trouble in explorer.state["trouble"]  # it is also called at the start
    shown = ask(explorer, temperature=2.0)
    assert trouble in shown
    assert "\n" not in shown
    for name in before.keys() - {"serial", "values"}:
        assert explorer.state[name] == before[name]
    broken.clear()
    assert ask(explorer, temperature=2.1) == ""
    assert opened(explorer.state)[2][0].tolist() == [[0.5, 0.5]] * 2


@pytest.mark.parametrize(("T", "S"), [(5, 5), (3, 5), (5, 3), (1, 1)])
def test_masks_that_can_be_chosen(T, S):
    given = torch.zeros(T, S, dtype=torch.bool)
    assert mask_from_choice("none", (T, S), given) is None
    assert mask_from_choice("causal", (T, S), given.to("meta")).device.type == "meta"
    assert mask_from_choice(GIVEN, (T, S), given) is given
    assert mask_from_choice(GIVEN, (T + 1, S), given) is None  # it was made for other tokens
    causal, window = (mask_from_choice(name, (T, S), given) for name in ("causal", "window of 3"))
    if T <= S:
        assert torch.equal(causal, causal_mask_for_cache(T, S))
    for t, s in np.ndindex(T, S):
        gap = t + max(S - T, 0) - s
        assert causal[t, s] == (gap >= 0)
        assert window[t, s] == (0 <= gap < 3)


@pytest.mark.parametrize(
    ("mask", "start"),
    [
        (None, "none"),
        (causal_mask(4), "causal"),
        (causal_mask(4).triu(-2), "window of 3"),
        (~causal_mask(4), GIVEN),
        # a menu cannot say a mask for each head
        (torch.stack([causal_mask(4), ~causal_mask(4)]), "none"),
    ],
)
def test_the_choice_starts_with_the_mask_that_was_given(mask, start):
    got = []
    explorer = HeadExplorer(
        np.stack([np.eye(4)] * 2),
        mask=mask,
        recompute=lambda mask=None: got.append(mask) or np.eye(4),
    )
    (control,) = explorer.options["controls"]
    assert control["words"][explorer.state["values"]["mask"]] == start
    if start == "none":
        assert got == [None]
    else:
        assert torch.equal(got[0], mask)
    assert ask(explorer, mask="none") == ""
    assert got[1] is None


def test_a_mask_of_other_tokens_is_left_out():
    explorer = HeadExplorer(
        np.eye(3), mask=causal_mask(3), recompute=lambda sentence: np.eye(len(sentence.split()))
    )
    assert ask(explorer, sentence="a b c d") == ""
    assert opened(explorer.state)[3] is None
    assert ask(explorer, sentence="a b c") == ""
    assert np.array_equal(opened(explorer.state)[3][0, 0], ~causal_mask(3).numpy())


# ---- what is shown, and its static picture ----


def test_what_is_chosen_stays_within_what_there_is(draw):
    given = weights(draw, 2, 3, 4, 5, 5)
    last = HeadExplorer(given, layer=5, head=4).text
    assert HeadExplorer(given, layer=9, head=9).text == last
    assert "2 layers, 3 sentences" in last
    assert "in layer 1, sentence 2, the average of heads" in last
    assert HeadExplorer(given, layer=-5, head=-5).text == HeadExplorer(given).text


def test_a_sentence_starts_from_its_default_or_from_the_queries():
    """Where queries and keys differ, only the function knows which text is meant."""
    for function, start in (
        (lambda sentence="the old dog": None, "the old dog"),
        (lambda sentence: None, "dogra oldem"),
    ):
        words = ["dogra", "oldem"]
        explorer = HeadExplorer(np.full((2, 3), 1 / 3), queries=words, recompute=function)
        assert explorer.state["values"] == {"sentence": start}


def test_the_caption_says_what_the_followed_word_attends_to():
    given = np.full((2, 3, 3), 0.1)
    given[0, 0, 2], given[1, 2, 1], given[1, 2, 2] = 0.9, 0.8, 0.04
    explorer = HeadExplorer(given, queries=["it", "was", "sat"], mask=causal_mask(3), head=1)
    assert repr(explorer) == (
        "HeadExplorer: 2 heads, 3 query and 3 key tokens; in head 1 “sat” puts 0.80 on “was”, "
        "0.10 on “it”."
    )
    explorer.head, explorer.row = 0, 0
    assert explorer.text.endswith("in head 0 “it” puts 0.10 on “it”.")  # 0.9 is hidden
    explorer.head = 2
    assert "in the average of heads" in explorer.text
    hidden = HeadExplorer(np.eye(2), mask=torch.zeros(2, 2, dtype=torch.bool))
    assert hidden.text.endswith("in this head there is no number to show.")


def test_without_words_the_caption_names_the_largest_number_that_can_be_seen(draw):
    given = np.full((2, 3, 3), 0.1)
    given[0, 0, 2], given[1, 2, 1] = 0.9, 0.8
    explorer = HeadExplorer(given, mask=causal_mask(3), head=1)
    assert explorer.text.endswith("in head 1 the largest number is 0.80, from “2” to “1”.")
    explorer.head = 0
    # “0” sees only itself
    assert explorer.text.endswith("in head 0 the largest number is 0.10, from “1” to “0”.")
    scores = HeadExplorer(draw(3, 3) * 9, queries=["it", "was", "sat"])
    assert "the largest number is" in scores.text


def test_two_different_words_are_followed_at_first_where_there_are_any():
    weights = torch.tensor([[1.0, 0, 0, 0], [0.6, 0.4, 0, 0], [0, 0.7, 0.3, 0], [0, 0.9, 0, 0.1]])
    assert HeadExplorer(weights, queries=["start", "the", "cat", "the"]).row == 2  # “the” → “the”
    assert HeadExplorer(weights, queries=["start", "the", "cat", "sat"]).row == 3
    assert HeadExplorer(torch.eye(2)[[1, 1]] * 0.5, queries=["cat", "cat"]).row == 0


def test_the_word_that_is_followed(draw):
    given = weights(draw, 2, 4, 4)
    words = ["the", "cat", "the", "dogs"]
    rows = {follow: HeadExplorer(given, queries=words, follow=follow).row for follow in set(words)}
    assert rows == {"the": 2, "cat": 1, "dogs": 3}
    assert HeadExplorer(given, queries=words, head=1).row == int(given[1].argmax()) // 4
    message = "follow must be one of the queries. expected one of the, cat, the, dogs, got 'dog'"
    refused(lambda: HeadExplorer(given, queries=words, follow="dog"), f"HeadExplorer: {message}")


@pytest.mark.parametrize(
    ("case", "words"),
    [("weights", True), ("scores", False), ("unnamed", False), ("41 words", False)],
)
def test_only_weights_between_few_words_are_a_sentence(draw, case, words):
    size = 41 if case == "41 words" else 40
    given = draw(2, size, size) * 3 if case == "scores" else weights(draw, 2, size, size)
    names = None if case == "unnamed" else [f"w{n % 7}" for n in range(size)]
    explorer = HeadExplorer(given, queries=names)
    assert explorer.state["words"] == ([(names, names)] if words else None)
    figure = explorer.picture().figure if case == "scores" else explorer.picture()
    assert ("w6" in [text.get_text() for ax in figure.axes for text in ax.texts]) == words


@pytest.mark.parametrize(
    "case", ["many heads", "long", "long scores", "masked scores", "nothing but NaN", "emoji"]
)
def test_anything_can_be_drawn_without_a_browser(draw, case):
    given = {
        "many heads": weights(draw, 17, 4, 4), "long": weights(draw, 2, 200, 130),
        "long scores": draw(2, 200, 130),
        "masked scores": draw(2, 4, 4).masked_fill(~causal_mask(4), -math.inf),
        "nothing but NaN": np.full((2, 3, 3), np.nan), "emoji": weights(draw, 3, 3),
    }[case]  # fmt: skip
    queries = ["👩‍👩‍👧", "$x", "שלום"] if case == "emoji" else None
    explorer = HeadExplorer(given, queries=queries)
    assert explorer.svg().startswith(b"<svg")
    assert ("first 16 heads" in explorer.text) == (case == "many heads")
    assert ("shows this head alone" in explorer.text) == case.startswith("long")
    assert len(explorer.svg()) < 300_000  # cells as shapes would take 5 million


def test_the_static_picture_draws_the_heads_that_are_shown(draw):
    given = weights(draw, 2, 4, 5, 5)
    figure = HeadExplorer(given, layer=1).picture()
    titles = [ax.get_title("left") for ax in figure.axes[:4]]
    assert titles == [f"sentence 1, head {n}" for n in range(4)]
    assert HeadExplorer(-given[0], head=1).picture().get_title("left") == "head 1"
    named = HeadExplorer(given[0], queries=["it", "was", "the", "cat", "sat"], follow="cat")
    arcs = named.picture().axes[-1]
    assert [text.get_text() for text in arcs.texts][:5] == ["it", "was", "the", "cat", "sat"]
    written = [text.get_text() for text in arcs.texts[5:]]
    large = [f"{weight:.2f}" for weight in given[0, 0, 3].tolist() if weight >= 0.05]
    assert sorted(written) == sorted(large)
    meshes = [ax.collections[0].get_array() for ax in figure.axes[:4]]
    for mesh, head in zip(meshes, given[1], strict=True):
        assert np.ma.getdata(mesh).reshape(5, 5) == pytest.approx(head.numpy(), abs=1e-6)


# ---- what the browser makes of it, in node: data.js and text.js draw nothing ----


def in_node(expression, state=None):
    """Evaluate an expression in the widget's scripts, with the ``maps`` of an explorer's state."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("the widget's scripts are tested where node is installed")
    folder = Path(maps.__file__).parent.as_uri()
    program = f"""
        import {{ readMaps }} from "{folder}/data.js";
        import {{ rgbOf }} from "{folder}/../matrix.js";
        import {{ inkOn }} from "{folder}/../dom.js";
        import {{ notesOf, readoutOf }} from "{folder}/text.js";
        const bytes = (list) => list && new Uint8Array(list);
        const packet = {json.dumps(state, default=list)};
        const maps = packet && readMaps(
          {{ ...packet, numbers: bytes(packet.numbers), hidden: bytes(packet.hidden) }});
        // JSON knows no NaN and no infinity.
        const plain = (_, x) => (typeof x === 'number' && !Number.isFinite(x) ? `${{x}}` : x);
        console.log(JSON.stringify({expression}, plain));
    """
    command = [node, "--input-type=module", "-"]
    done = subprocess.run(command, input=program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def readout(explorer, row, column, slot=0):
    """Return what is written where a cell, a row or a column is pointed at."""
    at, lit = {"layer": 0, "slot": slot}, {"row": row, "column": column}
    return in_node(f"readoutOf(maps, {json.dumps(at)}, {json.dumps(lit)})", explorer.state)


def test_numbers_can_be_read_on_every_colour():
    for palette in ("cividis", "vlag"):
        colors = [to_hex(color) for color in mpl.colormaps[palette](np.arange(256))]
        codes = [int.from_bytes(bytes.fromhex(color[1:]), "little") for color in colors]
        inks = in_node(f"{codes}.map((code) => inkOn(rgbOf(code)))")
        assert min(contrast(ink, color) for ink, color in zip(inks, colors, strict=True)) >= TEXT


def test_cells_rows_and_columns_are_put_into_words():
    right = [[0.0, 1.0, 0.0], [math.nan, 0.5, 0.5], [0.0, 0.3, 0.7]]
    given = np.array([right, [[-1, -np.inf, 2], [1, 1, 1], [0, 0, 0]]])
    mask = np.array([[True, True, False], [True, True, True], [False, True, False]])
    explorer = HeadExplorer(given, queries=["a", "b", "c"], mask=mask)
    words = {  # of a row, a column and a head
        (0, 1, 0): "head 0: a → b 1.00",
        (0, 2, 0): "head 0: a → c hidden by the mask",
        (1, 0, 0): "head 0: b → a NaN, not a number",
        (2, 2, 0): "head 0: c → c 0.70, though hidden by the mask",
        (0, 1, 1): "head 1: a → b hidden (−∞)",
        (2, None, 0): "head 0: “c” looks at b 0.30",
        (None, 1, 0): "head 0: “b” is seen by a 1.00, b 0.50, c 0.30",
    }
    assert {place: readout(explorer, *place) for place in words} == words
    hidden = HeadExplorer(np.eye(2), mask=torch.zeros(2, 2, dtype=torch.bool))
    assert readout(hidden, 0, None) == "this head: “0” sees nothing: all keys are hidden"
    assert readout(hidden, None, 1) == "this head: no query sees “1”"


NOTED = [  # numbers, a mask, and what is noted of them: whether it is a warning, and its words
    (np.eye(2), None, []),
    ([[0.9, 0.6], [0.1, 0.4]], None,
     [(True, "rows sum to 0.50 … 1.50, not 1; the columns sum to 1, as after a softmax over the "
             "queries")]),
    ([[2.0, 2.0]], None, [(False, "rows sum to 4.00, not 1")]),
    ([[1.5, -0.5]], None, [(False, "rows sum to 1.00, with numbers below 0")]),
    ([[0.5, 0.5], [0.25, 0.75]], causal_mask(2), [(True, "hidden cells hold weight, up to 0.50")]),
    ([[np.nan, np.nan], [0.5, 0.5]], None, [(True, "2 cells are NaN, not a number")]),
]  # fmt: skip


@pytest.mark.parametrize(("given", "mask", "noted"), NOTED)
def test_what_is_unusual_is_noted(given, mask, noted):
    state = HeadExplorer(given, mask=mask).state
    notes = in_node("notesOf(maps, { layer: 0, slot: 0 })", state)
    assert [(note["warning"], note["text"]) for note in notes] == noted


# ---- whose numbers, and what is wrong with what was typed ----


def test_a_word_that_is_not_known_is_no_fault_of_the_function():
    def function(sentence):
        return example.load(sentence).mha(example.load(sentence).x)[1]

    words = example.SENTENCE.split()
    explorer = HeadExplorer(function(example.SENTENCE), queries=words, recompute=function)
    line = "is not one of the 127 words that can be read"
    told = ask(explorer, sentence="the foo slept")
    assert told == f"“foo” {line}; near ones: fox, fooled, followed"
    assert ask(explorer, sentence="the c\u202ea slept").startswith(f"“c�a” {line}")
    told = ask(explorer, sentence="the " * 16)
    assert told == "the sentence has 16 words, more than the 15 that can be read"
    assert ask(explorer, sentence="The cat slept, so it ate.") == ""
    assert explorer.state["tokens"][0][0] == ["the", "cat", "slept", ",", "so", "it", "ate"]


def test_a_sentence_may_have_more_tokens_than_words():
    """As with <start>: masks have the size of the tokens from the first move on."""
    sizes = []

    def function(sentence="it sat", mask=None):
        words = ["<start>", *sentence.split()]
        sizes.append(mask is None or mask.shape == (len(words), len(words)))
        return np.eye(len(words)), words

    explorer = HeadExplorer(np.eye(3), queries=["<start>", "it", "sat"], recompute=function)
    lasts = {"it sat": "sat", "it sat down": "down", "down": "down", "it was it": "it₂"}
    for sentence, last in lasts.items():
        assert ask(explorer, sentence=sentence, mask="causal") == ""
        ((queries, keys),) = explorer.state["tokens"]
        assert queries == keys
        assert (queries[0], queries[-1]) == ("<start>", last)
    assert sizes == [True] * 5
