"""Decks: every lesson builds, asks for nothing, fits its slides, moves by keys, and keeps its
solutions.
"""

import copy
import functools
import html
import inspect
import re
from pathlib import Path

import nbformat
import pytest
from lessons import LESSONS, read

from mha_course import exercises
from mha_course.cli import authoring, rendering, slides
from mha_course.errors import ShapeError
from mha_course.exercises import catalogue, hint_ladder

ROOT = Path(__file__).resolve().parents[2]
BY_NAME = {"argvalues": LESSONS, "ids": lambda path: path.stem}
FORMULA = re.compile(r"\$\$.+?\$\$|\$[^$]+?\$", re.DOTALL)


def plain(page):
    return html.unescape(re.sub("<[^>]+>", "", page))


@pytest.fixture(scope="module")
def deck(tmp_path_factory):
    """Build a deck of saved outputs when it is first asked for, and return its path."""
    folder = tmp_path_factory.mktemp("decks")

    @functools.cache
    def build(name, solutions=False):
        place = folder / ("with solutions" if solutions else "without")
        return slides.build([name[:2]], solutions=solutions, saved=True, folder=place)[0]

    return build


@pytest.fixture
def open_deck(offline_page, deck):
    """Open a deck of saved outputs on a projector."""

    def open_page(name, **options):
        projector = {"width": 1920, "height": 1080, "reduced_motion": "reduce"}
        page = offline_page(deck(name), **(projector | options))
        page.wait_for_selector("html[data-ready]")
        return page

    return open_page


def test_every_lesson_becomes_a_deck_and_the_index_lists_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(slides.build.__kwdefaults__, "folder", tmp_path)
    assert slides.main(["--saved"]) == 0
    assert str(tmp_path / "index.html") in capsys.readouterr().out
    names = sorted(path.stem for path in tmp_path.iterdir())
    assert names == [*(path.stem for path in LESSONS), "index"]
    index = (tmp_path / "index.html").read_text()
    for path in LESSONS:
        title = re.match(r"# (.+)", read(path).cells[0].source)[1]
        assert f'<a href="{path.stem}.html">{title}</a>' in index


@pytest.mark.parametrize("path", **BY_NAME)
def test_every_formula_becomes_mathml(path, deck):
    page = deck(path.stem).read_text()
    body = page[page.index("<main>") : page.index("<script>")]
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
        *_, body = source_of(name).rpartition('"""')  # the docstring's first line alone is shown
        assert body.strip() not in without
        assert body.strip() in with_them
    assert "A solution of" not in without
    assert with_them.count("A solution of") == len(names)


@pytest.mark.parametrize("path", **BY_NAME)
def test_no_slide_has_two_pictures(path):
    for slide in slides.slides(read(path), path.stem):
        assert sum(part.kind in ("picture", "live") for part in slide.parts) <= 1, slide.heading


def test_keys_move(open_deck):
    page = open_deck("00_start_here")
    count = page.locator("main > section").count()

    def at():
        assert page.locator("main > section.current").count() == 1
        return int(page.evaluate("location.hash.slice(1)"))

    assert at() == 1
    keys = {"ArrowRight": 2, "PageDown": 3, "ArrowLeft": 2, " ": 3, "PageUp": 2, "End": count}
    for key, place in keys.items():
        page.keyboard.press(key)
        assert at() == place, key
    page.keyboard.press("ArrowRight")
    assert at() == count
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert at() == count
    page.keyboard.press("Home")
    page.keyboard.press("d")
    assert page.evaluate("document.documentElement.className") == "dark"


def test_a_question_shows_its_choices_and_keeps_its_answer_and_what_follows(open_deck):
    page = open_deck("00_start_here")
    place = page.evaluate("slides.findIndex((slide) => slide.querySelector('.question'))")
    page.evaluate(f"show({place})")
    slide = page.locator("section.current")
    assert not slide.locator("pre").is_visible()
    assert slide.locator("li").all_inner_texts() == ["15", "1", "It depends on the sentence"]
    assert not slide.locator(".answer").is_visible()
    page.keyboard.press(" ")
    answer = slide.locator(".answer").inner_text()
    assert answer.startswith("1: The weights of a row are shares of one whole")
    assert slide.locator(".answer").is_visible()
    assert not slide.locator("pre").is_visible()
    page.keyboard.press(" ")
    assert slide.locator("pre").is_visible()
    assert page.evaluate("at") == place
    page.keyboard.press("ArrowLeft")
    assert not slide.locator("pre").is_visible()
    page.keyboard.press("ArrowLeft")
    assert not slide.locator(".answer").is_visible()


def test_the_speaker_sees_notes_minutes_and_what_comes_next(open_deck):
    page = open_deck("04_softmax", color_scheme="light")
    place = page.evaluate(
        "slides.findIndex((slide) => slide.textContent.startsWith('A causal mask'))"
    )
    page.evaluate(f"show({place + 1}, true)")
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
    following = page.evaluate("slides[at + 1].ariaLabel")
    assert window.locator("#next > p").inner_text() == f"Next: {following}"
    picture = window.locator("#next main > section")
    assert picture.get_attribute("aria-label") == following
    assert picture.bounding_box()["width"] == pytest.approx(600, abs=1)
    paper = "getComputedStyle(document.body).backgroundColor"
    assert window.evaluate(paper) == "rgb(255, 255, 255)"
    window.keyboard.press("d")
    window.locator("html.dark").wait_for()
    assert window.evaluate(paper) == "rgb(18, 22, 28)"
    window.keyboard.press("ArrowRight")
    assert page.evaluate("at") == place + 2
    assert window.locator("#notes h2").inner_text() == following
    assert not page.locator(".notes").first.is_visible()


def test_only_the_current_slide_is_exposed(open_deck):
    page = open_deck("01_projection")
    page.keyboard.press("ArrowRight")
    exposed = page.evaluate("slides.map((slide) => !slide.inert && slide.ariaHidden !== 'true')")
    assert [place for place, state in enumerate(exposed) if state] == [1]
    assert page.evaluate("slides.every((slide) => slide.inert === (slide.ariaHidden === 'true'))")
    label = page.locator("section.current").get_attribute("aria-label")
    assert re.match(r"Slide 2 of \d+: Each arrow makes a query and a key", label)
    assert page.evaluate("document.activeElement === slides[1]")


def test_themes_motion_and_print(open_deck):
    page = open_deck("05_weighted_sum", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 28)"
    image = "getComputedStyle(document.querySelector('figure img'))"
    assert page.evaluate(f"{image}.backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(slides[0]).animationName") == "none"
    printed = page.pdf(prefer_css_page_size=True, print_background=True)
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == page.locator("main > section").count()
    moving = open_deck("05_weighted_sum", reduced_motion="no-preference")
    assert moving.evaluate("getComputedStyle(slides[0]).animationName") == "appear"
    paper = "getComputedStyle(document.body).backgroundColor"
    assert moving.evaluate(paper) == "rgb(255, 255, 255)"


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (
            {"slideshow": {"slide_type": "page"}},
            "slide_type is missing or unknown. expected one of slide, subslide, fragment, -, "
            "notes, skip, got page, fix: set it in JupyterLab's property inspector",
        ),
        (
            {"slideshow": {"slide_type": "-"}, "lecture": {"show": "all"}},
            "lecture.show is unknown. expected one of output, code, both, got all, fix: change it",
        ),
    ],
)
def test_a_missing_or_unknown_type_is_one_clear_message(metadata, message):
    notebook = copy.deepcopy(read(LESSONS[0]))
    notebook.cells[1].metadata = nbformat.from_dict(metadata)
    with pytest.raises(ShapeError) as error:
        slides.slides(notebook, "00_start_here")
    assert str(error.value) == f"slides: 00_start_here, cell see: {message}"
    del notebook.cells[1].metadata["slideshow"]
    with pytest.raises(ShapeError, match=r"cell see: slide_type is missing or unknown.* got None"):
        slides.slides(notebook, "00_start_here")


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
    found = slides.slides(notebook, "01_title")
    assert [slide.heading for slide in found] == ["1 · Title", "Parts say something", "Last"]
    assert [slide.minutes for slide in found] == [2, 3, 1]
    assert [plain("".join(part.html for part in slide.parts)).split() for slide in found] == [
        ["words"],
        ["second", "third"],
        ["One", "sentence."],
    ]
    assert [part.waits for part in found[1].parts] == [False, True]
    assert 'class="fragment"' in found[1].parts[1].html
    assert found[1].prose == ["prose", "for the lecturer", "Words are for the notes."]
    assert "<em>hello</em>" in found[0].notes[1]
    assert "nobody" not in str(found)


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


def minutes_of(number, named):
    """Add up the sections that are named, by how their headings begin; each name fits one."""
    cells = [
        cell
        for cell in read(LESSONS[number]).cells
        if "minutes" in cell.metadata.get("lecture", {})
    ]
    found = {re.match(r"##? (.+)", cell.source)[1]: cell.metadata.lecture.minutes for cell in cells}
    begins = named.replace("Opening", f"{number} · ").split("; ")
    fits = [
        [minutes for heading, minutes in found.items() if heading.startswith(words)]
        for words in begins
    ]
    return sum(minutes for (minutes,) in fits)


def test_the_plans_of_the_teaching_guide_add_up():
    plans = re.split(r"^### ", (ROOT / "TEACHING.md").read_text(), flags=re.MULTILINE)[1:5]
    for plan, expected in zip(plans, (53, 75, 102, 100), strict=True):
        rows = re.findall(r"^\| (\d+) \| (.+) \| (\d+) \|$", plan, re.MULTILINE)
        for number, named, minutes in rows:
            assert minutes_of(int(number), named) == int(minutes), (number, named)
        assert sum(int(minutes) for *_, minutes in rows) == expected
        assert f"Together {expected} minutes." in plan
