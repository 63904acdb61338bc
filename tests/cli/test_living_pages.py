"""Lessons executed for a browser: as pages of the site, read and presented."""

import functools
import re
from collections import Counter
from pathlib import Path

import pytest
from browsing import MOVE
from lessons import BY_NAME, LESSONS, read
from players import go_to_slide, swipe

from mha_course.cli import site
from mha_course.cli.authoring import MOVES

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
LEAST = 16  # pixels of letters on a slide of 1920
TRAIN = ("13", "15", "16", "17")  # for a minute each; other lessons have widgets of the same kinds
# What is cut off on a slide, and how small its letters are, in pixels of a slide 1920 wide.
MEASURE = """() => [...document.querySelectorAll(".stage > main > section")].map((slide) => {
  const content = slide.querySelector(".content"), stage = content.getBoundingClientRect();
  const cut = (part) => part.scrollWidth > part.clientWidth + 1
    || part.scrollHeight > part.clientHeight + 1;
  const outside = (box) => box.width && (box.right > stage.right + 2
    || box.bottom > stage.bottom + 2);
  const texts = document.createTreeWalker(content, NodeFilter.SHOW_TEXT),
    range = document.createRange();
  let [least, out] = [99, false];
  while (texts.nextNode()) {
    const { data, parentElement: part } = texts.currentNode;
    range.selectNode(texts.currentNode);
    // Indices in mathematics are as small as their font has them; what is only read aloud, as
    // small as can be; choices unfold.
    if (!data.trim() || !range.getBoundingClientRect().width) continue;
    if (part.closest("script, math, option, .spoken, .choice > div")) continue;
    least = Math.min(least, parseFloat(getComputedStyle(part).fontSize) * part.currentCSSZoom);
    out ||= outside(range.getBoundingClientRect());
  }
  return {
    name: slide.ariaLabel, cut: cut(content) || [...content.querySelectorAll("pre")].some(cut),
      out, least, empty: !content.children.length,
  };
})"""
# Keeps what a widget draws and writes, except its controls, which show their own values.
REMEMBER = """(place) => {
  window.drawn = (place) => {
    const copy = place.cloneNode(true);
    for (const node of copy.querySelectorAll(".controls, .bar, script")) node.remove();
    const pixels = [...place.querySelectorAll("canvas")].map((canvas) => canvas.toDataURL());
    return copy.innerHTML + pixels.join();
  };
  window.before = drawn(place);
}"""
# Waits until a widget is drawn differently; after ten seconds, the answer is no.
CHANGES = """async (place) => {
  for (let frames = 0; frames < 200; frames += 1) {
    if (drawn(place) !== before) return true;
    await new Promise((done) => setTimeout(done, 50));
  }
  return false;
}"""

AXE = [
    *ROOT.glob(".venv/node/node_modules/axe-core/axe.min.js"),
    *ROOT.glob("node_modules/axe-core/axe.min.js"),
]
# What is seen of a control; Tab should come to each, and it should then be seen otherwise.
CONTROLS = """() => {
  window.looks = (node) => [node, node.parentElement, node.nextElementSibling].map((one) => {
    const { outline, boxShadow, stroke } = one ? getComputedStyle(one) : {};
    return outline + boxShadow + stroke;
  }).join();
  const all = "a[href], button, summary, input:not([type=radio]), :checked, select, [tabindex='0']";
  return [...document.querySelectorAll(all)].filter((node) => !node.disabled && node.tabIndex === 0
    && node.checkVisibility({ visibilityProperty: true }))
    .map((node, place) => [node.dataset.control = `${place}`, looks(node)]);
}"""


def check_access(page):
    """Keys reach every control and mark it, and axe finds no error in light or dark."""
    page.wait_for_timeout(1000)  # until widgets are awake and at rest
    controls = dict(page.evaluate(CONTROLS))
    reached = {}
    for _ in range(len(controls) + 1):  # once round, past the page itself
        page.keyboard.press("Tab")
        at, looks = page.evaluate(
            "[document.activeElement.dataset.control, looks(document.activeElement)]"
        )
        reached[at] = looks
    reached.pop(None, None)
    assert reached.keys() == controls.keys()
    assert [at for at, looks in reached.items() if looks == controls[at]] == []
    if not AXE:
        pytest.skip("axe-core is missing: npm install --no-package-lock")
    page.evaluate(AXE[0].read_text())
    for colours in ("light", "dark"):
        page.emulate_media(color_scheme=colours)
        page.wait_for_timeout(300)
        assert page.evaluate("axe.run().then((found) => found.violations)") == []


@pytest.fixture(scope="module")
def page_of(tmp_path_factory):
    """Write the page of a lesson, executed, when it is first asked for, and return its path."""

    @functools.cache
    def write(path):
        folder = tmp_path_factory.mktemp("site")  # its own: each has an index with this page alone
        lesson = site.read_lessons([path.name[:2]], solutions=True)
        site.write(lesson, folder, "https://example.org/course/")
        site.write_index(lesson, folder, "https://example.org/course/")
        return folder / f"{path.stem}.html"

    return write


@pytest.fixture
def open_deck(offline_page, page_of):
    """Open a lesson with its solutions on a projector."""

    def open_page(path, **options):
        projector = {"width": 1920, "height": 1080, "reduced_motion": "reduce"}
        page = offline_page(page_of(path), **(projector | options))
        page.keyboard.press("p")
        page.wait_for_selector("html[data-ready]")
        page.wait_for_timeout(300)  # until widgets have their size
        return page

    return open_page


def at(page):
    return int(page.evaluate("location.hash").removeprefix("#slide-"))


@pytest.mark.parametrize("path", **BY_NAME)
def test_slides_can_be_read_in_a_room_hold_their_content_and_ask_for_nothing(path, open_deck):
    page = open_deck(path)
    found = page.evaluate(MEASURE)
    assert len(found) > 10
    wrong = [slide["name"] for slide in found if slide["cut"] or slide["out"] or slide["empty"]]
    assert wrong == []
    assert [(slide["name"], slide["least"]) for slide in found if slide["least"] < LEAST] == []
    # A picture that has no room warns.
    assert re.findall(r"\w+Warning: [^\n]*", page.text_content(".stage main")) == []
    assert page.complaints == []


RECORD_ADDRESSES = """() => {
  window.addresses = [];
  const replace = history.replaceState.bind(history);
  history.replaceState = (...given) => { addresses.push(given[2]); replace(...given); };
}"""


def test_the_address_holds_what_the_first_explorer_shows(offline_page, page_of):
    file = page_of(LESSONS[0])
    page = offline_page(file)
    assert page.evaluate("location.hash") == ""
    page.get_by_role("button", name="Swap cat and dogs").click()
    page.get_by_role("button", name="head 2").click()
    page.locator(".mha-arcs .word", has_text="ate").click()
    page.locator(".readout", has_text="head 2: “ate” looks at ").first.wait_for()
    address = page.evaluate("location.hash")
    assert address.startswith("#s=the-grey-dogs-that-chased-the-loud-cat-was-hungry")
    assert address.endswith("&head=2&word=13")

    again = offline_page(file)
    again.evaluate(RECORD_ADDRESSES)
    again.goto(f"{file.as_uri()}{address}")
    readout = again.locator(".readout").first
    readout.filter(has_text="head 2: “ate” looks at ").wait_for()
    assert again.evaluate("addresses") == [address]  # nothing in between that a reload could keep
    again.reload()
    readout.filter(has_text="head 2: “ate” looks at ").wait_for()
    assert readout.inner_text() == page.locator(".readout").first.inner_text()
    assert again.locator("[data-control=sentence]").first.input_value().startswith("the grey dogs")
    assert again.evaluate("location.hash") == address

    index = offline_page(file.with_name("index.html"))
    index.goto("about:blank")  # a visitor's page is new, and has no place to scroll back to
    index.goto(f"{file.with_name('index.html').as_uri()}{address}")
    index.locator(".readout").first.filter(has_text="head 2: “ate” looks at ").wait_for()
    assert 0 < index.locator(".mha-heads").first.bounding_box()["y"] < 120  # below the masthead


def test_a_sentence_that_is_typed_on_a_slide_is_answered_by_the_page(open_deck):
    page = open_deck(LESSONS[0], width=1280, height=720)
    place, slide = go_to_slide(page, ".mha-heads input")
    explorer = slide.locator(".live")
    field = explorer.locator("input")
    text = "the loud dogs that chased the grey cat were hungry , so they ate"
    field.fill(text)
    explorer.locator(".readout", has_text="head 1: “they” looks at dogs ").wait_for()
    field.press("End")
    for key in ("Space", "s", "ArrowRight", "d", "Home"):
        field.press(key)
    assert at(page) == place
    assert field.input_value() == f"{text} sd"
    assert page.evaluate("document.documentElement.dataset.jpThemeLight") == "true"
    explorer.get_by_role("button", name="head 2").press("ArrowRight")  # is the widget's own
    assert at(page) == place
    page.keyboard.press("PageDown")
    assert at(page) == place + 1
    page.keyboard.press("p")  # the same widget is on the page
    assert page.locator("article .mha-heads input").first.input_value() == f"{text} sd"
    page.emulate_media(media="print")
    assert page.locator("article .mha-arcs svg").first.is_visible()
    assert page.complaints == []


def test_a_swipe_over_a_widget_turns_the_slide_unless_something_is_dragged(open_deck):
    page = open_deck(LESSONS[0], width=1024, height=768, has_touch=True)
    place, slide = go_to_slide(page, ".arrows .handle")
    for part, turned in ((".handle", 0), (".sentence", 1)):
        box = slide.locator(part).first.bounding_box()
        x, y = (int(box[at] + box[size] / 2) for at, size in (("x", "width"), ("y", "height")))
        swipe(page, x, x - 90, y)
        assert at(page) == place + turned


@pytest.mark.parametrize(
    "path", [path for path in LESSONS if path.name[:2] not in TRAIN], ids=lambda path: path.stem
)
def test_widgets_answer_on_a_page(path, page_of, offline_page):
    file = page_of(path)
    assert file.stat().st_size < (1_500_000 if path.name.startswith("00") else 2_500_000)
    page = offline_page(file)
    places = page.locator(".live")
    drawn = Counter(name for cell in read(path).cells for name in MOVES.findall(cell.source))
    living = places.evaluate_all("nodes => nodes.map((node) => node.dataset.widget)")
    dead = Counter(name.rstrip("(") for name in drawn.elements()) - Counter(living)
    assert not dead
    assert living
    page.evaluate("document.querySelectorAll('details.deeper').forEach((one) => (one.open = true))")
    for number in range(places.count()):
        place = places.nth(number)
        place.scroll_into_view_if_needed()
        place.locator(".mha-picture, .mha-film").first.wait_for()
        page.wait_for_timeout(400)  # until it is at rest
        if place.locator("input[max='0']").count():
            continue  # the trace of a stub has one step
        moved = place.locator("input:not([type=text]):not(:checked), select")
        pressed = place.locator("button:enabled:visible:not(.word):not([aria-disabled=true])")
        for control in moved.element_handles() or pressed.element_handles()[:1]:
            place.evaluate(REMEMBER)
            control.evaluate(MOVE) if moved.count() else control.click()
            assert place.evaluate(CHANGES), (living[number], number)
    top = "document.elementFromPoint(innerWidth / 2, 10).closest('.masthead') !== null"
    assert page.evaluate(top)  # no widget covers the page
    assert page.complaints == []
    if path.name[:2] in ("00", "03", "07"):
        check_access(offline_page(file.with_name("index.html")))
        check_access(page)
