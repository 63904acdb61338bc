"""Make the pictures of the README and of links to the site, from the site and from JupyterLab.

python tests/support/readme_pictures.py
"""

import io
import tempfile
import time
from pathlib import Path

import browsing
from PIL import Image
from playwright.sync_api import sync_playwright

from mha_course.cli import site

DATA = browsing.ROOT / "mha_course" / "data"
SWAPPED = "the grey dogs that chased the loud cat was hungry , so it ate greedily"
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
# Of the index, the title and the arcs; both as large as a card has room.
CARD = """body { zoom: 1.2; height: 525px; display: grid; align-items: center }
.index { width: 1000px; padding: 0 16px } .index h1 { font-size: 54px; text-align: center }
.index h1::after { content: "Twenty Jupyter lessons in PyTorch"; display: block; font-size: 24px;
  font-weight: 400; letter-spacing: 0; color: var(--soft); margin: 14px 0 26px }
.masthead, .index > :not(h1, [data-widget=HeadExplorer]), .mha-heads .view > :not(.stage),
.mha-heads .side, .mha-heads .keys { display: none !important }
.mha-heads { border: 0 !important; padding: 0 !important }"""
TRACE = 'trace(split_heads, torch.randn(2, 5, 12), 3, axes={"x": "B S C"}, sizes={"H": 3, "D": 4})'


class Film:
    """Frames of a part of a page, each shown for some milliseconds."""

    def __init__(self, page, selector, last):
        self.page, self.frames, self.times = page, [], []
        page.locator(selector).first.scroll_into_view_if_needed()
        box, low = (page.locator(each).first.bounding_box() for each in (selector, last))
        height = low["y"] + low["height"] - box["y"]
        self.clip = {"x": box["x"], "y": box["y"], "width": box["width"], "height": height}

    def take(self, milliseconds, wait=350):
        self.page.wait_for_timeout(wait)
        data = self.page.screenshot(clip=self.clip)
        self.frames.append(Image.open(io.BytesIO(data)).convert("RGB"))
        self.times.append(milliseconds)

    def follow(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            start = time.monotonic()
            self.take(0, wait=0)
            self.times[-1] = max(40, round(1000 * (time.monotonic() - start)))

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


def explore(page):
    """Film the explorer: point at words, change them, unfold the table, and fold it back."""
    page.wait_for_selector(".mha-heads[data-drawn]")
    film = Film(page, ".mha-heads", ".mha-heads .side")
    film.take(1800)
    for word in ("ate", "dogs"):
        page.locator(".word", has_text=word).hover()
        film.follow(0.3)
        film.take(1000)
    page.mouse.move(5, 5)
    film.follow(0.3)
    film.take(700)
    page.locator(".mha-heads input").fill(SWAPPED)
    film.follow(0.5)
    film.take(1800)
    for milliseconds in (2600, 1200):
        page.locator(".turn").click()
        film.follow(1.5)
        film.take(milliseconds)
    film.save(DATA / "readme.webp")


def mistake(page):
    """Keep what check and tracer say of a reshape that mixes tokens and heads."""
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


def card(page):
    """Keep what a link to the site shows."""
    page.wait_for_selector(".mha-heads[data-drawn]")
    page.add_style_tag(content=CARD)
    page.wait_for_timeout(1000)
    page.screenshot(path=DATA / site.CARD)
    print(site.CARD, f"{(DATA / site.CARD).stat().st_size / 1000:.0f} kB")


def main():
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as player:
        chromium = player.chromium.launch(
            executable_path=browsing.CHROMIUM, args=browsing.ARGUMENTS
        )
        site.write_index(site.read_lessons(["00"]), Path(folder), "")
        for width, height, keep in ((1200, 630, card), (1000, 1600, explore)):
            page = chromium.new_page(viewport={"width": width, "height": height})
            page.goto((Path(folder) / "index.html").as_uri())
            keep(page)
            page.close()
        lab = browsing.Lab(Path(folder))
        try:
            page = chromium.new_page(viewport={"width": 1280, "height": 1600})
            lab.open(page, [MISTAKE, CHECK, TRACE])
            mistake(page)
            lab.leave(page)
        finally:
            lab.stop()
            chromium.close()


if __name__ == "__main__":
    main()
