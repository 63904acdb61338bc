"""The reading site: whole without a script, alive with one, and it asks nobody for anything."""

import re
import struct
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from lessons import LESSONS, links_of_widgets, read

from mha_course.cli import launch, pages, site
from mha_course.exercises import catalogue

ROOT = Path(__file__).resolve().parents[2]
BY_NAME = {"argvalues": LESSONS, "ids": lambda path: path.stem}
ADDRESS = "https://example.org/course/"


class Tags(HTMLParser):
    """The tags of a page with their attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def of(self, name, attribute):
        return [attrs[attribute] for tag, attrs in self.found if tag == name and attribute in attrs]


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
    order = [f"{path.stem}.html" for path in LESSONS]
    for before, after in pairwise(order):
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


def test_nothing_is_loaded_from_anywhere(saved):
    for path in saved.glob("*.html"):
        page = Tags(path.read_text())
        sources = [*page.of("img", "src"), *page.of("script", "src"), *page.of("link", "href")]
        assert all(source.startswith("data:") for source in sources), path.name
        assert "url(http" not in path.read_text()


def test_previews_and_search_engines_find_what_they_need(saved):
    places = [each[0].text for each in ElementTree.parse(saved / "sitemap.xml").getroot()]
    assert places == [ADDRESS, *(f"{ADDRESS}{path.stem}.html" for path in LESSONS)]
    tags = Tags((saved / "03_scaling.html").read_text()).found
    facts = {attrs["property"]: attrs["content"] for _, attrs in tags if "property" in attrs}
    assert facts["og:url"] == f"{ADDRESS}03_scaling.html"
    assert facts["og:image"] == f"{ADDRESS}preview.png"
    width, height = struct.unpack(">II", (saved / "preview.png").read_bytes()[16:24])
    assert width >= 1200
    assert 1.4 < width / height < 2.2


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
    text = (saved / f"{path.stem}.html").read_text()
    assert not re.search(
        r"\$[^$\n<]+\\\w", re.sub("<(pre|code|script|style).*?</\\1>", "", text, flags=re.S)
    )
    assert text.count('<details class="deeper">') == sum(
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
            contents = page.locator(".contents ol")
            assert contents.is_visible() == (width > 1000)
        page.close()


def test_a_page_is_whole_without_a_script(saved, offline_page):
    page = offline_page(saved / "03_scaling.html", java_script_enabled=False, color_scheme="dark")
    assert page.locator("body").evaluate("node => getComputedStyle(node).backgroundColor") == (
        "rgb(17, 17, 17)"
    )
    choices = page.locator(".question").first.locator(".choice")
    assert not choices.nth(0).locator("div").is_visible()
    for place in range(choices.count()):
        choices.nth(place).locator("summary").click()
    verdicts = choices.locator("strong").all_inner_texts()
    assert sorted(Counter(verdicts).items()) == [
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
    top = deep.locator("h2").bounding_box()["y"]
    assert 40 <= top < 200
    current = page.locator(".contents [aria-current]")
    assert current.get_attribute("href") == page.evaluate("location.hash")
    assert page.pdf(print_background=True).count(b"/Type /Page\n") > 8


@pytest.mark.slow
def test_a_phone_leads_from_the_index_to_lesson_1(tmp_path, offline_page):
    site.build(["00", "01"], tmp_path, ADDRESS)
    phone = {"width": 390, "height": 844, "has_touch": True, "is_mobile": True}
    page = offline_page(tmp_path / "index.html", **phone)
    page.get_by_role("link", name="Start lesson 0").tap()
    words = page.locator(".mha-arcs").first.locator(".word")
    words.first.wait_for()
    edges = words.evaluate_all("words => words.map((one) => one.getBoundingClientRect())")
    assert edges[0]["left"] >= 0
    assert edges[-1]["right"] <= 390
    assert all(b["left"] - a["left"] >= 16 for a, b in pairwise(edges))
    words.nth(2).tap()
    page.locator(".word[aria-pressed=true] >> text=cat").first.wait_for()
    sentence = "the cat ate"
    field = page.locator(".live input[type=text]").first
    field.fill(sentence)
    field.press("Enter")
    words.nth(3).wait_for(state="detached")
    assert words.locator("span").all_inner_texts() == sentence.split()
    choice = page.locator(".question .choice").first
    choice.locator("summary").tap()
    assert choice.locator("strong").is_visible()
    for name in ("Colab", "Binder", "Get the course"):
        assert page.get_by_role("link", name=name).first.is_visible()
    page.locator("a[rel=next]").first.tap()
    page.wait_for_url("**/01_projection.html")
    for _ in range(40):
        page.mouse.wheel(0, 800)
        page.wait_for_timeout(50)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.complaints == []
