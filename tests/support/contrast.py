"""Contrast of two colours as WCAG 2.2 defines it, and the colours of the words on a page."""

import numpy as np
from matplotlib.colors import to_rgb

TEXT, MARK = 4.5, 3.0  # WCAG 1.4.3 and 1.4.11, level AA
XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)

# The words in parts of a page: their ink and what is beneath them, with the opacity of all
# containers, their size and kind, and the widget.
WORDS = """(parts) => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const faded = (node, until) => {
    let all = 1;
    for (; node && node !== until;
      node = node.parentElement) all *= +getComputedStyle(node).opacity;
    return all;
  };
  const over = (top, share, below) => below.map((value, i) => top[i] * share + value * (1 - share));
  const hex = (color) => "#" + color.map((value) => Math.round(value).toString(16).padStart(2,
    "0")).join("");
  const found = [];
  const texts = [...document.querySelectorAll(parts)].filter((node) =>
    !["STYLE", "SCRIPT", "OPTION"].includes(node.tagName)
      && !node.closest("[aria-disabled=true], :disabled") &&
    [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()));
  for (const node of texts) {
    if (!node.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    let box = range.getBoundingClientRect();
    if (box.top < 200 || box.bottom > innerHeight - 200 || box.right > innerWidth) {
      node.scrollIntoView({ block: "center", inline: "center" });
      box = range.getBoundingClientRect();
    }
    if (box.width < 2 || box.height < 2) continue;
    const under = document.elementsFromPoint(box.left + box.width / 2, box.top + box.height / 2);
    const style = getComputedStyle(node);
    const drawn = node.namespaceURI.endsWith("svg");
    let paper = [255, 255, 255];
    for (const one of under.reverse()) {
      if (one.tagName === "CANVAS") { paper = null; break; }
      const look = getComputedStyle(one);
      const shape = one.namespaceURI.endsWith("svg") && !["svg", "text", "tspan",
        "g"].includes(one.tagName);
      const image = look.backgroundImage.match(/rgba?\\([^)]*\\)/)?.[0];
        // the first colour of a gradient
      const fill = shape ? (look.fill === "none" ? "#0000" : look.fill) : image
        ?? look.backgroundColor;
      const [r, g, b, a] = rgba(fill.startsWith("url") ? "#0000" : fill);
      paper = over([r, g, b], a * (shape ? +look.fillOpacity : 1) * faded(one), paper);
    }
    if (!paper) continue;
    const [r, g, b, a] = rgba(drawn ? style.fill : style.color);
    const ink = over([r, g, b], a * faded(node), paper);
    found.push([hex(ink), hex(paper), parseFloat(style.fontSize), node.className.baseVal
      ?? node.className,
      node.textContent.trim().slice(0, 30), node.closest("[class^=mha-]")?.className]);
  }
  return found;
}"""


def linear(color):
    values = np.array(to_rgb(color))
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    low, high = sorted(float(XYZ[1] @ linear(color)) for color in (one, other))
    return (high + 0.05) / (low + 0.05)
