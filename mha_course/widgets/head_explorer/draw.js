// Draws matrices on a canvas: cells, hatching, words along the sides, a strip of bars, a legend. Sizes are in CSS pixels.

const SLANT = 0.9; // radians by which the words above the columns are turned
const ROOM = { bars: 44, legend: 44, gap: 10 };

function canvasOf(width, height) {
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(width));
  canvas.height = Math.max(1, Math.round(height));
  return canvas;
}

const scratch = canvasOf(1, 1).getContext("2d", { willReadFrequently: true }); // what is coloured waits here to be drawn

/** Colour one pixel a cell, up to the next call. What is hidden and holds nothing stays clear: the paper shows. */
function colour(cells, { palette, low, high }) {
  const { values, rows, columns } = cells, dark = darkOf(cells), { canvas } = scratch;
  const image = new ImageData(columns, rows), pixels = new Uint32Array(image.data.buffer), step = 255 / (high - low);
  for (let i = 0; i < values.length; i++) {
    const value = values[i], at = ((value - low) * step + 0.5) | 0;
    if (value !== value || value === Infinity) pixels[i] = NAN_COLOUR;
    else if (!dark || !dark[i] || (Math.abs(value) > 1e-4 && value !== -Infinity)) pixels[i] = palette[at < 0 ? 0 : at > 255 ? 255 : at];
  }
  if (canvas.width < columns || canvas.height < rows) Object.assign(canvas, { width: columns, height: rows });
  scratch.putImageData(image, 0, 0);
  return canvas;
}

const hatches = new WeakMap(); // by cells, then by size and ink

/** Return slanted lines over the dark cells, or null. */
function hatch(cells, width, height, { hatch: ink, paper, dots }) {
  const dark = darkOf(cells), key = `${width} ${height} ${ink} ${dots}`;
  if (!dark) return null;
  if (!hatches.has(dark)) hatches.set(dark, new Map());
  const known = hatches.get(dark);
  if (known.has(key)) return known.get(key);
  const small = canvasOf(cells.columns, cells.rows), image = new ImageData(cells.columns, cells.rows);
  new Uint32Array(image.data.buffer).set(dark.map ? Uint32Array.from(dark, (one) => (one ? 0xff000000 : 0)) : []);
  small.getContext("2d").putImageData(image, 0, 0);
  const layer = canvasOf(width, height), context = layer.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, layer.width, layer.height);
  context.globalCompositeOperation = "source-in";
  const step = Math.round(6 * dots), tile = canvasOf(step, step), line = tile.getContext("2d");
  for (const [colour, by] of [[paper, dots], [ink, 0]]) { // the pale line shows on cells that hold what they should not
    line.beginPath();
    line.strokeStyle = colour;
    line.lineWidth = dots;
    for (const shift of [-step, 0, step]) {
      line.moveTo(shift - 1 + by, step + 1);
      line.lineTo(shift + step + 1 + by, -1);
    }
    line.stroke();
  }
  context.fillStyle = context.createPattern(tile, "repeat");
  context.fillRect(0, 0, layer.width, layer.height);
  if (known.size > 6) known.clear();
  known.set(key, layer);
  return layer;
}

/** Draw a matrix into a box. */
function paintCells(context, cells, colours, box, look) {
  context.imageSmoothingEnabled = false;
  context.fillStyle = look.paper;
  context.fillRect(box.x, box.y, box.w, box.h);
  context.drawImage(colour(cells, colours), 0, 0, cells.columns, cells.rows, box.x, box.y, box.w, box.h);
  const lines = hatch(cells, box.w * look.dots, box.h * look.dots, look);
  if (lines) context.drawImage(lines, box.x, box.y, box.w, box.h);
}

const lengths = new WeakMap();

/** Measure the longest of many words, once. */
function longest(context, names, font) {
  if (lengths.has(names)) return lengths.get(names);
  context.font = font;
  const length = Math.min(110, Math.max(...names.slice(0, 400).map((name) => context.measureText(short(name)).width)));
  lengths.set(names, length);
  return length;
}

/** Find sizes: how large a cell is, how much room the words need, and how many cells a pixel stands for. */
function arrange(context, packet, item, room, dots) {
  const [rows, columns] = [packet.queries(item), packet.keys(item)].map((names) => longest(context, names, room.font));
  const left = Math.ceil(rows) + 14, top = Math.ceil(columns * Math.sin(SLANT)) + 16;
  const right = Math.ceil(columns * Math.cos(SLANT)) + 4;
  const [wide, high] = [Math.max(60, room.width - left - right) * dots, Math.max(60, room.height) * dots];
  const { T, S } = packet, on = Math.max(1, Math.ceil(S / wide)), by = Math.max(1, Math.ceil(T / high));
  const both = T === S ? Math.max(on, by) : 0, most = 58 * dots;
  let w = Math.min(most, Math.floor(wide / Math.ceil(S / (both || on)))), h = Math.min(most, Math.floor(high / Math.ceil(T / (both || by))));
  const even = T === S ? Math.min(w, h) : 22 * dots; // squares, unless there is much more of one than of the other
  [w, h] = [Math.max(1, Math.min(w, Math.max(h, even))), Math.max(1, Math.min(h, Math.max(w, even)))];
  if (T === S) w = h = Math.min(w, h);
  const by2 = both || by, on2 = both || on;
  const box = { x: left, y: top, w: (Math.ceil(S / on2) * w) / dots, h: (Math.ceil(T / by2) * h) / dots };
  const cell = { w: w / dots / on2, h: h / dots / by2 }; // of one token, below a pixel where there are many
  const bars = { ...box, y: top + box.h + ROOM.gap, h: ROOM.bars };
  return { box, cell, bars, by: by2, on: on2, left, top, width: left + Math.max(box.w, 200) + right, height: bars.y + bars.h + ROOM.legend };
}

/** Write words along the sides, every nth where they would touch; the lit ones always, in bold. */
function paintWords(context, packet, item, { box, cell }, look, lit = {}) {
  const queries = packet.queries(item), keys = packet.keys(item), only = Object.keys(lit).length > 0;
  const spaced = (size, least) => Math.max(1, Math.ceil(least / size));
  const shown = (names, every, one) => (only ? (one == null ? [] : [one]) : [...names.keys()].filter((i) => i % every === 0));
  context.font = only ? `bold ${look.font}` : look.font;
  context.textBaseline = "middle";
  context.direction = "ltr";
  const write = (text, turn) => {
    if (only) {
      const width = context.measureText(text).width;
      context.fillStyle = look.paper;
      context.fillRect(turn ? -2 : -width - 3, -8, width + 5, 16);
    }
    context.fillStyle = look.ink;
    context.textAlign = turn ? "left" : "right";
    context.fillText(text, 0, 0);
  };
  for (const i of shown(queries, spaced(cell.h, 14), lit.row)) {
    context.save();
    context.translate(box.x - 6, box.y + (i + 0.5) * cell.h);
    write(short(queries[i]), false);
    context.restore();
  }
  for (const j of shown(keys, spaced(cell.w, 18), lit.column)) {
    context.save();
    context.translate(box.x + (j + 0.5) * cell.w + 2, box.y - 8);
    context.rotate(-SLANT);
    write(short(keys[j]), true);
    context.restore();
  }
}

/** Return black or white, whichever is read better on a colour: at least 4.5 to 1. */
function inkOn(colour) {
  if (inks.has(colour)) return inks.get(colour);
  const [red, green, blue] = [0, 8, 16].map((shift) => ((colour >> shift) & 255) / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  const light = 0.2126 * red + 0.7152 * green + 0.0722 * blue; // WCAG's relative luminance
  return inks.set(colour, light < 0.179 ? "#fff" : "#000").get(colour);
}
const inks = new Map();

/** Return with how many decimals the longest of these numbers fits into a cell, or nothing. */
function decimalsFor(context, values, width) {
  return [2, 1].find((decimals) => {
    let longest = "";
    for (const value of values) {
      const text = number(value, false, decimals);
      if (text.length > longest.length) longest = text;
    }
    return context.measureText(longest).width <= width;
  });
}

/** Write the numbers into cells that are large enough, and mark those that are none. */
function paintNumbers(context, cells, { box, cell, by, on }, { palette, low, high }, look) {
  if (cell.w < 13 || cell.h < 13 || by > 1 || on > 1 || cells.down > 1) return;
  const dark = darkOf(cells);
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.font = look.small;
  const decimals = cell.w >= 34 && cell.h >= 18 ? decimalsFor(context, cells.values, cell.w) : undefined, wide = decimals !== undefined;
  cells.values.forEach((value, i) => {
    const x = box.x + ((i % cells.columns) + 0.5) * cell.w, y = box.y + (Math.floor(i / cells.columns) + 0.5) * cell.h;
    const none = Number.isNaN(value) || value === Infinity;
    if (!none && (!wide || (dark?.[i] && Math.abs(value) <= 1e-4) || value === -Infinity)) return;
    const at = palette[Math.max(0, Math.min(255, Math.round(((value - low) / (high - low)) * 255)))];
    context.fillStyle = none ? "#fff" : inkOn(at);
    context.fillText(none && !wide ? "×" : number(value, false, decimals), x, y + 0.5);
  });
}

/** Draw lines between cells that are large enough. */
function paintGaps(context, { box, cell, by, on }, look) {
  if (Math.min(cell.w, cell.h) < 9 || by > 1 || on > 1) return;
  context.strokeStyle = look.paper;
  context.lineWidth = 1;
  context.beginPath();
  for (let x = box.x; x <= box.x + box.w + 0.5; x += cell.w) context.rect(Math.round(x), box.y, 0, box.h);
  for (let y = box.y; y <= box.y + box.h + 0.5; y += cell.h) context.rect(box.x, Math.round(y), box.w, 0);
  context.stroke();
}

/** Draw the legend: which colour is which number, and what stands for none. */
function paintLegend(context, { box, bars }, { palette, low, high }, marks, look) {
  const y = bars.y + bars.h + 12, w = 150, all = matrix(Float32Array.from(palette.keys()), null, 1, palette.length);
  paintCells(context, all, { palette, low: 0, high: palette.length - 1 }, { x: box.x, y, w, h: 10 }, look);
  context.font = look.small;
  context.textBaseline = "top";
  const words = [[0, low, "left"], [w / 2, (low + high) / 2, "center"], [w, high, "right"]];
  for (const [x, value, align] of words) {
    context.fillStyle = look.ink;
    context.textAlign = align;
    context.fillText(number(value), box.x + x, y + 14);
  }
  let x = box.x + w + 18;
  for (const [kind, word] of marks) {
    context.textAlign = "left";
    context.fillStyle = look.ink;
    context.fillText(word, x + 20, y);
    context.fillStyle = kind === "nan" ? "#e61e6b" : look.paper;
    context.fillRect(x, y, 14, 10);
    context.strokeStyle = look.hatch;
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, 13, 9);
    context.beginPath();
    for (const start of kind === "nan" ? [] : [-4, 2, 8]) {
      context.moveTo(x + Math.max(0, start), y + 10 + Math.min(0, start));
      context.lineTo(x + Math.min(14, start + 10), y + Math.max(0, start - 4));
    }
    context.stroke();
    x += 20 + context.measureText(word).width + 16;
  }
}

/** Draw the lit row's numbers as bars under their columns, the largest as high as there is room. */
function paintBars(context, cells, { box, cell, bars }, row, signed, name, look) {
  const line = Math.min(cells.rows - 1, Math.floor(row / cells.down)) * cells.columns, wide = cell.w * cells.across;
  const values = Array.from(cells.values.subarray(line, line + cells.columns), (value) => (Number.isFinite(value) ? value : 0));
  const top = Math.max(...values.map(Math.abs)) || 1, high = signed ? bars.h / 2 : bars.h, zero = bars.y + high, gap = wide > 4 ? 1 : 0;
  context.fillStyle = look.hatch;
  context.fillRect(box.x, zero - 0.5, box.w, 1);
  context.fillStyle = look.accent;
  values.forEach((value, j) => {
    const size = (Math.abs(value) / top) * high;
    if (size) context.fillRect(box.x + j * wide + gap, value < 0 ? zero : zero - size, Math.max(wide - 2 * gap, 0.75), size);
  });
  context.font = look.font;
  context.textAlign = "right";
  context.textBaseline = "alphabetic";
  context.fillStyle = look.ink;
  context.fillText(short(name), box.x - 6, bars.y + bars.h);
  context.textAlign = "left";
  context.font = look.small;
  context.fillText(number(Math.max(...values.map(Math.abs))), box.x + box.w + 4, bars.y + 9);
}
