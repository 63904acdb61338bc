"""Labs in a page without a kernel: each control moves what is drawn, as Python would."""

import math
import re
from functools import partial

import pytest
import torch
from browsing import MOVE
from labs import LABS
from torch.nn import functional as F
from widget_cases import make

from mha_course import masks
from mha_course.attention import masked_softmax
from mha_course.widgets import PlaneLab
from mha_course.widgets.labs.ablation import SENTENCES
from mha_course.widgets.labs.mask import FILLS, PRESETS
from mha_course.widgets.labs.plane import REACH, TARGET
from mha_course.widgets.labs.plane import TOKENS as ARROWS

# Labs whose states are in a table.
TABLES = ("ProbeLab", "ScalingLab", "TilingLab", "AblationLab", "RotaryLab", "PatchLab")
# Returns the state once what was asked is answered.
STATE = (
    "async () => { await new Promise((done) => setTimeout(done, 150)); return model.state.state }"
)


@pytest.mark.parametrize("name", TABLES)
def test_each_control_of_a_lab_with_a_table_shows_what_python_draws(name, widget_page):
    few = partial(LABS["AblationLab"], SENTENCES[:2], layer=1)  # 16 states, which can all be drawn
    lab = few() if name == "AblationLab" else make(name)
    start = lab.text
    page = widget_page(lab)
    parts = ("input:not([type=radio])", "input[type=radio]:not(:checked)", "select")
    inputs = page.locator(", ".join(f".mha-lab .controls {part}" for part in parts))
    inputs = inputs.element_handles()  # locators would find others once a radio is checked
    names = [control.get_attribute("data-control") for control in inputs]
    for control, moved in zip(inputs, names, strict=True):
        before = page.evaluate(STATE)
        control.evaluate(MOVE)
        after = page.evaluate(STATE)
        lab._show({"moved": {moved: after["values"][moved]}})
        assert after["values"] == lab.state["values"]
        assert after["panels"] == lab.state["panels"] != before["panels"]
        assert (page.locator(".sentence").inner_text(), after["trouble"]) == (lab.text, "")
    page.locator(".again").click()
    page.evaluate(STATE)
    assert page.locator(".sentence").inner_text() == start


def tensor(rows):
    """Return numbers of the page; NaN is null there."""
    return torch.tensor([[math.nan if x is None else x for x in row] for row in rows]).double()


def assert_plane_is_right(state, projections):
    """Hold what is drawn of three arrows against PyTorch."""
    plane, table = state["panels"]
    names = ("queries", "keys") if projections else ("tokens", "tokens")
    q, k = (tensor(state["values"][name]) for name in names)
    tips = tensor([arrow["at"] for arrow in plane["arrows"]])
    assert torch.allclose(tips, torch.cat([k, q]) if projections else q, atol=1e-3)
    weights = F.scaled_dot_product_attention(q, k, torch.eye(3).double())
    assert torch.allclose(tensor([row["numbers"] for row in table["rows"]]), q @ k.T, atol=5e-3)
    shares = [[part["value"] for part in row["parts"]] for row in table["rows"]]
    assert torch.allclose(tensor(shares), weights, atol=1e-3)
    if projections:
        reached = "✓ Reached: " if weights[0, 2] >= TARGET else ""
        assert state["text"].startswith(f"{reached}a gives {weights[0, 2]:.2f} to c")
        for name, rotated in zip(names, (q, k), strict=True):
            turn = math.radians(state["values"][f"{name}_turn"])
            stretch = state["values"][f"{name}_stretch"]
            matrix = torch.tensor(
                [[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]]
            )
            assert torch.allclose(rotated, stretch * ARROWS @ matrix.double().T, atol=1e-4)
    else:
        assert torch.allclose(tensor([dot["at"] for dot in plane["dots"]]), weights @ q, atol=2e-3)
        assert f"a row is {weights.amax(-1).mean():.2f} on average." in state["text"]


@pytest.mark.parametrize("projections", [False, True])
def test_arrows_move_as_torch_computes(projections, widget_page):
    lab = PlaneLab(projections=projections)
    page = widget_page(lab, height=200)  # a key may scroll it
    assert_plane_is_right(lab.state, projections)

    def moved(move, *others):
        """Move something; return the values before and after."""
        before = page.evaluate(STATE)
        move(*others)
        state = page.evaluate(STATE)
        assert state["trouble"] == ""
        assert state["panels"] != before["panels"]
        assert page.locator(".sentence").inner_text() == state["text"]
        assert_plane_is_right(state, projections)
        return before["values"], state["values"]

    for tip in page.locator(".handle").all():
        for key in ("ArrowUp", "Shift+ArrowLeft"):
            moved(tip.press, key)
        place = "[document.activeElement.ariaLabel, scrollY]"
        before = page.evaluate(place)
        assert before[1] > 0
        page.keyboard.press("Home")
        assert page.evaluate(place) == before
    if not projections:
        before, after = moved(page.locator(".handle").nth(1).press, "ArrowUp")
        changed = (tensor(after["tokens"]) - tensor(before["tokens"])).round(decimals=6)
        assert changed.tolist() == [[0, 0], [0, 0.1], [0, 0]]
    for control in page.locator(".mha-lab input").all():
        for key in ("Home", "End"):
            before, after = moved(control.press, key)
            if not projections:  # all of them, unless one would leave the picture
                grown = tensor(before["tokens"]) * after["length"] / before["length"]
                assert torch.allclose(tensor(after["tokens"]), grown)
                assert grown.abs().max() <= REACH + 1e-9
    page.locator(".again").click()
    page.evaluate(STATE)
    assert page.locator(".sentence").inner_text() == lab.text


def assert_mask_is_right(state, scores, fill):
    """Hold the painted mask, its weights and the conventions against the course's functions."""
    allowed = torch.tensor(state["values"]["mask"]) == 1
    painted, weights, *small = state["panels"]
    assert painted["values"] == state["values"]["mask"]
    assert weights["hidden"] == (~allowed).int().tolist()
    low = {"-1e9": -1e9}.get(fill, -math.inf)
    expected = scores.masked_fill(~allowed, low).softmax(-1)
    if fill == "0 (this course)":
        expected = masked_softmax(scores, allowed)
    assert torch.allclose(tensor(weights["values"]), expected, atol=1e-3, equal_nan=True)
    written = [torch.tensor(one["values"]) != 0 for one in small]
    for convention, cells in zip(("sdpa", "multihead", "seaborn"), written, strict=False):
        assert torch.equal(masks.to_attend(cells, convention), allowed)
    additive = torch.zeros(allowed.shape).masked_fill(written[3], -math.inf)
    assert torch.equal(additive, masks.additive_mask(allowed, torch.float32))
    meanings = ["True = may attend", "True = ignore", "True = do not draw", "-inf"]
    assert [one["on"] for one in small] == meanings
    assert state["text"].startswith(f"{int(allowed.sum())} of 36 pairs may attend.")
    blind = int((~allowed.any(-1)).sum())
    told = {
        "0 (this course)": "the weights there are all 0.",
        "-inf by hand": "softmax gives NaN there, and NaN spreads.",
        "-1e9": "all equal, 0.17: a row that may see nothing sees everything.",
    }
    assert state["text"].endswith(told[fill]) == bool(blind)
    assert not blind or re.search(rf" {blind} rows? sees? nothing \(“", state["text"])
    return allowed


def test_masks_are_those_of_the_course_however_they_are_filled(widget_page):
    lab = make("MaskLab")
    page = widget_page(lab)
    menu, board = page.locator(".mha-lab select"), page.locator(".paint")
    scores = lab._scores.double()
    expected = {
        "none": torch.ones(6, 6, dtype=torch.bool),
        "causal": masks.causal_mask(6),
        "padding": masks.padding_mask([4], 6)[0, 0].expand(6, 6),
        "left padding, causal": torch.tensor([[2 <= s <= t for s in range(6)] for t in range(6)]),
        "window": torch.tensor([[abs(s - t) <= 2 for s in range(6)] for t in range(6)]),
    }
    assert set(expected) == set(PRESETS) - {"painted"}
    for name, mask in expected.items():
        menu.select_option(name)
        for radio, fill in zip(page.locator("input[type=radio]").all(), FILLS, strict=True):
            radio.evaluate(MOVE)
            assert torch.equal(assert_mask_is_right(page.evaluate(STATE), scores, fill), mask)
    for key in (" ", "End", " ", "Shift+ArrowLeft"):
        board.press(key)
    painted = page.evaluate(STATE)
    assert_mask_is_right(painted, scores, FILLS[-1])
    assert painted["values"]["preset"] == PRESETS.index("painted")
    page.locator("[type=range]").evaluate(MOVE)
    state = page.evaluate(STATE)
    assert state["values"]["mask"] == painted["values"]["mask"]  # n is of no use to a painted mask
    menu.select_option("padding")
    after = assert_mask_is_right(page.evaluate(STATE), scores, FILLS[-1])
    assert torch.equal(after, masks.padding_mask([3], 6)[0, 0].expand(6, 6))


def test_a_patch_that_is_clicked_becomes_the_query(widget_page):
    lab = make("PatchLab")
    page = widget_page(lab)
    page.locator(".patches svg").nth(2).locator("rect").nth(20).click()
    assert page.evaluate(STATE)["values"] == {**lab.values, "query": 21}
    frame = page.locator(".patches .query").first
    assert [frame.get_attribute(name) for name in ("x", "y")] == ["6", "2"]
    assert "patch 20" in page.locator(".sentence").inner_text()


def test_an_error_of_a_learners_function_is_shown_without_a_kernel_too(widget_page):
    def scores(q, k):
        if q.size(-1) > 64:
            raise ValueError("too wide")
        return q @ k.mT

    lab = LABS["ScalingLab"](scores=scores)
    page = widget_page(lab)
    assert page.locator(".trouble").inner_text() == f"⚠ {lab.state['trouble']}"
    assert "too wide" in lab.state["trouble"]
    assert page.locator(".sentence").is_hidden()
    page.locator("input[type=radio]").nth(0).evaluate(MOVE)
    page.evaluate(STATE)
    assert page.locator(".trouble").is_hidden()


def test_the_axis_of_shares_is_fixed_and_the_bytes_are_a_straight_line(widget_page):
    lab = LABS["ScalingLab"]()
    lab.set(divide_by="√D")
    page = widget_page(lab)
    ticks = page.locator(".lines .tick.end").all_text_contents()
    assert ticks == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    assert page.locator(".lines .curve.faint").count() == 1
    page = widget_page(LABS["CacheLab"]())
    points = page.locator(".lines .curve:not(.faint)").get_attribute("d")
    heights = torch.tensor([float(each.split(" ")[1]) for each in points[1:].split("L")])
    steps = heights.diff()
    assert bool((steps < -1).all())
    assert torch.allclose(steps, steps.mean().expand(7), atol=0.01)
