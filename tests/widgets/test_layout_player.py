"""The layout player shows where every number is, as torch's own views and copies do."""

import itertools
import math
import re
from functools import partial

import browsing
import numpy as np
import pytest
import torch
from players import go, stays_inside
from rewriting import refused

from mha_course.tracing import trace
from mha_course.widgets.layout_player.widget import LayoutPlayer

KNOWN = {"axes": "B S C", "sizes": {"H": 2}}

CHAINS = {
    "split": ((1, 3, 8), [lambda x: x.view(1, 3, 2, 4), lambda x: x.transpose(1, 2)]),
    "split of two": ((2, 3, 4), [lambda x: x.reshape(2, 3, 2, 2), lambda x: x.permute(0, 2, 1, 3)]),
    "wrong": ((2, 4, 8), [lambda x: x.view(2, 2, 4, 4)]),
    "merge": ((1, 2, 3, 4), [lambda x: x.transpose(1, 2), lambda x: x.reshape(1, 3, 8)]),
    "contiguous twice": (
        (1, 2, 3, 4), [lambda x: x.transpose(1, 2), lambda x: x.contiguous(),
            lambda x: x.contiguous(),
        lambda x: x.view(3, 8), lambda x: x.mT, lambda x: x.reshape(4, 6)],
    ),
    "fused": (
        (1, 3, 24), [lambda x: x.reshape(1, 3, 3, 2, 4), lambda x: x.transpose(3, 1),
            lambda x: x.select(2, 1)],
    ),
    "expanded": ((3, 4), [lambda x: x.unsqueeze(0), lambda x: x.expand(2, 3, 4),
        lambda x: x.reshape(6, 4)]),
    "piece": ((2, 6, 4), [lambda x: x[:, 1:4], lambda x: x.flatten(1),
        lambda x: x.unflatten(1, (4, 3))]),
    "clone": ((3, 8), [lambda x: x.T, lambda x: x.clone(), lambda x: x.reshape(4, 6)]),
}  # fmt: skip


def counted(*shape):
    return torch.arange(math.prod(shape)).view(shape)


def follow(moves):
    def run(x):
        for move in moves:
            x = move(x)
        return x

    return run


def right(x):
    return x.view(1, 3, 2, 4).transpose(1, 2)


def wrong(x):
    return x.view(1, 2, 3, 4)


def merge(context):
    swapped = context.transpose(1, 2)
    return swapped.reshape(1, 3, 8)


def lanes(player):
    return player.options["lanes"]


@pytest.fixture
def both():
    return LayoutPlayer(
        trace(right, counted(1, 3, 8), **KNOWN), trace(wrong, counted(1, 3, 8), **KNOWN)
    )


@pytest.mark.parametrize("name", CHAINS)
def test_every_cell_is_the_number_that_torch_has_there_and_new_memory_a_strip(name):
    shape, moves = CHAINS[name]
    x = counted(*shape)
    (lane,) = lanes(LayoutPlayer(trace(follow(moves), x)))
    tensors = [x]
    for move in moves:
        tensors.append(move(tensors[-1]))
    assert len(lane["frames"]) == len(tensors)
    for tensor, frame in zip(tensors, lane["frames"], strict=True):
        assert frame["ids"] == tensor.flatten().tolist()
        assert (frame["shape"], frame["strides"]) == (list(tensor.shape), list(tensor.stride()))
        strip = dict(lane["strips"][frame["strip"]])
        memory = torch.as_strided(tensor, (len(strip),), (1,), 0).tolist()
        assert [strip[place] for place in range(len(strip))] == memory
        assert [memory[place] for place in frame["places"]] == frame["ids"]
    storages = [tensor.untyped_storage().data_ptr() for tensor in tensors]
    new = [after != before for before, after in itertools.pairwise(storages)]
    assert [frame["strip"] for frame in lane["frames"]] == list(
        itertools.accumulate(new, initial=0)
    )
    assert len(lane["strips"]) == sum(new) + 1


def test_token_head_and_colour_are_those_of_the_right_split(both):
    heads = right(counted(1, 3, 8))
    assert len({cell["fill"] for cell in lanes(both)[0]["cells"].values()}) == 6
    for lane in lanes(both):
        for head, token in itertools.product(range(2), range(3)):
            for number in heads[0, head, token].tolist():
                cell = lane["cells"][str(number)]
                assert (cell["token"], cell["head"]) == (token, head)
                assert cell["tag"] == f"t{token} h{head}"


@pytest.mark.parametrize(
    ("batch", "tokens", "heads", "width"), [(1, 3, 2, 4), (2, 3, 2, 2), (2, 4, 2, 4), (1, 5, 4, 3)]
)
def test_odd_are_the_numbers_that_stand_elsewhere_in_the_right_split(batch, tokens, heads, width):
    x = counted(batch, tokens, heads * width)
    known = {"axes": "B S C", "sizes": {"H": heads}}

    def good(x):
        return x.view(batch, tokens, heads, width).transpose(1, 2)

    def bad(x):
        return x.view(batch, heads, tokens, width)

    one, two = lanes(LayoutPlayer(trace(good, x, **known), trace(bad, x, **known)))
    assert [frame["odd"] for frame in one["frames"]] == [[], [], []]
    assert two["frames"][1]["odd"] == (good(x) != bad(x)).flatten().nonzero().flatten().tolist()
    assert two["frames"][1]["axes"] == ["B", "H", "S", "D"]
    parts = [len(set((bad(x)[0, h] // (heads * width)).flatten().tolist())) for h in range(heads)]
    assert f"from only {max(parts)} of {tokens} tokens" in two["frames"][1]["mixing"]


@pytest.mark.parametrize(
    ("meant", "mixes", "shape", "known", "words"),
    [
        (merge, lambda x: x.reshape(1, 3, 8), (1, 2, 3, 4), {"axes": "B H S D"},
         "each token's row holds parts of 2 of 3 tokens"),
        (merge, lambda x: x.permute(0, 2, 3, 1).reshape(1, 3, 8), (1, 2, 3, 4), {"axes": "B H S D"},
         "the numbers of a head no longer lie side by side"),
    ],
)  # fmt: skip
def test_what_came_together_is_said_and_what_stands_elsewhere_is_odd(
    meant, mixes, shape, known, words
):
    x = counted(*shape)
    one, two = lanes(LayoutPlayer(trace(meant, x, **known), trace(mixes, x, **known)))
    assert not any(frame["odd"] for frame in one["frames"])
    frame = two["frames"][-1]
    assert frame["mixing"] == words
    elsewhere = (meant(x) != mixes(x)).flatten().nonzero().flatten().tolist()
    # what stays in its token and head is not odd
    inside = words.startswith("the numbers of a head")
    assert (set(frame["odd"]) < set(elsewhere)) if inside else (frame["odd"] == elsewhere)
    assert not re.match(r"[\w-]+: ", frame["warning"])


def test_a_strip_names_the_sentence_where_there_are_several(both):
    (lane,) = lanes(LayoutPlayer(trace(lambda x: x.view(2, 3, 2, 2), counted(2, 3, 4), **KNOWN)))
    assert (lane["cells"]["13"]["tag"], lane["cells"]["13"]["owner"]) == ("t0 h0", "b1 t0 h0")
    assert lanes(both)[0]["cells"]["13"]["owner"] == "t1 h1"


def test_nothing_is_said_of_tokens_and_heads_where_no_axis_is_known():
    (lane,) = lanes(LayoutPlayer(trace(lambda x: x.view(3, 2, 4).transpose(0, 1), counted(3, 8))))
    assert {cell["tag"] for cell in lane["cells"].values()} == {""}
    assert not any(frame["mixing"] for frame in lane["frames"])


def test_queries_keys_and_values_share_a_strip():
    known = {"axes": "B S 3*C", "sizes": {"H": 2, "C": 8}}
    made = trace(lambda x: x.view(1, 3, 3, 2, 4)[:, :, 1], counted(1, 3, 24), **known)
    (lane,) = lanes(LayoutPlayer(made))
    assert {lane["cells"][str(n)]["tag"][0] for n in lane["frames"][-1]["ids"]} == {"k"}


def test_a_line_with_two_calls_gives_each_its_own():
    def turn(x):
        return x.transpose(1, 2).transpose(0, 2).reshape(-1)

    frames = lanes(LayoutPlayer(trace(turn, counted(2, 3, 4))))[0]["frames"]
    calls = ["x", "transpose(1, 2)", "transpose(0, 2)", "reshape(-1)"]
    assert [frame["call"] for frame in frames] == calls
    x = counted(1, 3, 8)
    good, bad = trace(lambda x: x.view(1, 3, 2, 4), x), trace(lambda x: x.view(1, 2, 3, 4), x)
    both = lanes(LayoutPlayer(good, bad))
    assert [lane["frames"][1]["call"] for lane in both] == ["view(1, 3, 2, 4)", "view(1, 2, 3, 4)"]


def test_the_first_chain_with_a_reshape_comes_before_others():
    made = trace(
        lambda x, y: x.transpose(1, 2) @ y.view(1, 3, 2, 4).flatten(2),
        counted(1, 3, 8),
        counted(1, 3, 8),
    )
    assert lanes(LayoutPlayer(made))[0]["frames"][0]["call"] == "y"


@pytest.mark.parametrize(
    ("function", "shape", "message"),
    [
        (torch.relu, (5, 8), "the trace must have a step that changes the layout of a tensor. "
         "expected view, reshape, transpose, permute …, got relu"),
        (torch.t, (32, 32), "each number is drawn as a cell. expected 1 to 512 numbers, got "
         "(S=32, C=32), 1024 numbers, fix: trace it with smaller sizes, e.g. B=1, S=3, C=8, H=2"),
        (torch.t, (0, 8), "each number is drawn as a cell. expected 1 to 512 numbers, got "
         "(S=0, C=8), 0 numbers, fix: trace it with smaller sizes, e.g. B=1, S=3, C=8, H=2"),
    ],
)  # fmt: skip
def test_what_cannot_be_laid_out_is_refused(function, shape, message):
    made = trace(function, torch.zeros(shape), axes="S C")
    refused(lambda: LayoutPlayer(made), f"LayoutPlayer: {message}")


GRID = """(lane) =>
  [...document.querySelectorAll("#one .lane")[lane]
    .querySelectorAll(".board .cell")].map((cell) => {
    const box = cell.getBoundingClientRect();
    const around = cell.closest('.board').getBoundingClientRect();
    return [+cell.firstChild.textContent, +cell.dataset.id, Math.round(box.x - around.x),
      Math.round(box.y - around.y)];
  })"""
STRIP = """(lane) =>
  [...document.querySelectorAll('#one .lane')[lane].querySelectorAll('.strip .cell')]
  .filter((cell) => cell.checkVisibility()).map((cell) => cell.outerHTML)"""


@pytest.fixture
def show(widget_page):
    """Show a player in its own page, without motion: ``show(player, width=1280)``."""
    return partial(widget_page, capture=True, reduced_motion="reduce")


@pytest.mark.parametrize("name", ["split", "merge", "wrong"])
def test_the_cells_stand_where_the_axes_say(show, name):
    """In every box, numbers go from left to right, and rows from top to bottom."""
    shape, moves = CHAINS[name]
    x = counted(*shape)
    page = show(LayoutPlayer(trace(follow(moves), x)))
    for at in range(len(moves) + 1):
        go(page, at)
        tensor = follow(moves[:at])(x)
        spots = {number: (left, top) for _, number, left, top in page.evaluate(GRID, 0)}
        assert sorted(spots) == sorted(tensor.flatten().tolist())
        assert len(set(spots.values())) == len(spots)
        for matrix in tensor.reshape(-1, *tensor.shape[-2:]).tolist():
            left, top = np.moveaxis([[spots[number] for number in row] for row in matrix], 2, 0)
            assert (left == left[0]).all()
            assert (np.diff(left[0]) > 0).all()
            assert (top == top[:, :1]).all()
            assert (np.diff(top[:, 0]) > 0).all()


def test_a_view_leaves_the_strip_as_it_is_and_a_copy_writes_another(show):
    page = show(LayoutPlayer(trace(merge, counted(1, 2, 3, 4), axes="B H S D")))
    strip = page.evaluate(STRIP, 0)
    assert len(strip) == 24
    go(page, 1)
    assert page.evaluate(STRIP, 0) == strip
    assert page.locator(".strip .label:visible").all_inner_texts() == [
        "memory, strip 1: unchanged, no number moved"
    ]
    go(page, 2)
    assert len(page.evaluate(STRIP, 0)) == 48
    assert page.locator(".strip .label").all_inner_texts() == [
        "memory, strip 1: unchanged, no longer read", "memory, strip 2: written anew"
    ]  # fmt: skip
    cells = sorted(page.evaluate(GRID, 0), key=lambda cell: (cell[3], cell[2]))
    assert [place for place, *_ in cells] == list(range(24))
    go(page, 0)
    assert page.evaluate(STRIP, 0) == strip


def test_cells_fly_and_a_copy_is_written_first(show):
    page = show(
        LayoutPlayer(trace(merge, counted(1, 2, 3, 4), axes="B H S D")),
        reduced_motion="no-preference",
    )
    browsing.stop_clock(page)
    start, strip = page.evaluate(GRID, 0), page.evaluate(STRIP, 0)
    page.locator(".mha-layout").press("ArrowRight")
    assert sorted(cell[:2] for cell in page.evaluate(GRID, 0)) == sorted(cell[:2] for cell in start)
    flights = "document.getAnimations().filter(({effect}) => effect.target.matches('.cell')).length"
    assert page.evaluate(flights) == 24
    assert page.evaluate(STRIP, 0) == strip
    page.evaluate("document.getAnimations().forEach((animation) => animation.finish())")
    middle = page.evaluate(GRID, 0)
    assert middle != start
    page.keyboard.press("ArrowRight")
    assert page.evaluate(GRID, 0) == middle  # still read from the first strip
    assert page.evaluate(flights) == 24
    page.clock.run_for(2700)
    assert sorted(cell[0] for cell in page.evaluate(GRID, 0)) == list(range(24))
    for key in ("ArrowLeft", "ArrowRight", "Home"):  # in the midst of it
        page.keyboard.press(key)
    page.clock.run_for(9000)
    assert page.evaluate(GRID, 0) == start


def test_what_is_said_of_a_frame(show, both):
    page = show(both)
    for at in range(3):
        go(page, at)
        for lane, node in zip(lanes(both), page.locator(".lane").all(), strict=True):
            frame = lane["frames"][min(at, len(lane["frames"]) - 1)]
            said = node.locator(".sentence").inner_text()
            if frame["odd"]:
                assert frame["warning"].lower() in said.lower()
            else:
                assert said == frame["sentence"]
            assert node.locator("[aria-current]").inner_text().split("\n")[0] == frame["call"]
            pairs = zip(frame["axes"], frame["shape"], frame["strides"], strict=True)
            assert node.locator(".chip").all_inner_texts() == [
                f"{a} = {n}\nstride {s}" for a, n, s in pairs
            ]
            assert node.locator(".cell.odd").count() == len(frame["odd"])
            assert node.locator(".warning.now").is_visible() == bool(frame["odd"])
    good, bad = page.locator(".lane").all()
    assert good.locator(".name em").all_inner_texts() == ["h0 of t0–t2", "h1 of t0–t2"]
    assert bad.locator(".name em").all_inner_texts() == ["⚠ h0 h1 of t0 t1", "⚠ h0 h1 of t1 t2"]


def test_its_lanes_begin_and_stay_low(show, both):
    page = show(both, width=1028)
    tops, heights = set(), []
    for at in range(3):
        go(page, at)
        for row in (".memory", ".reading", ".board"):
            left, right = (node.bounding_box()["y"] for node in page.locator(row).all())
            assert left == right
        tops.add(page.locator(".memory").first.bounding_box()["y"])  # a warning moves nothing
        heights.append(page.locator(".mha-layout").bounding_box()["height"])
    assert len(tops) == 1
    assert max(heights) <= 620
    assert abs(heights[2] - heights[1]) < 1


@pytest.mark.parametrize("width", [420, 760, 836, 1900])
@pytest.mark.parametrize("name", ["split", "wrong", "contiguous twice", "fused"])
def test_nothing_sticks_out_at_any_width(show, width, name):
    shape, moves = CHAINS[name]
    made = trace(follow(moves), counted(*shape))
    page = show(LayoutPlayer(made, made), width=width)
    for at in range(len(moves) + 1):
        go(page, at)
        stays_inside(page, ".lane")
    one, two = (lane.bounding_box() for lane in page.locator(".lane").all())
    assert (one["y"] == two["y"]) == (width > 800)
