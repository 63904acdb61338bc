"""The labs in JupyterLab: every control by mouse and by key, and what becomes of errors."""

import numpy as np
import pytest
from players import stays_inside

EVIL = '"><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
SETUP = """
import torch
from mha_course import example
from mha_course.lessons.l03_scaling.lab import ScalingLab
from mha_course.lessons.l04_softmax.lab import SoftmaxLab
from mha_course.widgets import MaskLab
torch.set_num_threads(1)
cat = example.load()
scores = cat.mha.steps(cat.x).scaled_scores[0, 1]
"""
# Returns where marks stand that turn the direction of text.
TURNING = """() => [...document.querySelectorAll('.mha-lab *')].filter((node) => {
  const texts = [...node.attributes].map((one) => one.value);
  for (const child of node.childNodes)
      if (child.nodeType === Node.TEXT_NODE) texts.push(child.data);
  return /[\\u202a-\\u202e]/.test(texts.join());
}).map((node) => node.tagName)"""


@pytest.fixture
def labs(lab_page):
    """Show labs in JupyterLab; what goes to the console as an error fails the test."""
    told = []

    def show(cells):
        page = lab_page(cells)
        page.on(
            "console",
            lambda message: told.append(message.text) if message.type == "error" else None,
        )
        drawn = f"document.querySelectorAll('.mha-lab[data-serial]').length === {len(cells) - 1}"
        page.wait_for_function(drawn)
        page.wait_for_timeout(1700)  # until the last one has come into view
        return page

    yield show
    assert not told


def the(page, number):
    return page.locator(".mha-lab").nth(number)


def pixels(board):
    """Return red, green, blue and alpha of each cell of a matrix."""
    values = board.locator("canvas").evaluate(
        "one => [...one.getContext('2d').getImageData(0, 0, one.width, one.height).data]"
    )
    return np.array(values).reshape(15, 15, 4)


def settled(lab):
    """Wait until the kernel has answered all that was asked, and return the sentence."""
    page, before = lab.page, None
    while (now := lab.get_attribute("data-serial")) != before:
        before = now
        page.wait_for_timeout(400)
    return lab.locator(".sentence").inner_text()


def test_painting_by_mouse(labs):
    page = labs([SETUP, "MaskLab(scores, cat.tokens)"])
    lab = the(page, 0)
    board = lab.locator(".paint")
    board.scroll_into_view_if_needed()

    def middle(row, column):
        box = board.locator("canvas").bounding_box()
        side = box["width"] / 15
        return box["x"] + (column + 0.5) * side, box["y"] + (row + 0.5) * side

    def painted():
        return (pixels(board)[:5, :, 3] == 255).astype(int).tolist()

    causal = [[int(column <= row) for column in range(15)] for row in range(5)]
    assert painted() == causal
    start, end = middle(1, 4), middle(1, 6)
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*end, steps=12)
    page.mouse.up()
    assert "123 of 225 pairs may attend" in settled(lab)
    for column in (4, 5, 6):
        causal[1][column] = 1
    assert painted() == causal
    chosen = "node => node.selectedOptions[0].textContent"
    assert lab.locator("select").evaluate(chosen) == "painted"
    page.mouse.move(5, 5)
    board.focus()  # the cursor is where the mouse left it
    assert lab.locator(".readout").inner_text() == "grey → loud: may attend"
    for key in ("ArrowDown", "Home", " "):
        page.keyboard.press(key)
    assert lab.locator(".readout").inner_text() == "cat → the₁: hidden"
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    assert "1 row sees nothing (“cat”)" in settled(lab)
    assert painted()[2] == [0] * 15


def test_tips_by_mouse(labs):
    page = labs(["from mha_course.widgets import PlaneLab", "PlaneLab()"])
    lab = the(page, 0)
    lab.scroll_into_view_if_needed()
    plane = lab.locator("svg.arrows").bounding_box()
    unit, tip = plane["width"] / 6.8, lab.locator(".handle").nth(1)
    page.mouse.move(plane["x"] + 5.4 * unit, plane["y"] + 2.4 * unit)  # the tip of b, at (2, 1)
    page.mouse.down()
    page.mouse.move(plane["x"] + 2.4 * unit, plane["y"] + 2.4 * unit, steps=15)
    # The kernel has not answered yet.
    assert "b = (-1.00, 1.00)" in lab.locator(".readout").inner_text()
    page.mouse.up()
    assert "a to a" in settled(lab)
    assert lab.locator("tr").nth(1).locator("td").all_inner_texts()[:3] == ["1.00", "-1.00", "0.00"]
    assert tip.evaluate("node => node === document.activeElement")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Shift+ArrowRight")
    settled(lab)
    assert tip.get_attribute("aria-label").startswith("b at (-0.50, 1.10)")
    lab.get_by_role("button", name="Start again").click()
    assert "a to b 0.58, b to b 0.81, c to c 0.77" in settled(lab)


def test_words_from_people_and_every_width(labs):
    tokens = f"[{EVIL!r}, '', 'w' * 5000, 'مرحبا', '\\u202eit\\n']"
    # one leans over the last ones
    many = "['W' * 8 if n in (0, 9, 29) else f't{n}' for n in range(32)]"
    calls = [f"SoftmaxLab(torch.eye(5), {tokens})", f"MaskLab(torch.eye(5), {tokens})"]
    calls += ["ScalingLab()", f"SoftmaxLab(100 * torch.eye(32), {many})"]
    page = labs([SETUP, *calls])
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
    assert "�it⏎" in the(page, 0).inner_text()
    assert page.evaluate(TURNING) == []
    assert page.evaluate("window.hacked") is None
    assert page.locator(".mha-lab img, .mha-lab script").count() == 0
