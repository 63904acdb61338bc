// A matrix as a panel: read with pointer and keys, picked row by row, or painted, where it is a control.

import { isolateWord, hasModifier, make, setAttributes, svg } from "../dom.js";
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
 * @property {"big" | "small"} size names stand beside a big one
 * @property {string} note
 * @property {string} [paint] the control that its cells are
 * @property {string} [pick] the control that its rows are
 * @property {number} [highlighted] the row that is picked
 * @property {string[]} [rows_sum]
 * @property {string[]} [columns_sum]
 * @property {string} [on] the word for 1
 * @property {string} [off] the word for 0
 * @property {number} [head] whose colour marks the title
 * @property {string} [group] the title above all small ones
 */

const LEAST_CELL = 12; // pixels, from which names do not overlap
const SUMS = 42; // pixels that they take, beside the matrix and below it

/** Return the face of the page, in which names are measured before there is a picture. */
export const pageFont = () =>
  getComputedStyle(document.body).getPropertyValue("--jp-ui-font-family") ||
  "system-ui, sans-serif";

const namesOf = ({ rows, columns, size }) => (size === "big" ? [rows, columns] : [[], []]);

/** Return what a matrix keeps free: space for sums, and cells that are wide enough for names. */
const optionsOf = ({ size, rows_sum: beside, columns_sum: below }) => ({
  right: beside ? SUMS : size === "big" ? 4 : 2,
  below: below ? SUMS : 0,
  leastCell: LEAST_CELL,
});

/** The largest cells of a matrix. Without names they are as many as can be compared at a glance. */
const largestCell = ({ rows, columns, size }) =>
  size === "big"
    ? Math.min(40, Math.max(23, 360 / rows.length))
    : Math.min(24, 210 / columns.length);

/** Return how wide a matrix is at least, and at most. */
export function roomOfMatrix(panel) {
  const count = panel.columns.length;
  const widthOf = (cell) => widthWith(cell, namesOf(panel), count, pageFont(), optionsOf(panel));
  const most = widthOf(largestCell(panel));
  if (panel.size !== "big") return [Math.max(90, most), Math.max(90, most)];
  return [Math.min(most, Math.max(300, widthOf(LEAST_CELL))), most];
}

class Matrix {
  constructor(panel, tools) {
    const { rows, columns, size, paint, pick } = panel;
    Object.assign(this, { rows, columns, paint, pick, tools, brush: null });
    this.sizes = { T: rows.length, S: columns.length };
    this.cursor = { row: 0, column: 0 };
    const options = { ...optionsOf(panel), largest: largestCell(panel) };
    this.plan = arrange(this.sizes, namesOf(panel), tools.width, pageFont(), options);
    const { width, height } = this.plan;
    this.canvas = make("canvas", panel.hidden ? "hatched" : "");
    this.drawing = svg("g");
    this.ring = svg("path", { class: "ring" });
    const picture = svg("svg", { class: "matrix", width, height }, this.drawing, this.ring);
    const uses = `${paint ? " paint" : ""}${pick ? " pick" : ""}`;
    this.root = make("div", `cells ${size}${uses}`, this.canvas, picture);
    Object.assign(this.root.style, { width: `${width}px`, height: `${height}px` });
    this.root.role = "img";
    this.big = size === "big";
    if (this.big) this.listen();
    this.update(panel);
  }

  /** Draw the numbers of a panel: of a painted one those that the learner sees, which may be ahead of the kernel. */
  update(now) {
    this.now = now;
    this.values = (this.paint ? this.tools.value(this.paint) : now.values).flat();
    this.hidden = this.paint ? this.values.map((value) => Number(!value)) : now.hidden?.flat();
    const { values, hidden, plan } = this;
    const colours = { ...now.scale, palette: this.tools.palettes[now.scale.palette] };
    const numbers = values.map((value) => value ?? NaN);
    const cells = { values: numbers, hidden, rows: this.sizes.T, columns: this.sizes.S };
    this.drawing.replaceChildren(
      ...drawPicture(this.canvas, cells, colours, plan),
      svg("path", { class: "edge", d: outlineOf(plan.box) }),
      svg("path", { class: "leaks", d: this.leaksOf(cells) }),
      ...this.sumTexts(),
    );
    if (this.pick)
      this.drawing.append(
        svg("path", { class: "chosen", d: this.outline({ row: now.highlighted }) }),
      );
    const keys = ` Arrow keys walk${this.paint ? ", space paints, shift with an arrow key paints on" : ""}.`;
    const size = `${this.rows.length} rows, ${this.columns.length} columns`;
    this.root.ariaLabel = `${now.title}. ${size}.${this.big ? keys : ""}`;
  }

  outline = (place) => outlineOf(boxOf(this.plan, place));
  index = ({ row, column }) => row * this.sizes.S + column;

  /** Outline each weight that stands where there must be none. */
  leaksOf(cells) {
    const place = (i) => ({ row: Math.floor(i / cells.columns), column: i % cells.columns });
    const found = [...cells.values.keys()].filter(
      (i) => isHidden(cells, i) && leaks(cells.values[i]),
    );
    return found.map((i) => this.outline(place(i))).join("");
  }

  sumTexts() {
    const { rows_sum: beside = [], columns_sum: below = [] } = this.now;
    const { x, y, w, h } = this.plan.box;
    const { cell } = this.plan;
    const texts = beside.map((text, i) =>
      svg("text", { class: "sum", x: x + w + 5, y: y + (i + 0.5) * cell.h }, text),
    );
    below.forEach((text, j) => {
      const [left, top] = [x + (j + 0.5) * cell.w, y + h + 5];
      const transform = `rotate(90 ${left} ${top})`;
      texts.push(svg("text", { class: "sum", x: left, y: top, transform }, text));
    });
    return texts;
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
    const place = cellAt(pointOn(this.root, event), this.plan, this.sizes);
    return place?.row == null || place.column == null ? null : place;
  }

  listen() {
    Object.assign(this.root, { tabIndex: 0, role: "application", ariaRoleDescription: "matrix" });
    const on = (event, call) => this.root.addEventListener(event, call);
    on("pointerdown", (event) => this.press(event));
    on("pointermove", (event) => this.pass(event));
    on("pointerleave", () =>
      this.root.matches(":focus") ? this.go(this.cursor, false) : this.tools.read("", false),
    );
    on("focus", () => this.go(this.cursor));
    on("keydown", (event) => this.key(event));
  }

  press(event) {
    const place = this.under(event);
    if (!place) return;
    event.preventDefault(); // nothing is marked as text
    event.target.releasePointerCapture(event.pointerId); // a finger that moves on is over other cells
    this.root.focus({ preventScroll: true });
    this.go(place);
    if (this.pick) this.tools.move(this.pick, place.row);
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

  key(event) {
    if (hasModifier(event)) return;
    const next = neighbour(event.key, this.cursor, this.sizes);
    const toggles = [" ", "Enter"].includes(event.key) && !event.shiftKey;
    if (!next && !toggles) return;
    event.preventDefault();
    const held = this.values[this.index(this.cursor)];
    if (next) this.go(next);
    if (this.pick && this.cursor.row !== this.now.highlighted)
      this.tools.move(this.pick, this.cursor.row);
    if (!this.paint) return;
    if (toggles) this.set(this.cursor, 1 - held);
    else if (event.shiftKey) this.set(this.cursor, held); // what is left is painted on
  }
}

export function matrix(panel, tools) {
  const picture = new Matrix(panel, tools);
  return { node: picture.root, update: (next) => picture.update(next) };
}
