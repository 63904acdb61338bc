// Draws numbers as colours on a canvas over the picture, where they move. All places come from the plan.

import { make } from "../../../widgets/dom.js";
import { shade } from "../../../widgets/matrix.js";
import { cssOf } from "./bars.js";
import { cellsOf, painted } from "./shapes.js";

const NAMES = ["q", "k", "v", "ink", "muted", "line", "paper-line", "accent", "zero"];

export class Brush {
  canvas = make("canvas", { className: "motion", ariaHidden: true });
  pen = this.canvas.getContext("2d");
  probes = make("span", { className: "probes", hidden: true });

  constructor(palettes) {
    this.palettes = palettes;
    this.probes.append(...NAMES.map((name) => make("i", `probe ${name}`)));
  }

  /** Take the numbers of a pass. */
  take(steps) {
    this.steps = steps;
    this.sheets = new Map(); // a pixel a number, by matrix and head
  }

  /** Read the colours of the page, and take its size. */
  prepare({ width, height }, zoom) {
    const scale = zoom * (globalThis.devicePixelRatio || 1);
    const size = { width: Math.round(width * scale), height: Math.round(height * scale) };
    if (this.canvas.width !== size.width || this.canvas.height !== size.height)
      Object.assign(this.canvas, size);
    this.colours = {};
    for (const [i, name] of NAMES.entries())
      this.colours[name] = getComputedStyle(this.probes.children[i]).color;
    this.font = getComputedStyle(this.canvas).fontFamily;
    this.scale = scale;
  }

  clear() {
    this.pen.setTransform(1, 0, 0, 1, 0, 0);
    this.pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.pen.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    this.pen.imageSmoothingEnabled = false;
  }

  /** Return the colours of a matrix, or of weights. */
  coloursOf(name) {
    if (name === "weights") return { low: 0, high: 1, palette: this.palettes.weights };
    return this.signed(this.steps.most[name]);
  }

  /** Return the colours of numbers up to this size, in the page's theme. */
  signed(most) {
    return { low: -most, high: most, palette: this.palettes.signed };
  }

  /** Return one head's part of a matrix as a picture, with one row per word. */
  sheet(name, head) {
    const key = `${name} ${head}`;
    if (!this.sheets.has(key)) {
      const { S, widthOf, value, hidden } = this.steps;
      const cells = cellsOf(S, widthOf(name), (...at) => value(name, head, ...at));
      if (name === "weights") cells.hidden = cellsOf(S, S, (...at) => hidden(head, ...at)).values;
      this.sheets.set(key, painted(cells, this.coloursOf(name)));
    }
    return this.sheets.get(key);
  }

  /** Draw with reduced opacity. */
  faintly(alpha, draw) {
    if (alpha <= 0) return;
    const before = this.pen.globalAlpha;
    this.pen.globalAlpha = before * alpha;
    draw();
    this.pen.globalAlpha = before;
  }

  fill({ x, y, w, h }, colour) {
    this.pen.fillStyle = colour;
    this.pen.fillRect(x, y, w, h);
  }

  /** Draw rows of one head's part of a matrix; `upright` makes columns of them. */
  rows(name, head, first, count, { x, y, w, h }, upright = false) {
    const { pen } = this;
    const sheet = this.sheet(name, head);
    if (name !== "weights") this.fill({ x, y, w, h }, this.colours.zero);
    pen.save();
    if (upright) pen.transform(0, 1, 1, 0, x, y);
    else pen.translate(x, y);
    const [wide, tall] = upright ? [h, w] : [w, h];
    pen.drawImage(sheet, 0, first, sheet.width, count, 0, 0, wide, tall);
    pen.fillStyle = this.colours["paper-line"];
    for (let i = 1; i < count; i++) pen.fillRect(0, (i * tall) / count - 0.5, wide, 1);
    pen.restore();
  }

  /** Draw a word's row, across all heads if the matrix has heads. */
  row(name, row, { x, y, w, h }) {
    const heads = name === "x" || name === "out" ? 1 : this.steps.H;
    for (let head = 0; head < heads; head++)
      this.rows(name, head, row, 1, { x: x + (head * w) / heads, y, w: w / heads, h });
  }

  /** Draw numbers side by side in a box, in the colours of a matrix. */
  values(name, values, { x, y, w, h }) {
    const colours = this.coloursOf(name);
    const wide = w / values.length;
    this.fill({ x, y, w, h }, this.colours.zero);
    values.forEach((value, i) =>
      this.fill({ x: x + i * wide, y, w: wide, h }, cssOf(shade(value, colours))),
    );
  }

  frame({ x, y, w, h }, colour, width = 1) {
    this.pen.strokeStyle = this.colours[colour];
    this.pen.lineWidth = width;
    this.pen.strokeRect(x - 0.5, y - 0.5, w + 1, h + 1);
  }

  /** Write on a halo of paper. */
  write(words, x, y, colour = "ink", align = "center") {
    const { pen, colours } = this;
    pen.font = `600 11px ${this.font}`;
    Object.assign(pen, { textAlign: align, lineJoin: "round", lineWidth: 3 });
    pen.strokeStyle = colours["paper-line"];
    pen.strokeText(words, x, y);
    pen.fillStyle = colours[colour];
    pen.fillText(words, x, y);
  }
}
