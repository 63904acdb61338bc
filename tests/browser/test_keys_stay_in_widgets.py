"""No key that is pressed inside a widget reaches the notebook, where one letter cuts a cell."""

import string

import pytest
import torch
from labs import LABS
from widget_cases import CASES, START

from mha_course.widgets import HeadExplorer

KEYS = [*string.ascii_lowercase, *string.digits, "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"]
KEYS += ["Home", "End", "Enter"]
# Of each kind of control in a widget, the first that can have the focus.
CONTROLS = """(widget) => {
  const controls = {};
  const any = 'button, input, select, summary, a[href], [tabindex]:not([tabindex="-1"])';
  for (const node of widget.querySelectorAll(any)) {
    const name = [node.tagName, node.type, node.getAttribute('class')].join();
    if (node.checkVisibility() && !node.disabled) controls[name] ??= node;
  }
  window.controls = controls;
  return Object.keys(controls);
}"""
NOTEBOOK = """() => {
  const { content } = jupyterapp.shell.currentWidget;
  const cells = content.widgets.map((cell) => [cell.model.id, cell.model.type]);
  const dialogs = document.querySelectorAll('.jp-Dialog').length;
  return JSON.stringify([cells, content.activeCellIndex, content.mode, dialogs]);
}"""


def test_every_letter_digit_and_arrow_on_every_control(lab_page):
    names = sorted(CASES)
    page = lab_page([START, *(f"made = {CASES[name][0]}\nmade" for name in names)])
    reached = {}
    for number, name in enumerate(names):
        cell = page.locator(".jp-CodeCell").nth(1 + number)
        cell.scroll_into_view_if_needed()
        widget = cell.locator(".jp-OutputArea")
        widget.locator("button, input, [tabindex]").first.wait_for()
        page.wait_for_timeout(300)
        for control in widget.evaluate(CONTROLS):
            page.evaluate("(name) => controls[name].focus()", control)
            before = page.evaluate(NOTEBOOK)
            for key in KEYS:
                page.evaluate("(name) => controls[name].focus()", control)
                page.keyboard.press(key)
                if page.evaluate(NOTEBOOK) != before:
                    reached.setdefault((name, control), []).append(key)
                    page.keyboard.press("Escape")
                    before = page.evaluate(NOTEBOOK)
    assert reached == {}


@pytest.mark.parametrize("name", ["HeadExplorer", "PlaneLab", "ScalingLab"])
def test_space_scrolls_the_page_from_no_control(name, widget_page):
    widget = LABS[name]() if name in LABS else HeadExplorer(torch.eye(5))
    page = widget_page(widget, height=500)
    page.evaluate("document.body.style.height = '4000px'")
    controls = page.locator("#one").evaluate(CONTROLS)
    assert controls
    for control in controls:
        page.evaluate("(name) => controls[name].focus({ preventScroll: true })", control)
        before = page.evaluate("scrollY")
        page.keyboard.press(" ")
        page.wait_for_timeout(200)  # in which a page scrolls smoothly
        assert page.evaluate("scrollY") == before, control
