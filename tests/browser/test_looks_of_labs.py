"""How labs look: their heights, what is written where, tiles, and a dark page."""

import json
from itertools import pairwise

import browsing
import numpy as np
import pytest
import torch
from labs import LABS
from matplotlib.colors import to_rgb

from mha_course import example, masks
from mha_course.colours import SIGNED, SIGNED_ON_DARK
from mha_course.lessons.l15_language_model.causal_model import CausalLanguageModel
from mha_course.models.language import WORDS
from mha_course.widgets.labs import plane
from mha_course.widgets.labs.ablation import SENTENCES
from mha_course.widgets.labs.lab import PageLab
from mha_course.widgets.labs.mask import PRESETS

HIGHEST = 620  # pixels at a width of 1,000
WIDTH = 1016  # of a page with margins of 8
CAT = example.load()
SCORES = CAT.mha.steps(CAT.x).scaled_scores[0, 1].detach()  # (S, S)
SET = """(control, value) => {
  control.value = value;
  control.dispatchEvent(new Event(control.tagName === "SELECT" ? "change" : "input"));
}"""
DARK = "document.documentElement.dataset.jpThemeLight = 'false'"


def short_mask():
    return LABS["MaskLab"](SCORES[:7, :7], CAT.tokens[:7], mask=masks.causal_mask(7))


# As lessons call them, and what is moved.
LESSONS = {
    "0, four sentences": (lambda: LABS["AblationLab"](SENTENCES[:4], layer=1), {"l1_h1": True}),
    "0, arrows": (LABS["PlaneLab"], {"length": 1.5}),
    "1": (lambda: LABS["PlaneLab"](projections=True), {"queries_turn": 90}),
    "3": (LABS["ScalingLab"], {"divide_by": "√D"}),
    "4, softmax": (lambda: LABS["SoftmaxLab"](SCORES, CAT.tokens, word="it"), {"shift": 10}),
    "4, masks": (lambda: LABS["MaskLab"](SCORES, CAT.tokens, conventions=False), {"n": 9}),
    "8": (short_mask, {"preset": PRESETS.index("window")}),
    "10": (LABS["RotaryLab"], {"distance": 40}),
    "10, yours": (lambda: LABS["RotaryLab"](rope=lambda x, at, base=1e4: x), {"position": 120}),
    "11": (LABS["CacheLab"], {"batch": 8}),
    "12": (lambda: LABS["TilingLab"](SCORES, CAT.tokens), {"size": 8, "causal": True}),
    "15": (
        lambda: LABS["SamplingLab"](
            CausalLanguageModel(len(WORDS), 32, d_model=8, num_heads=2, d_ff=8, num_layers=1)
        ),
        {"temperature": 2.0},
    ),
    "17": (lambda: LABS["AblationLab"](ablated=["L1 H1"]), {"l0_h0": True}),
}


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_finger_hits_every_control(lesson, widget_page):
    make, _ = LESSONS[lesson]
    page = widget_page(make(), width=390, has_touch=True)
    missed = """() => [...document.querySelectorAll("button, select, input, .handle")]
    .map((node) => {
      const { width, height } = (node.closest("label:has([type=checkbox], [type=radio])") ?? node)
        .getBoundingClientRect();
      const least = node.matches(".handle") ? 24 : 43.5;
      return [node.outerHTML.slice(0, 60), width, height, least];
    }).filter(([, width, height, least]) => width && (height < least || width < 24))"""
    assert page.evaluate(missed) == []


@pytest.mark.parametrize("width", [390, WIDTH])
@pytest.mark.parametrize("lesson", LESSONS)
def test_no_lab_is_higher_than_a_screen_and_none_jumps(lesson, width, widget_page):
    make, moved = LESSONS[lesson]
    lab = make()
    page = widget_page(lab, width=width)
    root = page.locator(".mha-lab")
    height = root.evaluate("one => one.offsetHeight")

    def move(**moved):
        if isinstance(lab, PageLab):
            for name, value in moved.items():
                page.locator(f"[data-control={name}]").evaluate(SET, value)
        else:
            lab.set(**moved)
            page.evaluate("state => model.set('state', state)", json.loads(json.dumps(lab.state)))
        page.wait_for_timeout(300)
        assert page.evaluate("model.state.state.trouble") == ""

    move(**moved)
    after = root.evaluate("one => one.offsetHeight")
    if lesson != "15":  # where the sentences that the model writes may have more lines
        assert after == height
    assert after <= HIGHEST or width < WIDTH


def test_the_slider_of_tiles_ends_at_the_last(widget_page):
    lab = LABS["TilingLab"](SCORES, CAT.tokens)
    page = widget_page(lab, width=WIDTH)
    slider = page.locator("[data-control=tile]")
    # Its value may lie beyond its old end.
    for size, tile, tiles in [(4, 1, 16), (8, 4, 4), (3, 25, 25), (5, 9, 9)]:
        lab.set(size=size)
        lab.set(tile=tile)
        page.evaluate("state => model.set('state', state)", json.loads(json.dumps(lab.state)))
        page.locator(".sentence", has_text=f"Tile {tile} of {tiles}").wait_for()
        shown = slider.evaluate("one => [one.max, one.value, one.ariaValueText]")
        assert shown == [f"{tiles - 1}", f"{tile - 1}", f"{tile}"]


def test_a_bar_that_goes_back_to_zero_is_gone(widget_page):
    lab = LABS["TilingLab"](SCORES, CAT.tokens)
    lab.set(tile=16)
    page = widget_page(lab, width=WIDTH, reduced_motion="reduce")
    bars = page.locator(".bars .bar")
    widths = "bars => bars.map(bar => bar.offsetWidth)"
    assert min(bars.evaluate_all(widths)) > 0
    lab.set(tile=1)
    page.evaluate("state => model.set('state', state)", json.loads(json.dumps(lab.state)))
    page.locator(".sentence", has_text="Tile 1 of 16").wait_for()
    page.wait_for_timeout(500)
    assert [width > 0 for width in bars.evaluate_all(widths)] == [True] * 4 + [False] * 11


def test_tiles_that_are_gone_and_to_come_are_no_zeros(widget_page):
    lab = LABS["TilingLab"](SCORES, CAT.tokens)
    lab.set(size=5, tile=5)
    page = widget_page(lab, width=WIDTH, reduced_motion="reduce")
    assert page.locator(".panel").count() == 3
    tops = {box["y"] for box in (panel.bounding_box() for panel in page.locator(".panel").all())}
    assert len(tops) == 1
    shown = browsing.pixels(page.locator("canvas"))[..., 3] > 0
    held = np.zeros((15, 15), bool)
    held[5:10, 5:10] = True
    assert (shown == held).all()
    assert page.locator(".cells .coming").get_attribute("d").count("M") == 4
    assert page.locator(".cells .dots").get_attribute("d").count("M") == 4 * 25
    assert page.locator(".cells .gone").get_attribute("d").count("M") == 4
    assert page.locator(".cells .gone").evaluate("one => getComputedStyle(one).fill") != "none"
    assert page.locator(".note span:visible").all_inner_texts() == [
        " held now",
        " gone: folded into the running sum",
        " not computed yet",
    ]
    page.locator(".cells").focus()
    assert page.locator(".readout").inner_text().endswith("gone: folded into the running sum")
    for _ in range(14):
        page.keyboard.press("ArrowDown")
    assert page.locator(".readout").inner_text() == "greedily → the₁: not computed yet"


def test_what_is_hidden_is_hatched_and_what_is_to_come_is_not(widget_page):
    lab = LABS["TilingLab"](SCORES, CAT.tokens)
    lab.set(size=5, tile=3, causal=True)  # of six tiles, three on the diagonal
    page = widget_page(lab, width=WIDTH)
    parts = {
        name: page.locator(f".cells .{name}").get_attribute("d").count("M")
        for name in ("gone", "coming", "dots")
    }
    assert parts == {"gone": 5 + 1, "coming": 1 + 1 + 5, "dots": 25 + 25 + 15}
    assert "hatched" in page.locator("canvas").get_attribute("class")
    legend = page.locator(".note span:visible")
    marks = [mark.get_attribute("class") for mark in legend.locator("i").all()]
    assert dict(zip(legend.all_inner_texts(), marks, strict=True)) == {
        " held now": "held",
        " gone: folded into the running sum": "gone",
        " not computed yet": "coming",
        " hidden by the mask": "hatched",
    }


def test_labels_that_do_not_fit_leave(widget_page):
    page = widget_page(LABS["AblationLab"](ablated=["L1 H1"]), width=WIDTH)
    for part in page.locator(".shares-bar .part").all():
        name = part.get_attribute("title").rpartition(" ")[0]
        assert name == "others" or name.startswith("“")
        assert part.evaluate("one => one.scrollWidth - one.clientWidth") <= 0


@pytest.mark.parametrize("tokens", [[[1.0, 0.0], [0.1, 1.9], [0.0, 2.0]], [[1.0, 1.0]] * 3])
def test_arrows_that_come_near_keep_their_names(tokens, widget_page, monkeypatch):
    monkeypatch.setattr(plane, "TOKENS", torch.tensor(tokens, dtype=torch.float64))
    page = widget_page(LABS["PlaneLab"]())
    boxes = [one.bounding_box() for one in page.locator("svg.arrows .label").all()]
    middles = [(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in boxes]
    apart = torch.pdist(torch.tensor(middles))
    assert len(middles) == 3
    assert apart.min() > 13
    nodes = page.locator("svg.arrows g > *").evaluate_all(
        "all => all.map((one) => one.getAttribute('class'))"
    )
    assert nodes[-3:] == ["label"] * 3  # nothing is drawn over them


@pytest.mark.parametrize("size", [7, 15])
def test_nan_is_written_where_its_numbers_would_be(size, widget_page):
    mask = masks.causal_mask(size)
    mask[2] = False
    given = {"mask": mask, "conventions": False}
    lab = LABS["MaskLab"](SCORES[:size, :size], CAT.tokens[:size], **given)
    page = widget_page(lab, width=WIDTH)
    page.locator("input[type=radio]").nth(1).click()
    words = page.locator(".cells >> nth=1").locator("text.number", has_text="NaN")
    boxes = [word.bounding_box() for word in words.all()]
    assert len(boxes) == size if size == 7 else 5 <= len(boxes) < size
    ends = [(one["x"] + one["width"], other["x"]) for one, other in pairwise(boxes)]
    assert all(end <= start + 1 for end, start in ends)
    assert "×" not in page.locator(".mha-lab").inner_text()


def test_zero_is_the_neutral_of_a_light_and_of_a_dark_page(widget_page):
    scores = torch.eye(3) - torch.eye(3).flip(0)
    page = widget_page(LABS["TilingLab"](scores, ["a", "b", "c"]))

    def colours():
        page.wait_for_timeout(100)
        first = browsing.pixels(page.locator("canvas"))[0, :, :3]
        return first[2], first[1], first[0]  # -1, 0 and 1

    for ramp, change in ((SIGNED, "0"), (SIGNED_ON_DARK, DARK)):
        page.evaluate(change)
        for seen, place in zip(colours(), (0, 2, 4), strict=True):
            assert np.abs(seen - 255 * np.array(to_rgb(ramp[place]))).max() < 3


def test_colours_that_mean_something_stay_where_the_system_forces_its_own(widget_page):
    """Hidden cells are hatched, shares are bars, and what is chosen is seen without colours."""
    page = widget_page(short_mask(), forced_colors="active")
    images = page.locator(".hatched").evaluate_all(
        "nodes => nodes.map((node) => getComputedStyle(node).backgroundImage)"
    )
    assert images
    assert "none" not in images
    colours = "nodes => nodes.map((node) => getComputedStyle(node).backgroundColor)"
    buttons = page.locator(".button input + span").evaluate_all(colours)
    chosen = page.locator(".button input:checked + span").evaluate_all(colours)
    assert len(chosen) == 1
    assert buttons.count(chosen[0]) == 1
    page = widget_page(LABS["PlaneLab"](), forced_colors="active")
    assert len({*page.locator(".part").evaluate_all(colours)}) == 3
