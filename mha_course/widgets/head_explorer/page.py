"""One file that shows the heads without Python and without a network."""

from __future__ import annotations

import base64
import html
import json
from typing import Any

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%(title)s</title>
<style>
:root { color-scheme: light dark; }
body { margin: 12px; background: Canvas; color: CanvasText; font-family: system-ui, sans-serif; }
%(css)s
</style>
</head>
<body>
<div id="explorer"></div>
<noscript><p>%(title)s</p></noscript>
<script type="application/json" id="state">%(state)s</script>
<script type="module">
const source = `<!doctype html>\\n${document.documentElement.outerHTML}`; // before anything is drawn
%(esm)s
const state = JSON.parse(document.getElementById("state").textContent);
for (const [key, text] of Object.entries(state.binary)) {
  state[key] = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}
const calls = [];
const model = {
  get: (key) => (key === "page" ? new TextEncoder().encode(source) : state[key]),
  set(key, value) {
    state[key] = value;
    for (const [event, call] of [...calls]) if (event === `change:${key}`) call();
  },
  save_changes() {},
  on: (event, call) => calls.push([event, call]),
  off(event, call) {
    const found = calls.findIndex((one) => one[0] === event && one[1] === call);
    if (found >= 0) calls.splice(found, 1);
  },
};
render({ model, el: document.getElementById("explorer") });
</script>
</body>
</html>
"""


def write_page(title: str, css: str, esm: str, state: dict[str, Any], binary: dict[str, bytes]) -> str:
    """Write a page that draws ``state`` with the widget's own script; ``binary`` holds what is no text."""
    coded = {name: base64.b64encode(data).decode() for name, data in binary.items()}
    data = json.dumps({**state, "binary": coded}).replace("<", "\\u003c")  # no word can end the script
    return PAGE % {"title": html.escape(title), "css": css, "esm": esm, "state": data}
