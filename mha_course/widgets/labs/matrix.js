// A matrix as a panel: read with pointer and keys, or painted if it is a control.

import { clamp, isolateWord, hasModifier, make, setAttributes, svg } from "../dom.js";
import {
  arrange,
  boxOf,
  cellAt,
  drawPicture,
  isHidden,
  leaks,
  neighbour,
  outlineOf,
  pointOn,
  widthWith,
} from "../matrix.js";
import { figure } from "./bars.js";

/**
 * A panel of kind "matrix", as panels.py describes it.
 * @typedef {object} MatrixPanel
 * @property {string} title
 * @property {string[]} rows
 * @property {string[]} columns
 * @property {(number | null)[][]} values null for NaN
 * @property {(0 | 1)[][] | null} hidden
 * @property {import("../matrix.js").Scale} scale
 * @property {"big" | "small"} size only a big one has names
 * @property {string} note
 * @property {string} [paint] the control that its cells are
 * @property {number} [margin] pixels to keep free at the right and below
 * @property {string} [on] the word for 1
 * @property {string} [off] the word for 0
 * @property {string} [group] the title above all small ones
 */

const LEAST_CELL = 12; // pixels, from which names do not overlap
const SMALL = 105; // pixels of a small one

/** Return the face of the page, in which names are measured before there is a picture. */
export const pageFont = () =>
  getComputedStyle(document.body).getPropertyValue("--jp-ui-font-family") ||
  "system-ui, sans-serif";

/** Return how a matrix is laid out: its names, the size of its cells, and the space around them. */
function layoutOf({ rows, columns, size, margin }) {
  const big = size === "big";
  const names = big ? [rows, columns] : [[], []];
  // without names, a matrix is small enough to compare at a glance
  const largest = big ? clamp(280 / rows.length, 18, 40) : Math.min(32, SMALL / columns.length);
  const free = { right: margin ?? (big ? 4 : 2), below: margin ?? 0 };
  return { big, names, options: { ...free, largest, leastCell: LEAST_CELL } };
}

/** Return a matrix's smallest and largest width. */
export function widthsOfMatrix(panel) {
  const { big, names, options } = layoutOf(panel);
  const widthOf = (cell) => widthWith(cell, names, panel.columns.length, pageFont(), options);
  const most = Math.max(widthOf(options.largest), big ? 0 : 90);
  return [big ? Math.min(most, Math.max(300, widthOf(LEAST_CELL))) : most, most];
}

export class Matrix {
  constructor(panel, tools) {
    const { rows, columns, size, paint } = panel;
    const { big, names, options } = layoutOf(panel);
    Object.assign(this, { rows, columns, paint, tools, big, brush: null });
    this.sizes = { T: rows.length, S: columns.length };
    this.cursor = { row: 0, column: 0 };
    this.plan = arrange(this.sizes, names, tools.width, pageFont(), options);
    const { width, height } = this.plan;
    this.canvas = make("canvas", panel.hidden ? "hatched" : "");
    this.drawing = svg("g");
    this.ring = svg("path", { class: "ring" });
    const picture = svg("svg", { class: "matrix", width, height }, this.drawing, this.ring);
    this.node = make("div", `cells ${size}${paint ? " paint" : ""}`, this.canvas, picture);
    Object.assign(this.node.style, { width: `${width}px`, height: `${height}px` });
    this.node.role = "img";
    if (big) this.listen();
    this.update(panel);
  }

  /** Draw the numbers of a panel: of a painted one those that the learner sees, which may be ahead of the kernel. */
  update(now) {
    this.now = now;
    this.values = (this.paint ? this.tools.value(this.paint) : now.values).flat();
    this.hidden = this.paint ? this.values.map((value) => Number(!value)) : now.hidden?.flat();
    const { hidden, plan } = this;
    const colours = { ...now.scale, palette: this.tools.palettes[now.scale.palette] };
    const values = this.values.map((value) => value ?? NaN);
    const cells = { values, hidden, rows: this.sizes.T, columns: this.sizes.S };
    this.drawing.replaceChildren(
      ...drawPicture(this.canvas, cells, colours, plan),
      svg("path", { class: "edge", d: outlineOf(plan.box) }),
      svg("path", { class: "leaks", d: this.leaksOf(cells) }),
    );
    const keys = ` Arrow keys walk${this.paint ? ", space paints, shift with an arrow key keeps painting" : ""}.`;
    const size = `${this.rows.length} rows, ${this.columns.length} columns`;
    this.node.ariaLabel = `${now.title}. ${size}.${this.big ? keys : ""}`;
  }

  outline = (place) => outlineOf(boxOf(this.plan, place));
  index = ({ row, column }) => row * this.sizes.S + column;

  /** Outline each weight in a cell that must not have one. */
  leaksOf(cells) {
    const outlines = cells.values.map((value, i) => {
      const place = { row: Math.floor(i / cells.columns), column: i % cells.columns };
      return isHidden(cells, i) && leaks(value) ? this.outline(place) : "";
    });
    return outlines.join("");
  }

  describe(place) {
    const i = this.index(place);
    const pair = `${isolateWord(this.rows[place.row])} → ${isolateWord(this.columns[place.column])}`;
    if (this.now.on) return `${pair}: ${this.values[i] ? this.now.on : this.now.off}`;
    return `${pair} ${figure(this.values[i])}${isHidden(this, i) ? ", hidden" : ""}`;
  }

  /** Move the cursor, and say what the cell holds. */
  go(place, spoken = true) {
    this.cursor = place;
    setAttributes(this.ring, { d: this.outline(place) });
    this.tools.read(this.describe(place), spoken);
  }

  /** Paint a cell. */
  set(place, number) {
    const mask = this.tools.value(this.paint);
    if (mask[place.row][place.column] === number) return;
    const next = mask.map((row) => [...row]);
    next[place.row][place.column] = number;
    this.tools.move(this.paint, next);
    this.update(this.now);
    this.go(place);
  }

  /** Return the cell under the pointer. */
  under(event) {
    const place = cellAt(pointOn(this.node, event), this.plan, this.sizes);
    return place?.row == null || place.column == null ? null : place;
  }

  listen() {
    const { node } = this;
    Object.assign(node, { tabIndex: 0, role: "application", ariaRoleDescription: "matrix" });
    node.onpointerdown = (event) => this.press(event);
    node.onpointermove = (event) => this.pass(event);
    node.onpointerleave = () =>
      node.matches(":focus") ? this.go(this.cursor, false) : this.tools.read("", false);
    node.onfocus = () => this.go(this.cursor);
    node.addEventListener("keydown", (event) => this.key(event)); // what `onkeydown` returns would count
  }

  press(event) {
    const place = this.under(event);
    if (!place) return;
    event.preventDefault(); // nothing is selected as text
    event.target.releasePointerCapture(event.pointerId); // a finger that moves on is over other cells
    this.node.focus({ preventScroll: true });
    this.go(place);
    if (!this.paint) return;
    this.brush = 1 - this.values[this.index(place)]; // all cells of a stroke become what its first one becomes
    this.set(place, this.brush);
  }

  pass(event) {
    const place = this.under(event);
    if (!event.buttons) this.brush = null;
    if (!place) return;
    if (this.brush !== null) this.set(place, this.brush);
    else this.tools.read(this.describe(place), false);
  }

  /** Answer to a key, and say whether it was one of ours. */
  key(event) {
    const next = neighbour(event.key, this.cursor, this.sizes);
    const toggles = [" ", "Enter"].includes(event.key) && !event.shiftKey;
    if (hasModifier(event) || !(next || toggles)) return false;
    event.preventDefault();
    const held = this.values[this.index(this.cursor)];
    if (next) this.go(next);
    if (this.paint && toggles) this.set(this.cursor, 1 - held);
    else if (this.paint && event.shiftKey) this.set(this.cursor, held); // what is left is painted on
    return true;
  }
}
