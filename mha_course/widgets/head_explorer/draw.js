// Draws matrices on a canvas: cells, hatching, words along the sides, a legend. Sizes are in CSS pixels.

import { clamp, short } from "../dom.js";
import { inkOn, isHidden, leaks, number, shade } from "./data.js";

const SLANT = 0.9; // radians by which the words above the columns are turned
const WIDEST_WORD = 110; // pixels of a word along the sides
const LEGEND = 54; // height, with the gap above it
const LARGEST_CELL = 58; // its side
const OBLONG_CELL = 22; // up to which cells need not be square
const NAN = 0xff6b1ee6; // alpha, blue, green, red: a magenta that neither palette has

const isNoNumber = (value) => Number.isNaN(value) || value === Infinity;

export function makeCanvas(width, height) {
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(width));
  canvas.height = Math.max(1, Math.round(height));
  return canvas;
}

/** Bring a canvas to a size in CSS pixels, clear it, and return what draws on it. */
export function fitCanvas(canvas, { width, height }, dots) {
  Object.assign(canvas, { width: Math.round(width * dots), height: Math.round(height * dots) });
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const context = canvas.getContext("2d");
  context.scale(dots, dots);
  return context;
}

/** Return a canvas with one pixel a cell: `colourOf(i)` is its colour, 0 where it stays clear. */
function pixels({ rows, columns }, colourOf) {
  const canvas = makeCanvas(columns, rows);
  const image = new ImageData(columns, rows);
  const colours = new Uint32Array(image.data.buffer);
  for (let i = 0; i < colours.length; i++) colours[i] = colourOf(i);
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** Return slanted lines, pale ones beside dark ones: the pale line shows on cells that hold what they should not. */
function hatching({ hatch: ink, paper, dots }) {
  const step = Math.round(6 * dots);
  const tile = makeCanvas(step, step);
  const context = tile.getContext("2d");
  context.lineWidth = dots;
  function strokeLines(colour, right) {
    context.beginPath();
    context.strokeStyle = colour;
    for (const start of [-step, 0, step]) {
      context.moveTo(start - 1 + right, step + 1);
      context.lineTo(start + step + 1 + right, -1);
    }
    context.stroke();
  }
  strokeLines(paper, dots);
  strokeLines(ink, 0);
  return context.createPattern(tile, "repeat");
}

/** Return slanted lines over the hidden cells, so many pixels wide and high. */
function hatch(cells, width, height, look) {
  const layer = makeCanvas(width, height);
  const context = layer.getContext("2d");
  context.imageSmoothingEnabled = false;
  const hidden = pixels(cells, (i) => (isHidden(cells, i) ? 0xff000000 : 0));
  context.drawImage(hidden, 0, 0, layer.width, layer.height);
  context.globalCompositeOperation = "source-in";
  context.fillStyle = hatching(look);
  context.fillRect(0, 0, layer.width, layer.height);
  return layer;
}

/** Draw a matrix into a box. Where a cell is hidden and holds nothing the paper shows. */
export function paintCells(context, cells, colours, box, look) {
  const { values, rows, columns } = cells;
  const colourOf = (i) => {
    const value = values[i];
    if (isNoNumber(value)) return NAN;
    return isHidden(cells, i) && !leaks(value) ? 0 : colours.palette[shade(value, colours)];
  };
  context.fillStyle = look.paper;
  context.fillRect(box.x, box.y, box.w, box.h);
  context.imageSmoothingEnabled = columns > box.w * look.dots || rows > box.h * look.dots; // many cells a pixel: a mean
  context.imageSmoothingQuality = "high";
  context.drawImage(pixels(cells, colourOf), box.x, box.y, box.w, box.h);
  if (cells.hidden)
    context.drawImage(hatch(cells, box.w * look.dots, box.h * look.dots, look), box.x, box.y, box.w, box.h);
}

/** Return the sides of a cell, whole pixels of the screen where there is space for that. */
function cellSize({ T, S }, wide, high, dots) {
  const most = LARGEST_CELL * dots;
  const whole = (size) => (size > 1 ? Math.floor(size) : size);
  const w = whole(Math.min(most, wide / S));
  const h = whole(Math.min(most, high / T));
  if (T === S) return { w: Math.min(w, h) / dots, h: Math.min(w, h) / dots };
  const oblong = OBLONG_CELL * dots; // else a map of few queries and many keys would be a line
  return { w: Math.min(w, Math.max(h, oblong)) / dots, h: Math.min(h, Math.max(w, oblong)) / dots };
}

/** Shorten a word to what there is space for along the sides: as many wide letters take more than narrow ones. */
function fitting(context, name) {
  let [most, text] = [14, short(name)];
  while (most > 1 && context.measureText(text).width > WIDEST_WORD) text = short(name, --most);
  return text;
}

/** Find where everything stands: the matrix, one cell of it, and the whole picture. */
export function arrange(context, maps, item, { width, height }, { font, dots }) {
  context.font = font;
  const widthOf = (name) => context.measureText(fitting(context, name)).width;
  const longest = (names) => Math.max(...names.map(widthOf));
  const [rows, columns] = [longest(maps.queries(item)), longest(maps.keys(item))];
  const left = Math.ceil(rows) + 14;
  const top = Math.ceil(columns * Math.sin(SLANT)) + 16;
  const right = Math.ceil(columns * Math.cos(SLANT)) + 4;
  const cell = cellSize(maps, Math.max(60, width - left - right) * dots, height * dots, dots);
  const box = { x: left, y: top, w: maps.S * cell.w, h: maps.T * cell.h };
  return { box, cell, width: left + Math.max(box.w, 230) + right, height: top + box.h + LEGEND };
}

/** Return which cell lies at a point, or which row or column the word there names; nothing elsewhere. */
export function cellAt({ x, y }, { box, cell }, { T, S }) {
  const slant = y < box.y ? (box.y - y) / Math.tan(SLANT) : 0; // of the words above the columns
  const within = (index, size) => (index >= 0 && index < size ? index : null);
  const row = within(Math.floor((y - box.y) / cell.h), T);
  const column = within(Math.floor((x - box.x - slant) / cell.w), S);
  if (row !== null) return x < box.x ? { row } : column === null ? null : { row, column };
  return column !== null && y < box.y ? { column } : null;
}

function paintWord(context, text, { x, y }, slanted, look, lit) {
  context.save();
  context.translate(x, y);
  if (slanted) context.rotate(-SLANT);
  if (lit) {
    const width = context.measureText(text).width;
    context.fillStyle = look.paper; // over the word as it was
    context.fillRect(slanted ? -2 : -width - 3, -8, width + 5, 16);
  }
  context.fillStyle = look.ink;
  context.textAlign = slanted ? "left" : "right";
  context.fillText(text, 0, 0);
  context.restore();
}

/** Write words along the sides, every nth where they would touch; if some are lit, these alone, in bold. */
export function paintWords(context, maps, item, { box, cell }, look, lit = null) {
  const chosen = (names, size, least, one) => {
    if (lit) return one == null ? [] : [one];
    const every = Math.max(1, Math.ceil(least / size));
    return [...names.keys()].filter((i) => i % every === 0);
  };
  const queries = maps.queries(item);
  const keys = maps.keys(item);
  context.font = lit ? `bold ${look.font}` : look.font;
  context.textBaseline = "middle";
  context.direction = "ltr";
  for (const i of chosen(queries, cell.h, 14, lit?.row)) {
    paintWord(context, fitting(context, queries[i]), { x: box.x - 6, y: box.y + (i + 0.5) * cell.h }, false, look, lit);
  }
  for (const j of chosen(keys, cell.w, 18, lit?.column)) {
    paintWord(context, fitting(context, keys[j]), { x: box.x + (j + 0.5) * cell.w + 2, y: box.y - 8 }, true, look, lit);
  }
}

/** Return with how many decimals the longest of these numbers fits into a cell, or nothing. */
function decimalsFor(context, values, { w, h }) {
  if (w < 34 || h < 18) return undefined;
  return [2, 1].find((decimals) => {
    const texts = Array.from(values, (value) => number(value, false, decimals));
    const longest = texts.reduce((one, other) => (other.length > one.length ? other : one));
    return context.measureText(longest).width <= w;
  });
}

/** Write the numbers into cells that are large enough, and mark those that are none. */
export function paintNumbers(context, cells, { box, cell }, colours, look) {
  if (cell.w < 13 || cell.h < 13) return;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.font = look.small;
  const decimals = decimalsFor(context, cells.values, cell);
  cells.values.forEach((value, i) => {
    const x = box.x + ((i % cells.columns) + 0.5) * cell.w;
    const y = box.y + (Math.floor(i / cells.columns) + 0.5) * cell.h;
    const none = isNoNumber(value);
    if (!none && (decimals === undefined || (isHidden(cells, i) && !leaks(value)))) return;
    context.fillStyle = none ? "#fff" : inkOn(colours.palette[shade(value, colours)]);
    context.fillText(none && decimals === undefined ? "×" : number(value, false, decimals), x, y + 0.5);
  });
}

export function paintGaps(context, { box, cell }, look) {
  if (Math.min(cell.w, cell.h) < 9) return;
  context.strokeStyle = look.paper;
  context.lineWidth = 1;
  context.beginPath();
  for (let x = box.x; x <= box.x + box.w + 0.5; x += cell.w) context.rect(Math.round(x), box.y, 0, box.h);
  for (let y = box.y; y <= box.y + box.h + 0.5; y += cell.h) context.rect(box.x, Math.round(y), box.w, 0);
  context.stroke();
}

/** Draw the legend: which colour is which number, and a sample of each of the marks that stand for none. */
export function paintLegend(context, { box, width: space }, { palette, low, high }, marks, look) {
  const y = box.y + box.h + 22;
  context.font = look.small;
  const taken = marks.reduce((sum, { word }) => sum + 36 + context.measureText(word).width, 18);
  const width = clamp(space - box.x - taken, 90, 150); // what stands beside it must not be cut
  const range = { palette, low: 0, high: palette.length - 1 };
  const ramp = { values: [...palette.keys()], rows: 1, columns: palette.length };
  paintCells(context, ramp, range, { x: box.x, y, w: width, h: 10 }, look);
  context.textBaseline = "top";
  context.fillStyle = look.ink;
  ["left", "center", "right"].forEach((align, i) => {
    context.textAlign = align;
    context.fillText(number(low + (i * (high - low)) / 2), box.x + (i * width) / 2, y + 14);
  });
  context.textAlign = "left";
  let x = box.x + width + 18;
  for (const { word, ...cell } of marks) {
    paintCells(context, { ...cell, rows: 1, columns: 1 }, range, { x, y, w: 14, h: 10 }, look);
    context.strokeStyle = look.hatch;
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, 13, 9);
    context.fillStyle = look.ink;
    context.fillText(word, x + 20, y);
    x += 20 + context.measureText(word).width + 16;
  }
}
