"""Make the README's pictures from the real thing: a lesson and a wrong answer in JupyterLab.

python tests/readme_pictures.py
"""

import io
import tempfile
from pathlib import Path

import browsing
from PIL import Image
from playwright.sync_api import sync_playwright

DATA = browsing.ROOT / "mha_course" / "data"
LESSON = browsing.ROOT / "notebooks" / "16_why_many_heads.ipynb"
SENTENCES = (
    "the grey cat that chased the loud dogs was hungry , so it ate greedily",
    "the sly fox that chased the loud dogs was thirsty , so it drank deeply",
    "the loud dogs that chased the sly fox were thirsty , so they drank deeply",
)
PRONOUN, NOUN = 12, 2  # places in each
MISTAKE = """import torch
from mha_course.exercises import check
from mha_course.tracing import trace

def split_heads(x, num_heads):
    batch, length, width = x.shape
    return x.reshape(batch, num_heads, length, width // num_heads)"""
CHECK = 'check("split_heads", split_heads)'
TRACE = 'trace(split_heads, torch.randn(2, 5, 12), 3, axes={"x": "B S C"}, sizes={"H": 3, "D": 4})'


class Film:
    """Frames of one part of a page, each shown for some milliseconds."""

    def __init__(self, page, selector):
        self.page, self.frames, self.times = page, [], []
        page.locator(selector).first.scroll_into_view_if_needed()
        box = page.locator(selector).first.bounding_box()
        self.clip = {"x": box["x"], "y": box["y"], "width": box["width"], "height": box["height"]}

    def take(self, milliseconds):
        self.page.wait_for_timeout(350)
        data = self.page.screenshot(clip=self.clip)
        self.frames.append(Image.open(io.BytesIO(data)).convert("RGB"))
        self.times.append(milliseconds)

    def save(self, path):
        first, *rest = self.frames
        first.save(path, save_all=True, append_images=rest, duration=self.times, loop=0, quality=70, method=6)
        print(path.name, f"{len(self.frames)} frames, {path.stat().st_size / 1000:.0f} kB")


def point(page, row, column):
    """Put the pointer on a cell of the large picture."""
    base = page.locator(".mha-heads canvas.base").first
    x, y, w, h = (float(number) for number in base.get_attribute("data-place").split())
    box = base.bounding_box()
    page.mouse.move(box["x"] + x + (column + 0.5) * w, box["y"] + y + (row + 0.5) * h)


def explorer(page):
    """Film the explorer of the last lesson: heads, a cell, another sentence, two heads compared."""
    film = Film(page, ".mha-heads")
    heads, field = page.locator(".mha-heads .head"), page.locator(".mha-heads input[type=text]").first
    for sentence in SENTENCES:
        field.fill(sentence)
        if sentence == SENTENCES[0]:
            film.take(900)
            for place in (0, 7, 6):  # five to a layer, the average among them
                heads.nth(place).click()
                film.take(700)
        point(page, PRONOUN, NOUN)
        film.take(1900)
    heads.nth(7).click(modifiers=["Shift"])
    point(page, PRONOUN, NOUN)
    film.take(2400)
    film.save(DATA / "readme.webp")


def mistake(page):
    """Keep what is said of a reshape that mixes tokens and heads: by the check, and by the tracer."""
    page.wait_for_timeout(500)
    cells = page.locator(".jp-CodeCell")
    boxes = [cells.nth(n).bounding_box() for n in range(3)]
    top, low = boxes[0], boxes[2]
    clip = {"x": top["x"], "y": top["y"], "width": top["width"], "height": low["y"] + low["height"] - top["y"]}
    page.screenshot(path=DATA / "readme.png", clip=clip)
    print("readme.png", f"{(DATA / 'readme.png').stat().st_size / 1000:.0f} kB")


def main():
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as player:
        chromium = player.chromium.launch(executable_path=browsing.CHROMIUM, args=browsing.ARGUMENTS)
        lab = browsing.Lab(Path(folder))
        try:
            for cells, keep in (([MISTAKE, CHECK, TRACE], mistake), (LESSON, explorer)):
                page = chromium.new_page(viewport={"width": 1280, "height": 1600})
                lab.open(page, cells)
                keep(page)
                lab.leave(page)
                page.close()
        finally:
            lab.stop()
            chromium.close()


if __name__ == "__main__":
    main()
