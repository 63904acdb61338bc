"""Make the README's pictures from the real thing: the scene and a wrong answer in JupyterLab.

python tests/support/readme_pictures.py
"""

import io
import tempfile
from pathlib import Path

import browsing
from PIL import Image
from playwright.sync_api import sync_playwright

DATA = browsing.ROOT / "mha_course" / "data"
SCENE = """from mha_course import example
from mha_course.widgets import AttentionScene

cat = example.load()
AttentionScene(cat.mha.steps(cat.x), tokens=cat.tokens, x=cat.x, out_proj=cat.mha.out_proj,
  follow="it", head=1)"""
FOLLOWED = 10  # “hungry” in the menu of words, which begins with none
MISTAKE = """import torch
from mha_course.exercises import check
from mha_course.tracing import trace

def split_heads(x, num_heads):
    batch, length, width = x.shape
    return x.reshape(batch, num_heads, length, width // num_heads)"""
CHECK = 'check("split_heads", split_heads)'
UNMARKED = """.jp-Collapser { visibility: hidden }
.jp-Cell { border-color: transparent !important; outline: none !important;
  box-shadow: none !important }"""
TRACE = 'trace(split_heads, torch.randn(2, 5, 12), 3, axes={"x": "B S C"}, sizes={"H": 3, "D": 4})'


class Film:
    """Frames of one part of a page, down to the end of another, each shown for some
    milliseconds.
    """

    def __init__(self, page, selector, last):
        self.page, self.frames, self.times = page, [], []
        page.locator(selector).first.scroll_into_view_if_needed()
        box, low = (page.locator(each).first.bounding_box() for each in (selector, last))
        height = low["y"] + low["height"] - box["y"]
        self.clip = {"x": box["x"], "y": box["y"], "width": box["width"], "height": height}

    def take(self, milliseconds):
        self.page.wait_for_timeout(350)
        data = self.page.screenshot(clip=self.clip)
        self.frames.append(Image.open(io.BytesIO(data)).convert("RGB"))
        self.times.append(milliseconds)

    def save(self, path):
        first, *rest = self.frames
        first.save(
            path,
            save_all=True,
            append_images=rest,
            duration=self.times,
            loop=0,
            quality=70,
            method=6,
        )
        print(path.name, f"{len(self.frames)} frames, {path.stat().st_size / 1000:.0f} kB")


def walk(page):
    """Film the scene: walk through the whole pass, then follow another word, and light another
    head.
    """
    page.wait_for_selector(".mha-scene[data-drawn]")
    film, ahead = (
        Film(page, ".mha-scene", ".mha-scene .paper"),
        page.get_by_role("button", name="Next"),
    )
    film.take(2000)
    while ahead.is_enabled():
        ahead.click()
        film.take(1700)
    page.locator(".mha-scene .paper").press("Escape")
    page.locator(".mha-scene select").select_option(index=FOLLOWED)
    film.take(1500)
    page.get_by_role("button", name="head 0").click()
    film.take(2200)
    film.save(DATA / "readme.webp")


def mistake(page):
    """Keep what is said of a reshape that mixes tokens and heads: by the check, and by the
    tracer.
    """
    page.add_style_tag(content=UNMARKED)
    page.wait_for_timeout(500)
    cells = page.locator(".jp-CodeCell")
    boxes = [cells.nth(n).bounding_box() for n in range(3)]
    top, low = boxes[0], boxes[2]
    clip = {
        "x": top["x"],
        "y": top["y"],
        "width": top["width"],
        "height": low["y"] + low["height"] - top["y"],
    }
    page.screenshot(path=DATA / "readme.png", clip=clip)
    print("readme.png", f"{(DATA / 'readme.png').stat().st_size / 1000:.0f} kB")


def main():
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as player:
        chromium = player.chromium.launch(
            executable_path=browsing.CHROMIUM, args=browsing.ARGUMENTS
        )
        lab = browsing.Lab(Path(folder))
        try:
            for cells, keep in (([MISTAKE, CHECK, TRACE], mistake), ([SCENE], walk)):
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
