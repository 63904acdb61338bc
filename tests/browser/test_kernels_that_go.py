"""What widgets say while the kernel is busy or gone, until it answers again."""

CELL = """
import time
import numpy as np
import torch
from mha_course import plots
from mha_course.lessons.l04_softmax.lab import SoftmaxLab
from mha_course.widgets import HeadExplorer, Panel

def slow(temperature):
    while temperature > 2:
        time.sleep(0.01)
    return torch.eye(3)

def soft(scores):
    while float(scores.max()) > 2:
        time.sleep(0.01)
    return scores.softmax(-1)

def draw(size):
    time.sleep(4 if size == 3 else 0)
    return plots.heatmap(np.eye(size)), f"An identity of {size}."

display(HeadExplorer(torch.eye(3), recompute=slow))
display(SoftmaxLab(torch.eye(3), ["a", "b", "c"], softmax=soft))
display(Panel(draw, size=range(2, 12)))
"""
PANEL = ".mha-lab[aria-label=Panel]"
GONE = "⚠ The kernel does not answer. If it is busy, wait; if it is gone, run the cell again."
# Returns what each of the three says, as it is seen.
SAID = """() => ['.mha-heads', '.mha-lab[aria-label=SoftmaxLab]',
    '.mha-lab[aria-label=Panel]'].map((name) => {
  const line = document.querySelector(`${name} .trouble`);
  const mark = getComputedStyle(line, '::before').content;
  return (mark === 'none' ? '' : JSON.parse(mark)) + line.textContent;
})"""
NOW = "([name, text]) => document.querySelector(`${name} .trouble`).textContent.includes(text)"


def test_all_widgets_say_the_same_of_a_kernel_that_does_not_answer(lab_page):
    page = lab_page([CELL], height=1600)
    page.wait_for_selector(".mha-heads[data-drawn]")
    page.wait_for_selector(f"{PANEL} img")
    assert page.evaluate(SAID) == ["", "", ""]
    explorer = page.locator(".mha-heads .control.log input")
    lab = page.locator(".mha-lab input[type=range]").first
    panel = page.locator(f"{PANEL} input[type=range]")
    for name, control, slow, quick in (
        (".mha-heads", explorer, "1", "0.1"),
        (".mha-lab", lab, "0", "8"),
    ):
        control.fill(slow)
        page.wait_for_function(NOW, arg=[name, "does not answer"])
        page.evaluate("jupyterapp.commands.execute('notebook:interrupt-kernel')")
        page.wait_for_function(NOW, arg=[name, "your function was interrupted"])
        control.fill(quick)
        page.wait_for_function(
            "(name) => !document.querySelector(`${name} .trouble`).textContent", arg=name
        )
    panel.press("ArrowRight")
    page.wait_for_function(NOW, arg=[PANEL, "does not answer"])  # it draws for four seconds
    page.wait_for_function(
        "(name) => !document.querySelector(`${name} .trouble`).textContent", arg=PANEL
    )
    assert "An identity of 3" in page.locator(PANEL).inner_text()
    page.evaluate("jupyterapp.shell.currentWidget.sessionContext.session.kernel.shutdown()")
    page.wait_for_timeout(500)
    explorer.fill("0.2")
    lab.fill("7")
    panel.press("ArrowRight")
    page.wait_for_timeout(4000)
    assert page.evaluate(SAID) == [GONE] * 3
