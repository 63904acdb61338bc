"""Labs in a page without a kernel: each control moves what is drawn, as Python would."""

import math
import re
from functools import partial

import pytest
import torch
from browsing import MOVE
from labs import LABS
from widget_cases import make

from mha_course.widgets import PlaneLab
from mha_course.widgets.labs import panels, plane
from mha_course.widgets.labs.ablation import SENTENCES

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
        assert page.locator(".sentence").inner_text() == lab.text
        assert after["trouble"] == ""
    page.locator(".again").click()
    page.evaluate(STATE)
    assert page.locator(".sentence").inner_text() == start


DRAWN = "document.querySelector('.mha-lab .boards').outerHTML"


def unrounded(numbers):
    """Return numbers as lists, without the rounding of panels."""
    if isinstance(numbers, torch.Tensor):
        return unrounded(numbers.tolist())
    if isinstance(numbers, list | tuple):
        return [unrounded(each) for each in numbers]
    return None if math.isnan(numbers) else numbers


def assert_alike(ours, theirs):
    """Compare numbers to 1e-6, and those in texts to the last digit that is written."""
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        assert_alike(list(ours.values()), [theirs[key] for key in ours])
    elif isinstance(ours, list):
        assert len(ours) == len(theirs)
        for pair in zip(ours, theirs, strict=True):
            assert_alike(*pair)
    elif isinstance(ours, str):
        number = r"-?\d+\.\d\d"
        assert re.sub(number, "", ours) == re.sub(number, "", theirs)
        written = [[float(found) for found in re.findall(number, text)] for text in (ours, theirs)]
        assert written[0] == pytest.approx(written[1], abs=0.01001)
    else:
        numbers = isinstance(ours, int | float) and not isinstance(ours, bool)
        assert ours == (pytest.approx(theirs, abs=1e-6) if numbers else theirs)


@pytest.mark.parametrize("projections", [False, True])
def test_a_page_computes_what_python_does(projections, widget_page, monkeypatch):
    for module in (panels, plane):
        monkeypatch.setattr(module, "plain", unrounded)
    lab = PlaneLab(projections=projections)
    start = lab.text
    page = widget_page(lab, height=200)  # a key may scroll it

    def moves(move, *others):
        """Move something, and compare what is drawn with Python's."""
        before = page.evaluate(DRAWN)
        move(*others)
        state = page.evaluate(STATE)
        lab._show({"moved": page.evaluate("model.state.event.moved")})
        assert state["trouble"] == lab.state["trouble"] == ""
        assert_alike(state["values"], lab.state["values"])
        assert_alike(state["panels"], lab.state["panels"])
        assert_alike(page.locator(".sentence").inner_text(), lab.text)
        assert page.evaluate(DRAWN) != before

    def press(handle, key):
        handle.focus()
        page.keyboard.press(key)

    controls = page.locator(".mha-lab input")
    tips = page.locator(".handle")
    for _ in range(3):
        for control in controls.all():
            moves(control.evaluate, MOVE)
            for key in ("End", "Home"):
                moves(press, control, key)
        for tip in tips.all():
            for key in ("ArrowUp", "Shift+ArrowLeft"):
                moves(press, tip, key)
            place = "[document.activeElement.ariaLabel, scrollY]"
            before = page.evaluate(place)
            assert before[1] > 0
            page.keyboard.press("Home")
            assert page.evaluate(place) == before
    page.locator(".again").click()
    page.evaluate(STATE)
    assert page.locator(".sentence").inner_text() == start


def test_a_mask_is_painted_in_a_page(widget_page, monkeypatch):
    monkeypatch.setattr(panels, "plain", unrounded)
    lab = make("MaskLab")
    page = widget_page(lab)
    menu, board, slider = (
        page.locator(f".mha-lab {part}") for part in ("select", ".paint", "[type=range]")
    )
    painting = [lambda key=key: board.press(key) for key in (" ", "End", " ", "Shift+ArrowLeft")]
    told = set()
    for move in [*[lambda: menu.evaluate(MOVE)] * 6, *painting, lambda: slider.evaluate(MOVE)]:
        move()
        for fill in page.locator("input[type=radio]").all():
            fill.evaluate(MOVE)
            state = page.evaluate(STATE)
            lab._show({"moved": page.evaluate("model.state.state.values")})
            assert_alike(state, lab.state | {"serial": state["serial"]})
            told.add(page.locator(".sentence").inner_text())
            assert lab.text in told
    assert len(told) > 10


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
