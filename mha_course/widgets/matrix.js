// A matrix as a picture: a canvas with a pixel per cell, overlaid with names, numbers and marks. Sizes in CSS pixels.

import { bytesOf, clamp, inkOn, make, number, short, svg, visible } from "./dom.js";

/**
 * A matrix's contents, row by row.
 * @typedef {object} Cells
 * @property {ArrayLike<number>} values
 * @property {ArrayLike<number>} [hidden] 1 where a cell is hidden
 * @property {number} rows
 * @property {number} columns
 */

/**
 * The numbers with the first and last colours, from plots/scales.py.
 * @typedef {object} Scale
 * @property {"weights" | "signed" | "plain" | "bool"} kind
 * @property {"plain" | "signed" | "bool"} palette
 * @property {number} low
 * @property {number} high
 */

/**
 * The layout: the matrix, one cell, the names, the whole picture.
 * @typedef {object} Plan
 * @property {{ x: number, y: number, w: number, h: number }} box
 * @property {{ w: number, h: number }} cell
 * @property {string[]} queries
 * @property {string[]} keys
 * @property {[string[], string[]]} names queries and keys, before they were shortened
 * @property {number} [leastCell]
 * @property {number} [least] Numbers below it are not written.
 * @property {boolean} level Whether names above columns are level.
 * @property {(text: string) => number} widthOfNumber
 * @property {number} width
 * @property {number} height
 */

const SLANT = 50; // degrees by which names above columns slant, as in plots/scales.py
const RISE = Math.sin((SLANT * Math.PI) / 180);
const RUN = Math.cos((SLANT * Math.PI) / 180);
const TALLEST = 512; // of the matrix, with which it is still seen as a whole
const LOW_CELL = [14, 36]; // the least and the largest height of a cell in a table of words
const LARGEST_CELL = 58; // its side
const LEVEL_CELL = 70; // its width below a level name
const OBLONG_CELL = 22; // up to which cells need not be square
const LONGEST = 12; // letters of a name
const NAN = 0xff6b1ee6; // alpha, blue, green, red: a magenta that no palette has
const PALE = 0xc0ffffff; // lets the hatching through

const isNoNumber = (value) => Number.isNaN(value) || value === Infinity;

export const isHidden = ({ hidden }, i) => Boolean(hidden?.[i]);

/** Say whether a hidden cell holds a number nevertheless. */
export const leaks = (value) => Math.abs(value) > 1e-4 && value !== -Infinity;

const DARK = '[data-jp-theme-light="false"], .vscode-dark, [theme="dark"], .dark';
const themed = () => [document.documentElement, document.body];
const isDark = () => themed().some((node) => node.matches(DARK));

/** Call a function when the page may have become light or dark, and return how to stop. */
export function followTheme(call) {
  const watch = new MutationObserver(call);
  const attributeFilter = ["class", "data-jp-theme-light", "theme"];
  for (const node of themed()) watch.observe(node, { attributeFilter });
  return () => watch.disconnect();
}

/** Return the colours of palettes that Python sent as bytes. Ask once: pictures are drawn often. */
export function palettesOf(sent) {
  const coloursOf = ([name, bytes]) => [name, new Uint32Array(bytesOf(bytes).buffer)];
  const palettes = Object.fromEntries(Object.entries(sent).map(coloursOf));
  const { signed, signed_on_dark: dark } = palettes;
  return {
    ...palettes,
    get signed() {
      return dark && isDark() ? dark : signed;
    },
  };
}

/** Split a colour into red, green and blue. */
export const rgbOf = (colour) => [0, 8, 16].map((shift) => (colour >> shift) & 255);

/** Return the colour of a number: beyond the ends of the scale it is that of the end. */
export function shade(value, { palette, low, high }) {
  if (isNoNumber(value)) return NAN;
  const last = palette.length - 1;
  return palette[clamp(Math.round(((value - low) / (high - low || 1)) * last), 0, last)];
}

/** Colour a canvas. A hidden cell stays clear, for the hatching behind it; one that holds a number all the same is pale. */
export function paintCells(canvas, cells, colours) {
  const { values, rows, columns } = cells;
  Object.assign(canvas, { width: columns, height: rows });
  const image = new ImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < values.length; i++) {
    const colour = shade(values[i], colours);
    const shown = !isHidden(cells, i) || isNoNumber(values[i]);
    pixels[i] = shown ? colour : leaks(values[i]) ? colour & PALE : 0;
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/** Return the sides of a cell, whole pixels where there is space for that. */
function cellSize(rows, columns, wide, high, largest) {
  const whole = (size) => (size > 1 ? Math.floor(size) : size);
  const w = whole(Math.min(largest, wide / columns));
  const h = whole(Math.min(largest, high / rows));
  if (rows === columns) return { w: Math.min(w, h), h: Math.min(w, h) };
  // Otherwise a map with few queries and many keys would be a line.
  return { w: Math.min(w, Math.max(h, OBLONG_CELL)), h: Math.min(h, Math.max(w, OBLONG_CELL)) };
}

/** Return what measures texts in a font. */
export function measuring(font) {
  const context = make("canvas").getContext("2d");
  context.font = font;
  return (text) => context.measureText(text).width;
}

/** Return the space that names take at the left, above, and at the right of cells that are at least so wide. */
function margins(queries, keys, fontFamily, leastCell) {
  const widthOf = measuring(`bold 12px ${fontFamily}`); // as names are when they are marked
  const left = Math.max(0, ...queries.map(widthOf));
  const widths = keys.map(widthOf);
  const up = Math.max(0, ...widths);
  const over = widths.map((width, j) => width * RUN + 6 - leastCell * (keys.length - 1 - j));
  return {
    left: left && Math.ceil(left) + 14,
    top: up && Math.ceil(up * RISE) + 16,
    right: Math.ceil(Math.max(0, ...over)), // what leans over from above
    longest: up,
  };
}

/**
 * Compute the layout for this space. Without names the matrix fills the picture; `right` and `below` are
 * kept free for other things; with `leastCell`, cells are at least that wide, and each row and column has its name;
 * with `low`, the picture is a table of words about so high: cells are oblong, and names above columns level if they fit.
 * @param {{ T: number, S: number }} sizes
 * @param {[string[], string[]]} names
 * @returns {Plan}
 */
export function arrange({ T, S }, names, space, fontFamily, options = {}) {
  const { largest = LARGEST_CELL, right = 0, below = 0, leastCell, low } = options;
  const [queries, keys] = names.map((words) => words.map((word) => short(word, LONGEST)));
  const { left, longest, ...slanted } = margins(queries, keys, fontFamily, leastCell ?? 0);
  const level = low > 0 && longest < Math.min(LEVEL_CELL, (space - left) / S);
  const { top, right: leaning } = level ? { top: 22, right: 0 } : slanted;
  const over = Math.max(right, leaning);
  const across = Math.max(60, space - left - over);
  const cell = cellSize(T, S, across, clamp(space, 240, TALLEST), largest);
  if (low) {
    cell.h = clamp(Math.floor((low - top) / T), ...LOW_CELL);
    cell.w = Math.min(level ? LEVEL_CELL : largest, Math.floor(across / S));
  }
  const box = { x: left, y: top, w: S * cell.w, h: T * cell.h };
  const widthOfNumber = measuring(`11px ${fontFamily}`);
  const [width, height] = [left + box.w + over, top + box.h + Math.max(4, below)];
  return { queries, keys, names, leastCell, level, widthOfNumber, box, cell, width, height };
}

/** Return how wide a picture with cells of this size is. */
export function widthWith(cell, names, columns, fontFamily, { right = 0, leastCell = 0 }) {
  const words = names.map((side) => side.map((name) => short(name, LONGEST)));
  const beside = margins(...words, fontFamily, leastCell);
  return Math.ceil(beside.left + cell * columns + Math.max(right, beside.right));
}

/** Return where a pointer is in a picture, which a slide may have enlarged. */
export function pointOn(node, { clientX, clientY }) {
  const { left, top, width } = node.getBoundingClientRect();
  const grown = width / node.offsetWidth;
  return { x: (clientX - left) / grown, y: (clientY - top) / grown };
}

/** Return the cell at a point, or the row or column whose name is there; nothing elsewhere. */
export function cellAt({ x, y }, { box, cell, level }, { T, S }) {
  const slant = y < box.y && !level ? ((box.y - y) * RUN) / RISE : 0; // of the names above the columns
  const within = (index, size) => (index >= 0 && index < size ? index : null);
  const row = within(Math.floor((y - box.y) / cell.h), T);
  const column = within(Math.floor((x - box.x - slant) / cell.w), S);
  if (row !== null) return x < box.x ? { row } : column === null ? null : { row, column };
  return column !== null && y < box.y ? { column } : null;
}

/** Return where an arrow key, Home or End leads from a cell; null for all other keys. */
export function neighbour(key, { row, column }, { T, S }) {
  const steps = {
    ArrowUp: [-1, 0],
    ArrowDown: [1, 0],
    ArrowLeft: [0, -1],
    ArrowRight: [0, 1],
    Home: [0, -S],
    End: [0, S],
  };
  if (!Object.hasOwn(steps, key)) return null;
  const [down, right] = steps[key];
  return { row: clamp(row + down, 0, T - 1), column: clamp(column + right, 0, S - 1) };
}

export const outlineOf = ({ x, y, w, h }) => `M${x} ${y}h${w}v${h}h${-w}z`;

/** Return the box of a cell, or of a whole row or column; no side is too small to be seen. */
export function boxOf({ box, cell }, { row, column }) {
  const w = column == null ? box.w : Math.max(cell.w, 3);
  const h = row == null ? box.h : Math.max(cell.h, 3);
  const x = column == null ? box.x : box.x + (column + 0.5) * cell.w - w / 2;
  const y = row == null ? box.y : box.y + (row + 0.5) * cell.h - h / 2;
  return { x, y, w, h };
}

/** Write a name; the whole of one that was shortened is read on hovering. */
function nameText(name, whole, attributes) {
  const node = svg("text", attributes, name);
  if (name.endsWith("…") && whole !== name) node.append(svg("title", {}, visible(whole)));
  return node;
}

const queryName = ({ queries, names, box, cell }, i, look = "query") =>
  nameText(queries[i], names[0][i], { class: look, x: box.x - 6, y: box.y + (i + 0.5) * cell.h });

function keyName({ keys, names, box, cell, level }, j, look = "key") {
  const [x, y] = [box.x + (j + 0.5) * cell.w + 2, box.y - 8];
  if (level) return nameText(keys[j], names[1][j], { class: `${look} level`, x: x - 2, y: y - 2 });
  const transform = `rotate(${-SLANT} ${x} ${y})`;
  return nameText(keys[j], names[1][j], { class: look, x, y, transform });
}

/** Return with how many decimals the longest of these numbers fits into a cell, or nothing. */
function decimalsFor(values, { widthOfNumber, cell }) {
  if (cell.w < 30 || cell.h < 15) return undefined;
  return [2, 1].find((decimals) => {
    const texts = Array.from(values, (value) => number(value, false, decimals));
    const longest = texts.reduce((most, text) => (text.length > most.length ? text : most));
    return widthOfNumber(longest) <= cell.w;
  });
}

/** Write the numbers into cells that are large enough; also a NaN, unless there is one right next to it. */
function numberTexts(cells, colours, plan) {
  const { box, cell } = plan;
  if (cell.w < 13 || cell.h < 13) return [];
  const decimals = decimalsFor(cells.values, plan);
  const [texts, ends] = [[], {}]; // where the last NaN of a row ends
  cells.values.forEach((value, i) => {
    const none = isNoNumber(value);
    if (!none && (decimals === undefined || (isHidden(cells, i) && !leaks(value)))) return;
    if (Math.abs(value) < (plan.least ?? 0)) return;
    const x = box.x + ((i % cells.columns) + 0.5) * cell.w;
    const y = box.y + (Math.floor(i / cells.columns) + 0.5) * cell.h;
    const text = number(value, false, decimals);
    if (none && x < ends[y]) return;
    if (none) ends[y] = x + plan.widthOfNumber(text) + 4;
    const ink = none ? "#fff" : inkOn(rgbOf(shade(value, colours)));
    texts.push(svg("text", { class: "number", x, y, style: `fill: ${ink}` }, text));
  });
  return texts;
}

function gapsBetween({ box, cell }, { rows, columns }) {
  let d = "";
  for (let j = 1; j < columns; j++) d += `M${box.x + j * cell.w} ${box.y}v${box.h}`;
  for (let i = 1; i < rows; i++) d += `M${box.x} ${box.y + i * cell.h}h${box.w}`;
  return svg("path", { class: "gaps", d });
}

/** Return the places of as many names as fit side by side without touching. */
function everyNth(names, least, size) {
  const step = Math.max(1, Math.ceil(least / size));
  return [...names.keys()].filter((i) => i % step === 0);
}

/** Draw cells on a canvas, and return what is drawn over it: gaps, names and numbers. */
export function drawPicture(canvas, cells, colours, plan) {
  const { box, cell } = plan;
  paintCells(canvas, cells, colours);
  const imageRendering = cell.w < 1 ? "auto" : "pixelated"; // where many cells share a pixel it shows their mean
  const [left, top, width, height] = [box.x, box.y, box.w, box.h].map((size) => `${size}px`);
  Object.assign(canvas.style, { left, top, width, height, imageRendering });
  canvas.dataset.place = [box.x, box.y, cell.w, cell.h].join(" "); // for those who measure
  return [
    ...(Math.min(cell.w, cell.h) < 9 ? [] : [gapsBetween(plan, cells)]),
    ...everyNth(plan.queries, plan.leastCell ?? 14, cell.h).map((i) => queryName(plan, i)),
    ...everyNth(plan.keys, plan.leastCell ?? 18, cell.w).map((j) => keyName(plan, j)),
    ...(colours.palette.length > 2 ? numberTexts(cells, colours, plan) : []),
  ];
}

/** Mark a row, a column, or the cell where they cross: all else is veiled. */
export function drawMarked(plan, { row, column }) {
  const across = row == null ? null : boxOf(plan, { row });
  const down = column == null ? null : boxOf(plan, { column });
  const both = across && down && boxOf(plan, { row, column });
  const veil = [plan.box, across, down, both].filter(Boolean).map(outlineOf).join("");
  return [
    svg("path", { class: "veil", d: veil }),
    svg("path", { class: "frame", d: outlineOf(both ?? across ?? down) }),
    ...(across ? [queryName(plan, row, "query highlighted")] : []),
    ...(down ? [keyName(plan, column, "key highlighted")] : []),
  ];
}

/** Return which colour is which number, and a sample of each mark for what is not a number. */
export function makeLegend({ values, hidden }, { palette, low, high }) {
  const colourAt = (share) => `rgb(${rgbOf(palette[Math.round(share * 255)]).join()})`;
  const ramp = make("span", "ramp");
  ramp.style.background = `linear-gradient(to right, ${Array.from({ length: 17 }, (_, i) => colourAt(i / 16)).join()})`;
  const ends = [low, (low + high) / 2, high].map((end) => make("span", "", number(end)));
  const legend = [make("span", "scale", ramp, ...ends)];
  if (hidden?.includes(1)) legend.push(make("span", "mark", make("i", "hatched"), "hidden"));
  if (values.some(Number.isNaN)) legend.push(make("span", "mark", make("i", "nan"), "NaN"));
  return legend;
}
