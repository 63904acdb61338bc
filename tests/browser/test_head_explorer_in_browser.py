"""The head explorer in a browser, compared with the numbers it was given."""

import math
import re

import numpy as np
import pytest
import torch

from mha_course.datasets.grammar import NOUNS, OBJECT_FORMS, words_of
from mha_course.lessons.l00_start_here.masked_word_model import Look
from mha_course.widgets import HeadExplorer
from mha_course.widgets.base import standalone

EVIL = '</script><img src=x onerror="window.hacked=1">'
WORDS = ["it", "was", "the", "cat", "sat"]
SENTENCE = "the grey cat that chased the loud dogs was hungry , so it ate greedily"


def weights(draw, *shape):
    return (draw(*shape) * 2).softmax(-1)


@pytest.fixture
def show(widget_page):
    """Show an explorer's table without a kernel, or its sentence with ``unfolded=False``."""

    def open_page(explorer, *, unfolded=True, **options):
        explorer.unfolded = unfolded
        page = widget_page(explorer, capture=True, height=900, **options)
        page.wait_for_selector("[data-drawn]")
        return page

    return open_page


def heard(*args, **options):
    """Return an explorer whose controls stay in a page without a kernel."""
    explorer = HeadExplorer(*args, **options)
    explorer.without_kernel = dict
    return explorer


def grid(page):
    """Return where the cells of the large picture begin, and how wide and high each of them is."""
    numbers = page.locator(".base").get_attribute("data-place").split()
    return dict(zip("xywh", map(float, numbers), strict=True))


def point(page, row, column):
    """Point at the middle of a cell, or at a word where row or column is None."""
    box, place = page.locator(".surface").bounding_box(), grid(page)
    x = place["x"] - 12
    if column is not None:
        x = place["x"] + (column + 0.5) * place["w"] + 4 * (row is None)
    y = place["y"] - 6 if row is None else place["y"] + (row + 0.5) * place["h"]
    page.mouse.move(box["x"] + x, box["y"] + y)


def said(page):
    return page.locator(".readout").inner_text().replace("\u2068", "").replace("\u2069", "")


def cell(page, row, column):
    read = "(canvas, [x, y]) => [...canvas.getContext('2d').getImageData(x, y, 1, 1).data]"
    return np.array(page.locator(".base").evaluate(read, [column, row]))


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)
    page.wait_for_timeout(60)  # until the next frame is drawn


def test_every_cell_row_and_column_is_read_out_where_it_is_pointed_at(show, draw):
    given = weights(draw, 3, 5, 5)
    page = show(HeadExplorer(given, queries=WORDS))
    for row, column in np.ndindex(5, 5):
        point(page, row, column)
        assert said(page) == f"head 0: {WORDS[row]} → {WORDS[column]} {given[0, row, column]:.2f}"
    page.wait_for_function("document.querySelector('.spoken').textContent.includes('sat')")
    point(page, 3, None)
    assert said(page).startswith("head 0: “cat” looks at ")
    point(page, None, 1)
    assert said(page).startswith("head 0: “was” is seen by ")
    page.mouse.move(2, 2)
    row = int(given[0].argmax()) // 5  # the word that is followed
    assert said(page).startswith(f"head 0: “{WORDS[row]}” looks at ")


# ---- the sentence ----


def arcs(page):
    """Return the widths of all arcs, and the numbers below words."""
    page.wait_for_timeout(300)  # until they have moved
    widths = page.locator(".mha-arcs path:not([opacity='0'])").evaluate_all(
        "nodes => nodes.map((node) => Number(node.getAttribute('stroke-width')))"
    )
    below = page.locator(".mha-arcs .word").evaluate_all(
        "nodes => nodes.map((node) => [node.querySelector('span').textContent, "
        "node.lastChild.textContent])"
    )
    return widths, [(word, number) for word, number in below if number]


def test_arcs_are_as_wide_as_the_weights_of_the_followed_word(show, draw):
    given = weights(draw, 3, 5, 5)
    page = show(HeadExplorer(given, queries=WORDS, follow="cat", head=1), unfolded=False)

    def right(head, row):
        widths, below = arcs(page)
        numbers = given[head, row].tolist()
        drawn = [w for w in numbers if w >= 0.025]
        assert sorted(widths) == pytest.approx(sorted(max(1, 18 * w) for w in drawn), abs=0.01)
        assert below == [(WORDS[j], f"{w:.2f}") for j, w in enumerate(numbers) if w >= 0.05]
        assert page.locator(".word.followed span").inner_text() == WORDS[row]

    right(1, 3)
    page.locator(".word").nth(1).hover()
    right(1, 1)
    assert page.evaluate("model.get('row')") == 3  # pointing does not choose
    page.mouse.move(2, 2)
    right(1, 3)
    page.locator(".word").nth(4).click()
    page.mouse.move(2, 2)
    right(1, 4)
    assert page.evaluate("model.get('row')") == 4
    page.evaluate("leaked.length = 0")
    for key, row, head in (
        ("ArrowLeft", 3, 1), ("Home", 0, 1), ("ArrowRight", 1, 1), ("End", 4, 1),
        ("PageDown", 4, 2), ("PageUp", 4, 1),
    ):  # fmt: skip
        press(page, key)
        right(head, row)
        assert page.evaluate("document.activeElement.classList.contains('followed')")
    assert page.evaluate("leaked") == []


def test_a_sentence_is_changed_without_typing(show):
    look = Look()
    explorer = HeadExplorer(
        look(SENTENCE), queries=SENTENCE.split(), head=1, follow="it", recompute=look
    )
    page = show(explorer, unfolded=False)
    field = page.locator("[data-control=sentence]")

    def changed(sentence, followed):
        expected = look(sentence)[0, 0, 1, page.evaluate("model.get('row')")]
        _, below = arcs(page)
        assert below == [
            (word, f"{w:.2f}") for word, w in zip(words_of(sentence), expected, strict=True)
            if w >= 0.05
        ]  # fmt: skip
        assert field.input_value() == sentence
        assert page.locator(".word.followed span").inner_text() == followed

    page.get_by_role("button", name="Swap cat and dogs").click()
    swapped = SENTENCE.replace("cat", "CAT").replace("dogs", "cat").replace("CAT", "dogs")
    changed(swapped, "it")
    page.get_by_role("button", name="Change was to were").click()
    changed(swapped.replace("was", "were"), "it")
    page.get_by_label("Instead of").select_option("they")
    changed(swapped.replace("was", "were").replace("it ate", "they ate"), "they")
    page.get_by_role("button", name="Surprise me").click()
    page.wait_for_timeout(300)
    followed = page.locator(".word.followed span").inner_text()
    assert followed in NOUNS.keys() | OBJECT_FORMS.values()
    changed(field.input_value(), followed)
    field.fill("my dog")
    assert page.locator(".trouble.bad").inner_text().startswith("“my” is not one of the 127 words")
    assert field.get_attribute("aria-invalid") == "true"
    page.get_by_role("button", name="Surprise me").click()
    page.locator(".trouble.bad").wait_for(state="detached")
    assert field.get_attribute("aria-invalid") == "false"


@pytest.mark.parametrize("width", [360, 390, 620])
def test_what_is_below_stays_whatever_word_is_followed(show, width):
    look = Look()
    explorer = HeadExplorer(
        look(SENTENCE), queries=SENTENCE.split(), head=1, follow="it", recompute=look
    )
    page = show(explorer, unfolded=False, width=width, has_touch=True)
    words = page.locator("button.word:visible")
    tops = set()

    def note():
        tops.add((page.locator(".suggestions").bounding_box()["y"],
                  page.locator(".side").bounding_box()["y"]))  # fmt: skip

    note()
    for place in range(words.count()):
        words.nth(place).click()
        note()
    assert len(tops) == 1


def visible(page, name):
    return page.locator(name).evaluate("node => getComputedStyle(node).visibility") == "visible"


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_the_sentence_unfolds_to_the_table_and_folds_back(show, draw, motion):
    given = weights(draw, 2, 5, 5)
    explorer = HeadExplorer(given, queries=WORDS, follow="the")
    page = show(explorer, unfolded=False, reduced_motion=motion)
    height = page.locator(".mha-heads").bounding_box()["height"]
    for open_, words in ((True, "Back to the sentence"), (False, "Show as a table")):
        page.locator(".turn").click()
        page.wait_for_timeout(40)
        assert page.locator(".turning").count() == (motion == "no-preference")
        page.wait_for_function("!document.querySelector('.turning')")
        assert (visible(page, ".mha-heads .table"), visible(page, ".mha-arcs")) == (
            open_,
            not open_,
        )
        assert page.locator(".turn").inner_text().startswith(words)
        assert page.locator(".mha-heads").bounding_box()["height"] == height
        assert page.evaluate("document.getAnimations().length") == 0
    page.locator(".turn").click()
    page.mouse.move(2, 2)
    page.wait_for_function("!document.querySelector('.turning')")
    numbers = page.locator("svg.matrix .number").all_text_contents()
    assert sorted(numbers) == sorted(f"{w:.2f}" for w in given[0].flatten().tolist() if w >= 0.05)
    assert page.locator(".query.highlighted").text_content() == "the"


def test_while_one_picture_leaves_the_focus_goes_to_the_other(show, draw):
    page = show(HeadExplorer(weights(draw, 2, 5, 5), queries=WORDS), unfolded=False)
    for arrives in (".table", ".mha-arcs"):
        page.locator(".turn").press("Enter")
        page.wait_for_timeout(40)
        page.keyboard.press("Tab")
        page.wait_for_function("!document.querySelector('.turning')")
        assert page.locator(arrives).locator(":focus").count() == 1


def test_the_followed_word_is_kept_where_words_come_before_it(show):
    def explorer(text):
        words = text.split()
        return HeadExplorer(torch.eye(len(words)), queries=words, recompute=lambda sentence: None)

    given = explorer("the cat sat so the cat ate")
    given.row = 5
    page = show(given, unfolded=False)
    rows = {"look the cat sat so the cat ate": 6, "cat so the cat ate": 3, "so the dog ate": 3}
    for text, row in rows.items():
        page.evaluate("(state) => model.set('state', new Model(state).get('state'))",
                      standalone(explorer(text), {})["state"])  # fmt: skip
        press(page)
        assert page.evaluate("model.get('row')") == row
        assert page.locator(".word.followed span").inner_text() == text.split()[row]


def test_other_keys_stand_on_a_line_of_their_own(show, draw):
    given = weights(draw, 2, 3, 5)
    words = ["dogra", "oldem", "runa"]
    page = show(HeadExplorer(given, queries=words, keys=WORDS, follow="oldem"), unfolded=False)
    widths, below = arcs(page)
    row = given[0, 1].tolist()
    assert dict(below) == {WORDS[j]: f"{w:.2f}" for j, w in enumerate(row) if w >= 0.05}
    assert len(widths) == sum(w >= 0.025 for w in row)
    page.locator(".queries .word").nth(2).click()
    assert page.evaluate("model.get('row')") == 2
    assert page.locator(".words:not(.queries) .word:disabled").count() == 5  # keys: not followed


@pytest.mark.parametrize(("layers", "size"), [(1, 2), (2, 15), (6, 15), (1, 40), (1, 64), (2, 512)])
def test_no_explorer_is_higher_than_a_screen_and_none_jumps(show, draw, layers, size):
    words = [f"word{n}" for n in range(size)]
    given = weights(draw, layers, 1, 8, size, size)
    explorer = heard(given, queries=words, recompute=lambda sentence, mask: None)
    page = show(explorer, unfolded=False, width=1016)
    before = page.locator(".mha-heads").bounding_box()
    assert before["width"] == 1000
    assert before["height"] <= 620
    fewer = HeadExplorer(torch.eye(2).expand(layers, 1, 8, 2, 2), queries=["the", "cat"])
    page.evaluate("(state) => model.set('state', new Model(state).get('state'))",
                  standalone(fewer, {})["state"])  # fmt: skip
    press(page)
    assert page.locator(".mha-heads").bounding_box()["height"] >= before["height"] - 0.5


# ---- the table ----

TEXTS = """() => [...document.querySelectorAll('svg text')].map((node) => {
  const [box, paper] = [node.getBoundingClientRect(),
    document.querySelector('.paper').getBoundingClientRect()];
  const cut = box.left < paper.left || box.right > paper.right || box.top < paper.top
    || box.bottom > paper.bottom;
  return [node.getAttribute('class'), node.textContent, box.width, cut];
})"""


@pytest.mark.parametrize(
    ("factor", "size", "decimals"), [(1, 15, 2), (10, 20, 1), (10_000, 20, None)]
)
def test_numbers_stay_in_their_cells(show, draw, factor, size, decimals):
    numbers = draw(size, size).clamp(-2.9, 2.9) * factor
    page = show(HeadExplorer(numbers, queries=[f"w{n}" for n in range(size)]), width=820)
    found = [(text, width) for name, text, width, _ in page.evaluate(TEXTS) if name == "number"]
    assert len(found) == (size * size if decimals else 0)
    assert all(width <= grid(page)["w"] for _, width in found)
    assert all(len(text.partition(".")[2]) == decimals for text, _ in found)


@pytest.mark.parametrize("width", [1280, 1920])
@pytest.mark.parametrize("size", [2, 15])
def test_nothing_that_is_written_is_cut(show, width, size):
    given = torch.eye(size) - 12345.678
    names = ["W" * 300, "漢" * 20, *["it"] * 13][:size]
    page = show(HeadExplorer(given.expand(3, size, size), queries=names), width=width)
    point(page, 0, 0)
    found = page.evaluate(TEXTS)
    assert {"query", "key", "query highlighted", "key highlighted"} <= {name for name, *_ in found}
    assert not [text for _, text, _, cut in found if cut]


def test_hidden_zero_and_nan_look_different(show):
    given = np.array([[0.0, 1.0, 0.0], [math.nan, 0.5, 0.5], [0.0, 0.3, 0.7]])
    mask = np.array([[True, True, False], [True, True, True], [False, True, False]])
    page = show(HeadExplorer(given, queries=["a", "b", "c"], mask=mask))
    look = "node => getComputedStyle(node).backgroundImage"
    assert "gradient" in page.locator(".base").evaluate(look)
    assert cell(page, 0, 2)[3] == 0  # clear: the lines behind it show
    assert cell(page, 0, 0).tolist() == [0, 34, 78, 255]  # the palette's first colour
    assert cell(page, 1, 0).tolist() == [230, 30, 107, 255]
    assert 100 < cell(page, 2, 2)[3] < 255  # hidden, and holds 0.7 nevertheless
    assert page.locator(".mark").all_inner_texts() == ["hidden", "NaN"]
    assert page.locator(".notes span").count() == 2


def test_entropy_stands_under_each_head(show, draw):
    given = weights(draw, 2, 6, 6)
    page = show(HeadExplorer(given))
    everything = torch.cat([given, given.mean(0, keepdim=True)])
    entropy = torch.distributions.Categorical(everything).entropy().mean(-1)
    written = [f"entropy {value:.2f}" for value in entropy]
    assert page.locator(".head small").all_inner_texts() == written
    assert page.locator(".head span").all_inner_texts() == ["head 0", "head 1", "average"]
    page = show(HeadExplorer((draw(2, 3, 4) * 2).softmax(-2)))
    assert page.locator(".head small").all_inner_texts() == ["Σ ≠ 1"] * 3


def test_layers_and_sentences_stand_in_rows(show, draw):
    given, lists = weights(draw, 3, 2, 2, 4, 4), [WORDS[:4], WORDS[1:]]
    page = show(HeadExplorer(given, queries=lists))
    assert len({one.bounding_box()["y"] for one in page.locator(".head").all()}) == 6
    page.locator(".head").nth(4 * 3 + 1).click()
    press(page)
    point(page, 1, 3)
    assert said(page) == f"layer 2, sentence 0, head 1: was → cat {given[2, 0, 1, 1, 3]:.2f}"
    page.locator(".head").last.click()
    press(page)
    point(page, 1, 3)
    mean = given[2, 1, :, 1, 3].mean()
    assert said(page) == f"layer 2, sentence 1, average of heads: the → sat {mean:.2f}"


def test_all_is_reached_by_keys_and_those_that_are_answered_go_no_further(show, draw):
    given = weights(draw, 6, 5, 5)
    page = show(HeadExplorer(given, queries=WORDS), width=320)
    order = []
    focused = "document.activeElement.className || document.activeElement.tagName"
    for _ in range(3):
        page.keyboard.press("Tab")
        order.append(page.evaluate(focused))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert order == ["turn", "surface", "head"]
    page.evaluate("leaked.length = 0")
    page.locator(".head").first.focus()
    heads = {"ArrowRight": "head 1", "End": "average", "ArrowLeft": "head 5", "Home": "head 0"}
    for key, head in heads.items():
        press(page, key)
        assert page.locator(".title b").inner_text().startswith(head)
        assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    columns = page.evaluate(
        "getComputedStyle(document.querySelector('.thumbs')).gridTemplateColumns.split(' ').length"
    )
    press(page, "ArrowDown")
    assert page.locator(".title b").inner_text() == f"head {columns}"
    press(page, "ArrowUp")
    page.locator(".surface").focus()
    keys = ("ArrowRight", "ArrowDown", "End", "ArrowUp", "Home", "ArrowLeft")
    cells = ((0, 1), (1, 1), (1, 4), (0, 4), (0, 0), (0, 0))
    for key, (row, column) in zip(keys, cells, strict=True):
        press(page, key)
        assert said(page) == f"head 0: {WORDS[row]} → {WORDS[column]} {given[0, row, column]:.2f}"
    page.evaluate("document.body.style.height = '4000px'")
    for key, row in ((" ", 0), ("ArrowDown", 0), ("Enter", 1), ("ArrowUp", 1), (" ", 0)):
        press(page, key)
        assert page.evaluate("[model.get('row'), scrollY]") == [row, 0]
    press(page, "PageDown")
    assert page.locator(".title b").inner_text() == "head 1"
    press(page, "Escape")
    assert " looks at " in said(page)  # of the word that is followed
    page.locator(".head").first.focus()
    press(page, "Enter", " ")
    assert page.evaluate("leaked") == []
    page.locator(".surface").focus()
    press(page, "a", "Control+ArrowDown")
    assert page.evaluate("leaked") == ["Control", "ArrowDown"]


@pytest.mark.parametrize(
    ("width", "scheme"), [(360, "light"), (700, "dark"), (1280, "light"), (1920, "dark")]
)
def test_nothing_sticks_out_at_any_width(show, draw, width, scheme):
    wide = HeadExplorer(weights(draw, 5, 3, 40), queries=["a very long word indeed"] * 3)
    for explorer in (HeadExplorer(weights(draw, 4, 1, 12, 9, 9)), wide):
        page = show(explorer, width=width, color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        cells = grid(page)
        right = cells["x"] + explorer._maps.shape[3] * cells["w"]
        assert right <= page.locator(".paper").bounding_box()["width"]
        look = "getComputedStyle(document.querySelector('.mha-heads'))"
        assert page.evaluate(f"{look}.color !== {look}.backgroundColor")


def test_a_sentence_gets_as_wide_as_it_is_and_as_narrow(show, draw):
    given = weights(draw, 4, 15, 15)
    page = show(HeadExplorer(given, queries=SENTENCE.split()), unfolded=False, width=1280)
    fits = "(arcs) => arcs.scrollWidth <= arcs.clientWidth"
    for width in (360, 290):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function("width => document.body.clientWidth === width - 16", arg=width)
        page.wait_for_selector(".upright")
        page.wait_for_timeout(60)
        assert page.locator(".mha-arcs").evaluate(fits)
    for times in (2, 1):
        words = SENTENCE.split() * times
        explorer = HeadExplorer(weights(draw, 4, len(words), len(words)), queries=words)
        page.evaluate("(state) => model.set('state', new Model(state).get('state'))",
                      standalone(explorer, {})["state"])  # fmt: skip
        come = "n => document.querySelectorAll('.word').length === n"
        page.wait_for_function(come, arg=len(words))
        assert page.locator(".mha-arcs").evaluate(fits) == (times == 1)


@pytest.mark.parametrize("width", [500, 1280])
def test_512_tokens_can_be_pointed_at(show, width):
    given = torch.full((2, 512, 512), 0.0)
    given[0, 200:300, 200:300] = 1
    given[0, 0, 511] = 0.3
    page = show(HeadExplorer(given), width=width)
    # under a pixel: mean colours
    assert grid(page)["w"] == (1 if width == 1280 else pytest.approx(0.7, abs=0.2))
    assert np.abs(cell(page, 250, 250) - [254, 232, 56, 255]).max() < 4
    assert np.abs(cell(page, 100, 250) - [0, 34, 78, 255]).max() < 4
    point(page, 250, 250)
    assert re.fullmatch(r"head 0: 2(49|50|51) → 2(49|50|51) 1.00", said(page))
    page.locator(".surface").focus()
    press(page, "Escape")
    page.mouse.move(2, 2)
    press(page, "End")
    assert said(page) == "head 0: 0 → 511 0.30"


def test_words_from_people_stay_words(show, draw):
    shown = {EVIL: "</script><img src=x one…", "": "(empty)", "שלום": "שלום"}
    page = show(HeadExplorer(weights(draw, 2, len(shown), len(shown)), queries=list(shown)))
    for row, word in enumerate(shown.values()):
        point(page, row, row)
        assert said(page).startswith(f"head 0: {word} → {word} ")
    page.wait_for_timeout(400)
    assert (page.evaluate("window.hacked"), page.locator("img").count()) == (None, 0)


@pytest.mark.parametrize("width", [360, 640, 700, 864, 1280])
def test_the_field_stands_right_above_the_arcs_and_nothing_overlaps(show, draw, width):
    given = weights(draw, 4, 15, 15)
    explorer = heard(given, queries=SENTENCE.split(), recompute=lambda sentence: given)
    page = show(explorer, unfolded=False, width=width, device_scale_factor=2)
    names = (".title", ".turn", ".top input", ".mha-arcs", ".readout", ".hint")
    boxes = [page.locator(name).bounding_box() for name in names]
    _, turn, field, arcs_, *_ = boxes
    for i, one in enumerate(boxes):
        assert -0.5 <= one["x"] <= one["x"] + one["width"] <= width
        for other in boxes[:i]:
            apart = (
                other["x"] + other["width"] <= one["x"] + 0.5
                or one["x"] + one["width"] <= other["x"] + 0.5
                or other["y"] + other["height"] <= one["y"] + 0.5
                or one["y"] + one["height"] <= other["y"] + 0.5
            )
            assert apart, (one, other)
    # on a phone two lines are kept for messages
    assert arcs_["y"] - field["y"] - field["height"] < (50 if width < 440 else 40)
    assert (abs(field["y"] - turn["y"]) < 8) == (width > 820)  # beside each other
    cut = page.locator(".top input").evaluate("field => field.scrollWidth > field.clientWidth")
    assert cut == (width < 640)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_on_a_phone_messages_have_room_and_nothing_jumps(show, draw):
    given = weights(draw, 4, 15, 15)
    explorer = heard(given, queries=SENTENCE.split(), recompute=lambda sentence: given)
    explorer.state = {**explorer.state, "source": "These numbers are the course's."}
    page = show(explorer, unfolded=False, width=290)
    boxes = """() => ['.mha-heads', '.stage', '.trouble', '.said'].map((name) =>
      document.querySelector(name).getBoundingClientRect().toJSON())"""
    tell = "(trouble) => model.set('state', { ...model.get('state'), source: '', trouble })"
    page.evaluate(tell, "")
    root, stage, *_ = page.evaluate(boxes)
    page.evaluate(tell, "“cta” is not one of the 127 words that can be read; near ones: cat")
    page.locator(".trouble.bad").wait_for()
    new_root, new_stage, *_ = page.evaluate(boxes)
    assert (new_root["height"], new_stage["y"]) == (root["height"], stage["y"])
    page.evaluate(tell.replace("''", "'These numbers are the course’s.'"), "word " * 40)
    *_, trouble, messages = page.evaluate(boxes)
    assert trouble["width"] == messages["width"]
    height = page.locator(".mha-heads").bounding_box()["height"]
    page.locator(".turn").press("Enter")
    page.wait_for_function("!document.querySelector('.turning')")
    assert page.locator(".mha-heads").bounding_box()["height"] == height
    cut = "(nodes) => nodes.filter((node) => node.scrollWidth > node.clientWidth).length"
    assert page.locator(".head, .head small").evaluate_all(cut) == 0


def test_the_field_is_the_first_that_tab_reaches_and_escape_leaves_it(show, draw):
    explorer = heard(weights(draw, 4, 5, 5), queries=WORDS, recompute=lambda sentence: None)
    page = show(explorer, unfolded=False)
    press(page, "Tab", "End")
    focused = "document.activeElement.tagName + document.activeElement.className"
    assert page.evaluate(focused) == "INPUT"
    page.keyboard.insert_text(" so")
    assert page.evaluate("model.get('event').moved") == {"sentence": " ".join([*WORDS, "so"])}
    press(page, "Escape")
    assert page.evaluate(focused) == "BODY"
    press(page, "Tab")
    assert page.evaluate(focused) == "BUTTONturn"
    press(page, "Tab")
    assert "followed" in page.evaluate(focused)
    press(page, "Tab")
    assert page.evaluate(focused) == "BUTTONhead"


def test_without_a_kernel_no_control_of_python_is_shown(show, draw):
    explorer = HeadExplorer(
        weights(draw, 2, 5, 5), queries=WORDS, recompute=lambda sentence, temperature, mask: None
    )
    page = show(explorer, unfolded=False)
    assert page.locator("input, select").count() == 0
    hidden = "nodes => nodes.every((node) => node.offsetHeight === 0)"
    assert page.locator(".body > .controls, .said").evaluate_all(hidden)
    assert page.locator(".hint").is_visible()
