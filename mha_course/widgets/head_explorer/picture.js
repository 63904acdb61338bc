// The large picture: a canvas with a pixel a cell, and over it words, numbers and what is lit. Sizes are CSS pixels.

import { clamp, inkOn, make, number, short, svg } from "../dom.js";
import { isHidden, leaks, rgbOf, shade } from "./data.js";

const SLANT = 52; // degrees by which the words above the columns are turned
const [RISE, RUN] = [Math.sin((SLANT * Math.PI) / 180), Math.cos((SLANT * Math.PI) / 180)];
const TALLEST = 512; // of the matrix, with which it is still seen as a whole
const LARGEST_CELL = 58; // its side
const OBLONG_CELL = 22; // up to which cells need not be square
const NAN = 0xff6b1ee6; // alpha, blue, green, red: a magenta that neither palette has
const PALE = 0xc0ffffff; // lets the hatching through

const isNoNumber = (value) => Number.isNaN(value) || value === Infinity;

/** Colour a canvas. A hidden cell stays clear, for the hatching behind it; one that holds a number all the same is pale. */
export function paintCells(canvas, cells, colours) {
  const { values, rows, columns } = cells;
  Object.assign(canvas, { width: columns, height: rows });
  const image = new ImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  const colourOf = (value, i) => {
    if (isNoNumber(value)) return NAN;
    const colour = colours.palette[shade(value, colours)];
    if (!isHidden(cells, i)) return colour;
    return leaks(value) ? colour & PALE : 0;
  };
  values.forEach((value, i) => (pixels[i] = colourOf(value, i)));
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/** Return the sides of a cell, whole pixels where there is space for that. */
function cellSize({ T, S }, wide, high) {
  const whole = (size) => (size > 1 ? Math.floor(size) : size);
  const w = whole(Math.min(LARGEST_CELL, wide / S));
  const h = whole(Math.min(LARGEST_CELL, high / T));
  if (T === S) return { w: Math.min(w, h), h: Math.min(w, h) };
  // Else a map of few queries and many keys would be a line.
  return { w: Math.min(w, Math.max(h, OBLONG_CELL)), h: Math.min(h, Math.max(w, OBLONG_CELL)) };
}

/** Return what measures texts in a font. */
function measuring(font) {
  const context = make("canvas").getContext("2d");
  context.font = font;
  return (text) => context.measureText(text).width;
}

/** Find where everything stands in so much space: the words, the matrix, one cell of it, and the whole picture. */
export function arrange(maps, tokens, space, fontFamily) {
  const widthOf = measuring(`bold 12px ${fontFamily}`); // as words are when they are lit
  const [queries, keys] = tokens.map((names) => names.map((name) => short(name, 12)));
  const longest = (words) => Math.max(...words.map(widthOf));
  const [left, top] = [Math.ceil(longest(queries)) + 14, Math.ceil(longest(keys) * RISE) + 16];
  const right = Math.ceil(longest(keys) * RUN) + 6;
  const cell = cellSize(maps, Math.max(60, space - left - right), clamp(space, 240, TALLEST));
  const box = { x: left, y: top, w: maps.S * cell.w, h: maps.T * cell.h };
  const widthOfNumber = measuring(`11px ${fontFamily}`);
  return {
    queries,
    keys,
    widthOfNumber,
    box,
    cell,
    width: left + box.w + right,
    height: top + box.h + 4,
  };
}

/** Return which cell lies at a point, or which row or column the word there names; nothing elsewhere. */
export function cellAt({ x, y }, { box, cell }, { T, S }) {
  const slant = y < box.y ? ((box.y - y) * RUN) / RISE : 0; // of the words above the columns
  const within = (index, size) => (index >= 0 && index < size ? index : null);
  const row = within(Math.floor((y - box.y) / cell.h), T);
  const column = within(Math.floor((x - box.x - slant) / cell.w), S);
  if (row !== null) return x < box.x ? { row } : column === null ? null : { row, column };
  return column !== null && y < box.y ? { column } : null;
}

const pathOf = ({ x, y, w, h }) => `M${x} ${y}h${w}v${h}h${-w}z`;

const queryWord = ({ queries, box, cell }, i, look = "query") =>
  svg("text", { class: look, x: box.x - 6, y: box.y + (i + 0.5) * cell.h }, queries[i]);

function keyWord({ keys, box, cell }, j, look = "key") {
  const [x, y] = [box.x + (j + 0.5) * cell.w + 2, box.y - 8];
  return svg("text", { class: look, x, y, transform: `rotate(${-SLANT} ${x} ${y})` }, keys[j]);
}

/** Return with how many decimals the longest of these numbers fits into a cell, or nothing. */
function decimalsFor(values, { widthOfNumber, cell }) {
  if (cell.w < 34 || cell.h < 18) return undefined;
  return [2, 1].find((decimals) => {
    const texts = Array.from(values, (value) => number(value, false, decimals));
    return (
      widthOfNumber(texts.reduce((one, other) => (other.length > one.length ? other : one))) <=
      cell.w
    );
  });
}

/** Write the numbers into cells that are large enough, and mark those that are none. */
function writeNumbers(cells, colours, plan) {
  const { box, cell } = plan;
  if (cell.w < 13 || cell.h < 13) return [];
  const decimals = decimalsFor(cells.values, plan);
  const texts = [];
  cells.values.forEach((value, i) => {
    const none = isNoNumber(value);
    if (!none && (decimals === undefined || (isHidden(cells, i) && !leaks(value)))) return;
    const x = box.x + ((i % cells.columns) + 0.5) * cell.w;
    const y = box.y + (Math.floor(i / cells.columns) + 0.5) * cell.h;
    const fill = none ? "#fff" : inkOn(rgbOf(colours.palette[shade(value, colours)]));
    const text = none && decimals === undefined ? "×" : number(value, false, decimals);
    texts.push(svg("text", { class: "number", x, y, fill }, text));
  });
  return texts;
}

function gapsBetween({ box, cell }, { rows, columns }) {
  let d = "";
  for (let j = 1; j < columns; j++) d += `M${box.x + j * cell.w} ${box.y}v${box.h}`;
  for (let i = 1; i < rows; i++) d += `M${box.x} ${box.y + i * cell.h}h${box.w}`;
  return svg("path", { class: "gaps", d });
}

/** Return the places of words so many of which can stand side by side that none touch. */
function everyNth(words, least, size) {
  const step = Math.max(1, Math.ceil(least / size));
  return [...words.keys()].filter((i) => i % step === 0);
}

/** Draw cells on a canvas, and return what stands over it: gaps, words and numbers. */
export function drawPicture(canvas, cells, colours, plan) {
  const { box, cell } = plan;
  paintCells(canvas, cells, colours);
  const imageRendering = cell.w < 1 ? "auto" : "pixelated"; // where many cells share a pixel it shows their mean
  const [left, top, width, height] = [box.x, box.y, box.w, box.h].map((size) => `${size}px`);
  Object.assign(canvas.style, { left, top, width, height, imageRendering });
  canvas.dataset.place = [box.x, box.y, cell.w, cell.h].join(" "); // for those who measure
  return [
    ...(Math.min(cell.w, cell.h) < 9 ? [] : [gapsBetween(plan, cells)]),
    ...everyNth(plan.queries, 14, cell.h).map((i) => queryWord(plan, i)),
    ...everyNth(plan.keys, 18, cell.w).map((j) => keyWord(plan, j)),
    ...writeNumbers(cells, colours, plan),
  ];
}

/** Light a row, a column, or the cell where they cross: all else lies under a veil. */
export function drawLit(plan, { row, column }) {
  const { box, cell } = plan;
  const [w, h] = [Math.max(cell.w, 3), Math.max(cell.h, 3)];
  const across = row == null ? null : { ...box, y: box.y + (row + 0.5) * cell.h - h / 2, h };
  const down = column == null ? null : { ...box, x: box.x + (column + 0.5) * cell.w - w / 2, w };
  const both = across && down && { ...across, x: down.x, w };
  const veil = [box, across, down, both].filter(Boolean).map(pathOf).join("");
  const frame = pathOf(both ?? across ?? down);
  return [
    svg("path", { class: "veil", d: veil }),
    svg("path", { class: "frame", d: frame }),
    ...(across ? [queryWord(plan, row, "query lit")] : []),
    ...(down ? [keyWord(plan, column, "key lit")] : []),
  ];
}

/** Return which colour is which number, and a sample of each of the marks that stand for none. */
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
