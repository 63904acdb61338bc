"""A lesson as slides: every lesson builds, moves by keys and fingers, goes back to its page, and
keeps its solutions.
"""

import copy
import functools
import html
import inspect
import re
from pathlib import Path

import nbformat
import pytest
from lessons import BY_NAME, LESSONS, read
from players import go_to_slide, swipe
from rewriting import refused

from mha_course import exercises
from mha_course.cli import authoring, pages, plans, rendering, site, slides
from mha_course.errors import ShapeError
from mha_course.exercises import catalogue, hint_ladder

FORMULA = re.compile(r"\$\$.+?\$\$|\$[^$]+?\$", re.DOTALL)
PROJECTOR = {"width": 1920, "height": 1080, "reduced_motion": "reduce"}
PHONE = {"width": 390, "height": 844, "has_touch": True, "is_mobile": True}


def plain(page):
    return html.unescape(re.sub("<[^>]+>", "", page))


@pytest.fixture(scope="module")
def deck(tmp_path_factory):
    """Build a deck of saved outputs when it is first asked for, and return its path."""
    folder = tmp_path_factory.mktemp("decks")

    @functools.cache
    def build(name, solutions=False):
        place = folder / ("with solutions" if solutions else "without")
        slides.build([name[:2]], solutions=solutions, saved=True, folder=place)
        return place / f"{name}.html"

    return build


@pytest.fixture
def open_deck(offline_page, deck):
    """Open a deck of saved outputs on a projector."""

    def open_page(name, **options):
        page = offline_page(deck(name), **(PROJECTOR | options))
        page.wait_for_selector("html[data-ready]")
        return page

    return open_page


def number_of(page):
    """Return the number of the slide that is shown, which is also in the address."""
    shown = page.evaluate(
        "[...document.querySelectorAll('.stage > main > section')].findIndex((one) => !one.inert)"
    )
    assert page.evaluate("location.hash") == f"#slide-{shown + 1}"
    assert page.locator(".stage > main > section.current").count() == 1
    return shown + 1


def test_every_lesson_becomes_a_deck_and_the_index_lists_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(slides.build.__kwdefaults__, "folder", tmp_path)
    assert slides.main(["--saved"]) == 0
    assert str(tmp_path / "index.html") in capsys.readouterr().out
    names = sorted(path.stem for path in tmp_path.glob("*.html"))
    assert names == [*(path.stem for path in LESSONS), "index", "summary"]
    assert (tmp_path / site.CARD).exists()
    index = (tmp_path / "index.html").read_text()
    for path in LESSONS:
        title = re.match(r"# (.+)", read(path).cells[0].source)[1]
        assert f'<a href="{path.stem}.html">{title}</a>' in index


@pytest.mark.parametrize("path", **BY_NAME)
def test_every_formula_becomes_mathml(path, deck):
    page = deck(path.stem).read_text()
    body = page[page.index("<main") : page.rindex("<script>")]
    assert "\\" not in plain("".join(re.findall("<math.*?</math>", body, re.DOTALL)))
    assert not FORMULA.search(plain(re.sub("(?s)<pre.*?</pre>|<code.*?</code>", "", body)))
    assert "\ue000" not in page


def source_of(name):
    return inspect.getsource(catalogue.EXERCISES[name].reference)


@pytest.mark.parametrize("path", **BY_NAME)
def test_solutions_are_there_for_whoever_asks(path, deck):
    without, with_them = (plain(deck(path.stem, how).read_text()) for how in (False, True))
    names = [exercise.name for exercise in catalogue.LESSONS[int(path.stem[:2])].exercises]
    for name in names:
        assert f"{name}(" in without
        *_, body = source_of(name).rpartition('"""')  # only the docstring's first line is shown
        assert body.strip() not in without
        assert body.strip() in with_them
    assert "A solution of" not in without
    assert with_them.count("A solution of") == len(names)


@pytest.mark.parametrize("path", **BY_NAME)
def test_no_slide_has_two_pictures(path):
    for slide in pages.read(read(path), path.stem).slides:
        assert sum(kind in ("picture", "live") for kind in slide.kinds) <= 1, slide.heading


def test_keys_move(open_deck):
    page = open_deck("00_start_here")
    count = page.locator(".stage > main > section").count()
    assert number_of(page) == 1
    keys = {"ArrowRight": 2, "PageDown": 3, "ArrowLeft": 2, " ": 3, "PageUp": 2, "End": count}
    for key, place in keys.items():
        page.keyboard.press(key)
        assert number_of(page) == place, key
    assert page.locator(".stage > main > section[inert]").count() == count - 1
    assert page.locator("section.current").evaluate("one => one === document.activeElement")
    page.keyboard.press("ArrowRight")
    assert number_of(page) == count
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert number_of(page) == count
    page.keyboard.press("g")
    page.keyboard.type("5")
    page.keyboard.press("Enter")
    page.wait_for_url("**#slide-5")  # a function that waits would be eval, which the page forbids
    assert number_of(page) == 5
    page.keyboard.press("b")
    assert page.locator(".stage.black").count() == 1
    page.keyboard.press("ArrowRight")  # only ends the darkness
    assert (page.locator(".stage.black").count(), number_of(page)) == (0, 5)


def test_the_overview_leads_to_any_slide(open_deck):
    page = open_deck("00_start_here")
    page.keyboard.press("Escape")
    boxes = page.locator(".stage > main > section").evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect().width)"
    )
    assert min(boxes) == max(boxes) < 400
    page.locator(".stage > main > section").nth(6).click()
    assert number_of(page) == 7
    page.keyboard.press("o")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    assert number_of(page) == 6


def test_p_presents_what_is_read_and_gives_the_page_back(offline_page, deck, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(deck("03_scaling").read_text().replace(" data-presented", ""))
    page = offline_page(file, width=1280)
    written = page.locator("article").inner_html()
    assert page.locator(".stage").count() == 0
    block = page.locator("article [data-slide='4']").first
    block.scroll_into_view_if_needed()
    heading = page.evaluate("JSON.parse(document.getElementById('talk').textContent)[4].heading")
    page.evaluate("document.querySelector('[data-slide=\"4\"]').scrollIntoView()")
    page.keyboard.press("p")
    page.wait_for_selector("html[data-ready]")
    assert page.locator("section.current > h2").inner_html() == heading
    assert not page.locator("article").is_visible()
    page.keyboard.press("p")
    assert page.locator("article").inner_html() == written
    assert block.is_visible()
    assert page.complaints == []


def test_a_page_at_its_top_is_presented_from_its_title(offline_page, deck, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(deck("00_start_here").read_text().replace(" data-presented", ""))
    page = offline_page(file, height=900)  # below a title of two lines
    page.keyboard.press("p")
    page.wait_for_selector("html[data-ready]")
    assert number_of(page) == 1


def test_a_question_shows_its_choices_and_keeps_its_answer_and_what_follows(open_deck):
    page = open_deck("00_start_here")
    place, slide = go_to_slide(page, "h2:text('Rows look')")
    answer = slide.locator(".choice.right > div")
    assert slide.locator("summary").all_inner_texts() == ["15", "1", "It depends on the sentence"]
    assert not slide.locator("pre").is_visible()
    assert not answer.is_visible()
    page.keyboard.press(" ")
    assert "The weights of a row are shares of one whole" in answer.inner_text()
    assert not slide.locator("pre").is_visible()
    page.keyboard.press(" ")
    assert slide.locator("pre").is_visible()
    assert number_of(page) == place
    page.keyboard.press("ArrowLeft")
    assert not slide.locator("pre").is_visible()
    page.keyboard.press("ArrowLeft")
    assert not answer.is_visible()


def test_the_speaker_sees_notes_minutes_and_both_slides(open_deck):
    page = open_deck("04_softmax", color_scheme="light")
    go_to_slide(page, "h2:text('A causal mask')")
    page.keyboard.press("PageDown")
    page.locator("section.current > .content").evaluate("""(place) => {
      place.insertAdjacentHTML("beforeend", "<select><option>she<option>it</select>");
      place.lastElementChild.value = "it";
    }""")
    with page.expect_popup() as popup:
        page.keyboard.press("s")
    window = popup.value
    shown = [c for c in read(LESSONS[4]).cells if c.metadata.slideshow.slide_type != "skip"]
    cells = [cell.metadata.get("lecture", {}) for cell in shown]
    notes = next(cell for cell in shown if cell.id == "masks").metadata.lecture
    before = sum(lecture.get("minutes", 0) for lecture in cells[: cells.index(notes)])
    whole = sum(lecture.get("minutes", 0) for lecture in cells)
    assert plain(rendering.words(notes.notes)).strip() in window.locator("#notes").inner_text()
    times = window.locator("#time").inner_text()
    assert f"the plan for here: {before} to {before + notes.minutes} of {whole} min" in times
    assert re.search(rf"this section: 0:0\d of {notes.minutes} min", times)
    labels = page.locator(".stage > main > section").evaluate_all(
        "all => all.map((one) => one.ariaLabel)"
    )
    at = number_of(page)
    assert window.locator(".stage > p").all_inner_texts() == labels[at - 1 : at + 1]
    now, after = window.locator(".stage").evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect().height)"
    )
    assert now == after > 400
    assert window.locator("#now select").input_value() == "it"
    window.keyboard.press("d")
    window.locator("html[data-jp-theme-light=false]").wait_for()
    window.keyboard.press("ArrowRight")
    assert number_of(page) == at + 1
    assert window.locator("#now > p").inner_text() == labels[at]


def test_each_slide_is_printed_on_a_page_of_its_own(open_deck):
    page = open_deck("05_weighted_sum", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 17, 17)"
    printed = page.pdf(prefer_css_page_size=True, print_background=True)
    slides = page.locator(".stage > main > section").count()
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == slides
    assert b"/MediaBox [0 0 1440 810]" in printed


def test_a_phone_shows_a_slide_as_a_column_and_turns_by_swipe_and_tap(open_deck):
    page = open_deck("00_start_here", **PHONE)
    assert page.evaluate("innerWidth") == 390
    box = page.locator("section.current > h2").bounding_box()
    assert 0 <= box["x"] < box["x"] + box["width"] <= 390
    size = page.locator("section.current .lead p").first.evaluate(
        "one => getComputedStyle(one).fontSize"
    )
    assert float(size.removesuffix("px")) >= 16
    for start, end, place in ((300, 100, 2), (100, 300, 1), (380, 380, 2), (5, 5, 1)):
        swipe(page, start, end, 800)
        assert number_of(page) == place
    page.set_viewport_size({"width": 960, "height": 540})  # a projector at 200 %: still a column
    assert page.locator("section.current .lead").evaluate("one => one.currentCSSZoom") == 1
    page.set_viewport_size({"width": 1024, "height": 768})  # a tablet: whole slides
    page.wait_for_function("document.querySelector('.stage > main').style.transform")
    box = page.locator("section.current").bounding_box()
    assert box["width"] == pytest.approx(1024, abs=1)
    assert page.evaluate("innerWidth") == 1024
    page.get_by_role("button", name="Back to the page").tap()
    assert page.locator(".stage").count() == 0
    assert page.locator("article").is_visible()


RULE = "slide_type is missing or unknown. expected one of slide, subslide, fragment, -, notes, skip"
UNKNOWN = {
    f"{RULE}, got page, fix: set it in JupyterLab's property inspector": {
        "slideshow": {"slide_type": "page"}
    },
    f"{RULE}, got None, fix: set it in JupyterLab's property inspector": {},
}  # fmt: skip


@pytest.mark.parametrize("message", UNKNOWN)
def test_a_missing_or_unknown_type_is_one_clear_message(message):
    notebook = copy.deepcopy(read(LESSONS[0]))
    notebook.cells[1].metadata = nbformat.from_dict(UNKNOWN[message])
    place = "slides: 00_start_here, cell see"
    refused(lambda: pages.read(notebook, "00_start_here"), f"{place}: {message}")


@pytest.mark.parametrize(
    ("command", "arguments"), [(slides, ["3", "99"]), (authoring, ["render", "99"])]
)
def test_a_lesson_that_does_not_exist_is_one_clear_message(command, arguments, capsys):
    assert command.main(arguments) == 1
    told = capsys.readouterr().err
    assert told.startswith("mha_course: lesson 99: there is none. expected one of 00, 01, 02")
    assert told.endswith("got 99, fix: choose one\n")


def test_a_folder_that_cannot_be_written_to_is_one_clear_message(monkeypatch, capsys):
    def refuse(folder, **_):
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert slides.main(["--saved", "3"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("mha_course: slides: expected a folder that can be written to, got ")
    assert "decks (Permission denied), fix: " in said


def test_kinds_of_cells_become_what_they_say():
    def cell(kind, source, **lecture):
        return nbformat.v4.new_markdown_cell(
            source, metadata={"slideshow": {"slide_type": kind}, "lecture": lecture}
        )

    notebook = nbformat.v4.new_notebook(
        cells=[
            cell("slide", "# 1 · Title\n\nwords", minutes=2, notes="Say *hello*."),
            cell("slide", "## Part\n\nprose", minutes=3, notes="Ask.", claim="Parts say something"),
            cell("-", "> second"),
            cell("fragment", "$$third$$"),
            cell("notes", "for the lecturer"),
            cell("skip", "nobody"),
            cell("subslide", "Words are for the notes."),
            cell("slide", "## Last\n\nOne sentence. Another.", minutes=1, notes="End."),
        ]
    )
    page = pages.read(notebook, "01_title")
    found = page.slides
    assert [slide.heading for slide in found] == ["1 · Title", "Parts say something", "Last"]
    assert [slide.minutes for slide in found] == [2, 3, 1]
    texts = {(mark, slide): [] for mark in ("data-slide", "data-notes") for slide in found}
    for block in page.blocks:
        if block.slide:
            texts[block.marks[0], block.slide].append(plain(block.html).strip())
    assert [texts["data-slide", slide] for slide in found] == [["words"], ["second", "third"], []]
    assert [texts["data-notes", slide] for slide in found] == [
        [],
        ["prose", "for the lecturer", "Words are for the notes."],
        ["One sentence. Another."],
    ]
    waiting = [plain(block.html).strip() for block in page.blocks if "data-waits" in block.marks]
    assert waiting == ["third"]
    assert "<em>hello</em>" in found[0].notes
    assert [plain(block.html).strip() for block in page.blocks if block.slide is None][
        -1
    ] == "Last#"


SWITCHES = {
    (None, None): True, (None, "1"): True, ("off", None): False, ("off", "1"): True,
    ("off", "0"): False,
    ("on", None): True,
}  # fmt: skip


@pytest.mark.parametrize(("of_class", "of_lecturer"), SWITCHES)
def test_the_switch_for_solutions(of_class, of_lecturer, monkeypatch):
    for name, value in (("MHA_COURSE_SOLUTIONS", of_class), ("MHA_COURSE_LECTURER", of_lecturer)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    shown = SWITCHES[of_class, of_lecturer]
    off = (
        '# Solutions are off in this class (MHA_COURSE_SOLUTIONS=off). hint("softmax") still '
        "helps.\n"
    )
    assert exercises.solution("softmax").endswith(source_of("softmax") if shown else off)
    with pytest.raises(ShapeError, match="no exercise has this name"):
        exercises.solution("sofmax")
    hint_ladder._calls.clear()
    last = [str(exercises.hint("softmax")) for _ in range(5)][-1]
    assert last.startswith("Hint 4 of 4" if shown else "Hint 3 of 3")
    assert (catalogue.EXERCISES["softmax"].hints[-1].split("\n")[0] in last) == shown
    assert ("solution(" in last) == shown


def test_the_teaching_guide_has_the_plans_of_the_table():
    assert plans.MARKED.search(plans.TEACHING.read_text())[0] == plans.markdown()


def test_a_plan_becomes_one_deck_of_exactly_its_sections(tmp_path, offline_page):
    page = offline_page(slides.build(plan=60, saved=True, folder=tmp_path), **PROJECTOR)
    page.wait_for_selector("html[data-ready]")
    told = page.evaluate("JSON.parse(document.getElementById('talk').textContent)")
    plan = plans.PLANS[60]
    sections = [plans.sections_of(lesson, plan).values() for lesson in plan.stops]
    minutes = [minutes for stop in sections for minutes in stop]
    assert [slide["minutes"] for slide in told if slide["minutes"]] == minutes
    assert page.locator("section:has(> .content:empty)").count() == 0
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(ids) == len(set(ids))
    links = page.locator("a[href]").evaluate_all("all => all.map((a) => a.getAttribute('href'))")
    assert [link for link in links if link[0] == "#" and link[1:] not in (*ids, "text")] == []
    assert [
        link for link in links if not re.match("#|https:|(index|summary|plan_60).html", link)
    ] == []
    assert page.complaints == []
