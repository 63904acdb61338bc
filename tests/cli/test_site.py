"""The reading site: complete without scripts, live with them, and without outside requests."""

import re
import shutil
import struct
from collections import Counter
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from lessons import BY_NAME, LESSONS, links_of_widgets, read
from tags import Tags

from mha_course import example
from mha_course.cli import launch, pages, rendering, search, site
from mha_course.exercises import catalogue
from mha_course.lessons.l07_multi_head_attention.scene.widget import AttentionScene
from mha_course.plots.figures import figure_html
from mha_course.widgets import HeadExplorer
from mha_course.widgets.base import DECK_VIEW, standalone

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = "https://example.org/course/"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The whole site, of saved outputs."""
    folder = tmp_path_factory.mktemp("site")
    site.build((), folder, ADDRESS, saved=True)
    return folder


def test_every_link_within_the_site_arrives(saved):
    written = {path.name: Tags(path.read_text()) for path in saved.glob("*.html")}
    others = ["index.html", "summary.html"]
    assert sorted(written) == [*(f"{path.stem}.html" for path in LESSONS), *others]
    anchors = {name: {attrs.get("id") for _, attrs in page.found} for name, page in written.items()}
    for name, page in written.items():
        links = [link for link in page.of("a", "href") if "://" not in link]
        for link in links:
            file, _, anchor = link.partition("#")
            assert (file or name) in written, (name, link)
            assert not anchor or anchor in anchors[file or name], (name, link)
        ids = [attrs["id"] for _, attrs in page.found if "id" in attrs]
        assert len(ids) == len(set(ids)), name
    for before, after in pairwise([f"{path.stem}.html" for path in LESSONS]):
        rel = {attrs["rel"]: attrs["href"] for _, attrs in written[before].found if "rel" in attrs}
        assert rel["next"] == after
        assert after in written["index.html"].of("a", "href")


@pytest.mark.parametrize("path", **BY_NAME)
def test_pictures_of_widgets_lead_to_their_places_on_the_site(path, saved):
    text = (saved / f"{path.stem}.html").read_text()
    links = links_of_widgets(path)
    assert links
    assert {page for page, _ in links} <= {f"{launch.pages(launch.repository())}{path.stem}.html"}
    assert {anchor for _, anchor in links} <= {attrs.get("id") for _, attrs in Tags(text).found}
    assert "Move it on" not in text


def test_nothing_is_loaded_but_pictures_of_lessons_for_the_index(saved):
    for path in saved.glob("*.html"):
        page = Tags(path.read_text())
        sources = [*page.of("img", "src"), *page.of("script", "src"), *page.of("link", "href")]
        files = [source for source in sources if not source.startswith("data:")]
        expected = [f"{lesson.stem}.svg" for lesson in LESSONS] if path.stem == "index" else []
        assert files == expected, path.name
        assert "url(http" not in path.read_text()
    pictures = [
        each for tag, each in Tags((saved / "index.html").read_text()).found if "loading" in each
    ]
    assert all(each["loading"] == "lazy" and len(each["alt"]) > 20 for each in pictures)
    drawn = [ElementTree.parse(saved / each["src"]).getroot().tag for each in pictures]
    assert drawn == ["{http://www.w3.org/2000/svg}svg"] * len(LESSONS)
    assert sum((saved / each["src"]).stat().st_size for each in pictures) < 1.5e6


def test_previews_and_search_engines_find_what_they_need(saved):
    places = [each[0].text for each in ElementTree.parse(saved / "sitemap.xml").getroot()]
    assert places == [ADDRESS, *(f"{ADDRESS}{path.stem}.html" for path in LESSONS)]
    tags = Tags((saved / "03_scaling.html").read_text()).found
    facts = {attrs["property"]: attrs["content"] for _, attrs in tags if "property" in attrs}
    assert facts["og:url"] == f"{ADDRESS}03_scaling.html"
    assert facts["og:image"] == f"{ADDRESS}card.png"
    assert struct.unpack(">II", (saved / "card.png").read_bytes()[16:24]) == (1200, 630)


@pytest.mark.parametrize("path", **BY_NAME)
def test_questions_and_exercises_are_all_there(path, saved):
    page = pages.read(read(path), path.stem)
    sources = [cell.source for cell in read(path).cells]
    asked = [catalogue.QUESTIONS[s.split('"')[1]] for s in sources if s.startswith("predict(")]
    written = [block.html for block in page.blocks]
    blocks = [block for block in written if block.startswith('<div class="question">')]
    assert len(blocks) == len(asked)
    for block, question in zip(blocks, asked, strict=True):
        assert block.count("<details") == max(len(question.choices), 1)
        assert block.count("✔ Right.") == bool(question.choices)
    exercises = [block for block in written if block.startswith('<aside class="exercise">')]
    assert len(exercises) == sum(source.startswith("check(") for source in sources)
    assert all(block.count("<details") == 4 and "colab" in block for block in exercises)
    assert (saved / f"{path.stem}.html").read_text().count('<details class="deeper">') == sum(
        bool(re.match("#+ Deeper:", source)) for source in sources
    )


@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_pages_fit_their_windows_and_lines_are_short(width, saved, offline_page):
    for path in [saved / "index.html", *saved.glob("[01]*.html")]:
        page = offline_page(path, width=width, color_scheme="dark" if width == 1280 else "light")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path.name
        assert page.complaints == []
        if path.name[0] != "i":
            letters = page.evaluate("""() => {
              const lines = [...document.querySelectorAll("article .words > p")];
              const size = (one) => one.textContent.length / (one.offsetHeight / 27.5);
              return Math.max(...lines.filter((one) => one.textContent.length > 300).map(size), 0);
            }""")
            assert letters < 82, path.name
            assert page.locator(".contents ol").is_visible() == (width > 1000)
            # What is in a closed fold counts as hidden for those who read the page's structure.
            is_open = page.locator(".contents details").evaluate("fold => fold.open")
            assert is_open == (width > 1000)
        page.close()


def test_the_first_picture_of_lesson_4_fits_a_phone(saved, offline_page):
    page = offline_page(saved / "04_softmax.html", width=390)
    figure = page.locator("figure").first
    assert figure.locator("img").get_attribute("alt").startswith("“it”: the score of “cat”")
    assert figure.evaluate("node => node.scrollWidth <= node.clientWidth")


def test_a_page_is_whole_without_a_script(saved, offline_page):
    page = offline_page(saved / "03_scaling.html", java_script_enabled=False, color_scheme="dark")
    assert page.locator("body").evaluate("node => getComputedStyle(node).backgroundColor") == (
        "rgb(17, 17, 17)"
    )
    choices = page.locator(".question").first.locator(".choice")
    assert not choices.nth(0).locator("div").is_visible()
    for place in range(choices.count()):
        choices.nth(place).locator("summary").click()
    assert sorted(Counter(choices.locator("strong").all_inner_texts()).items()) == [
        ("✔ Right.", 1),
        ("✘ Not quite.", choices.count() - 1),
    ]
    hint = page.locator(".exercise .fold").first
    hint.locator("summary").press("Enter")
    assert hint.locator("div").is_visible()
    assert page.locator("article img").count() > 3
    assert not page.locator(".theme").is_visible()


def test_colours_and_folds_answer(saved, offline_page):
    page = offline_page(saved / "07_multi_head_attention.html", color_scheme="light")
    colour = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(colour) == "rgb(255, 255, 255)"
    page.get_by_role("button", name="Light or dark").press("Enter")
    assert page.evaluate(colour) == "rgb(17, 17, 17)"
    page.reload()
    assert page.evaluate(colour) == "rgb(17, 17, 17)"
    deep = page.locator("details.deeper").nth(2)
    assert not deep.locator("> .words").first.is_visible()
    page.locator(".contents .deep a").nth(2).click()
    deep.locator("> .words").first.wait_for()
    assert 40 <= deep.locator("h2").bounding_box()["y"] < 200
    assert page.pdf(print_background=True).count(b"/Type /Page\n") > 8


def page_with(widget, name):
    """A lesson's page that has only one widget."""
    view = standalone(widget, {})
    data = {DECK_VIEW: view, "text/html": figure_html(widget.svg(), widget.text)}
    page = pages.Page(name, title=name[:2], views=[view])
    page.add(rendering.outputs([{"data": data}])[0].html)
    return page


@pytest.fixture
def scene_page():
    cat = example.load()
    return page_with(
        AttentionScene(cat.mha.steps(cat.x), tokens=cat.tokens, follow="it", head=1),
        site.WHOLE_PASS,
    )


def test_the_index_plays_the_pass_once_where_motion_is_welcome(scene_page, tmp_path, offline_page):
    site.write_index([scene_page], tmp_path, ADDRESS)
    index = tmp_path / "index.html"
    moving = offline_page(index)
    moving.locator(".mha-scene .count", has_text="1 of 9").wait_for()
    moving.get_by_role("button", name="Pause").click()
    still = offline_page(index, reduced_motion="reduce")
    still.locator(".mha-scene[data-drawn]").wait_for()
    still.wait_for_timeout(300)
    assert still.locator(".mha-scene .count").inner_text() == "Overview"
    bare = offline_page(index, java_script_enabled=False)
    assert bare.get_by_alt_text("15 words on their way").first.is_visible()
    assert [*moving.complaints, *still.complaints, *bare.complaints] == []


def test_a_linked_explorer_stays_in_view_while_the_scene_above_it_grows(
    scene_page, tmp_path, offline_page
):
    cat = example.load()
    explorer = HeadExplorer(cat.mha(cat.x)[1], queries=cat.tokens)
    site.write_index([page_with(explorer, site.FIRST), scene_page], tmp_path, ADDRESS)
    page = offline_page(tmp_path / "index.html", width=390, height=844)
    page.goto(f"{(tmp_path / 'index.html').as_uri()}#head=2&word=12")
    page.reload()
    page.locator(".mha-scene[data-drawn]").wait_for()
    page.locator(".readout", has_text="head 2: “it” looks at ").first.wait_for()
    page.wait_for_timeout(300)
    assert 0 < page.locator(".mha-heads").bounding_box()["y"] < 120  # below the masthead


def test_a_finger_hits_what_unfolds_and_what_is_played(scene_page, saved, tmp_path, offline_page):
    low = """(place) => [...place.querySelectorAll("button, select, summary, input")]
      .filter((node) => node.checkVisibility() && node.getBoundingClientRect().height < 43.5)
      .map((node) => node.outerHTML.slice(0, 80))"""
    phone = {"width": 390, "height": 844, "has_touch": True, "is_mobile": True}
    page = offline_page(saved / "02_head_splitting.html", **phone)
    for part in (".masthead", ".contents"):
        assert page.locator(part).evaluate(low) == []
    site.write_index([scene_page], tmp_path, ADDRESS)
    index = offline_page(tmp_path / "index.html", **phone)
    index.locator(".mha-scene[data-drawn]").wait_for()
    assert index.locator("body").evaluate(low) == []


def test_the_menu_finds_a_section_by_its_words_and_answers_to_keys(saved, offline_page, tmp_path):
    page = offline_page(saved / "03_scaling.html", width=390)
    page.keyboard.press("/")
    page.keyboard.type("PATCHES")
    results = page.locator(".results a")
    results.first.wait_for()
    assert results.first.inner_text().startswith("14 · Vision › Vision: patches")
    assert not page.get_by_role("link", name="19 · Bug hunt", exact=True).is_visible()
    box = page.locator(".lessons > div").bounding_box()
    assert 0 <= box["x"] < box["x"] + box["width"] <= 390
    page.keyboard.press("Escape")
    assert not results.first.is_visible()
    assert page.evaluate("document.activeElement.localName") == "summary"
    page.keyboard.press("/")
    page.keyboard.press("Enter")
    page.wait_for_url("**/14_vision.html#vision-patches")
    assert page.complaints == []
    alone = offline_page(Path(shutil.copy(saved / "03_scaling.html", tmp_path)))
    alone.keyboard.press("/")
    alone.get_by_text("Search needs search-text.js").wait_for()


def test_a_heading_has_a_link_to_itself_that_keys_show(saved, offline_page):
    page = offline_page(saved / "03_scaling.html")
    link = page.locator("article h2 .anchor").first
    opacity = "node => getComputedStyle(node).opacity"
    assert link.evaluate(opacity) == "0"
    link.focus()
    assert link.evaluate(opacity) == "1"
    page.keyboard.press("Enter")
    assert page.evaluate("document.getElementById(location.hash.slice(1)).localName") == "h2"


def test_all_sections_can_be_searched_and_no_answer_is_among_their_words():
    path = LESSONS[3]
    page = pages.read(read(path), path.stem)
    sections = search.sections_of(page)
    headings = [section["heading"].removeprefix("Deeper: ") for section in sections]
    assert {search.words(line) for _, line in page.contents} <= set(headings)
    text = " ".join(section["text"] for section in sections)
    assert "raw = (q @ k.mT)[0, 0]" in text  # without spaces between the marks of code
    assert not re.search("✔ Right|✘ Not quite|<span|<p>|data:image", text)


@pytest.mark.slow
def test_a_phone_leads_from_the_index_to_lesson_1(tmp_path, offline_page):
    site.build(["00", "01"], tmp_path, ADDRESS)
    phone = {"width": 390, "height": 844, "has_touch": True, "is_mobile": True}
    page = offline_page(tmp_path / "index.html", **phone)
    page.get_by_role("link", name="Start lesson 0").first.tap()
    words = page.locator(".mha-arcs").first.locator(".word")
    words.first.wait_for()
    edges = words.evaluate_all("words => words.map((one) => one.getBoundingClientRect())")
    assert edges[0]["left"] >= 0
    assert edges[-1]["right"] <= 390
    assert all(b["left"] - a["left"] >= 16 for a, b in pairwise(edges))
    words.nth(2).tap()
    page.locator(".word[aria-pressed=true] >> text=cat").first.wait_for()
    for name in ("Colab", "Binder", "Get the course"):
        assert page.get_by_role("link", name=name).first.is_visible()
    page.locator("a[rel=next]").first.tap()
    page.wait_for_url("**/01_projection.html")
    for _ in range(40):
        page.mouse.wheel(0, 800)
        page.wait_for_timeout(50)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.complaints == []
