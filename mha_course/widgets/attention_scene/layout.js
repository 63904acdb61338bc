// Where everything stands, in CSS pixels: rows of words go straight through the picture, as in a matrix product.

import { clamp } from "../dom.js";

export const HEIGHT = 544;
export const NARROWEST = 944; // below which the picture scrolls inside the widget
const [MARGIN, WORDS, GAP] = [8, 64, 4];
const TOP = 192; // of the row of matrices
const [KEYS_TALL, VALUES_TALL, LARGEST_CELL, SQUARE, SMALL] = [72, 120, 24, 180, 39];
const BETWEEN = { projection: 56, product: 16, softmax: 72, mixing: 16, output: 40 };
const PLUS = 36; // out, added back to x

/**
 * Lay out matrices: x, q, scores, weights, context and out side by side, kᵀ above the scores and v below the context.
 * A band is one head's part of a matrix; `split` and `merged` are how far apart bands of q, k and v, and how close
 * those of the context are, 0 to 1.
 */
export function layOut(width, { S, H, C }, { split, merged }) {
  const cell = Math.min(LARGEST_CELL, SQUARE / S);
  const side = S * cell;
  const bands = GAP * (H - 1);
  const gaps = Object.values(BETWEEN).reduce((sum, gap) => sum + gap, PLUS);
  const free = width - 2 * MARGIN - WORDS - 8 - 2 * side - 2 * bands - gaps;
  const wide = clamp(Math.floor(free / 4), 48, 112);
  const more = Math.max(0, free - 4 * wide) / 5; // where there are few words
  const parts = {};
  let x = MARGIN + WORDS + 8;

  /** Put a matrix at the right of the ones before it; one with bands has room for their gaps. */
  function put(name, w, after, part = {}) {
    parts[name] = { name, x, y: TOP, w, h: side, rows: S, columns: C, bands: 1, gap: 0, ...part };
    x += w + (after ? after + more : 0);
  }
  const apart = { bands: H, gap: GAP * split };
  put("x", wide, BETWEEN.projection);
  put("q", wide + bands, BETWEEN.product, apart);
  put("scores", side, BETWEEN.softmax, { columns: S });
  put("weights", side, BETWEEN.mixing, { columns: S });
  put("context", wide + bands, BETWEEN.output, { bands: H, gap: GAP * (1 - merged) });
  put("out", wide, 0);
  const { scores, weights, context } = parts;
  const tall = KEYS_TALL + bands;
  parts.k = { ...scores, ...apart, name: "k", y: TOP - 20 - tall, h: tall, rows: C, columns: S, turned: true };
  parts.v = { ...context, ...apart, name: "v", y: TOP + side + 36, h: Math.min(VALUES_TALL, side) };
  const small = Math.min(SMALL, (side - 8 * (H - 1)) / H);
  const step = H > 1 ? (side - small) / (H - 1) : 0;
  const heads = Array.from({ length: H }, (_, h) => ({ x: weights.x + h * step, y: TOP - 60 - small, side: small }));
  return { width, height: HEIGHT, cell, side, top: TOP, bottom: TOP + side, words: MARGIN + WORDS, parts, heads };
}

/** Return where one head's part of a matrix stands. */
export function bandOf(part, head) {
  const { bands, gap, turned, x, y, w, h } = part;
  if (bands === 1) return { x, y, w, h };
  const length = turned ? h : w;
  const size = (length - GAP * (bands - 1)) / bands;
  const start = (length - bands * size - gap * (bands - 1)) / 2 + head * (size + gap);
  return turned ? { x, y: y + start, w, h: size } : { x: x + start, y, w: size, h };
}

/** Return where the row of a token stands, or its column where the matrix is turned. */
export function lineOf(part, token) {
  const { x, y, w, h, turned } = part;
  if (turned) return { x: x + (token * w) / part.columns, y, w: w / part.columns, h };
  return { x, y: y + (token * h) / part.rows, w, h: h / part.rows };
}

const inside = (box, { x, y }) => x >= box.x && x < box.x + box.w && y >= box.y && y < box.y + box.h;

/** Return what lies at a point: a cell, {name, head, row, column} (head where bands say it), a head, or a word. */
export function hit(plan, point) {
  const head = plan.heads.findIndex(({ x, y, side }) => inside({ x, y: y - 16, w: side, h: side + 16 }, point));
  if (head >= 0) return { head };
  if (inside({ x: 0, y: plan.top, w: plan.words + 8, h: plan.side }, point))
    return { row: Math.floor((point.y - plan.top) / plan.cell) };
  for (const part of Object.values(plan.parts)) {
    for (let band = 0; band < part.bands; band++) {
      const box = bandOf(part, band);
      if (!inside(box, point)) continue;
      const [rows, columns] = part.turned ? [part.rows / part.bands, part.columns] : [part.rows, part.columns / part.bands];
      const down = Math.floor(((point.y - box.y) / box.h) * rows);
      const right = Math.floor(((point.x - box.x) / box.w) * columns);
      const [row, column] = part.turned ? [right, down] : [down, right];
      return { name: part.name, row, column, ...(part.bands > 1 && { head: band }) };
    }
  }
  return null;
}
