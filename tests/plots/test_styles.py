"""Pages and slides: one process draws for both, and letters, shapes and layout fit each."""

from contextlib import contextmanager

import nbformat
import pytest
import torch
from labs import LABS
from matplotlib.text import Text
from widget_cases import START, call_of

from mha_course import plots
from mha_course.cli import rendering
from mha_course.lessons.l07_multi_head_attention.scene.plan import ScenePlan
from mha_course.plots import figures
from mha_course.widgets import HeadExplorer
from mha_course.widgets.base import DECK_VIEW
from mha_course.widgets.labs import panels, static

WEIGHTS = torch.rand(4, 6, 6, generator=torch.Generator().manual_seed(0)).softmax(-1)
WORDS = list("abcdef")
SPACE = {}  # what the labs need
exec(START, SPACE)


@contextmanager
def drawn_for(style):
    """Draw for a page or a slide."""
    token = figures.style.set(style)
    try:
        yield
    finally:
        figures.style.reset(token)


def size_of(png):
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")


def test_one_process_draws_a_page_a_slide_and_a_page_again():
    sizes = []
    for style in (figures.PAGE, figures.SLIDE, figures.PAGE):
        with drawn_for(style):
            figure = figures.new_figure(11, 3, layout="none")
            figure.text(0.5, 0.5, "small", fontsize=5)
            sizes.append(size_of(plots.png(figure)))
            (text,) = figure.findobj(Text)
            assert text.get_fontsize() == (figures.SMALL if style is figures.SLIDE else 5)
    page, slide, again = sizes
    assert page == again == (11 * 150, 3 * 150)
    # As wide as a slide has room, in pixels of which there are FINE for one of the slide.
    assert slide == pytest.approx((1728 * figures.FINE, 1728 * figures.FINE * 3 / 11), abs=1)


@pytest.mark.parametrize(("width", "height"), [(11, 3), (4, 9), (11, 9), (3, 2)])
def test_no_picture_is_larger_than_a_slide_nor_than_it_was_asked_for(width, height):
    with drawn_for(figures.SLIDE):
        inches = figures.new_figure(width, height).get_size_inches()
    room = figures.SLIDE.width, figures.SLIDE.height
    assert inches[0] / inches[1] == pytest.approx(width / height)
    scales = [figures.SLIDE.width / width, figures.SLIDE.height / height, 1]
    assert inches[0] == pytest.approx(min(scales) * width)
    assert all(have <= most + 1e-9 for have, most in zip(inches, room, strict=True))


def test_tables_of_numbers_stand_side_by_side_on_a_slide():
    tables = {"one": WEIGHTS[0], "two": WEIGHTS[1]}
    tops = []
    for style in (figures.PAGE, figures.SLIDE):
        with drawn_for(style):
            figure = plots.number_tables(tables, WORDS, WORDS)
            tops.append({ax.get_subplotspec().rowspan.start for ax in figure.axes[:2]})
    assert tops == [{0, 1}, {0}]


@pytest.mark.parametrize("name", ["MaskLab", "SoftmaxLab"])
def test_the_static_picture_of_a_lab_is_as_wide_as_a_slide(name):
    lab = eval(call_of(LABS[name]), SPACE)
    assert lab.picture().get_figwidth() == 11
    with drawn_for(figures.SLIDE):
        flat = lab.picture()
        assert flat.get_figwidth() <= figures.SLIDE.width + 1e-9
        assert flat.get_figheight() <= figures.SLIDE.height + 1e-9
    assert lab.picture().get_figwidth() == 11


def test_bars_of_a_lab_stay_as_high_on_a_slide_which_is_narrower():
    bars = panels.bars("weights", WORDS, [1] * 6)
    page = static.figure("a question", [bars]).get_size_inches()
    with drawn_for(figures.SLIDE):
        slide = static.figure("a question", [bars]).get_size_inches()
    assert list(slide) == pytest.approx([figures.SLIDE.width, page[1]])


def test_the_scene_is_flat_on_a_slide():
    def plan():
        return ScenePlan(WORDS, 2, 4, x=True, masked=False)

    page = plan()
    with drawn_for(figures.SLIDE):
        slide = plan()
    assert slide.message()["height"] < page.message()["height"] == plan().message()["height"]
    assert slide.message()["width"] == page.message()["width"]
    for stage in (page, slide):
        for part in stage.parts.values():
            assert part["y"] + part["h"] <= stage.sizes.height


def test_a_widget_that_needs_no_kernel_is_live_on_a_slide_and_on_the_site():
    explorer = HeadExplorer(WEIGHTS[None], queries=WORDS, keys=WORDS)
    both = {"text/html", DECK_VIEW}
    kinds = {"PAGE": {"text/html"}, "SLIDE": {DECK_VIEW}, "SITE": both}
    for name, expected in kinds.items():
        with drawn_for(getattr(figures, name)):
            assert both & set(explorer._repr_mimebundle_()[0]) == expected


@pytest.mark.slow
def test_the_kernel_of_a_deck_draws_for_slides_in_every_cell_and_in_what_it_calls_later():
    name = "print(figures.style.get() is figures.SLIDE)"
    cells = [
        f"from mha_course.plots import figures\n{name}",
        name,
        f"import asyncio\nasyncio.get_running_loop().call_soon(lambda: {name})\n"
        "await asyncio.sleep(0.1)",
        "from ipywidgets import IntSlider\nslider = IntSlider()\n"
        f"slider.observe(lambda change: {name}, 'value')\nslider.value = 3",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    rendering.execute(notebook, "SLIDE")
    assert [cell.source for cell in notebook.cells] == cells
    assert [cell.outputs[0].text for cell in notebook.cells] == ["True\n"] * len(cells)
