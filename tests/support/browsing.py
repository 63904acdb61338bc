"""A browser for tests: a page for one widget, and JupyterLab."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

import nbformat
import numpy as np

from mha_course.cli import authoring, launch, rendering
from mha_course.widgets.base import esm, standalone

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
ARGUMENTS = ("--no-sandbox", "--disable-dev-shm-usage")
PAGE = """<!doctype html><meta charset="utf-8">
<style>body { margin: 8px; font-family: sans-serif } %(css)s</style>
<div id="one"></div><div id="two"></div>
<script>%(live)s</script><script>%(script)s</script>
<script type="module">
window.leaked = [];
document.addEventListener("keydown", (event) => leaked.push(event.key), %(capture)s);
window.model = Object.assign(new Model(%(state)s), { saved: 0, save_changes: () =>
  (model.saved += 1) });
window.draw = (id) => widgets[%(name)s].render({ model, el: document.getElementById(id) });
window.tidy = await draw("one");
document.body.dataset.ready = "yes";
</script>"""
# Moves a control, and reports its new value as an event does.
MOVE = """(input) => {
  const fire = (name) => input.dispatchEvent(new Event(name, { bubbles: true }));
  if (input.type === 'checkbox' || input.type === 'radio') { input.click(); }
  else if (input.tagName === 'SELECT') {
    input.selectedIndex = (input.selectedIndex + 1) % input.options.length; fire('change');
  } else {
    input.value = Number(input.value) === Number(input.max) ? input.min
      : Number(input.value) + (Number(input.step) || 1);
    fire('input');
  }
}"""
SETTINGS = {"apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False}}
# the indicator in the toolbar fires before there is a kernel
IDLE = "#jp-main-statusbar >> text=/Python 3.*Idle/"


def page_of(widget, capture):
    """Return HTML in which a widget is drawn without a kernel, as decks draw it."""
    given = standalone(widget, widget.without_kernel() or {})
    live = esm("live.js", folder=Path(rendering.__file__).parent)
    words = {"state": given["state"], "name": given["name"], "capture": capture}
    safe = {key: json.dumps(value).replace("<", "\\u003c") for key, value in words.items()}
    return PAGE % {"css": given["css"], "live": live, "script": rendering.script_of(given), **safe}


def pixels(canvas):
    """Return red, green, blue and alpha of each pixel of a canvas: (rows, columns, 4)."""
    height, width, values = canvas.evaluate("""(one) => {
      const { data } = one.getContext('2d').getImageData(0, 0, one.width, one.height);
      return [one.height, one.width, [...data]];
    }""")
    return np.array(values).reshape(height, width, 4)


def stop_clock(page):
    """Let time pass in a page only when a test says so, however long the machine takes."""
    page.clock.install(time=0)
    page.clock.pause_at(1000)


class Lab:
    """A JupyterLab server on a free port, with the course on its path, in its own folder."""

    def __init__(self, folder):
        self.folder, self.settings = folder / "notebooks", folder / "settings"
        self.folder.mkdir()
        for name, values in SETTINGS.items():
            self._set(name, values)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"http://127.0.0.1:{free.getsockname()[1]}"
        own = {"SETTINGS": self.settings, "WORKSPACES": folder / "workspaces"}
        environment = os.environ | {
            f"JUPYTERLAB_{name}_DIR": str(path) for name, path in own.items()
        }
        environment |= {
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "tests" / "support"))),
            "JUPYTER_PREFER_ENV_PATH": "1",
            "JUPYTER_RUNTIME_DIR": str(folder),
            "JUPYTER_CONFIG_DIR": str(folder),
            "MHA_COURSE_PROGRESS": "off",
        }
        options = [
            *("--no-browser", "--allow-root", "--ip=127.0.0.1", "--IdentityProvider.token="),
            f"--port={self.address.rpartition(':')[2]}",
            f"--ServerApp.root_dir={self.folder}",
            *("--ServerApp.disable_check_xsrf=True", "--LabApp.expose_app_in_browser=True"),
            "--LabApp.custom_css=True",
            f"--ServerApp.tornado_settings={{'static_custom_path': ['{launch.STYLE}']}}",
            "--ContentsManager.pre_save_hook=mha_course.cli.jupyter_hooks.drop_widget_views",
        ]
        self.log = (folder / "server.log").open("wb")
        command = [sys.executable, "-m", "jupyterlab", *options]
        self.process = subprocess.Popen(
            command, env=environment, stdout=self.log, stderr=subprocess.STDOUT
        )
        self._await()

    def _set(self, name, values):
        path = self.settings / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))

    def _await(self, seconds=60):
        for _ in range(seconds * 5):
            try:
                if self.process.poll() is not None:
                    break
                with urllib.request.urlopen(f"{self.address}/api", timeout=5):
                    return
            except urllib.error.URLError:
                time.sleep(0.2)
        raise TimeoutError(f"JupyterLab does not answer: {Path(self.log.name).read_text()[-2000:]}")

    def stop(self):
        self.process.terminate()
        self.process.wait(20)
        self.log.close()

    def notebook(self, cells):
        """Put a notebook into the folder, of sources or from a path, and return its name."""
        name = f"{uuid.uuid4().hex[:8]}.ipynb"
        if isinstance(cells, Path):
            shutil.copyfile(cells, self.folder / name)
        else:
            made = nbformat.v4.new_notebook(
                cells=[nbformat.v4.new_code_cell(cell) for cell in cells]
            )
            made.metadata.kernelspec = authoring.KERNEL
            nbformat.write(made, self.folder / name)
        return name

    def open(self, page, cells, *, dark=False, run=True, windowing=False):
        """Open a notebook of these cells in a page, and run all of it.

        With windowing, as people have it, JupyterLab does not lay out what is out of sight; without
        it, everything is on the page.
        """
        mode = {"windowingMode": "contentVisibility" if windowing else "none"}
        self._set("notebook-extension/tracker", mode)
        name = self.notebook(cells)
        self._set(
            "apputils-extension/themes", {"theme": f"JupyterLab {'Dark' if dark else 'Light'}"}
        )
        page.goto(f"{self.address}/lab/workspaces/{name[:8]}/tree/{name}")
        page.locator(IDLE).wait_for(timeout=90_000)
        if run:
            page.evaluate("jupyterapp.commands.execute('notebook:run-all-cells')")
            page.locator(IDLE).wait_for(timeout=90_000)

    def end_kernels(self):
        with urllib.request.urlopen(f"{self.address}/api/sessions", timeout=20) as answer:
            for session in json.load(answer):
                gone = urllib.request.Request(
                    f"{self.address}/api/sessions/{session['id']}", method="DELETE"
                )
                urllib.request.urlopen(gone, timeout=20).close()

    def leave(self, page):
        page.evaluate("jupyterapp.serviceManager.sessions.shutdownAll()")
