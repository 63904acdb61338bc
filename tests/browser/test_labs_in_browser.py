"""Labs moved by mouse, and words from people in them, in JupyterLab at every width."""

import numpy as np
from browsing import pixels
from players import stays_inside

from mha_course import example
from mha_course.widgets import MaskLab, PlaneLab

EVIL = '"><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
SETUP = """
import torch
from mha_course.lessons.l03_scaling.lab import ScalingLab
from mha_course.lessons.l04_softmax.lab import SoftmaxLab
from mha_course.widgets import MaskLab
"""
# Returns where marks stand that turn the direction of text.
TURNING = """() => [...document.querySelectorAll('.mha-lab *')].filter((node) => {
  const texts = [...node.attributes].map((one) => one.value);
  for (const child of node.childNodes)
      if (child.nodeType === Node.TEXT_NODE) texts.push(child.data);
  return /[\\u202a-\\u202e]/.test(texts.join());
}).map((node) => node.tagName)"""


def test_painting_by_mouse(widget_page):
    cat = example.load()
    page = widget_page(MaskLab(cat.mha.steps(cat.x).scaled_scores[0, 1], cat.tokens))
    board, readout = page.locator(".paint"), page.locator(".readout")

    def move(row, column, **how):
        box = board.locator("canvas").bounding_box()
        side = box["width"] / 15
        x, y = box["x"] + (column + 0.5) * side, box["y"] + (row + 0.5) * side
        page.mouse.move(x, y, **how)

    def painted():
        return (pixels(board.locator("canvas"))[:5, :, 3] == 255).astype(int).tolist()

    causal = np.tri(5, 15, dtype=int).tolist()
    assert painted() == causal
    move(1, 4)
    page.mouse.down()
    move(1, 6, steps=12)
    page.mouse.up()
    page.locator(".sentence", has_text="123 of 225 pairs may attend").wait_for()
    causal[1][4:7] = [1, 1, 1]
    assert painted() == causal
    chosen = "node => node.selectedOptions[0].textContent"
    assert page.locator("select").evaluate(chosen) == "painted"
    page.mouse.move(5, 5)
    board.focus()  # the cursor is where the mouse left it
    assert readout.inner_text() == "grey → loud: may attend"
    for key in ("ArrowDown", "Home", " "):
        page.keyboard.press(key)
    assert readout.inner_text() == "cat → the₁: hidden"
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    page.locator(".sentence", has_text="1 row sees nothing (“cat”)").wait_for()
    assert painted()[2] == [0] * 15


def test_what_is_painted_in_jupyterlab_is_the_mask_in_python(lab_page):
    made = "lab = MaskLab(torch.eye(3), list('abc'))\nlab"
    page = lab_page([SETUP, made, "print(lab.mask.int().tolist())"])
    board = page.locator(".paint")
    for key in (" ", "End", " "):
        board.press(key)
    page.locator(".sentence", has_text="6 of 9 pairs may attend.").wait_for()
    page.wait_for_timeout(500)
    page.evaluate("jupyterapp.shell.currentWidget.content.activeCellIndex = 2")
    page.evaluate("jupyterapp.commands.execute('notebook:run-cell')")
    page.get_by_text("[[0, 0, 1], [1, 1, 0], [1, 1, 1]]").wait_for()


def test_tips_by_mouse(widget_page):
    page = widget_page(PlaneLab())
    plane, sentence = page.locator("svg.arrows").bounding_box(), page.locator(".sentence")
    unit, tip = plane["width"] / 6.8, page.locator(".handle").nth(1)
    page.mouse.move(plane["x"] + 5.4 * unit, plane["y"] + 2.4 * unit)  # the tip of b, at (2, 1)
    page.mouse.down()
    page.mouse.move(plane["x"] + 2.4 * unit, plane["y"] + 2.4 * unit, steps=15)
    assert "b = (-1.00, 1.00)" in page.locator(".readout").inner_text()
    page.mouse.up()
    sentence.filter(has_text="a to a").wait_for()
    numbers = page.locator("tr").nth(1).locator("td").all_inner_texts()
    assert numbers[:3] == ["1.00", "-1.00", "0.00"]
    assert tip.evaluate("node => node === document.activeElement")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Shift+ArrowRight")
    page.wait_for_timeout(300)
    assert tip.get_attribute("aria-label").startswith("b at (-0.50, 1.10)")
    page.get_by_role("button", name="Start again").click()
    sentence.filter(has_text="a to b 0.58, b to b 0.81, c to c 0.77").wait_for()


def test_words_from_people_and_every_width(lab_page):
    tokens = f"[{EVIL!r}, '', 'w' * 5000, 'مرحبا', '\\u202eit\\n']"
    # one leans over the last ones
    many = "['W' * 8 if n in (0, 9, 29) else f't{n}' for n in range(32)]"
    calls = [f"SoftmaxLab(torch.eye(5), {tokens})", f"MaskLab(torch.eye(5), {tokens})"]
    calls += ["ScalingLab()", f"SoftmaxLab(100 * torch.eye(32), {many})"]
    page = lab_page([SETUP, *calls])
    page.wait_for_function("document.querySelectorAll('.mha-lab[data-serial]').length === 4")
    page.wait_for_timeout(1700)  # until the last one has come into view
    page.evaluate("jupyterapp.commands.execute('application:toggle-left-area')")
    for width in (480, 800, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(400)
        stays_inside(
            page,
            ".mha-lab",
            "svg:not(.shared), text, .controls *, p:not(.spoken), td, th",
            by=1,
            below=True,
        )
        if width >= 1280:
            stays_inside(
                page, ".mha-lab figure", "text, td, th, figcaption, span", by=2, below=True
            )
    assert "�it⏎" in page.locator(".mha-lab").first.inner_text()
    assert page.evaluate(TURNING) == []
    assert page.evaluate("window.hacked") is None
    assert page.locator(".mha-lab img, .mha-lab script").count() == 0
