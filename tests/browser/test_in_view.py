"""A widget comes into view after Shift+Enter on its cell, and nothing else is ever scrolled."""

from lessons import LESSONS

LINES = "print('\\n'.join(map(str, range(60))))"
EXPLORER = """import torch
from mha_course.widgets import HeadExplorer
words = "the grey cat that chased the loud dogs was hungry".split()
HeadExplorer(torch.rand(4, 10, 10).mul(5).softmax(-1), queries=words)"""
LAB = """from mha_course.lessons.l03_scaling.lab import ScalingLab
ScalingLab()"""
CELLS = [LINES, "2 + 2", EXPLORER, LINES, LAB, "1 + 1", LINES, "1 + 1"]
WIDGETS = {2: ".mha-heads", 4: ".mha-lab"}
SCROLLED = "document.querySelector('.jp-WindowedPanel-outer').scrollTop"


def run_cell(page, number):
    """Select a cell, as a reader does, and run it with Shift+Enter."""
    page.evaluate(
        """(number) => { const { content } = jupyterapp.shell.currentWidget;
             content.activeCellIndex = number; content.node.focus(); }""",
        number,
    )
    page.wait_for_timeout(300)
    page.keyboard.press("Shift+Enter")


def view(page):
    return page.locator(".jp-WindowedPanel-outer").bounding_box()


def test_after_shift_enter_the_top_of_a_widget_is_in_view(lab_page):
    page = lab_page(CELLS, run=False, windowing=True, width=1280, height=800)
    page.locator(".jp-CodeCell").first.click()
    for number in (0, 1, *WIDGETS):
        run_cell(page, number)
        if number not in WIDGETS:
            continue
        page.wait_for_selector(WIDGETS[number])
        page.wait_for_timeout(2200)
        shown, widget = view(page), page.locator(WIDGETS[number]).bounding_box()
        assert widget["y"] >= shown["y"]
        bottom = widget["y"] + min(widget["height"], shown["height"] - 20)
        assert bottom <= shown["y"] + shown["height"]
        active = "jupyterapp.shell.currentWidget.content.activeCellIndex"
        assert page.evaluate(active) == number + 1  # where JupyterLab went
        assert page.evaluate("document.activeElement.closest('.mha-picture')") is None
        # out of sight and back, and in another theme: nothing moves
        page.mouse.move(shown["x"] + 400, shown["y"] + 300)
        page.mouse.wheel(0, 4000)
        page.wait_for_timeout(400)
        page.mouse.wheel(0, -4000)
        page.wait_for_timeout(300)
        before = page.evaluate(SCROLLED)
        page.wait_for_timeout(1800)
        assert page.evaluate(SCROLLED) == before


def test_a_reader_who_scrolls_is_not_pulled_back(lab_page):
    page = lab_page(CELLS, run=False, windowing=True, width=1280, height=800)
    page.locator(".jp-CodeCell").first.click()
    run_cell(page, 0)
    page.evaluate(  # in the very frame after it is drawn
        """() => { const scroller = document.querySelector('.jp-WindowedPanel-outer');
             new MutationObserver((_, watch) => {
               if (!document.querySelector('.mha-heads[data-drawn]')) return;
               watch.disconnect();
               requestAnimationFrame(() => {
                 scroller.dispatchEvent(new WheelEvent('wheel', { bubbles: true }));
                 scroller.scrollTop -= 700;
                 window.leftAt = scroller.scrollTop;
               });
             }).observe(scroller, { subtree: true, attributes: true, childList: true }); }"""
    )
    run_cell(page, 2)
    page.wait_for_selector(".mha-heads[data-drawn]")
    page.wait_for_timeout(2200)
    assert page.evaluate(SCROLLED) == page.evaluate("leftAt")


def test_run_all_scrolls_nothing(lab_page):
    page = lab_page(CELLS, run=False, windowing=True, width=1280, height=800)
    page.locator(".jp-CodeCell").first.click()
    before = page.evaluate(SCROLLED)
    page.evaluate("jupyterapp.commands.execute('notebook:run-all-cells')")
    page.wait_for_selector(".mha-lab")
    page.wait_for_timeout(2500)
    assert page.evaluate(SCROLLED) == before


def test_on_the_first_screen_of_the_course_the_sentence_can_be_changed(lab_page):
    page = lab_page(LESSONS[0], run=False, windowing=True, width=1280, height=800)
    for number in range(4):
        run_cell(page, number)
    page.wait_for_selector(".mha-heads[data-drawn]")
    page.wait_for_timeout(2200)
    shown, field = view(page), page.locator(".mha-heads input")
    for part in (field, page.locator(".mha-heads .hint"), page.locator(".mha-heads .turn")):
        box = part.bounding_box()
        assert shown["y"] < box["y"] < box["y"] + box["height"] < shown["y"] + shown["height"]
    assert field.bounding_box()["y"] < page.locator(".mha-arcs").bounding_box()["y"]
    assert field.evaluate("field => field.scrollWidth <= field.clientWidth")  # all of the sentence
    field.fill("the grey cta")
    page.locator(".trouble.bad", has_text="“cta” is not one of ").wait_for()
    field.fill("the loud dogs that chased the grey cat were hungry , so they ate greedily")
    page.locator(".readout", has_text="“they” looks at dogs ").wait_for()
    assert page.locator(".trouble.bad").count() == 0
