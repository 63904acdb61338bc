// A matrix of cells: coloured, hatched where hidden, painted where it is a control.

import { apart, clamp, hasModifier, inkOn, make, short } from "../dom.js";
import { figure, word } from "./bars.js";

const RISE = Math.sin((55 / 180) * Math.PI); // of the names above the columns, which are turned by 55 degrees
const RUN = Math.cos((55 / 180) * Math.PI);
const [SMALLEST_CELL, LEAST_CELL] = [5, 12]; // pixels; from the second on names do not overlap

/** Return the colour of a number between two ends of a ramp. */
export function shade(ramp, value, low, high) {
  const share = clamp((value - low) / (high - low || 1), 0, 1);
  return ramp[Math.round(share * (ramp.length - 1))];
}

/** Return the ink for a colour such as #1f6fc4. */
export const inkOf = (color) => inkOn([1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16)));

let pen = null; // a canvas that only measures words

/** Return how many pixels the longest of some words takes, and a gap. */
export function wide(words, most = 12) {
  if (!pen) {
    pen = make("canvas").getContext("2d");
    const family = getComputedStyle(document.body).getPropertyValue("--jp-ui-font-family");
    pen.font = `12px ${family || "system-ui, sans-serif"}`;
  }
  return Math.max(...words.map((one) => pen.measureText(short(one, most)).width)) + 8;
}

/** The largest cells of a matrix. Without names they are as many as can be compared at a glance. */
const mostOf = ({ rows, columns, size }) =>
  size === "big"
    ? Math.min(40, Math.max(23, 360 / rows.length))
    : Math.min(24, 210 / columns.length);

/** Return how many pixels stand beside the cells: names, and sums or what leans over from above. */
function margins({ rows, columns, rows_sum: sums, size }) {
  if (size !== "big") return [0, 2];
  const leaning = columns.map(
    (name, j) => RUN * wide([name]) - LEAST_CELL * (columns.length - 1 - j),
  );
  return [wide(rows), Math.max(sums ? 42 : 4, ...leaning)];
}

/** Return how wide a matrix is at least, and at most. */
export function roomOfMatrix(panel) {
  const [left, right] = margins(panel);
  const most = Math.ceil(left + mostOf(panel) * panel.columns.length + right);
  if (panel.size !== "big") return [Math.max(90, most), Math.max(90, most)];
  return [
    Math.min(most, Math.max(300, Math.ceil(left + LEAST_CELL * panel.columns.length + right))),
    most,
  ];
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

/** Put a node into the grid, whose first row and column are names; to the end of the row where it is as wide. */
function put(node, i, j, area = `${i + 2} / ${j + 2}`) {
  node.style.gridArea = area;
  return node;
}

class Matrix {
  constructor(panel, tools) {
    const { rows, columns, size, paint, pick, palette } = panel;
    Object.assign(this, { rows, columns, paint, pick, tools, cursor: [0, 0], brush: null });
    this.big = size === "big";
    this.ramp = tools.palettes[palette]; // a mask has none: its cells are full or empty
    const [left, right] = margins(panel);
    this.cell = clamp(
      Math.floor((tools.width - left - right) / columns.length),
      SMALLEST_CELL,
      mostOf(panel),
    );
    this.written = this.big && this.ramp && this.cell >= 30;
    this.cells = rows.map((_, i) => columns.map((_, j) => put(make("span", "cell"), i, j)));
    const area = `2 / 2 / ${rows.length + 2} / ${columns.length + 2}`;
    this.root = make(
      "div",
      `cells ${size}${paint ? " paint" : ""}${pick ? " pick" : ""}`,
      ...this.cells.flat(),
    );
    this.root.append(put(make("i", "frame"), 0, 0, area));
    const style = {
      gridTemplateColumns: `auto repeat(${columns.length}, ${this.cell}px)`,
      paddingRight: `${right}px`,
    };
    const above = this.big ? RISE * wide(columns) + 12 : 0;
    Object.assign(this.root.style, {
      ...style,
      gridTemplateRows: `${above}px`,
      gridAutoRows: `${this.cell}px`,
    });
    this.root.role = "img";
    if (this.big) this.makeEdges(panel);
    this.update(panel);
  }

  /** Make what stands around the cells of a big matrix, and let it answer. */
  makeEdges({ rows_sum: down = [], columns_sum: across = [] }) {
    const { rows, columns, root } = this;
    [this.ring, this.chosen] = [make("i", "ring"), make("i", "chosen")];
    this.sums = [down.map((_, i) => put(make("span", "sum"), i, columns.length))];
    this.sums.push(across.map((_, j) => put(make("span", "sum below"), rows.length, j)));
    const beside = rows.map((name, i) => put(word(name, "word"), i, -1));
    const above = columns.map((name, j) => put(make("span", "above", word(name, "")), -1, j));
    root.append(
      ...beside,
      ...above,
      ...this.sums.flat(),
      ...(this.pick ? [this.chosen] : []),
      this.ring,
    );
    this.listen();
  }

  update(next) {
    this.now = next;
    this.cells.forEach((row, i) => row.forEach((cell, j) => this.show(cell, i, j)));
    const edges = [next.rows_sum ?? [], next.columns_sum ?? []];
    edges.forEach((texts, at) => texts.forEach((text, n) => (this.sums[at][n].textContent = text)));
    if (this.pick)
      put(this.chosen, 0, 0, `${next.lit + 2} / 2 / auto / span ${this.columns.length}`);
    const keys = ` Arrow keys walk${this.paint ? ", space paints, shift with an arrow key paints on" : ""}.`;
    const size = `${this.rows.length} rows, ${this.columns.length} columns`;
    this.root.ariaLabel = `${next.title}. ${size}.${this.big ? keys : ""}`;
  }

  /** Show a cell: its colour, hatching where it is hidden, and its number where there is room. */
  show(cell, i, j) {
    const [number, hidden] = [this.value(i, j), this.isHidden(i, j)];
    const color = this.colorOf(number, hidden);
    cell.style.backgroundColor = color;
    if (this.ramp && color) cell.style.color = inkOf(color);
    cell.classList.toggle("on", Boolean(number));
    cell.classList.toggle("over", hidden);
    cell.classList.toggle("leaks", hidden && color !== ""); // a weight where there must be none
    cell.classList.toggle("none", number === null);
    if (number === null) cell.textContent = this.cell >= 22 ? "NaN" : "×";
    else cell.textContent = this.written && color ? figure(number).replace("0.", ".") : "";
  }

  colorOf(number, hidden) {
    if (!this.ramp) return number ? "var(--bar)" : "";
    return number === null || (hidden && number === 0)
      ? ""
      : shade(this.ramp, number, this.now.low, this.now.high);
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
    put(this.ring, ...this.cursor);
    this.tools.read(this.describe(...this.cursor), spoken);
  }

  /** Paint a cell. */
  set(i, j, number) {
    const mask = this.tools.value(this.paint);
    if (mask[i][j] === number) return;
    const next = mask.map((row) => [...row]);
    next[i][j] = number;
    this.tools.move(this.paint, next);
    this.update(this.now);
    this.go(i, j);
  }

  /** Return the cell under the pointer. */
  under({ target }) {
    const at = this.cells.flat().indexOf(target.closest(".cell"));
    return at < 0 ? null : [Math.floor(at / this.columns.length), at % this.columns.length];
  }

  listen() {
    Object.assign(this.root, { tabIndex: 0, role: "application", ariaRoleDescription: "matrix" });
    const on = (event, call) => this.root.addEventListener(event, call);
    on("pointerdown", (event) => this.press(event));
    on("pointermove", (event) => this.pass(event));
    on("pointerleave", () =>
      this.root.matches(":focus") ? this.go(...this.cursor, false) : this.tools.read("", false),
    );
    on("focus", () => this.go(...this.cursor));
    on("keydown", (event) => this.key(event));
  }

  press(event) {
    const found = this.under(event);
    if (!found) return;
    event.preventDefault(); // nothing is marked as text
    event.target.releasePointerCapture(event.pointerId); // a finger that moves on is over other cells
    this.root.focus({ preventScroll: true });
    this.go(...found);
    if (this.pick) this.tools.move(this.pick, found[0]);
    if (!this.paint) return;
    this.brush = 1 - this.value(...found); // all cells of a stroke become what its first one becomes
    this.set(...found, this.brush);
  }

  pass(event) {
    const found = this.under(event);
    if (!event.buttons) this.brush = null;
    if (!found) return;
    if (this.brush !== null) this.set(...found, this.brush);
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
    if (toggles) this.set(...this.cursor, 1 - held);
    else if (event.shiftKey) this.set(...this.cursor, held); // what is left is painted on
  }
}

export function matrix(panel, tools) {
  const made = new Matrix(panel, tools);
  return { node: made.root, update: (next) => made.update(next) };
}
