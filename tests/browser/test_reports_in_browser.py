"""Reports and predictions in a JupyterLab that does not trust their notebook."""

import nbformat
import pytest
import torch

from mha_course.cli import authoring
from mha_course.exercises import check, predict


def too_large_at_one_key(q, k):
    return q @ k.mT / q.size(-1) ** 0.5 * (1 + (torch.arange(k.size(2)) == 3) * 0.2)


def crashing(q, k):
    raise ValueError("x" * 5000)


@pytest.fixture
def untrusted(tmp_path):
    """Make a notebook with outputs that were not made here: ``untrusted([report, …])``."""

    def make(shown):
        cells = [nbformat.v4.new_code_cell("") for _ in shown]
        for cell, one in zip(cells, shown, strict=True):
            cell.outputs = [
                nbformat.v4.new_output("display_data", {"text/html": one._repr_html_()})
            ]
        made = nbformat.v4.new_notebook(cells=cells)
        made.metadata.kernelspec = authoring.KERNEL
        nbformat.write(made, tmp_path / "untrusted.ipynb")
        return tmp_path / "untrusted.ipynb"

    return make


def test_what_differs_is_framed_and_long_words_wrap(lab_page, untrusted):
    wrong = check("scaled_scores", too_large_at_one_key)
    crashed = check("scaled_scores", crashing)
    page = lab_page(untrusted([wrong, crashed, predict("row-sum", "z" * 5000)]), run=False)
    outputs = page.locator(".jp-OutputArea-output")
    outputs.nth(2).wait_for()
    borders = "cells => cells.map((cell) => getComputedStyle(cell).borderTopWidth)"
    framed = outputs.nth(0).locator("td td").evaluate_all(borders)
    assert framed.count("2px") == 10  # a column of five rows, in yours and in the target
    for output in outputs.all():
        assert output.evaluate("box => box.scrollWidth <= box.clientWidth")


ASKED = """
from mha_course.exercises import predict
predict("row-sum")
"""
DEFINED = """
from mha_course.exercises import check

def attend(x):
    doubled = x * 2
    return doubled @ x

check("attend", attend)
check("attend", attend)
check("attend", attend)
"""
KERNEL = "jupyterapp.shell.currentWidget.sessionContext.session.kernel"


def test_a_question_is_answered_by_keys_and_marked_where_it_stands(lab_page):
    page = lab_page([ASKED, 'predict("typical-score")'], windowing=True)
    choices, typed = page.locator(".mha-card").nth(0), page.locator(".mha-card").nth(1)
    buttons, reason = choices.locator("button"), choices.locator(".reason")
    places = (
        "nodes => nodes.map((node) => [node.offsetLeft, node.offsetTop, node.offsetWidth, "
        "node.offsetHeight])"
    )
    before = buttons.evaluate_all(places)
    height = choices.bounding_box()["height"]
    buttons.nth(0).focus()
    for key, marks, verdict in (
        ("Enter", ["✘", "", ""], "✘ Not quite."),
        ("Space", ["✘", "✔", ""], "✔ Right."),
    ):
        page.keyboard.press(key)
        assert buttons.locator(".sign").all_inner_texts() == marks
        assert reason.inner_text().startswith(verdict)
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the third may still be looked at
    assert reason.inner_text().startswith("✘ Not quite.")
    assert buttons.locator(".sign").all_inner_texts() == ["✘", "✔", "✘"]
    assert buttons.evaluate_all(places) == before
    assert choices.bounding_box()["height"] == height

    field = typed.locator("input")
    for answer, said in (
        ("64", "You said 64. ✘ Not quite. "),
        ("√64", "You said √64: 8. ✔ Right. "),
    ):
        field.fill(answer)
        field.press("Enter")
        typed.locator(".reason", has_text=said).wait_for()
        assert field.evaluate("field => field === document.activeElement")
    field.press("7")
    assert not typed.locator(".field .sign").is_visible()  # the mark was for a different answer

    page.evaluate(f"{KERNEL}.shutdown()")
    page.wait_for_timeout(500)
    buttons.nth(1).click()
    assert reason.inner_text().startswith("✔ Right.")
    field.press("Enter")
    typed.locator(".trouble", has_text="The kernel does not answer.").wait_for()
    typed.locator("summary").click()
    assert "8. " in typed.locator(".details").inner_text()


def test_a_link_to_a_lesson_opens_it_in_jupyterlab(lab_page, lab):
    page = lab_page([DEFINED])
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# A lesson")])
    nbformat.write(notebook, lab.folder / "00_start_here.ipynb")
    page.evaluate("window.stays = true")
    page.locator("a.lesson").click()
    page.get_by_role("tab", name="00_start_here.ipynb").wait_for()
    assert page.evaluate("window.stays")  # it was not loaded again


def test_a_card_brings_hints_a_trace_and_the_solution(lab_page):
    page = lab_page([DEFINED], height=1400)
    card = page.locator(".mha-card")
    card.locator("[aria-live]", has_text="Stopped with an error").wait_for(state="attached")
    card.get_by_role("button", name="Hint", exact=True).press("Enter")
    card.get_by_text("Hint 1 of 4").wait_for()
    again = card.get_by_role("button", name="Next hint")
    assert again.evaluate("button => button === document.activeElement")
    again.press("Space")
    card.get_by_text("Hint 2 of 4").wait_for()
    assert card.locator("li").count() == 2
    card.get_by_role("button", name="Show the solution").click()
    card.locator("pre", has_text="def attend").wait_for()
    tracing = card.get_by_role("button", name="Trace my code")
    tracing.click()
    card.locator(".mha-tracer .line.current", has_text="doubled = x * 2").wait_for()
    card.get_by_text("Your code stops after these steps.").wait_for()
    assert tracing.get_attribute("aria-disabled") == "true"
    for width in (360 + 330, 1920):  # next to JupyterLab's file list
        page.set_viewport_size({"width": width, "height": 1400})
        page.wait_for_timeout(300)
        assert card.evaluate("card => card.scrollWidth <= card.clientWidth")
