"""How long a picture of 8 heads takes, from a key or a cell that runs to pixels in JupyterLab: two tables.

    python tests/benchmarks/pictures.py [--rounds 30] [--bertviz FOLDER] [--scripts FOLDER]

HeadExplorer beside what is common: interact with seaborn, and bertviz's head view. bertviz needs
    pip install --no-deps --target FOLDER bertviz
    npm pack d3@5.7.0 jquery@2.1.4 requirejs@2.3.6, each unpacked into FOLDER/d3, FOLDER/jquery and FOLDER/requirejs,
for it loads these from an address in the network, which is answered from there. All is measured in one Chromium with
one server; clocks start in the page, and stop when the frame with the picture in it was handed over.
"""

import argparse
import importlib.metadata
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import browsing
from playwright.sync_api import sync_playwright

HEADS = 8
SCRIPTS = {"d3": "d3/dist/d3.min.js", "jquery": "jquery/dist/jquery.min.js", "require": "requirejs/require.js"}
PREPARE = """
import sys, time
sys.path.append({folder!r})
import torch
torch.set_num_threads(1)
from IPython.display import display
tokens = [f"word{{n}}" for n in range({tokens})]
scores = torch.randn({heads}, {tokens}, {tokens}, generator=torch.Generator().manual_seed(0))
def recompute(temperature=1.0): return (3 * scores / temperature).softmax(-1)
weights = recompute()
"""
EXPLORE = "from mha_course.widgets import HeadExplorer"
INTERACT = """
import ipywidgets as W, matplotlib.pyplot as plt, seaborn as sns
%matplotlib inline
def draw(temperature):
    figure, axes = plt.subplots(2, 4, figsize=(11, 5.5))
    for ax, head in zip(axes.flat, recompute(temperature)):
        sns.heatmap(head, vmin=0, vmax=1, cbar=False, ax=ax)
    plt.show()
"""
CDN = "https://cdnjs.cloudflare.com"
BERTVIZ = f"""
from bertviz import head_view
from IPython.display import HTML
HTML('<script src="{CDN}/ajax/libs/require.js/2.3.6/require.min.js"></script>')  # first, or nothing is drawn
"""
TIMED = "start = time.perf_counter(); {call}; print('kernel', 1000 * (time.perf_counter() - start))"
# What is drawn, and when it is.
PICTURES = {
    "HeadExplorer": (
        EXPLORE, "display(HeadExplorer(weights, queries=tokens, recompute=recompute))", ".mha-heads[data-drawn]"
    ),
    "bertviz head view": (BERTVIZ, "head_view([weights[None]], tokens)", "#attention line"),
}  # fmt: skip
CLOCK = """
window.after = () => new Promise((done) => { // the next task: if called in a frame, after that frame
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = done;
  port2.postMessage(0);
});
window.handed = async () => { await new Promise(requestAnimationFrame); await after(); };
window.until = async (sign) => {
  while (!document.querySelector(sign)) {
    const trouble = document.querySelector("[data-mime-type='application/vnd.jupyter.stderr']");
    if (trouble) throw new Error(trouble.textContent);
    await new Promise(requestAnimationFrame);
  }
  await handed();
};
window.changed = (target, options, enough = () => true) => new Promise((done) => {
  const watch = new MutationObserver((changes) => {
    if (!enough(changes)) return;
    watch.disconnect();
    done();
  });
  watch.observe(target, options);
});
"""
FIRST = """async (sign) => {
  const start = performance.now();
  jupyterapp.commands.execute("notebook:run-cell");
  await until(sign);
  return performance.now() - start;
}"""
# One round of each slider: what is done, and what must change then.
SLIDES = {
    "kernel": """async (round) => {
      const [root] = document.querySelectorAll(".mha-heads");
      const slider = root.querySelector("input[type=range]");
      const there = changed(root, { attributeFilter: ["data-serial"] });
      const start = performance.now();
      slider.value = +slider.min + (+slider.max - +slider.min) * (0.3 + 0.01 * (round % 40));
      slider.dispatchEvent(new Event("input", { bubbles: true }));
      await there;
      await handed();
      return performance.now() - start;
    }""",
    "browser": """async (round) => {
      const [root] = document.querySelectorAll(".mha-heads");
      const there = changed(root, { attributeFilter: ["data-serial"] });
      const start = performance.now();
      root.querySelectorAll(".head")[(round + 1) % 8].click(); // the first is shown already
      await there;
      await handed();
      return performance.now() - start;
    }""",
    "interact": """async (round) => {
      const handle = document.querySelector(".noUi-handle");
      const output = handle.closest(".jp-OutputArea");
      const added = (changes) => changes.flatMap((change) => [...change.addedNodes]);
      const images = (changes) => added(changes).some((node) => node.querySelector?.("img"));
      const there = changed(output, { childList: true, subtree: true }, images);
      const start = performance.now();
      const key = round % 40 < 20 ? "ArrowRight" : "ArrowLeft";
      handle.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
      await there;
      await [...output.querySelectorAll("img")].at(-1).decode();
      await handed();
      return performance.now() - start;
    }""",
}


class Bench:
    """One server and one browser; ``bytes`` counts what the server sent through its sockets."""

    def __init__(self, lab, browser, options):
        self.lab, self.browser, self.options, self.bytes = lab, browser, options, 0

    def opened(self, tokens, prepare, cells):
        """Open a notebook whose first cell has run, with the second one chosen."""
        page = self.browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(240_000)
        page.on("websocket", lambda socket: socket.on("framereceived", self._count))
        page.route(f"{CDN}/**", self._answer)
        first = PREPARE.format(folder=str(self.options.bertviz or ""), tokens=tokens, heads=HEADS) + prepare
        self.lab.open(page, [first, *cells], run=False)
        page.evaluate(f"() => {{ {CLOCK} }}")
        page.evaluate("jupyterapp.commands.execute('notebook:run-cell-and-select-next')")
        page.wait_for_timeout(1000)
        return page

    def _count(self, payload):
        self.bytes += len(payload)

    def _answer(self, route):
        """Answer a request for a script from the folder."""
        path = next(path for name, path in SCRIPTS.items() if name in route.request.url.rpartition("/")[2])
        route.fulfill(path=Path(self.options.scripts) / path, content_type="text/javascript")

    def first(self, name, tokens):
        """Return milliseconds from running a cell to its picture, those of the kernel, and bytes sent for it."""
        prepare, call, sign = PICTURES[name]
        page = self.opened(tokens, prepare, [TIMED.format(call=call)])
        self.bytes = 0
        whole = page.evaluate(FIRST, sign)
        said = page.locator(".jp-OutputArea-output", has_text="kernel").first.inner_text()
        page.wait_for_timeout(500)
        sent = self.bytes
        self.closed(page)
        return whole, float(said.split()[-1]), sent

    def slides(self, kind, tokens, prepare, call):
        """Return the median of many moves, after a few that do not count."""
        page = self.opened(tokens, prepare, [call])
        page.evaluate(FIRST, ".noUi-handle" if kind == "interact" else ".mha-heads[data-drawn]")
        page.wait_for_timeout(3000)
        times = []
        for round_ in range(self.options.rounds + 3):
            times.append(page.evaluate(SLIDES[kind], round_))
            page.wait_for_timeout(120)
        self.closed(page)
        return statistics.median(times[3:]), sorted(times[3:])[int(0.9 * self.options.rounds)]

    def closed(self, page):
        self.lab.leave(page)
        page.close()


def sliders(bench):
    """Print the table of moves."""
    print(f"\n| a move, {HEADS} heads | tokens | median ms | 90 % within ms |\n|---|---|---|---|")
    explorer, interact = PICTURES["HeadExplorer"][1], "W.interact(draw, temperature=W.FloatSlider(1, min=0.1, max=10));"
    rows = [("HeadExplorer, temperature, through the kernel", "kernel", n, EXPLORE, explorer) for n in (16, 64)]
    rows += [("HeadExplorer, another head, in the browser", "browser", 256, EXPLORE, explorer)]
    rows += [("interact + seaborn", "interact", n, INTERACT, interact) for n in (16, 64)]
    for name, kind, tokens, prepare, call in rows:
        median, most = bench.slides(kind, tokens, prepare, call)
        print(f"| {name} | {tokens} | {median:.1f} | {most:.1f} |", flush=True)


def firsts(bench, names):
    """Print the table of first pictures."""
    print(f"\n| first picture, {HEADS} heads | tokens | cell to pixels, ms | kernel, ms | sent, kB |")
    print("|---|---|---|---|---|")
    for name in names:
        for tokens in (16, 64, 256):
            whole, kernel, sent = bench.first(name, tokens)
            print(f"| {name} | {tokens} | {whole:.0f} | {kernel:.1f} | {sent / 1000:.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30, help="0 for first pictures alone")
    parser.add_argument("--bertviz", help="the folder where pip put bertviz")
    parser.add_argument("--scripts", help="the folder of d3, jquery and requirejs")
    options = parser.parse_args()
    have = options.bertviz and options.scripts
    versions = [
        f"{name} {importlib.metadata.version(name)}" for name in ("jupyterlab", "ipywidgets", "anywidget", "seaborn")
    ]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as player:
        chromium = player.chromium.launch(executable_path=browsing.CHROMIUM, args=browsing.ARGUMENTS)
        lab = browsing.Lab(Path(folder))
        print(f"Chromium {chromium.version}, {', '.join(versions)}; moves: median of {options.rounds}")
        try:
            bench = Bench(lab, chromium, options)
            if options.rounds:
                sliders(bench)
            firsts(bench, PICTURES if have else ["HeadExplorer"])
            if not have:
                print("\nbertviz is not here: see --help for how to compare with it.")
        finally:
            lab.stop()
            chromium.close()


if __name__ == "__main__":
    main()
