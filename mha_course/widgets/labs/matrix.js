// A matrix of cells: coloured, hatched where hidden, painted where it is a control.

import { apart, clamp, hasModifier, setAttributes, svg } from "../dom.js";
import { figure, wide, word } from "./bars.js";

const SLANT = 55; // degrees, of the names above the columns

/** Return the colour of a number between two ends of a ramp. */
export function shade(ramp, value, low, high) {
  const share = clamp((value - low) / (high - low || 1), 0, 1);
  return ramp[Math.round(share * (ramp.length - 1))];
}

/** Say whether black is easier to read on a colour than white: by WCAG's formula for contrast. */
export function pale(color) {
  const light = [1, 3, 5].map((at) => (parseInt(color.slice(at, at + 2), 16) / 255) ** 2.2);
  return 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2] > 0.179;
}

const LEAST_CELL = 12; // pixels, with which names do not overlap
const SMALLEST_CELL = 5; // where there is no space for more

/** Return how many pixels stand left and right of cells of a size: names, sums, and what leans over from above. */
function margins({ rows, columns, rows_sum: sums }, cell = LEAST_CELL) {
  const after = (j) => cell * (columns.length - 1 - j);
  const leaning = columns.map((name, j) => Math.cos((SLANT / 180) * Math.PI) * wide([name]) - 4 - after(j));
  return [wide(rows), Math.max(sums ? 42 : 4, ...leaning)];
}

/** The largest cells of a matrix. Without names they are as many as can be compared at a glance. */
const mostOf = ({ rows, columns, size }) =>
  size === "big" ? Math.min(40, Math.max(23, 360 / rows.length)) : Math.min(24, 210 / columns.length);

/** Return how wide a matrix is at least, and at most. */
export function roomOfMatrix(panel) {
  const count = panel.columns.length;
  if (panel.size !== "big") return Array(2).fill(Math.max(90, Math.ceil(mostOf(panel) * count + 2)));
  const [left, right] = margins(panel);
  const most = Math.ceil(left + mostOf(panel) * count + right);
  return [Math.min(most, Math.max(300, Math.ceil(left + LEAST_CELL * count + right))), most];
}

/** Lay the cells out in so many pixels: where they begin, how wide each is, and what stands around them. */
function layOut(panel, width) {
  const { columns, size, rows_sum: sums } = panel;
  if (size !== "big") return { left: 1, top: 1, cell: mostOf(panel), right: 1, bottom: 1 };
  const tight = roomOfMatrix(panel)[0] > width;
  const [[left, right], rise] = [margins(panel, tight ? SMALLEST_CELL : LEAST_CELL), wide(columns)];
  const room = Math.floor((width - left - right) / columns.length);
  const cell = Math.max(SMALLEST_CELL, Math.min(mostOf(panel), room));
  return { left, top: Math.sin((SLANT / 180) * Math.PI) * rise + 12, cell, right, bottom: sums ? 34 : 2 };
}

/** Where an arrow key, Home or End leads from a cell; null for all other keys. */
export function neighbour(key, [row, column], columns) {
  const ways = {
    ArrowUp: [row - 1, column],
    ArrowDown: [row + 1, column],
    ArrowLeft: [row, column - 1],
    ArrowRight: [row, column + 1],
    Home: [row, 0],
    End: [row, columns - 1],
  };
  return Object.hasOwn(ways, key) ? ways[key] : null;
}

/** A matrix that keeps its cursor and its listeners; all else is drawn anew on every update. */
class Matrix {
  constructor(panel, tools) {
    const { rows, columns, size, paint, pick, palette } = panel;
    Object.assign(this, { rows, columns, paint, pick, tools, cursor: [0, 0], brush: null });
    this.big = size === "big";
    this.at = layOut(panel, tools.width);
    const { left, top, cell, right, bottom } = this.at;
    this.ramp = tools.palettes[palette]; // a mask has none: its cells are full or empty
    this.written = this.big && this.ramp && cell >= 30;
    this.root = svg("svg", {
      width: left + cell * columns.length + right,
      height: top + cell * rows.length + bottom,
      class: `matrix ${size}${paint ? " paint" : ""}${pick ? " pick" : ""}`,
      role: "img",
    });
    this.ring = svg("rect", { x: left, y: top, width: cell, height: cell, class: "ring" });
    if (this.big) this.listen();
    this.update(panel);
  }

  x(column) {
    return this.at.left + column * this.at.cell;
  }

  y(row) {
    return this.at.top + row * this.at.cell;
  }

  update(next) {
    this.now = next;
    const { cell, left, top } = this.at;
    const [width, height] = [cell * this.columns.length, cell * this.rows.length];
    const cells = this.rows.flatMap((_, i) => this.columns.map((_, j) => this.drawCell(i, j)));
    const frame = svg("rect", { x: left, y: top, width, height, class: "frame" });
    this.root.replaceChildren(...cells.map(({ fill }) => fill), ...cells.flatMap(({ marks }) => marks), frame);
    if (this.big) this.root.append(...this.drawNames(), ...this.drawSums(), this.ring);
    if (this.pick)
      this.root.append(svg("rect", { x: left, y: this.y(next.lit), width, height: cell, class: "chosen" }));
    const keys = ` Arrow keys walk${this.paint ? ", space paints, shift with an arrow key paints on" : ""}.`;
    const spoken = `${next.title}. ${this.rows.length} rows, ${this.columns.length} columns.${this.big ? keys : ""}`;
    this.root.setAttribute("aria-label", spoken);
  }

  /** Draw a cell, and what lies on it: hatching where it is hidden, and its number. */
  drawCell(i, j) {
    const [number, hidden] = [this.value(i, j), this.isHidden(i, j)];
    const box = { x: this.x(j), y: this.y(i), width: this.at.cell, height: this.at.cell };
    const leaks = Boolean(this.ramp && number); // a weight where there must be none
    const marks = hidden ? [this.drawHatching(box, leaks)] : [];
    if (!this.ramp) return { fill: svg("rect", { ...box, class: number ? "cell yes" : "cell no" }), marks };
    const empty = number === null || (hidden && number === 0);
    const color = empty ? "none" : shade(this.ramp, number, this.now.low, this.now.high);
    if (number === null || (this.written && !empty)) marks.push(this.drawNumber(box, number, color));
    return { fill: svg("rect", { ...box, class: "cell", fill: color }), marks };
  }

  drawHatching(box, leaks) {
    const [look, pattern] = leaks ? ["over leaks", "bright"] : ["over", "dim"];
    return svg("rect", { ...box, class: look, fill: `url(#${this.tools.hatch}-${pattern})` });
  }

  drawNumber({ x, y, width }, number, color) {
    const middle = { x: x + width / 2, y: y + width / 2 + 4 };
    if (number === null) return svg("text", { ...middle, class: "in none" }, width >= 22 ? "NaN" : "×");
    const look = pale(color) ? "in dark" : "in";
    return svg("text", { ...middle, class: look }, figure(number).replace("0.", "."));
  }

  drawNames() {
    const beside = this.rows.map((name, i) =>
      word(name, { x: this.at.left - 6, y: this.y(i + 0.5) + 4, class: "word" }),
    );
    const above = this.columns.map((name, j) => {
      const [x, y] = [this.x(j + 0.5) + 2, this.at.top - 5];
      return word(name, { x, y, class: "over-column", transform: `rotate(${-SLANT} ${x} ${y})` });
    });
    return [...beside, ...above];
  }

  /** Write the sum of each row beside it and that of each column below it, if the panel has them. */
  drawSums() {
    const { rows_sum: rows = [], columns_sum: columns = [] } = this.now;
    const right = this.x(this.columns.length) + 5;
    const beside = rows.map((sum, i) => svg("text", { x: right, y: this.y(i + 0.5) + 4, class: "sum" }, sum));
    const below = columns.map((sum, j) => {
      const [x, y] = [this.x(j + 0.5) + 4, this.y(this.rows.length) + 4];
      return svg("text", { x, y, class: "sum", transform: `rotate(90 ${x - 4} ${y}) translate(0 4)` }, sum);
    });
    return [...beside, ...below];
  }

  /** The number of a cell: of a painted one what the learner sees, which may be ahead of the kernel. */
  value(i, j) {
    return this.paint ? this.tools.value(this.paint)[i][j] : this.now.values[i][j];
  }

  isHidden(i, j) {
    return this.paint ? !this.value(i, j) : Boolean(this.now.hidden?.[i][j]);
  }

  describe(i, j) {
    const pair = `${apart(this.rows[i])} → ${apart(this.columns[j])}`;
    if (this.now.on) return `${pair}: ${this.value(i, j) ? this.now.on : this.now.off}`;
    return `${pair} ${figure(this.value(i, j))}${this.isHidden(i, j) ? ", hidden" : ""}`;
  }

  /** Move the cursor, and say what the cell holds. */
  go(i, j, spoken = true) {
    this.cursor = [clamp(i, 0, this.rows.length - 1), clamp(j, 0, this.columns.length - 1)];
    setAttributes(this.ring, { x: this.x(this.cursor[1]), y: this.y(this.cursor[0]) });
    this.tools.read(this.describe(...this.cursor), spoken);
  }

  /** Paint a cell. */
  put(i, j, number) {
    const mask = this.tools.value(this.paint);
    if (mask[i][j] === number) return;
    const next = mask.map((row) => [...row]);
    next[i][j] = number;
    this.tools.move(this.paint, next);
    this.update(this.now);
    this.go(i, j);
  }

  /** Return the cell under the pointer. */
  under(event) {
    const { left, top } = this.root.getBoundingClientRect();
    const row = Math.floor((event.clientY - top - this.at.top) / this.at.cell);
    const column = Math.floor((event.clientX - left - this.at.left) / this.at.cell);
    return row >= 0 && column >= 0 && row < this.rows.length && column < this.columns.length ? [row, column] : null;
  }

  listen() {
    setAttributes(this.root, { tabindex: 0, role: "application", "aria-roledescription": "matrix" });
    const on = (event, call) => this.root.addEventListener(event, call);
    const lift = () => (this.brush = null);
    on("pointerdown", (event) => this.press(event));
    on("pointermove", (event) => this.pass(event));
    for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) on(end, lift);
    on("pointerleave", () =>
      this.root.matches(":focus") ? this.go(...this.cursor, false) : this.tools.read("", false),
    );
    on("focus", () => this.go(...this.cursor));
    on("keydown", (event) => this.key(event));
  }

  press(event) {
    const found = this.under(event);
    if (!found) return;
    this.root.focus({ preventScroll: true });
    this.go(...found);
    if (this.pick) this.tools.move(this.pick, found[0]);
    if (!this.paint) return;
    this.root.setPointerCapture(event.pointerId);
    this.brush = 1 - this.value(...found); // all cells of a stroke become what its first one becomes
    this.put(...found, this.brush);
  }

  pass(event) {
    const found = this.under(event);
    if (!found) return;
    if (this.brush !== null) this.put(...found, this.brush);
    else this.tools.read(this.describe(...found), false);
  }

  key(event) {
    if (hasModifier(event)) return;
    const next = neighbour(event.key, this.cursor, this.columns.length);
    const toggles = [" ", "Enter"].includes(event.key) && !event.shiftKey;
    if (!next && !toggles) return;
    event.preventDefault();
    const held = this.paint && this.value(...this.cursor);
    if (next) this.go(...next);
    if (this.pick && this.cursor[0] !== this.now.lit) this.tools.move(this.pick, this.cursor[0]);
    if (!this.paint) return;
    if (toggles) this.put(...this.cursor, 1 - held);
    else if (event.shiftKey) this.put(...this.cursor, held); // what is left is painted on
  }
}

export function matrix(panel, tools) {
  const made = new Matrix(panel, tools);
  return { node: made.root, update: (next) => made.update(next) };
}
