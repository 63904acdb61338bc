"""Pictures on light and on dark pages: one image for both, whose words can be read on either."""

import base64
import io
import re
from pathlib import Path

import contrast
import numpy as np
import pytest
import torch
from matplotlib import colormaps
from matplotlib.colors import to_hex
from PIL import Image

from mha_course import plots
from mha_course.cli import authoring
from mha_course.errors import ShapeError
from mha_course.masks import causal_mask
from mha_course.plots import figures

NUMBERS = torch.linspace(-2, 2, 36).view(6, 6)
PICTURES = {
    "pipeline": plots.pipeline,
    "bars": lambda: plots.bars([1, -2], ["it", "cat"], highlight=["it"], unit="weight"),
    "product": lambda: plots.product(
        plots.Matrix("q", 5, 6, ("T", "D")),
        plots.Matrix("k", 6, 7, ("D", "S")),
        plots.Matrix("scores", 5, 7, ("T", "S")),
    ),
    "curves": lambda: plots.curves([1, 2], {"a": [1, 2], "b": [2, 1]}, xlabel="x", ylabel="y"),
    "signed": lambda: plots.heatmap(NUMBERS, mask=causal_mask(6)),
    "weights": lambda: plots.heatmap(NUMBERS.softmax(-1), mask=causal_mask(6)),
    "masks": lambda: plots.mask_grids(
        plots.MaskGrid("m", torch.ones(3, 3).bool()), expected=causal_mask(3)
    ),
    "heads": lambda: plots.head_grid(torch.rand(4, 15, 15).round()),
}
PAPER = {"light": 255, "dark": 0x11}


def test_an_image_has_the_same_bytes_each_time():
    for name, draw in PICTURES.items():
        torch.manual_seed(0)
        first = plots.svg(draw())
        torch.manual_seed(0)
        assert plots.svg(draw()) == first, name
        assert b"dc:date" not in first


def test_numbers_are_written_as_a_whole():
    axes = plots.bars([1.0], ["0.0777 × 12.3456"], unit="")
    assert "0.0777 × 12.3456" in plots.svg(axes).decode()


def test_zero_is_the_neutral_of_the_page_in_the_signed_palette():
    for dark, neutral in ((False, 1.0), (True, 0.17)):
        middle = figures.signed_colormap(dark)(0.5)[:3]
        assert np.ptp(middle) < 0.05
        assert abs(np.mean(middle) - neutral) < 0.03


def test_weights_keep_their_colours_on_a_dark_page():
    """Otherwise its greys would be inverted, and a larger weight could look smaller."""
    picture = plots.svg(plots.heatmap(torch.linspace(0, 1, 64).view(8, 8))).decode()
    weights = {to_hex(color) for color in colormaps["cividis"](np.arange(256))}
    changed = {f"#{color}" for color in re.findall("--c([0-9a-f]{6}):", picture)}
    assert changed
    assert not changed & weights


def dim_words(page, picture):
    page.set_content(picture.decode())
    words = page.evaluate(contrast.WORDS, "svg *")
    assert words
    return [word for word in words if contrast.contrast(*word[:2]) < contrast.TEXT]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_of_pictures_can_be_read(new_page, scheme):
    page = new_page(color_scheme=scheme, width=1200, height=900)
    for name in PICTURES.keys() - {"heads"}:  # whose cells are a bitmap, without words
        assert dim_words(page, plots.svg(PICTURES[name]())) == [], name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_of_saved_pictures_can_be_read(new_page, scheme):
    page = new_page(color_scheme=scheme, width=1400, height=1100)
    for path in authoring.lessons([]):
        saved = path.read_text(encoding="utf-8")
        for at, data in enumerate(re.findall(r"data:image/svg\+xml;base64,([\w+/=]+)", saved)):
            # These words are on images, whose colours the script does not see.
            if (path.stem[:2], at) in (("07", 0), ("14", 1)):
                continue
            assert dim_words(page, base64.b64decode(data)) == [], (path.stem, at)


def corner(image):
    return np.asarray(Image.open(io.BytesIO(image.screenshot())).convert("RGB"))[2, 2].mean()


@pytest.mark.parametrize("system", ["light", "dark"])
def test_an_image_follows_the_page_and_not_the_system(new_page, system):
    page = new_page(color_scheme=system, width=1200, height=900)
    for scheme, paper in PAPER.items():
        shown = figures.figure_html(plots.svg(plots.pipeline()), "The steps.")
        page.set_content(f"<style>img {{ color-scheme: {scheme} }}</style>{shown}")
        assert corner(page.locator("img")) == pytest.approx(paper, abs=2)


@pytest.mark.parametrize("name", ["03_scaling", "07_multi_head_attention", "11_kv_cache"])
def test_no_white_card_stands_on_a_dark_page(lab_page, name):
    page = lab_page(Path(authoring.LESSONS / f"{name}.ipynb"), dark=True, run=False, height=1000)
    images = page.locator("figure img[src^='data:']")
    images.first.wait_for()
    assert images.count() > 1
    for image in images.all():
        if image.is_visible():
            image.scroll_into_view_if_needed()
            assert corner(image) < 40, re.sub("(?s).*alt=", "", image.evaluate("n => n.outerHTML"))


def test_results_are_a_table_with_a_caption(monkeypatch):
    shown = []
    monkeypatch.setattr("mha_course.plots.tables.show_html", lambda *told: shown.append(told))
    plots.results(["G", "R²"], [(1, 0.5), (1200, 1.0)], caption="Two runs.", bars="R²")
    ((html, text),) = shown
    assert text == "Two runs.\nG      R²\n1      0.50\n1,200  1.00"
    assert ">Two runs.</figcaption>" in html
    assert re.findall(r"width:(\d+)px", html) == ["60", "120"]
    assert html.count("text-align:right") == 4
    plots.results(["ms"], [(1234.5,)], caption="Long.")
    assert shown[-1][1] == "Long.\nms\n1,234.50"
    with pytest.raises(ShapeError, match="a value for each column"):
        plots.results(["G", "R²"], [(1,)], caption="One.")
