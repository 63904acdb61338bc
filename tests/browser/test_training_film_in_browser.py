"""The film of a training in a browser: what it shows, compared with the weights it was given."""

import browsing
import numpy as np
import pytest

from mha_course.example import SENTENCE, new_model
from mha_course.lessons.l13_encoder_block.film import TrainingFilm

WORDS = SENTENCE.split()
IT, CAT, CHASED = 12, 2, 4


@pytest.fixture
def film():
    """A film of snapshots whose weights are random and whose loss falls."""
    film = TrainingFilm(new_model(0), steps=40)
    rng = np.random.default_rng(0)
    film.losses = [4 - 3 * step / 40 for step in range(1, 41)]
    for _ in range(8):
        film._frames.append((255 * rng.dirichlet(np.full(15, 0.2), (4, 15))).astype("u1"))
    film.state, film.head = film._state_after({}), 2
    return film


@pytest.fixture
def show(widget_page, film):
    def open_page(**page):
        opened = widget_page(film, **page)
        opened.wait_for_selector("[data-drawn]")
        return opened

    return open_page


def valuetext(page):
    return page.locator("input[type=range]").get_attribute("aria-valuetext")


def arcs(page):
    """Return the numbers below the words, by word, once the arcs have come to rest."""
    page.wait_for_timeout(400)
    words = page.locator(".mha-arcs .queries .word").all()
    numbers = [word.locator("small").inner_text() for word in words]
    return {i: float(text) for i, text in enumerate(numbers) if text}


def test_all_that_is_shown_is_that_of_the_snapshot(show, film):
    page = show()
    assert valuetext(page).startswith("step 0 of 40")
    page.evaluate("model.set('position', 6)")
    step = f"step 30 of 40, loss {np.mean(film.losses[5:30]):.2f}"
    assert (valuetext(page), page.locator(".count").inner_text()) == (step, step)
    weights = film.weights[6]
    for head, button in enumerate(page.locator(".map").all()):
        name = f"head {head} it → cat {weights[head, IT, CAT]:.2f}"
        assert page.get_by_role("button", name=name, exact=True).count() == 1
        assert button.get_attribute("aria-pressed") == str(head == 2).lower()
        seen = browsing.pixels(button.locator("canvas"))
        brightest = seen[..., :3].sum(-1).argmax(1)  # cividis grows brighter
        assert (weights[head][range(15), brightest] == weights[head].max(1)).all()
        assert [button.locator(at).inner_text() for at in (".query", ".key")] == ["it", "cat"]
        row, column = (button.locator(f"i.{name}").bounding_box() for name in ("row", "column"))
        place = button.locator("canvas").bounding_box()
        assert row["y"] == pytest.approx(place["y"] + IT * 9, abs=1)
        assert column["x"] == pytest.approx(place["x"] + CAT * 9, abs=1)
    most = {i: round(w, 2) for i, w in enumerate(weights[2, IT]) if w >= 0.05}
    assert arcs(page) == pytest.approx(most)
    best = WORDS[int(weights[2, IT].argmax())]
    sentence = page.locator(".sentence").inner_text()
    assert sentence == f"In head 2, “it” attends most to “{best}”: {weights[2, IT].max():.2f}."


def test_heads_and_words_are_chosen_by_pointer_and_by_keys(show, film):
    page = show()
    page.get_by_role("button", name="head 3").click()
    page.locator(".mha-arcs .word").nth(CHASED).click()
    page.mouse.move(5, 700)
    assert page.evaluate("[model.get('head'), model.get('row')]") == [3, CHASED]
    expected = {i: round(w, 2) for i, w in enumerate(film.weights[0, 3, CHASED]) if w >= 0.05}
    assert arcs(page) == pytest.approx(expected)
    assert page.locator(".map .query").first.inner_text() == "chased"
    page.locator(".mha-arcs .word.followed").press("ArrowLeft")
    assert page.evaluate("[model.get('row'), model.get('position')]") == [CHASED - 1, 0]


def test_it_plays_a_snapshot_in_70_milliseconds_and_only_when_asked(show):
    page = show()
    browsing.stop_clock(page)
    page.clock.run_for(5000)
    assert page.evaluate("model.get('position')") == 0
    page.locator(".play").click()
    page.clock.run_for(600 + 3 * 70 + 10)
    assert page.evaluate("model.get('position')") == 4


def test_more_snapshots_are_drawn_as_they_come(show, film):
    whole = film._state_after({})
    size = 4 * 15 * 15
    film.state = {**whole, "weights": whole["weights"][: 3 * size], "losses": whole["losses"][:40]}
    film.position = 2
    page = show()
    line = page.locator(".curves").first.locator(".line")
    assert valuetext(page).startswith("step 10 of 40")
    assert line.get_attribute("d").count("L") == 9
    page.locator("input[type=range]").press("End")  # where nothing is yet: the newest stays
    assert valuetext(page).startswith("step 10 of 40")
    height = page.locator(".mha-film").bounding_box()["height"]
    given = {key: list(whole[key]) for key in ("weights", "losses")}
    page.evaluate(
        """(given) => model.set('state', { ...model.get('state'),
          weights: Uint8Array.from(given.weights), losses: Uint8Array.from(given.losses) })""",
        given,
    )
    assert valuetext(page).startswith("step 40 of 40")
    assert line.get_attribute("d").count("L") == 39
    assert page.locator(".mha-film").bounding_box()["height"] == height


@pytest.mark.parametrize("width", [360, 390, 700, 1016])
def test_its_height_stays_and_is_that_of_a_screen(show, width):
    page = show(width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    heights = set()
    for position in range(9):
        page.evaluate("(position) => model.set('position', position)", position)
        heights.add(page.locator(".mha-film").bounding_box()["height"])
    for word in range(15):
        page.evaluate("(word) => model.set('row', word)", word)
        heights.add(page.locator(".mha-film").bounding_box()["height"])
    assert len(heights) == 1
    assert width < 1000 or heights.pop() <= 620


def test_on_a_phone_no_word_is_cut_off(show):
    page = show(width=390)
    page.locator(".mha-film .word", has_text="hungry").first.click()
    lefts = page.evaluate("""[...document.querySelectorAll(".mha-film .cells *")].map((node) =>
      node.getBoundingClientRect()).filter((box) => box.width).map((box) => box.left)""")
    assert lefts
    assert min(lefts) >= 0
