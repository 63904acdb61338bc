"""What both players share: a position, keys, buttons, two views, words that stay words."""

import json
import re

import browsing
import pytest
import torch
from players import go, now

from mha_course.tracing import trace
from mha_course.tracing.records import Argument, Operand, Source, Step
from mha_course.tracing.trace import Trace
from mha_course.widgets import LayoutPlayer, ShapeTracer

EVIL = '"><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'


def steps(x):
    return x.view(1, 3, 2, 4).transpose(1, 2).contiguous().flatten(2)


def hostile(evil=EVIL, given=EVIL):
    """Make a trace in which every word is hostile."""
    common = {
        "dtype": torch.float32,
        "device": torch.device("cpu"),
        "strides": (3, 1),
        "contiguous": True,
    }
    common |= {"bytes": 24, "flops": 0}
    shape, axes = (2, 3), ("__proto__", given)
    first = Step(
        index=0, op=evil, inputs=(Operand(given, shape, axes),), shape=shape, axes=axes,
        storage="new", line=evil,
        lineno=8, hidden_copies=1, warning=evil, note=evil, stage=evil, name=evil, source=0,
        **common,
    )  # fmt: skip
    second = Step(
        index=1, op="constructor", inputs=(Operand(0, shape, axes),), shape=shape, axes=("?", "1"),
        storage="view",
        line=evil, lineno=0, hidden_copies=0, warning=evil, stage="toString", name="hasOwnProperty",
        **common,
    )  # fmt: skip
    code = Source(evil, evil, 7, ("    def f(x):", f"        return '{evil}'"))
    argument = Argument(given, shape, axes, (3, 1), 0, 0)
    return Trace((first, second), None, (argument,), (code,), {evil: 2}, (evil,), evil)


@pytest.fixture(params=[LayoutPlayer, ShapeTracer])
def player(request):
    made = request.param(trace(steps, torch.zeros(1, 3, 8), axes="B S C", sizes={"H": 2}))
    made.position = 0  # the tracer opens at the question
    return made


@pytest.fixture
def page(player, widget_page):
    """The player in a page that listens to keys first, and asks for less motion."""
    return widget_page(player, capture=True, reduced_motion="reduce")


@pytest.fixture
def last(player):
    return player.options["last"]


def test_what_the_browser_gets_is_json_and_the_position_stays_within(player, last):
    assert json.loads(json.dumps(player.options)) == player.options
    assert last >= 3
    for wanted, kept in ((2, 2), (99, last), (-1, 0)):
        player.position = wanted
        assert player.position == kept


def test_keys_step_and_go_no_further(page, last):
    page.keyboard.press("End")
    assert now(page) == 0  # it is not in focus
    page.locator(".mha-player").focus()
    for key, to in (
        ("ArrowLeft", 0),
        ("ArrowRight", 1),
        ("End", last),
        ("ArrowRight", last),
        ("Home", 0),
    ):
        page.keyboard.press(key)
        assert (now(page), page.evaluate("document.getAnimations().length")) == (to, 0)
    page.locator("input").press("ArrowRight")
    assert now(page) == 1
    page.get_by_role("button", name="Next").focus()
    for key, to in (("Enter", 2), ("ArrowLeft", 1), (" ", 2)):
        page.keyboard.press(key)
        assert now(page) == to
    for key in ("a", "Control+ArrowLeft", "Tab"):  # not keys of the player
        page.keyboard.press(key)
    assert page.evaluate("leaked") == ["End", "Control", "ArrowLeft", "Tab"]
    for to in (1, 0, 0):
        page.get_by_role("button", name="Back").click(force=True)  # the last one is disabled
        assert now(page) == to
    page.wait_for_function("model.saved > 0")


def test_it_plays_to_the_end_and_from_the_start_again(page, last):
    browsing.stop_clock(page)
    page.locator(".mha-player").press(" ")
    assert page.get_by_role("button", name="Pause").count() == 1
    page.clock.run_for(3000)
    assert (now(page), page.evaluate("document.getAnimations().length")) == (2, 0)
    page.keyboard.press(" ")
    page.clock.run_for(3000)
    assert now(page) == 2
    page.get_by_role("button", name="Play").click()
    page.clock.run_for(1500 * last)
    assert now(page) == last
    page.get_by_role("button", name="Play").click()
    assert now(page) == 0
    page.clock.run_for(700)
    assert now(page) == 1
    page.get_by_role("button", name="Next").click()  # stepping has stopped it
    page.clock.run_for(5000)
    assert now(page) == 2


def test_two_views_of_one_model_agree_and_leave_nothing_behind(page, last):
    page.evaluate("async () => { window.tidy_two = await draw('two') }")
    page.locator("#two .mha-player").press("End")
    words = [page.locator(f"#{view} .count").inner_text() for view in ("one", "two")]
    assert words == [f"{last + 1} / {last + 1}"] * 2
    page.evaluate("() => { tidy(); tidy_two() }")
    assert page.evaluate("[model.calls.length, one.childElementCount, two.childElementCount]") == [
        0,
        0,
        0,
    ]
    page.keyboard.press("Home")
    assert now(page) == last


def again_and_again(x):
    for _ in range(60):
        x = x.transpose(1, 2).transpose(1, 2)
    return x.view(2, 4, 2, 4).transpose(1, 2).contiguous()


@pytest.mark.parametrize("kind", [LayoutPlayer, ShapeTracer])
def test_a_step_of_hundreds_changes_few_nodes(kind, widget_page):
    made = trace(again_and_again, torch.zeros(2, 4, 8), axes="B S C", sizes={"H": 2})
    page = widget_page(LayoutPlayer(made, made) if kind is LayoutPlayer else ShapeTracer(made))
    changes = page.evaluate(
        """async () => {
             const changes = [];
             const watch = new MutationObserver((all) => changes.push(all.length));
             const options = { subtree: true, childList: true, attributes: true };
             watch.observe(document.body, options);
             for (let at = 1; at < 25; at++) {
               model.set('position', 4 * at);
               await new Promise(requestAnimationFrame);
             }
             return changes; }"""
    )
    assert 0 < max(changes) < 100
    if kind is ShapeTracer:  # the step that is shown is in sight
        here, line = (page.locator(name).bounding_box() for name in (".pill.now", ".timeline"))
        assert line["x"] <= here["x"] <= here["x"] + here["width"] <= line["x"] + line["width"]


@pytest.mark.parametrize("kind", [LayoutPlayer, ShapeTracer])
def test_harmful_words_are_shown_as_words(kind, widget_page):
    player = kind(hostile())
    assert not re.search("<img|<script", player.static)
    page = widget_page(player)
    for at in (0, 1):
        go(page, at)
        page.wait_for_timeout(100)
        assert page.evaluate("window.hacked") is None
        assert page.locator("#one img, #one script").count() == 0
    assert EVIL in page.locator("#one").inner_text().replace("\n", "")
    sent = json.dumps(kind(hostile("\u202eevil\n\tx", given="x")).options, ensure_ascii=False)
    assert ("\u202e" in sent, "�evil" in sent) == (False, True)
