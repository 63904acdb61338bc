"""The attention scene in a browser, without a kernel: what is said and drawn, held against the
numbers given.
"""

import io
import re

import matplotlib.pyplot as plt
import pytest
import torch

from mha_course.attention import MultiHeadAttention
from mha_course.lessons.l07_multi_head_attention import AttentionScene

WORDS = ["it", "was", "<b>the</b>", "grey", "cat"]


@pytest.fixture
def steps(draw):
    torch.manual_seed(0)
    mha = MultiHeadAttention(24, 4).double()
    x = draw(1, 5, 24)
    with torch.no_grad():
        given = mha.steps(x)
    return given, {"tokens": WORDS, "x": x, "out_proj": mha.out_proj.requires_grad_(False)}


@pytest.fixture
def show(widget_page, steps):
    """Show the scene in a page of its own: ``show(reduced_motion="reduce")``; further options go to
    the page.
    """
    given, options = steps

    def open_page(made=None, **page):
        opened = widget_page(made or AttentionScene(given, **options), **page)
        opened.wait_for_selector("[data-drawn]")
        return opened

    return open_page


def settle(page):
    """Wait until it is drawn, and a transition is over."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.wait_for_function(
        "!document.querySelector('.picture').getAnimations({ subtree: true }).length"
    )


def state(page):
    return page.evaluate("['stage', 'row', 'head'].map((name) => model.get(name))")


def place(page, name, row, column, head=0):
    """Return where a cell is on the page."""
    made = """([name, row, column, head]) => {
      const { x, y, w, h, rows, columns } = model.get('state').plan.parts[name].boxes[head];
      return [x + (column + 0.5) * w / columns, y + (row + 0.5) * h / rows];
    }"""
    box = page.locator(".picture").bounding_box()
    x, y = page.evaluate(made, [name, row, column, head])
    return box["x"] + x * box["width"] / 936, box["y"] + y * box["width"] / 936


def point(page, *cell):
    page.mouse.move(*place(page, *cell))
    settle(page)
    return page.locator(".readout").inner_text()


def numbers(text):
    return [float(found) for found in re.findall(r"-?\d+\.\d+", re.sub(r"− ?", "-", text))]


def pixel(page, name, row, column):
    """Return red, green and blue of a cell, off its middle, where a line may pass."""
    x, y = place(page, name, row, column)
    shot = page.screenshot(clip={"x": x + 3, "y": y + 3, "width": 1, "height": 1})
    return (plt.imread(io.BytesIO(shot))[0, 0, :3] * 255).round().tolist()


def test_a_score_tells_the_products_whose_sum_it_is(show, steps):
    page, (given, _) = show(), steps
    page.evaluate("model.set('head', 2)")
    settle(page)
    *products, total, scaled = numbers(
        point(page, "scores", 3, 4).partition("head 2:")[2].replace("√6", "")
    )
    q, k = given.q[0, 2, 3], given.k[0, 2, 4]
    assert products == pytest.approx((q * k).tolist(), abs=0.006)
    assert total == pytest.approx(float(q @ k), abs=0.006)
    assert scaled == pytest.approx(float(q @ k) / 6**0.5, abs=0.006)


def test_weights_contexts_and_outs_tell_what_they_are_made_of(show, steps):
    page, (given, options) = show(), steps
    text = point(page, "weights", 1, 0)
    assert text.startswith("was → it in head 0: exp(")
    assert numbers(text)[-1] == pytest.approx(float(given.weights[0, 0, 1, 0]), abs=0.006)
    text = point(page, "context", 1, 3, 2)
    assert "number 3 of head 2" in text
    parts = given.weights[0, 2, 1] * given.v[0, 2, :, 3]
    first = [float(parts[i]) for i in parts.abs().argsort(descending=True)[:3]]
    assert numbers(text) == pytest.approx([*first, float(given.context[0, 2, 1, 3])], abs=0.006)
    text = point(page, "out", 4, 7)
    weight = options["out_proj"].weight[7].view(4, 6)
    heads = (given.context[0, :, 4] * weight).sum(-1).tolist()
    assert numbers(text)[:4] == pytest.approx(heads, abs=0.006)
    assert numbers(text)[-1] == pytest.approx(float(given.out[0, 4, 7]), abs=0.006)
    assert sum(numbers(text)[:-1]) == pytest.approx(numbers(text)[-1], abs=0.03)


def test_words_and_heads_are_followed_by_click_menu_and_button(show):
    page = show()
    page.mouse.click(*place(page, "q", 3, 1, 2))
    settle(page)
    assert state(page) == [-1, 3, 2]
    assert "in head 2, “grey” puts" in page.locator(".sentence").inner_text()
    page.locator("select.follow").select_option("3 <b>the</b>")
    page.get_by_role("button", name="head 0").click()
    settle(page)
    assert state(page) == [-1, 2, 0]
    assert page.get_by_role("button", name="head 0").get_attribute("aria-pressed") == "true"
    assert page.locator(".mha-scene b").count() == 0  # a word is no HTML


def test_the_walk_goes_by_keys_and_keeps_them_from_the_page(show):
    page = show()
    page.locator(".paper").focus()
    said = set()
    for key in ["Space", "ArrowRight"] * 5:
        page.keyboard.press(key)
        settle(page)
        said.add(page.locator(".sentence").inner_text())
    assert state(page)[0] == 8
    assert len(said) == 9
    assert page.locator(".count").inner_text() == "9 of 9"
    for key in ("ArrowDown", "ArrowDown", "PageDown", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    settle(page)
    assert state(page) == [7, 1, 1]
    assert "context of was" in page.locator(".readout").inner_text()
    before = page.locator(".readout").inner_text()
    page.keyboard.press("ArrowRight")
    settle(page)
    assert page.locator(".readout").inner_text() != before
    for _ in range(2):  # out of the numbers, then out of the walk
        page.keyboard.press("Escape")
    settle(page)
    assert state(page)[0] == -1
    assert page.evaluate("leaked") == []


def test_it_plays_to_the_end_and_pauses(show):
    page = show()
    page.clock.install()
    play = page.locator(".play")
    play.click()
    assert play.inner_text() == "Pause"
    page.clock.run_for(10_100)
    assert state(page)[0] == 1  # from the overview, a stage every five seconds
    play.click()
    page.clock.run_for(20_000)
    assert state(page)[0] == 1
    assert play.inner_text() == "Play"
    play.click()
    page.clock.run_for(60_000)
    assert state(page)[0] == 8
    assert play.inner_text() == "Play"


def test_transitions_move_unless_motion_is_to_be_reduced(show):
    moving = """async () => {
      model.set('stage', 4);
      for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame);
      return document.querySelector('.picture').getAnimations({ subtree: true }).length > 0;
    }"""
    assert show().evaluate(moving)
    assert not show(reduced_motion="reduce").evaluate(moving)


def test_it_follows_the_theme(show, steps):
    page, (given, _) = show(reduced_motion="reduce"), steps
    scores = given.scores[0, 0]
    low, high, zero = (
        divmod(int(i), 5) for i in (scores.argmin(), scores.argmax(), scores.abs().argmin())
    )
    red, green, blue = pixel(page, "scores", *high)
    assert red > max(green, blue) + 60
    red, green, blue = pixel(page, "scores", *low)
    assert blue > red + 60
    light = pixel(page, "scores", *zero)
    page.add_style_tag(
        content=":root { --jp-layout-color0: #111111; --jp-ui-font-color1: #dddddd }"
    )
    page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    settle(page)
    assert min(light) > 190
    assert max(pixel(page, "scores", *zero)) < 90


def test_on_a_phone_it_scrolls_inside_itself_to_what_is_lit(show):
    page = show(width=360, height=800, reduced_motion="reduce")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    for _ in range(7):
        page.get_by_role("button", name="Next").click()
    settle(page)
    left = page.evaluate("document.querySelector('.mha-scene .paper').scrollLeft")
    part = page.evaluate("model.get('state').plan.parts.weights")
    assert left < part["x"] * 0.88 < left + 300


def test_recompute_asks_the_kernel_and_says_what_it_answers(show, steps):
    given, options = steps
    page = show(AttentionScene(given, recompute=lambda: given, **options), reduced_motion="reduce")
    assert page.locator(".source").inner_text() == "These numbers are the course's."
    page.get_by_role("button", name="Recompute").click()
    answer = (
        "(changes) => model.set('state', "
        "{ ...model.get('state'), serial: model.get('event').serial, ...changes })"
    )
    page.evaluate(answer, {"trouble": "your function: ValueError: no heads"})
    assert page.locator(".trouble").inner_text() == "your function: ValueError: no heads"
    page.get_by_role("button", name="Recompute").click()
    page.evaluate(answer, {"trouble": "", "source": "Yours."})
    settle(page)
    assert page.locator(".source").inner_text() == "Yours."
    assert page.locator(".trouble").inner_text() == ""
