"""What the head explorer sends to a browser, held against the numbers it was given; and what it makes of bad input."""

import base64
import json
import math
import re
import warnings

import numpy as np
import pytest
import torch

from mha_course.cli.jupyter_hooks import WIDGET_VIEW
from mha_course.errors import ShapeError
from mha_course.masks import causal_mask, causal_mask_for_cache
from mha_course.widgets import HeadExplorer
from mha_course.widgets.head_explorer import packing
from mha_course.widgets.head_explorer.controls import mask_of, paint
from mha_course.widgets.head_explorer.page import write_page

EVIL = '</script><img src=x onerror="window.hacked=1">'
FACTS = ("low", "high", "entropy", "least", "most", "upright", "missing", "leak")


def tokens(count, letter="t"):
    return [f"{letter}{n}" for n in range(count)]


def weights(draw, *shape, **options):
    return (draw(*shape, **options) * 2).softmax(-1)


def opened(packet):
    """Read a packet as the browser does: head, facts (M, 8), cells (M, rows, columns), hidden cells."""
    length = int.from_bytes(packet[:4], "little")
    head, rest = json.loads(packet[4 : 4 + length]), packet[4 + length :]
    L, B, *_ = head["shape"]
    count, (rows, columns) = L * B * head["slots"], head["grid"]
    facts = np.frombuffer(rest, "<f8", count * 8).reshape(count, 8)
    codes = np.frombuffer(rest, "<u2", count * rows * columns, facts.nbytes).reshape(count, rows, columns)
    cells = facts[:, 0, None, None] + codes * ((facts[:, 1] - facts[:, 0]) / packing.STEPS)[:, None, None]
    for code, value in ((packing.NAN, np.nan), (packing.PLUS, np.inf), (packing.MINUS, -np.inf)):
        cells[codes == code] = value
    hidden = None
    if head["mask"]:
        each = math.ceil(rows * columns / 8)
        bits = np.frombuffer(rest, np.uint8, math.prod(head["mask"]) * each, facts.nbytes + codes.nbytes)
        hidden = np.unpackbits(bits.reshape(-1, each), axis=1, count=rows * columns).astype(bool)
        hidden = hidden.reshape(*head["mask"], rows, columns)
    return head, [dict(zip(FACTS, row, strict=True)) for row in facts], cells, hidden


def ask(explorer, **values):
    """Do what the browser does when a control moves, and return what went wrong."""
    serial = explorer.request["serial"] + 1
    explorer.request = {**values, "serial": serial}
    return explorer.trouble["text"] if explorer.trouble.get("serial") == serial else ""


# ---- what is sent ----


@pytest.mark.parametrize("shape", [(3, 5), (5, 5), (4, 3, 5), (2, 4, 3, 5), (3, 2, 4, 7, 5), (1, 1, 1, 2, 2)])
def test_every_cell_comes_within_half_a_step(draw, shape):
    given = draw(*shape) * 7
    explorer = HeadExplorer(given, queries=tokens(shape[-2]), keys=tokens(shape[-1], "s"))
    head, facts, cells, _ = opened(explorer.packet)
    five = given.reshape((1,) * (5 - given.dim()) + shape).numpy()
    assert head["shape"] == list(five.shape)
    if five.shape[2] > 1:  # the average stands last
        five = np.concatenate([five, five.mean(2, keepdims=True)], 2)
    maps = five.reshape(-1, *shape[-2:])
    assert head["slots"] == five.shape[2]
    for one, fact, back in zip(maps, facts, cells, strict=True):
        assert (fact["low"], fact["high"]) == (one.min(), one.max())
        assert np.abs(back - one).max() <= (one.max() - one.min()) / packing.STEPS / 2 * 1.001


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_any_float_on_any_device(draw, device, dtype):
    given = weights(draw, 4, 6, 6).to(device=device, dtype=dtype)
    explorer = HeadExplorer(given.requires_grad_(), queries=tokens(6))
    _, facts, cells, _ = opened(explorer.packet)
    given = given.detach().cpu().double().numpy()
    assert np.abs(cells[:4] - given).max() < 1e-5
    assert not math.isnan(facts[0]["entropy"])  # rounding is no mistake of the softmax


@pytest.mark.parametrize("kind", [torch.Tensor.numpy, torch.Tensor.tolist, lambda x: [row.tolist() for row in x]])
def test_arrays_and_lists(draw, kind):
    given = weights(draw, 3, 4, 5)
    assert opened(HeadExplorer(kind(given)).packet)[2] == pytest.approx(
        opened(HeadExplorer(given).packet)[2], abs=1e-12
    )


def test_constant_whole_and_logical_numbers():
    assert opened(HeadExplorer(np.full((2, 3, 4), 7)).packet)[2].tolist() == np.full((3, 3, 4), 7.0).tolist()
    assert opened(HeadExplorer(causal_mask(3)).packet)[2][0].tolist() == causal_mask(3).double().tolist()


def test_what_is_no_number_stays_none(draw):
    given = draw(2, 4, 4)
    given[0, 1, 2], given[0, 2, 3], given[1, 3, 0] = math.nan, -math.inf, math.inf
    _, facts, cells, _ = opened(HeadExplorer(given).packet)
    assert np.array_equal(np.isnan(cells[0]), given[0].isnan())
    assert np.array_equal(cells[0] == -np.inf, given[0] == -math.inf)
    assert np.array_equal(cells[1] == np.inf, given[1] == math.inf)
    assert [fact["missing"] for fact in facts[:2]] == [1, 0]
    assert (facts[0]["low"], facts[1]["high"]) == (given[0][given[0].isfinite()].min(), given[1][given[1] < 99].max())
    nothing = opened(HeadExplorer(np.full((2, 2), np.nan)).packet)
    assert np.isnan(nothing[2]).all()


def test_256_tokens_and_8_heads_are_about_a_megabyte(draw):
    explorer = HeadExplorer(weights(draw, 8, 256, 256, dtype=torch.float32), mask=causal_mask(256))
    assert 1_000_000 < len(explorer.packet) < 1_250_000
    assert opened(explorer.packet)[0]["every"]


def test_too_many_cells_come_small_and_a_head_in_full_when_asked(draw):
    given = weights(draw, 3, 2, 4, 400, 340, dtype=torch.float32)
    mask = draw(3, 1, 4, 400, 340, seed=1) > 0
    given = given * mask
    explorer = HeadExplorer(given, mask=mask)
    head, facts, cells, hidden = opened(explorer.packet)
    assert not head["every"]
    assert len(explorer.packet) < 8_000_000
    assert cells.shape == (3 * 2 * 5, 58, 57)  # blocks of 7 × 6
    block, seen = given[1, 0, 2, 14:21, 24:30], mask[1, 0, 2, 14:21, 24:30]
    assert cells[(1 * 2 + 0) * 5 + 2, 2, 4] == pytest.approx(float(block[seen].mean()), abs=1e-4)
    assert facts[12]["high"] == pytest.approx(float(given[1, 0, 2].max()))
    assert hidden.shape == (3, 1, 5, 58, 57)
    explorer.wanted = {"serial": 0, "map": [1, 0, 2], "count": 1}
    length = int.from_bytes(explorer.full[:4], "little")
    about, rest = json.loads(explorer.full[4 : 4 + length]), explorer.full[4 + length :]
    codes = np.frombuffer(rest, "<u2", 400 * 340).reshape(400, 340)
    back = about["low"] + codes * (about["high"] - about["low"]) / packing.STEPS
    assert np.abs(back - given[1, 0, 2].numpy()).max() < 1e-5
    bits = np.unpackbits(np.frombuffer(rest, np.uint8, offset=400 * 340 * 2), count=400 * 340)
    assert np.array_equal(bits.reshape(400, 340), ~mask[1, 0, 2].numpy())
    assert about["map"] == [1, 0, 2]


def test_a_wish_for_an_older_picture_is_not_answered(draw):
    explorer = HeadExplorer(weights(draw, 2, 5, 5))
    explorer.wanted = {"serial": 7, "map": [4, 4, 4], "count": 1}
    assert explorer.full == b""


def test_blocks_are_means_of_what_can_be_seen(draw):
    maps, hidden = draw(2, 7, 10).numpy(), (draw(2, 7, 10, seed=1) > 0.3).numpy()
    hidden[0, :3, :4] = True
    maps[1, 6, 9], maps[1, 0, 5] = np.nan, np.inf
    small = packing.shrink(maps, hidden, 3)  # blocks of 3 × 4
    assert small.shape == (2, 3, 3)
    for n, i, j in np.ndindex(small.shape):
        block = (n, slice(3 * i, 3 * i + 3), slice(4 * j, 4 * j + 4))
        seen = maps[block][~hidden[block] & np.isfinite(maps[block])]
        if np.isnan(maps[block]).any():
            assert np.isnan(small[n, i, j])
        elif np.isinf(maps[block]).any():
            assert np.isinf(small[n, i, j])
        else:
            assert small[n, i, j] == pytest.approx(seen.mean() if seen.size else 0)


# ---- what is told of a head ----


def test_entropy_is_the_mean_over_rows_that_see_something(draw):
    mask = causal_mask(6).clone()
    mask[2] = False
    given = torch.where(mask, draw(3, 6, 6), -math.inf).softmax(-1).nan_to_num(1 / 6)  # what sees nothing is even
    _, facts, *_ = opened(HeadExplorer(given, mask=mask).packet)
    for head, fact in zip(given, facts, strict=False):
        rows = torch.distributions.Categorical(head[[0, 1, 3, 4, 5]]).entropy()
        assert fact["entropy"] == pytest.approx(float(rows.mean()), abs=1e-6)
    uniform = opened(HeadExplorer(np.full((5, 5), 0.2)).packet)[1][0]
    assert uniform["entropy"] == pytest.approx(math.log(5), abs=1e-6)


def test_rows_that_do_not_sum_to_1_have_no_entropy(draw):
    given = (draw(2, 4, 6) * 2).softmax(-2)  # over the queries
    _, facts, *_ = opened(HeadExplorer(given).packet)
    for head, fact in zip(given, facts, strict=False):
        assert math.isnan(fact["entropy"])
        assert fact["least"] == pytest.approx(float(head.sum(-1).min()))
        assert fact["most"] == pytest.approx(float(head.sum(-1).max()))
        assert fact["upright"] == 1
    assert [fact["upright"] for fact in opened(HeadExplorer(weights(draw, 2, 4, 6)).packet)[1]] == [0, 0, 0]


def test_weight_in_hidden_cells_is_told(draw):
    given = weights(draw, 2, 5, 5)
    facts = opened(HeadExplorer(given, mask=causal_mask(5)).packet)[1]
    for head, fact in zip(given, facts, strict=False):
        assert fact["leak"] == pytest.approx(float(head[~causal_mask(5)].max()))


# ---- masks and tokens ----


@pytest.mark.parametrize(
    "shape", [(5, 6), (1, 6), (6,), (4, 5, 6), (1, 5, 6), (2, 1, 1, 6), (2, 4, 5, 6), (1, 4, 1, 1), (3, 2, 4, 5, 6)]
)
def test_masks_spread_as_torch_spreads_them(draw, shape):
    full = (3, 2, 4, 5, 6) if len(shape) == 5 else (2, 4, 5, 6)
    full = (4, 5, 6) if shape == (4, 5, 6) else full
    mask = draw(*shape) > 0
    head, _, _, hidden = opened(HeadExplorer(weights(draw, *full), mask=mask).packet)
    L, B, H, T, S = head["shape"]
    wanted = ~mask.expand(full).reshape(L, B, H, T, S).numpy()
    own = hidden[:, :, :H] if hidden.shape[2] > 1 else hidden
    assert np.array_equal(np.broadcast_to(own, wanted.shape), wanted)
    if hidden.shape[2] > 1:
        assert np.array_equal(hidden[:, :, H], wanted[: len(hidden), : hidden.shape[1]].all(2))


def test_tokens_of_each_sentence(draw):
    lists = [["a", "b", "c"], ["d", "e", "f"]]
    head, *_ = opened(HeadExplorer(weights(draw, 2, 4, 3, 3), queries=lists).packet)
    assert (head["queries"], head["keys"]) == (lists, lists)
    head, *_ = opened(HeadExplorer(weights(draw, 2, 4, 3, 5), queries=lists, keys=tokens(5)).packet)
    assert (head["queries"], head["keys"]) == (lists, [tokens(5)])
    head, *_ = opened(HeadExplorer(weights(draw, 3, 5)).packet)
    assert (head["queries"], head["keys"]) == ([["0", "1", "2"]], [["0", "1", "2", "3", "4"]])


BAD = {
    "six axes": ((np.zeros((1, 1, 2, 2, 3, 3)),), {}, "weights must have 2 to 5 axes.*fix: weights\\[0\\]"),
    "one axis": (([0.5, 0.5],), {}, "weights must have 2 to 5 axes.*got \\(2,\\)"),
    "no tokens": ((np.zeros((4, 0, 0)),), {}, "must not be empty.*got \\(4, 0, 0\\)"),
    "too many tokens": ((np.zeros((2049, 3), np.float16),), {}, "room for 2,048 tokens"),
    "strings": (([["a", "b"], ["c", "d"]],), {}, "weights must be numbers"),
    "ragged": (([[1, 2], [3]],), {}, "weights must be numbers"),
    "nothing": ((None,), {}, "weights must be numbers"),
    "complex": ((np.zeros((2, 2), complex),), {}, "weights must be real.*got complex128"),
    "complex tensor": ((torch.zeros(2, 2, dtype=torch.complex64),), {}, "weights must be real.*complex64"),
    "few queries": ((np.eye(3),), {"queries": ["a", "b"]}, "queries must name every row. expected 3 tokens, got 2"),
    "many keys": ((np.zeros((2, 3)),), {"keys": tokens(4)}, "keys must name every column. expected 3 tokens, got 4"),
    "a sentence": ((np.eye(3),), {"queries": "a b c"}, "queries must name every row.*fix: queries=queries.split\\(\\)"),
    "two lists for three": ((np.zeros((3, 2, 2, 2)),), {"queries": [["a", "b"]] * 2}, "one list, or 3.*got 2 lists"),
    "a short list": ((np.zeros((2, 2, 2, 2)),), {"queries": [["a", "b"], ["a"]]}, "got 1 tokens for sentence 1"),
    "additive mask": ((np.eye(3),), {"mask": torch.zeros(3, 3)}, "mask must be bool, True = may attend.*float32"),
    "mask of other tokens": ((np.eye(3),), {"mask": causal_mask(4)}, "mask must be broadcastable.*\\(4, 4\\)"),
    "ambiguous mask": (
        (np.zeros((3, 3, 5, 5)),), {"mask": torch.ones(3, 5, 5, dtype=torch.bool)}, "ambiguous.*fix: mask\\[:, None\\]",
    ),
    "recompute": ((np.eye(3),), {"recompute": 3}, "recompute must be a function"),
    "no parameter": ((np.eye(3),), {"recompute": lambda: 1}, "recompute must have a parameter"),
    "strange parameter": ((np.eye(3),), {"recompute": lambda warmth: 1}, "no control for its parameter 'warmth'"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_drawn_gets_one_clear_message(name):
    args, options, message = BAD[name]
    with pytest.raises(ShapeError, match=message) as caught:
        HeadExplorer(*args, **options)
    assert str(caught.value).startswith("HeadExplorer: ")


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match="unexpected color"):
        HeadExplorer(np.eye(2), color="red")


# ---- recompute ----


def test_parameters_become_controls():
    def function(
        temperature, scale=0.25, *, mask=None, sentence="", window=3, rate=0.1, shift=0.0, flag=True, other=None
    ):
        return np.eye(2)

    controls = {
        one.pop("name"): one
        for one in HeadExplorer(np.eye(2), queries=["a", "b"], recompute=function).options["controls"]
    }
    assert controls == {
        "temperature": {"kind": "log", "start": 1.0, "low": 0.1, "high": 10.0},
        "scale": {"kind": "log", "start": 0.25, "low": 0.025, "high": 2.5},
        "mask": {"kind": "mask", "start": "none", "choices": ["none", "causal", "window of 3", "painted"]},
        "sentence": {"kind": "sentence", "start": "a b"},
        "window": {"kind": "whole", "start": 3, "low": 1, "high": 12},
        "rate": {"kind": "linear", "start": 0.1, "low": 0.0, "high": 1.0},
        "shift": {"kind": "linear", "start": 0.0, "low": -1.0, "high": 1.0},
        "flag": {"kind": "check", "start": True},
    }


class Module(torch.nn.Module):
    def forward(self, scale=2.0):
        return torch.eye(2) * scale / 2


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda a, b, c, d: np.eye(2), ["temperature", "scale", "mask", "sentence"]),
        (lambda *args: np.eye(2), ["temperature", "scale", "mask", "sentence"]),
        (lambda scale, /: np.eye(2) * scale, ["scale"]),
        (lambda a=1, b=2, c=3, d=4: np.eye(2), ["a", "b", "c", "d"]),
        (lambda temperature, **more: np.eye(2), ["temperature"]),
        (Module(), ["scale"]),
    ],
)
def test_any_callable_is_called_as_it_wants_to_be(function, names):
    explorer = HeadExplorer(np.eye(2), recompute=function)
    assert [control["name"] for control in explorer.options["controls"]] == names
    assert ask(explorer) == ""


def test_four_by_position_get_what_the_controls_say():
    calls = []

    def function(a, b, c, d):
        calls.append((a, b, c, d))
        return np.eye(len(d.split()))

    explorer = HeadExplorer(np.eye(2), queries=["it", "sat"], recompute=function)
    assert ask(explorer, temperature=0.5, scale=2, mask="causal", sentence="it sat down") == ""
    ((temperature, scale, mask, sentence),) = calls
    assert (temperature, scale, sentence) == (0.5, 2.0, "it sat down")
    assert torch.equal(mask, causal_mask(3))
    head, _, cells, hidden = opened(explorer.packet)
    assert head["queries"] == head["keys"] == [["it", "sat", "down"]]
    assert head["serial"] == explorer.request["serial"]
    assert cells[0].tolist() == np.eye(3).tolist()
    assert np.array_equal(hidden[0, 0, 0], ~causal_mask(3).numpy())


def test_weights_follow_a_control(draw):
    scores = draw(3, 4, 4)
    explorer = HeadExplorer(
        scores.softmax(-1), queries=tokens(4), recompute=lambda temperature: (scores / temperature).softmax(-1)
    )
    for temperature in (0.1, 3.0):
        assert ask(explorer, temperature=temperature) == ""
        head, _, cells, _ = opened(explorer.packet)
        assert np.abs(cells[:3] - (scores / temperature).softmax(-1).numpy()).max() < 1e-5
        assert head["queries"] == [tokens(4)]
    assert "largest number is" in explorer.text
    assert explorer.text == HeadExplorer((scores / 3).softmax(-1), queries=tokens(4)).text


def test_nonsense_from_outside_leaves_a_control_at_its_start():
    seen = []
    explorer = HeadExplorer(
        np.eye(2), recompute=lambda temperature, n=3, flag=False: seen.append((temperature, n, flag)) or np.eye(2)
    )
    for value in ("hot", math.nan, None, [1]):
        ask(explorer, temperature=value, n=value, flag=value)
    ask(explorer, temperature=2, n=4.2, flag=True)
    assert seen == [(1.0, 3, False)] * 4 + [(2.0, 4, True)]


@pytest.mark.parametrize(
    ("returned", "queries", "keys"),
    [
        (lambda w: w, tokens(3), tokens(4, "s")),
        (lambda w: (w, ["a", "b", "c"]), ["a", "b", "c"], ["0", "1", "2", "3"]),
        (lambda w: (w, ["a", "b", "c"], list("wxyz")), ["a", "b", "c"], list("wxyz")),
        (lambda w: w[0], tokens(3), tokens(4, "s")),
        (lambda w: w[None, None].numpy(), tokens(3), tokens(4, "s")),
        (lambda w: w.tolist(), tokens(3), tokens(4, "s")),
    ],
)
def test_results_in_any_form(draw, returned, queries, keys):
    given = weights(draw, 2, 3, 4)
    explorer = HeadExplorer(given, queries=tokens(3), keys=tokens(4, "s"), recompute=lambda scale: returned(given))
    assert ask(explorer, scale=2.0) == ""
    head, *_ = opened(explorer.packet)
    assert (head["queries"], head["keys"]) == ([queries], [keys])


def raises(temperature):
    raise ValueError("first line\nsecond <line>")


@pytest.mark.parametrize(
    ("function", "trouble"),
    [
        (raises, "your function: ValueError: first line second <line>"),
        (lambda temperature: None, "your function returned None: expected weights"),
        (lambda temperature: "no", "your function returned something else: weights must be"),
        (lambda temperature: np.zeros(3), "weights must have 2 to 5 axes"),
        (lambda temperature: (np.eye(2), np.eye(2)), "a tuple must hold weights, then tokens"),
        (lambda temperature: (np.eye(2), ["a"]), "queries must name every row"),
        (lambda temperature: torch.eye(2)[5], "your function: IndexError"),
    ],
)
def test_what_goes_wrong_is_told_and_the_picture_stays(function, trouble):
    broken = [True]
    explorer = HeadExplorer(
        np.eye(2), recompute=lambda temperature: function(temperature) if broken else np.ones((2, 2)) / 2
    )
    before = explorer.packet
    told = ask(explorer, temperature=2.0)
    assert trouble in told
    assert "\n" not in told
    assert explorer.packet == before
    broken.clear()
    assert ask(explorer, temperature=2.1) == ""
    assert opened(explorer.packet)[2][0].tolist() == [[0.5, 0.5]] * 2


def test_an_interrupt_is_no_mistake_of_the_function():
    def stop(temperature):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask(HeadExplorer(np.eye(2), recompute=stop))


def test_the_same_result_is_an_answer_too():
    explorer = HeadExplorer(np.eye(2), recompute=lambda temperature: np.eye(2))
    serials = []
    explorer.observe(lambda change: serials.append(opened(change["new"])[0]["serial"]), "packet")
    for _ in range(3):
        ask(explorer, temperature=1.0)
    assert serials == [1, 2, 3]


@pytest.mark.parametrize(("T", "S"), [(5, 5), (3, 5), (5, 3), (1, 1)])
def test_masks_that_can_be_chosen(T, S):
    assert mask_of("none", (T, S), None, "cpu") is None
    causal, window = (mask_of(name, (T, S), None, "cpu") for name in ("causal", "window of 3"))
    if T <= S:
        assert torch.equal(causal, causal_mask_for_cache(T, S))
    for t, s in np.ndindex(T, S):
        gap = t + max(S - T, 0) - s
        assert causal[t, s] == (gap >= 0)
        assert window[t, s] == (0 <= gap < 3)


def test_a_painted_mask_comes_as_it_was_painted(draw):
    seen, got = draw(3, 5) > 0, []
    explorer = HeadExplorer(weights(draw, 2, 3, 5), recompute=lambda mask: got.append(mask) or np.ones((3, 5)))
    ask(explorer, mask="painted", painted=paint(seen))
    ask(explorer, mask="painted")
    ask(explorer, mask="none")
    assert torch.equal(got[0], seen)
    assert got[0].dtype == torch.bool
    assert got[1].all()
    assert got[2] is None
    assert opened(explorer.packet)[3] is None
    larger = mask_of("painted", (4, 4), paint(seen), "cpu")  # what was painted for another sentence
    assert torch.equal(larger[:3, :4], seen[:, :4])
    assert larger[3].all()


def test_the_mask_lies_where_the_weights_lie(draw, device):
    assert mask_of("causal", (3, 3), None, "meta").device.type == "meta"
    got = []
    explorer = HeadExplorer(
        weights(draw, 2, 3, 3).to(device), recompute=lambda mask: got.append(mask.device.type) or np.eye(3)
    )
    assert ask(explorer, mask="causal") == ""
    assert got == [device]


@pytest.mark.parametrize(
    ("mask", "start"),
    [
        (None, "none"),
        (causal_mask(4), "causal"),
        (causal_mask(4).triu(-2), "window of 3"),
        (~causal_mask(4), "painted"),
    ],
)
def test_the_choice_starts_with_the_mask_that_was_given(mask, start):
    explorer = HeadExplorer(np.eye(4), mask=mask, recompute=lambda mask=None: np.eye(4))
    assert explorer.options["controls"][0]["start"] == start
    if start == "painted":
        assert torch.equal(mask_of("painted", (4, 4), explorer.request["painted"], "cpu"), mask)


def test_a_sentence_may_have_more_tokens_than_words():
    """With [CLS] in front, masks are made for one token more than there are words."""
    sizes = []

    def function(sentence, mask):
        words = ["[CLS]", *sentence.split()]
        sizes.append(mask.shape[0] - len(words))
        return np.eye(len(words)), words

    explorer = HeadExplorer(np.eye(3), queries=["[CLS]", "it", "sat"], recompute=function)
    for sentence in ("it sat down", "down", "it was it"):
        ask(explorer, sentence=sentence, mask="causal")
        assert opened(explorer.packet)[0]["queries"] == [["[CLS]", *sentence.split()]]
    assert sizes[1:] == [0, 0]


def test_a_mask_of_other_tokens_is_left_out():
    explorer = HeadExplorer(np.eye(3), mask=causal_mask(3), recompute=lambda sentence: np.eye(len(sentence.split())))
    assert ask(explorer, sentence="a b c d") == ""
    assert opened(explorer.packet)[0]["mask"] is None
    assert ask(explorer, sentence="a b c") == ""
    assert np.array_equal(opened(explorer.packet)[3][0, 0, 0], ~causal_mask(3).numpy())


# ---- what is shown, and its twins ----


def test_what_is_chosen_stays_within_what_there_is(draw):
    explorer = HeadExplorer(weights(draw, 2, 3, 4, 5, 5), layer=1, item=2, head=4, beside=99, scale="head")
    assert (explorer.layer, explorer.item, explorer.head, explorer.beside) == (1, 2, 4, 9)
    explorer.layer = explorer.item = explorer.head = -5
    explorer.beside = -5
    assert (explorer.layer, explorer.item, explorer.head, explorer.beside) == (0, 0, 0, -1)


def test_a_sentence_starts_from_its_default_or_from_the_queries():
    """Where queries and keys differ, only the function knows which text is meant."""
    for function, start in (
        (lambda sentence="the old dog": None, "the old dog"),
        (lambda sentence: None, "dogra oldem"),
    ):
        explorer = HeadExplorer(np.full((2, 3), 1 / 3), queries=["dogra", "oldem"], recompute=function)
        assert [control["start"] for control in explorer.options["controls"]] == [start]


def test_the_sentence_names_the_strongest_pair_that_can_be_seen():
    given = np.full((2, 3, 3), 0.1)
    given[0, 0, 2], given[1, 2, 1] = 0.9, 0.8
    explorer = HeadExplorer(given, queries=["it", "was", "sat"], mask=causal_mask(3), head=1)
    assert repr(explorer) == (
        "HeadExplorer: 2 heads, 3 query and 3 key tokens; in head 1 the largest number is 0.80, from “sat” to “was”."
    )
    explorer.head = 0
    assert explorer.text.endswith("in head 0 the largest number is 0.10, from “was” to “it”.")  # “it” sees itself alone
    explorer.head = 2
    assert "in the average of heads" in explorer.text
    hidden = HeadExplorer(np.eye(2), mask=torch.zeros(2, 2, dtype=torch.bool))
    assert hidden.text.endswith("in head 0 there is no number to be seen.")


@pytest.mark.parametrize(
    "case", ["one head", "heads", "scores", "many heads", "long", "masked scores", "nothing but NaN", "emoji"]
)
def test_the_twin_is_a_picture_with_alt_text(draw, case):
    given = {
        "one head": weights(draw, 3, 5), "heads": weights(draw, 2, 4, 5, 5), "scores": draw(4, 5, 6),
        "many heads": weights(draw, 17, 4, 4), "long": weights(draw, 2, 200, 130),
        "masked scores": draw(2, 4, 4).masked_fill(~causal_mask(4), -math.inf),
        "nothing but NaN": np.full((2, 3, 3), np.nan), "emoji": weights(draw, 3, 3),
    }[case]  # fmt: skip
    queries = ["👩‍👩‍👧", "$x", "שלום"] if case == "emoji" else None
    data, about = HeadExplorer(given, queries=queries)._repr_mimebundle_()
    assert base64.b64decode(data["image/png"])[1:4] == b"PNG"
    assert about["image/png"]["alt"] == data["text/plain"].removeprefix("HeadExplorer: ")
    assert set(data) == {"text/plain", "image/png", WIDGET_VIEW}
    assert ("first 16 heads" in data["text/plain"]) == (case == "many heads")
    assert ("means of 4 × 3 cells" in data["text/plain"]) == (case == "long")


def test_the_twin_draws_the_heads_that_are_shown(draw):
    given = weights(draw, 2, 4, 5, 5)
    explorer = HeadExplorer(given, item=1)
    figure = explorer.picture()
    meshes = [ax.collections[0].get_array() for ax in figure.axes[:4]]
    for mesh, head in zip(meshes, given[1], strict=True):
        assert np.ma.getdata(mesh).reshape(5, 5) == pytest.approx(head.numpy(), abs=1e-6)


def test_a_page_holds_everything_and_fetches_nothing(draw, tmp_path):
    explorer = HeadExplorer(weights(draw, 3, 4, 4), queries=[EVIL, "<!--", "$", ""], mask=causal_mask(4), head=2)
    page = explorer.to_html()
    assert [word for word in ("http", "<img", "import(", "fetch(") if word in page] == []
    assert len(page.split("</script>")) == 3
    state = json.loads(re.search(r'id="state">(.*?)</script>', page, re.DOTALL).group(1))
    head, _, cells, _ = opened(base64.b64decode(state["binary"]["packet"]))
    assert head["queries"][0][0] == EVIL
    assert np.abs(cells - opened(explorer.packet)[2]).max() == 0
    assert (state["head"], state["options"]) == (2, {"controls": [], "alone": True})
    for name, start in (("heads.html", b"<!doctype html>"), ("heads.png", b"\x89PNG")):
        explorer.save(tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    with pytest.raises(ShapeError, match=r"must end in \.png or \.html"):
        explorer.save(tmp_path / "heads.pdf")


def test_no_word_can_end_the_script_of_a_page():
    page = write_page(EVIL, "", "", {"word": EVIL}, {"data": b"\x00\xff"})
    assert len(page.split("</script>")) == 3
    state = json.loads(re.search(r'id="state">(.*?)</script>', page, re.DOTALL).group(1))
    assert state == {"word": EVIL, "binary": {"data": "AP8="}}


def test_the_page_comes_when_the_browser_asks(draw):
    explorer = HeadExplorer(weights(draw, 3, 4, 4))
    explorer.asked = 1
    assert explorer.page.decode() == explorer.to_html()


def test_a_page_of_very_many_cells_holds_means(draw):
    explorer = HeadExplorer(torch.zeros(1, 1, 40, 700, 700, dtype=torch.float16))
    assert len(explorer.to_html()) < 20_000_000


def test_nothing_warns(draw):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        odd = draw(2, 3, 3)
        odd[0, 0, 0], odd[0, 1], odd[1, 2, 2] = math.nan, -math.inf, math.inf
        HeadExplorer(odd, mask=torch.zeros(3, 3, dtype=torch.bool)).to_html()
