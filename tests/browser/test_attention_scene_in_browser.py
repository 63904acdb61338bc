"""The attention scene in a browser without a kernel, compared with the numbers given."""

import io
import re
from itertools import accumulate, pairwise

import browsing
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from mha_course import example
from mha_course.attention import MultiHeadAttention
from mha_course.lessons.l07_multi_head_attention.scene.plan import WIDTH
from mha_course.lessons.l07_multi_head_attention.scene.widget import AttentionScene

STAGES = 9
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
    """Show the scene in its own page: ``show(reduced_motion="reduce")``."""
    given, options = steps

    def open_page(made=None, **page):
        opened = widget_page(made or AttentionScene(given, **options), **page)
        opened.wait_for_selector("[data-drawn]")
        return opened

    return open_page


def settle(page):
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.wait_for_function(
        "!document.querySelector('.picture').getAnimations({ subtree: true }).length"
    )


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)
        settle(page)


def state(page):
    return page.evaluate("['stage', 'row', 'head'].map((name) => model.get(name))")


def place(page, name, row, column, head=0):
    made = """([name, row, column, head]) => {
      const boxes = model.get('state').plan.parts[name].boxes[model.get('head')];
      const { x, y, w, h, rows, columns } = boxes[head];
      return [x + (column + 0.5) * w / columns, y + (row + 0.5) * h / rows];
    }"""
    box = page.locator(".picture").bounding_box()
    x, y = page.evaluate(made, [name, row, column, head])
    return box["x"] + x * box["width"] / WIDTH, box["y"] + y * box["width"] / WIDTH


def point(page, *cell):
    page.mouse.move(*place(page, *cell))
    settle(page)
    return page.locator(".readout").inner_text()


def numbers(text):
    return [float(found) for found in re.findall(r"-?\d+\.\d+", re.sub(r"− ?", "-", text))]


def seek(page, position):
    drag = """(position) => {
      const scrub = document.querySelector('.scrub');
      scrub.value = position;
      scrub.dispatchEvent(new Event('input'));
    }"""
    page.evaluate(drag, position)
    settle(page)


def drawn(page):
    """Return what is drawn: the browser may round the same drawing's pixels in two ways."""
    return page.evaluate("""[
      document.querySelector('.picture').outerHTML,
      document.querySelector('.motion').toDataURL(),
    ]""")


def shot(page):
    return plt.imread(io.BytesIO(page.locator(".board").screenshot()))[:, :, :3]


def answer(page, **changes):
    """Answer the newest event as a kernel does, with these changes of the state."""
    page.evaluate(
        """(changes) => model.set('state',
          { ...model.get('state'), serial: model.get('event').serial, ...changes })""",
        changes,
    )
    settle(page)


def with_kernel(page):
    page.evaluate("model.send = () => {}; tidy(); draw('one'); null")
    settle(page)


@pytest.fixture
def running():
    """The scene of the running example, as lesson 7 shows it."""
    found = example.load()
    steps = found.mha.steps(found.x)
    options = {"x": found.x, "out_proj": found.mha.out_proj, "follow": "it", "head": 1}
    return AttentionScene(steps, tokens=found.tokens, **options)


def pixel(page, name, row, column):
    """Return red, green and blue of a cell, off its middle, where a line may pass."""
    x, y = place(page, name, row, column)
    board = page.locator(".board").bounding_box()
    return (shot(page)[int(y + 3 - board["y"]), int(x + 3 - board["x"])] * 255).round().tolist()


def test_a_score_tells_the_products_whose_sum_it_is(show, steps):
    page, (given, _) = show(), steps
    page.evaluate("model.set('head', 2)")
    settle(page)
    *products, total, scaled = numbers(
        point(page, "scores", 3, 4).partition("head 2:")[2].replace("√6", "")
    )
    q, k = given.q[0, 2, 3], given.k[0, 2, 4]
    assert products == pytest.approx((q * k).tolist(), abs=0.006)
    assert (total, scaled) == pytest.approx((float(q @ k), float(q @ k) / 6**0.5), abs=0.006)


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
    heads = (given.context[0, :, 4] * options["out_proj"].weight[7].view(4, 6)).sum(-1).tolist()
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
    assert page.locator(".mha-scene b").count() == 0  # a word is not HTML


def test_a_finger_chooses_a_number_which_stays_until_another_is_chosen(show):
    page = show(has_touch=True)
    readout = page.locator(".readout")
    page.touchscreen.tap(*place(page, "q", 3, 1, 2))
    settle(page)
    assert state(page) == [-1, 3, 2]
    assert readout.inner_text().startswith("q of grey, number 2 of head 2: ")
    page.locator("select.follow").select_option("3 <b>the</b>")
    settle(page)
    assert "q of <b>the</b> · k of " in readout.inner_text()  # what its stage looks into
    page.touchscreen.tap(*place(page, "q", 3, 1, 2))
    page.get_by_role("button", name="Next").tap()
    page.wait_for_function("model.get('stage') === 0")
    assert "number 2 of head 2" not in readout.inner_text()


def test_the_walk_goes_by_keys_and_keeps_them_from_the_page(show):
    page = show()
    page.locator(".paper").focus()
    said = set()
    for key in ["Space", "ArrowRight"] * 5:
        press(page, key)
        said.add(page.locator(".sentence").inner_text())
    assert (state(page)[0], len(said)) == (8, 9)
    assert page.locator(".count").inner_text() == "9 of 9 · output"
    # after the last stage there is no more
    press(page, "Space", "ArrowDown", "ArrowDown", "PageDown", "ArrowLeft", "Enter")
    assert state(page) == [7, 1, 1]
    assert "context of was" in page.locator(".readout").inner_text()
    before = page.locator(".readout").inner_text()
    press(page, "ArrowRight")
    assert page.locator(".readout").inner_text() != before
    press(page, "Escape", "Escape")  # out of the numbers, then out of the walk
    assert state(page)[0] == -1
    assert page.evaluate("leaked") == []


def test_it_plays_to_the_end_and_pauses(show):
    page = show()
    browsing.stop_clock(page)
    play = page.locator(".play")
    play.click()
    assert play.inner_text() == "Pause"
    page.clock.run_for(3000)  # the first stage takes three seconds
    assert state(page)[0] == 0
    assert 0.9 < float(page.locator(".scrub").input_value()) <= 1
    page.clock.run_for(4300)  # it rests, and goes on
    assert state(page)[0] == 1
    play.click()
    page.clock.run_for(20_000)
    page.locator(".next").click()  # the stage that it is in is over, and the next one moves
    page.clock.run_for(500)
    assert 2 < float(page.locator(".scrub").input_value()) < 2.5
    page.clock.run_for(20_000)
    assert page.locator(".scrub").input_value() == "3"
    play.click()
    page.locator(".next").click()  # while it plays it goes on from there
    page.clock.run_for(90_000)
    assert page.locator(".scrub").input_value() == "9"


def test_every_stage_moves_and_ends_in_its_still(show, running):
    page = show(running)
    for stage in range(STAGES):
        shots, drawings = [], []
        for fraction in (0, 0.5, 1):
            seek(page, stage + fraction)
            shots.append(shot(page))
            drawings.append(drawn(page))
        for one, other in pairwise(shots):
            assert (np.abs(one - other) > 0.1).any(-1).sum() > 300, stage
        seek(page, stage + 0.5)  # backward it is the same
        assert drawn(page) == drawings[1], stage
        seek(page, 0)
        page.evaluate("(stage) => model.set('stage', stage)", stage)
        settle(page)
        assert drawn(page) == drawings[2], stage


def test_every_number_that_moves_is_one_of_this_pass(show, running):
    page = show(running)
    page.evaluate("""() => {
      window.written = [];
      const write = CanvasRenderingContext2D.prototype.fillText;
      CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
        written.push([model.get('stage'), text]);
        return write.call(this, text, ...place);
      };
    }""")
    for step in range(20 * STAGES):
        seek(page, step / 20)
    found = example.load()
    given = found.mha.steps(found.x)
    q, k, scores = given.q[0, 1, 12], given.k[0, 1, 2], given.scores[0, 1, 12]
    scaled, weights = given.scaled_scores[0, 1, 12], given.weights[0, 1, 12]
    products = (q * k).tolist()
    powers = (scaled - scaled.max()).exp()
    true = {
        3: [*q.tolist(), *k.tolist(), *products, *accumulate(products)],
        4: [*scores.tolist(), *scaled.tolist()],
        5: [*scaled.tolist(), *powers.tolist(), float(powers.sum()), *weights.tolist(), 1.0],
        6: weights.tolist(),
    }
    written = page.evaluate("written")
    assert {stage for stage, _ in written} == set(true)
    for stage, text in written:
        (value,) = numbers(text)
        assert min(abs(value - number) for number in true[stage]) < 0.0051, (stage, text)


FRAMES = 200
MOVED = f"""async () => {{
  document.querySelector('.next').click();
  for (let i = 0; i < {FRAMES}; i++) await new Promise(requestAnimationFrame);
}}"""


def test_it_moves_without_laying_out(show, running):
    page = show(running)
    seek(page, 3)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")

    def layouts():
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(each["value"] for each in metrics if each["name"] == "LayoutCount")

    before = layouts()
    page.evaluate(MOVED)
    assert state(page)[0] == 3
    assert float(page.locator(".scrub").input_value()) < 4  # it moved all the time
    assert (layouts() - before) / FRAMES < 0.3


def test_the_scrubber_goes_by_keys_and_says_the_stage(show):
    page = show()
    scrub = page.locator(".scrub")
    assert scrub.get_attribute("aria-valuetext") == "overview"
    scrub.focus()
    seek(page, 0.4)
    for key, position, name in [
        ("ArrowRight", "1", "input"),
        ("ArrowUp", "2", "projection"),
        ("ArrowLeft", "1", "input"),
        ("ArrowDown", "0", "overview"),
    ]:
        press(page, key)
        assert (scrub.input_value(), scrub.get_attribute("aria-valuetext")) == (position, name)


def test_where_motion_is_to_be_reduced_it_steps(show):
    page = show(reduced_motion="reduce")
    assert page.locator(".scrub").get_attribute("step") == "1"
    page.get_by_role("button", name="Next").click()
    assert page.locator("[data-drawn]").get_attribute("data-drawn").endswith("0 -1 0 1")
    browsing.stop_clock(page)
    page.locator(".play").click()
    for stage in (1, 2):
        assert (state(page)[0], page.locator(".scrub").input_value()) == (stage, f"{stage + 1}")
        page.clock.run_for(5100)


def test_the_head_that_is_followed_unfolds_so_that_a_pointer_hits_its_numbers(show, running):
    page = show(running, width=1016, reduced_motion="reduce")
    sizes = """(head) => ['q', 'k', 'v', 'context'].map((name) => {
      const image = document.querySelector(`[data-part="${name}"][data-band="${head}"]`);
      const { width, height } = image.getBoundingClientRect();
      return (name === 'k' ? height : width) / 12;
    })"""
    for followed in (1, 3):
        page.get_by_role("button", name=f"head {followed}").click()
        settle(page)
        assert min(page.evaluate(sizes, followed)) >= 8
        assert max(page.evaluate(sizes, 2)) < 1
    text = point(page, "context", 4, 7, 3)
    given = running._shown["context"][3, 4, 7]
    assert "number 7 of head 3" in text
    assert numbers(text)[-1] == pytest.approx(given, abs=0.006)


def test_its_height_is_the_same_at_all_stages(show, running):
    page = show(running, width=1016)
    page.evaluate("model.get('options').asks = true")
    with_kernel(page)
    assert page.locator(".said").is_visible()
    height = "document.querySelector('.mha-scene').getBoundingClientRect().height"
    heights = set()
    for step in range(2 * STAGES + 1):
        seek(page, step / 2)
        heights.add(page.evaluate(height))
    assert len(heights) == 1
    assert heights.pop() <= 620


def test_a_change_of_heads_is_animated_unless_motion_is_to_be_reduced(show):
    moving = """async () => {
      model.set('head', 2);
      for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame);
      return document.querySelector('.picture').getAnimations({ subtree: true }).length > 0;
    }"""
    assert show().evaluate(moving)
    assert not show(reduced_motion="reduce").evaluate(moving)


def test_it_fills_the_screen(show):
    page = show()
    before = page.locator(".picture").bounding_box()["width"]
    page.get_by_role("button", name="Full screen").click()
    page.locator(".mha-scene:fullscreen").wait_for()
    settle(page)
    assert page.locator(".picture").bounding_box()["width"] > before * 1.1
    page.get_by_role("button", name="Leave full screen").click()
    page.locator(".mha-scene:not(:fullscreen)").wait_for()
    settle(page)
    assert page.locator(".picture").bounding_box()["width"] == pytest.approx(before)


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
    assert 70 < min(pixel(page, "scores", *zero)) <= max(pixel(page, "scores", *zero)) < 130


def test_on_a_phone_it_scrolls_inside_itself_to_what_is_lit(show):
    page = show(width=360, height=800, reduced_motion="reduce")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.evaluate("model.set('row', 4)")
    following = page.get_by_role("button", name="Next")
    for _ in range(4):
        following.click()
    settle(page)
    bars = page.locator(".mha-scene .picture > g:last-child text")
    boxes = bars.evaluate_all("all => all.map((one) => one.getBoundingClientRect())")
    assert len(boxes) > 5
    assert all(0 <= box["left"] < box["right"] <= 360 for box in boxes if box["width"])
    for _ in range(3):
        following.click()
    settle(page)
    left = page.evaluate("document.querySelector('.mha-scene .paper').scrollLeft")
    assert left < page.evaluate("model.get('state').plan.parts.weights")["x"] * 0.88 < left + 300


def test_a_sentence_is_typed_where_there_is_a_kernel(show, steps):
    given, options = steps
    page = show(AttentionScene(given, recompute=lambda sentence: given, **options))
    field = page.locator("[data-control=sentence]")
    assert not field.is_visible()
    with_kernel(page)
    assert field.input_value() == " ".join(WORDS)
    field.fill("it was the grey dog")
    assert page.evaluate("model.get('event').moved") == {"sentence": "it was the grey dog"}
    answer(page, trouble="dog is no word of the model")
    assert page.locator(".trouble").inner_text() == "dog is no word of the model"
    assert not page.locator(".source").is_visible()  # it takes its place
    assert field.input_value() == "it was the grey dog"
    page.evaluate("model.set('row', 1)")  # it is followed where it is in the new sentence
    words = ["so", "it", "was", "the", "cat"]
    page.get_by_role("button", name="Recompute").click()
    answer(page, words=words, tokens=words, trouble="", source="Yours.")
    assert page.locator("select.follow").input_value() == "2"
    assert page.locator(".source").inner_text() == "Yours."
